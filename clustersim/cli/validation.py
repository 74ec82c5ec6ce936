"""`clustersim validate`: published figures against the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clustersim.validation import Verdict
    from clustersim.validation.real import RealVerdict


def validate(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CASE]...", help="Names of shipped cases (clustersim list cases), or folders; all where none is."
        ),
    ] = None,
    real: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with a run on your own nodes: what the worker has written."),
    ] = None,
    max_error: Annotated[
        str | None,
        typer.Option(metavar="P", help="End with status 4 where the median error of what is predicted is above '10%'."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with figures (HTML).")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables as a Markdown page.")] = None,
    budget: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the errors that forecasts quote (results/budget.json).")
    ] = None,
    write_worker: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the worker for your own nodes as one file, for torchrun where only torch is."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes; one a core if 0.", min=0)] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> int:
    """Forecast what others measured and print how far off the forecasts are, the worst case first.

    Figures that calibrate a case stand apart and are never scored; nor are those that are only recalled. A case that
    fails is told as skipped and makes the exit status 1.

    With --real, what was measured on your own nodes: the same jobs are simulated on a cluster built from what the
    nodes say of themselves, and the report has both timelines, one above the other.
    """
    if write_worker is not None:
        return _write_worker(write_worker)
    most = None if max_error is None else parse_share(max_error)
    if real is not None:
        if cases or markdown or budget:
            raise typer.BadParameter("a run of your own is compared alone: name no cases, --markdown or --budget")
        return _compare_real(real, most, json, report, quiet)
    from clustersim.cli.progress import progress
    from clustersim.validation import validate as compare

    with progress(quiet) as tell:
        verdict = compare(cases or (), tell, workers)
    written = _write(verdict, report, markdown, budget)
    _print(verdict, json)
    for kind, path in written.items():
        typer.echo(f"{kind}: {path}", err=json)
    return _status(verdict, most)


def _compare_real(path: Path, most: float | None, json: bool, report: Path | None, quiet: bool) -> int:
    """Compare a run on real nodes; what it lacks is told, and everything else compared."""
    from clustersim.cli.progress import progress
    from clustersim.validation.real import validate_real

    with progress(quiet) as tell:
        found = validate_real(path, tell)
    written = _write_real(found, report)
    _print(found.verdict, json)
    for note in found.notes:
        typer.echo(f"note: {note}", err=json)
    if written is not None:
        typer.echo(f"report: {written}", err=json)
    return _status(found.verdict, most)


def _write_real(found: RealVerdict, report: Path | None) -> Path | None:
    if report is None:
        return None
    from clustersim.validation.real_page import write_real

    return write_real(found, report)


def _write_worker(path: Path) -> int:
    from clustersim.errors import InputError
    from clustersim.validation.real_pack import write_worker

    try:
        typer.echo(f"worker: {write_worker(path)}")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", got=str(path)) from None
    return 0


def parse_share(text: str) -> float:
    """Return the share that `--max-error` names.

    >>> parse_share("10%"), parse_share("0.08")
    (0.1, 0.08)
    """
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        share = -1.0
    if rest or not 0 <= share < float("inf"):
        raise typer.BadParameter(f"'{text}' is not a share such as 10% or 0.1", param_hint="'--max-error'")
    return share


def _print(verdict: Verdict, json: bool) -> None:
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(verdict.to_dict(), indent=2))
    else:
        from clustersim.validation.text import verdict_text

        typer.echo(verdict_text(verdict))


def _write(verdict: Verdict, report: Path | None, markdown: Path | None, budget: Path | None) -> dict[str, Path]:
    """Write the files that were asked for; return where each is."""
    from clustersim.results.files import to_json, write_atomically
    from clustersim.validation.markdown import budget_points, validation_page

    written: dict[str, Path] = {}
    if report is not None:
        from clustersim.validation.page import write_validation

        written["report"] = write_validation(verdict, report)
    if markdown is not None:
        written["markdown"] = write_atomically(markdown, validation_page(verdict))
    if budget is not None:
        from clustersim.results.budget import budget_document

        document = budget_document(verdict.version, budget_points(verdict))
        written["budget"] = write_atomically(budget, to_json(document, indent=1) + "\n")
    return written


def _status(verdict: Verdict, most: float | None) -> int:
    """Return 1 where something was skipped, 4 where the error is above what was asked for, else 0."""
    from clustersim.errors import SimulationError, ToleranceError

    if verdict.skipped:
        typer.echo(f"{len(verdict.skipped)} could not be compared; see skipped", err=True)
        return SimulationError.exit_status
    found = verdict.summary().median_abs_error
    if most is not None and (found is None or found > most):
        shown = "unknown, as nothing is scored" if found is None else f"{found:.1%}"
        typer.echo(f"the median error of what is predicted is {shown}; asked for at most {most:.1%}", err=True)
        return ToleranceError.exit_status
    return 0
