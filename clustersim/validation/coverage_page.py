"""The study of the bands as a page of the documentation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from clustersim.results.band import CHECKED_FEATURES, CLASSES, MIN_SOURCES, Bands, Checked
from clustersim.results.checked import CheckedForecasts
from clustersim.validation.coverage import LEVELS, Coverage, by_feature, coverage, leave_one_out, older_for_newer
from clustersim.validation.markdown import table

_INTRODUCTION = """\
# Bands of the forecasts

This page is written by `clustersim validate --coverage docs/coverage.md` (`make coverage`) from the checked forecasts
that are shipped (`clustersim/results/bands.json`), without a simulation.

Every forecast states a band: between which rates the measurement is expected with a probability of 90 %, and inside it
one for 50 %. The band is made from forecasts that nothing was fitted to: those of the
[register](../validate/register), and those of cases whose settings were committed before their first forecast
([first forecasts](../validate/README.md#first-forecasts)). A case in which something was chosen after its errors had
been seen counts with its first forecast as recorded (*first*); any other with the forecast of this version (*replay*).
"""

_METHOD = """\
## How a band is made

1. Each checked figure gives log(measured / forecast) of its samples per second. All sources have equal weight, however
   many figures they have.
2. A forecast belongs to the narrowest class below that has {minimum} sources or more.
3. The score of a figure is its distance from the median of its class, divided by the distance of the 80th percentile
   (if it is above the median) or of the 20th (if it is below). So bands need not be symmetric, and they move with the
   bias. The median and both distances are means of those of the class, which counts its number of sources, and of those
   of all forecasts, which count {minimum}.
4. The band reaches to the level's quantile of all scores. Each of n sources has weight 1 / (n + 1), and the rest is at
   infinity (conformal prediction for figures in groups: Dunn, Wasserman and Ramdas 2022; Lee, Barber and Willett 2023).
5. It is never narrower than the residuals of what the forecast stands on: each part of an iteration (estimated compute,
   exposed communication, host) counts with its share and the error of its table
   ([residuals](validation.md#kernels-collectives-host)).
6. If a rate that the forecast rests on is `assumed` in its sheet (of a link in use; for estimated times the peak in the
   precision, the memory's rate, or the time of the host for a kernel), the band also holds that of all forecasts.
7. If no checked forecast has the same {features},
   the band is that of all forecasts, with the words "never checked".

Steps 5 and 6 only widen bands; the study below leaves them out. Classes share, from narrow to wide:

{classes}

*Program* is the family of programs that the host sheet of the software stands for, *origin* where the time of kernels
is from. These two come first because they separated the errors best. That was seen on the figures below (27 November
2026), so later entries of the register are the stricter test.
"""


def coverage_page(checked: CheckedForecasts) -> str:
    """Return the page in Markdown."""
    forecasts = checked.of_anchored(False)
    classes = "\n".join(f"- {', '.join(names) or 'nothing: all forecasts'}" for names in CLASSES)
    *features, last = CHECKED_FEATURES
    method = _METHOD.format(minimum=MIN_SOURCES, classes=classes, features=f"{', '.join(features)} or {last}")
    lines = [_INTRODUCTION, *_used(forecasts), "", method, *_overall(forecasts), "", *_by_feature(forecasts), ""]
    lines += [*_over_time(forecasts), "", *_with_anchor(checked.of_anchored(True)), "", *_bands(forecasts), ""]
    lines += _sources(forecasts)
    return "\n".join(lines) + "\n"


def _used(forecasts: Sequence[Checked]) -> Iterator[str]:
    parts = {record: [each for each in forecasts if each.record == record] for record in ("replay", "first")}
    counts = [f"{_figures(part)} as {record}" for record, part in parts.items()]
    yield f"Used are {_figures(forecasts)} figures of {_num_sources(forecasts)} sources: {', '.join(counts)}."


def _overall(forecasts: Sequence[Checked]) -> Iterator[str]:
    yield "## Coverage, leaving one source out"
    yield ""
    yield "Each source against the bands that all others make. *One band* is that of all forecasts for every forecast."
    yield "*Held* is the mean over sources of the share of their figures inside; *width* the median of high / low;"
    yield "*score* the mean interval score of the logarithms (Winkler 1972; lower is better)."
    yield ""
    rows = []
    for level in LEVELS:
        classes, one = (coverage(leave_one_out(forecasts, level, which), level) for which in (CLASSES, CLASSES[-1:]))
        rows.append([f"{level:.0%}", *_cells(classes), *_cells(one)])
    headings = ["level", "held", "width", "score", "one band: held", "width", "score"]
    yield from table(headings, rows)


def _by_feature(forecasts: Sequence[Checked]) -> Iterator[str]:
    yield "## Coverage by class"
    yield ""
    yield f"Of every feature that {MIN_SOURCES} sources or more share, leaving one source out: shares held by the 90 %"
    yield "band, with the 95 % interval for as many independent sources (Wilson 1927), and by the 50 % band."
    yield ""
    half, most = (by_feature(leave_one_out(forecasts, level), level) for level in (0.5, 0.9))
    rows = []
    for name, found in most.items():
        numbers = [str(found.num_sources), str(found.num_figures)]
        rows.append([name, *numbers, f"{found.held:.0%}", _interval(found), f"{half[name].held:.0%}"])
    yield from table(["class", "sources", "figures", "90 %", "interval", "50 %"], rows)


def _over_time(forecasts: Sequence[Checked]) -> Iterator[str]:
    yield "## Coverage over time"
    yield ""
    yield "Each source against the bands of those that were published in earlier years, from"
    yield f"{MIN_SOURCES} earlier sources on."
    yield ""
    found = {level: older_for_newer(forecasts, level) for level in LEVELS}
    if not any(found.values()):
        yield "There is no such source yet."
        return
    results = [coverage(outcomes, level) for level, outcomes in found.items()]
    rows = [[f"{each.level:.0%}", str(each.num_sources), str(each.num_figures), *_cells(each)] for each in results]
    yield from table(["level", "sources", "figures", "held", "width", "score"], rows)


def _with_anchor(forecasts: Sequence[Checked]) -> Iterator[str]:
    number = _num_sources(forecasts)
    yield "## With an anchor"
    yield ""
    yield "Estimates of several figures of one training (case, model, GPUs, precision, program), scaled so that the one"
    yield "with the fewest GPUs is right; the others are checked. Such bands stand for forecasts with a measured run as"
    yield f"an anchor, from {MIN_SOURCES} sources on; with fewer, the band of an estimate does."
    yield ""
    if number < MIN_SOURCES - 1:
        yield f"There are {number} sources: too few."
        return
    rows = []
    for level in LEVELS:
        found = coverage(leave_one_out(forecasts, level), level)
        rows.append([f"{level:.0%}", str(found.num_sources), str(found.num_figures), *_cells(found)])
    yield from table(["level", "sources", "figures", "held", "width", "score"], rows)


def _bands(forecasts: Sequence[Checked]) -> Iterator[str]:
    """Yield the bands of every class that some checked forecast has."""
    yield "## Bands of today"
    yield ""
    yield "Measured / forecast, of each class that has a band of its own."
    yield ""
    bands, rows = Bands(forecasts), {}
    for each in forecasts:
        found = bands.class_of(each.features)
        name = ", ".join(f"{name} {getattr(each.features, name)}" for name in found.names) or "all forecasts"
        limits = [bands.limits(each.features, level) for level in (0.5, 0.9)]
        ends = [f"{math.exp(low):.2f} to {math.exp(high):.2f}" for low, high in limits]
        rows[name] = [name, str(found.sources), *ends]
    yield from table(["class", "sources", "50 %", "90 %"], [rows[name] for name in sorted(rows)])


def _sources(forecasts: Sequence[Checked]) -> Iterator[str]:
    yield "## Checked forecasts"
    yield ""
    yield "*Measured / forecast* is the median of the figures, and the lowest and highest of them."
    yield ""
    groups: dict[tuple[str, str, str, str, str], list[float]] = {}
    for each in sorted(forecasts, key=lambda each: (each.made, each.case)):
        key = each.source, each.case, each.published, each.made[:10], each.record
        groups.setdefault(key, []).extend(each.ratios)
    rows = [
        [*key, str(len(ratios)), f"{median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"]
        for key, ratios in groups.items()
    ]
    yield from table(
        ["source", "case", "published", "made", "record", "figures", "measured / forecast", "from, to"], rows
    )


def _cells(found: Coverage) -> list[str]:
    return [f"{found.held:.1%}", f"{found.width:.2f}", f"{found.score:.3f}"]


def _interval(found: Coverage) -> str:
    low, high = found.interval
    return f"{low:.0%} to {high:.0%}"


def _figures(forecasts: Sequence[Checked]) -> int:
    return sum(len(each.ratios) for each in forecasts)


def _num_sources(forecasts: Sequence[Checked]) -> int:
    return len({each.source for each in forecasts})
