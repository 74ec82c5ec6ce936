"""The verdict as text for a terminal: every point by case, and the summary last, next to the prompt."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from clustersim.validation.score import Summary
from clustersim.validation.verdict import CHOSEN_AFTER_MARK, CaseVerdict, Compared, Verdict

_HEADINGS = ("GPUs", "metric", "simulated", "measured", "unit", "error", "")
_WORDS = ("case", "metric", "unit", "")
_MARKS = {"recalled": "recalled, not scored", "stated": "stated, not scored"}


def verdict_text(verdict: Verdict) -> str:
    """Return the whole verdict as text, cases with the largest median error first."""
    parts = ["\n".join(case_lines(case)) for case in verdict.cases]
    parts.append("\n".join(summary_lines(verdict)))
    return "\n\n".join(parts)


def case_lines(case: CaseVerdict) -> Iterator[str]:
    """Yield the heading of a case, its predicted and calibration points, and its summary."""
    yield f"{case.name}: {case.title}"
    for role, title in (("prediction", "predicted"), ("calibration", "calibrates, not scored")):
        points = [point for point in case.points if point.role == role]
        if points:
            yield f"  {title}"
            yield from aligned([_HEADINGS, *map(point_cells, points)], _WORDS, indent="    ")
    yield f"  {summary_text(case.summary())}"


def point_cells(point: Compared) -> tuple[str, ...]:
    """Return the cells of a point's row."""
    return (
        str(point.num_gpus),
        point.metric,
        number_text(point.simulated),
        number_text(point.measured),
        point.unit,
        percent_text(point.error),
        point_remarks(point),
    )


def point_remarks(point: Compared) -> str:
    """Return the label of a point, and why it is not scored if it was not read in its source."""
    return "; ".join(filter(None, [point.label, _MARKS.get(point.provenance, "")]))


def summary_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the table of cases, the overall figures, and what was skipped."""
    headings = ("case", "points", "median", "90th", "bias", "orderings")
    rows = [(case.marked_name, *summary_cells(case.summary())) for case in verdict.cases]
    overall = verdict.summary()
    yield from aligned([headings, *rows, ("all cases", *summary_cells(overall))], _WORDS)
    yield ""
    yield f"predicted: {summary_text(overall)}"
    yield from chosen_lines(verdict)
    yield f"calibration: {summary_text(verdict.calibration())}"
    for each in verdict.skipped:
        yield f"skipped: {each.case}: {each.reason}"


def chosen_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the overall figures without, and of, the cases with a choice after errors were seen, if there are any.

    A forecast that was changed after its error had been seen is not blind, whatever the change was.
    """
    marked = [case for case in verdict.cases if case.is_chosen_after and case.errors()]
    if marked:
        some = f"{len(marked)} case{'s' if len(marked) > 1 else ''}"
        others = verdict.summary(is_chosen_after=False)
        yield f"without {CHOSEN_AFTER_MARK}: {summary_text(others) if others.num_points else 'none of these cases'}"
        yield (
            f"only {CHOSEN_AFTER_MARK}, {some} with a choice after errors had been seen: "
            f"{summary_text(verdict.summary(is_chosen_after=True))}"
        )


def summary_cells(summary: Summary) -> tuple[str, ...]:
    """Return the columns of a summary: points, median, 90th percentile, bias, orderings."""
    ranked = f"{percent_text(summary.ordering_correct, signed=False)} of {summary.num_orderings}"
    return (
        str(summary.num_points),
        percent_text(summary.median_abs_error, signed=False),
        percent_text(summary.p90_abs_error, signed=False),
        percent_text(summary.bias),
        ranked if summary.num_orderings else "-",
    )


def summary_text(summary: Summary) -> str:
    """Return the summary of a set of points as text."""
    if not summary.num_points:
        return "no point of this kind was read in its source, so none is scored"
    _, middle, ninetieth, bias, ranked = summary_cells(summary)
    points = f"{summary.num_points} point{'s' if summary.num_points > 1 else ''}"
    words = f"{points}, median error {middle}, 90th percentile {ninetieth}, bias {bias}"
    return f"{words}, orderings right {ranked}" if summary.num_orderings else words


def percent_text(share: float | None, signed: bool = True) -> str:
    """Return a share as a percentage with one decimal.

    >>> percent_text(0.1234), percent_text(0.1234, signed=False), percent_text(None)
    ('+12.3%', '12.3%', '-')
    """
    if share is None:
        return "-"
    return f"{100 * share:{'+' if signed else ''}.1f}%"


def number_text(value: float) -> str:
    """Return a number as text with four significant digits and no exponent.

    >>> number_text(17822.0), number_text(0.0012345), number_text(23.4)
    ('17822', '0.001234', '23.4')
    """
    if abs(value) >= 1000:
        return f"{value:.0f}"
    text = f"{value:.4g}"
    return f"{value:.9f}".rstrip("0") if "e" in text else text


def aligned(rows: Sequence[Sequence[str]], words: Container[str], indent: str = "") -> Iterator[str]:
    """Yield lines with aligned columns; columns whose heading is in `words` are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if heading in words else cell.rjust(width)
            for cell, heading, width in zip(row, rows[0], widths, strict=True)
        )
        yield (indent + "  ".join(cells)).rstrip()
