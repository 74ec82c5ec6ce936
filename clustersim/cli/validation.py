"""`clustersim validate`: compare forecasts with published measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clustersim.validation import Verdict
    from clustersim.validation.anchored import AnchoredVerdict
    from clustersim.validation.real import RealVerdict


def validate(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CASE]...", help="Names of shipped cases (clustersim list cases), or folders; default: all."
        ),
    ] = None,
    real: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with a run on your own nodes: the file of the worker."),
    ] = None,
    anchored: Annotated[
        bool,
        typer.Option(
            "--anchored",
            help="Anchor each case on its smallest measured configuration, and score the others; with --markdown, as a "
            "section of the page.",
        ),
    ] = False,
    max_error: Annotated[
        str | None,
        typer.Option(metavar="P", help="Exit with status 4 if the median error of predicted figures is above '10%'."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with figures (HTML).")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables as a Markdown page.")] = None,
    bands: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what the bands of forecasts are made from (results/bands.json)."),
    ] = None,
    coverage: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write how often bands hold (Markdown); alone, it simulates nothing."),
    ] = None,
    write_worker: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the worker for your own nodes as one file, for torchrun with only torch.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of processes; 0: one per core.", min=0)] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> int:
    """Compare forecasts with published measurements and print their errors, the worst case first.

    Figures that calibrate a case are listed separately and never scored; nor are recalled figures. A case that fails
    is listed as skipped, and the exit status is 1.

    With --real: compare with measurements on your own nodes. The same jobs are simulated on a cluster built from the
    data of the nodes, and the report has both timelines, one above the other.
    """
    if write_worker is not None:
        return _write_worker(write_worker)
    most = None if max_error is None else parse_share(max_error)
    if real is not None:
        if cases or markdown or bands or coverage or anchored:
            raise typer.BadParameter("--real excludes cases, --anchored, --markdown, --bands and --coverage")
        return _compare_real(real, most, json, report, quiet)
    if coverage is not None and not (cases or report or markdown or bands or json or max_error or anchored):
        return _write_coverage(coverage)
    if cases and (bands or coverage):
        raise typer.BadParameter("--bands and --coverage need all cases; name none")
    found = _anchor(cases or (), workers, quiet) if anchored else None
    if found is not None and not (report or markdown or bands or coverage):
        return _print_anchored(found, most, json)
    from clustersim.cli.progress import progress
    from clustersim.validation import validate as compare

    with progress(quiet) as on_progress:
        verdict = compare(cases or (), on_progress, workers)
    written = _write(verdict, report, markdown, found)
    if bands is not None or coverage is not None:
        written |= _write_bands(verdict, bands, coverage, quiet, workers)
    _print(verdict, json)
    for kind, path in written.items():
        typer.echo(f"{kind}: {path}", err=json)
    return _status(verdict, most)


def _anchor(cases: Sequence[str], workers: int, quiet: bool) -> AnchoredVerdict:
    from clustersim.cli.progress import progress
    from clustersim.validation.anchored import validate_anchored

    with progress(quiet) as on_progress:
        return validate_anchored(cases, on_progress, workers)


def _print_anchored(found: AnchoredVerdict, most: float | None, json: bool) -> int:
    """Print the scores of anchored forecasts; return 4 if the error is above the tolerance, else 0."""
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(found.to_dict(), indent=2))
    else:
        from clustersim.validation.anchored_text import anchored_text

        typer.echo(anchored_text(found))
    return _within(found.summary(several_sizes=True).median_abs_error, most)


def _compare_real(path: Path, most: float | None, json: bool, report: Path | None, quiet: bool) -> int:
    """Compare a run on real nodes; notes name the missing measurements."""
    from clustersim.cli.progress import progress
    from clustersim.validation.real import validate_real

    with progress(quiet) as on_progress:
        found = validate_real(path, on_progress)
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
    """Return the share in `--max-error`.

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


def _write(
    verdict: Verdict, report: Path | None, markdown: Path | None, anchored: AnchoredVerdict | None
) -> dict[str, Path]:
    """Write the requested files; return the path of each."""
    from clustersim.results.files import write_atomically
    from clustersim.validation.markdown import validation_page

    written: dict[str, Path] = {}
    if report is not None:
        from clustersim.validation.page import write_validation

        written["report"] = write_validation(verdict, report)
    if markdown is not None:
        written["markdown"] = write_atomically(markdown, validation_page(verdict, anchored))
    return written


def _write_bands(
    verdict: Verdict, bands: Path | None, coverage: Path | None, quiet: bool, workers: int
) -> dict[str, Path]:
    """Collect the checked forecasts, of the register too, and write the requested files; return the path of each."""
    from clustersim.cli.progress import progress
    from clustersim.results.checked import CheckedForecasts
    from clustersim.results.files import to_json, write_atomically
    from clustersim.validation.band_data import checked_forecasts
    from clustersim.validation.coverage_page import coverage_page
    from clustersim.validation.register import score_register

    with progress(quiet) as on_progress:
        found = checked_forecasts(verdict, score_register(on_progress=on_progress, workers=workers))
    checked = CheckedForecasts.from_dict(found.to_dict())  # rounded, as a file has them
    written: dict[str, Path] = {}
    if bands is not None:
        written["bands"] = write_atomically(bands, to_json(checked.to_dict(), indent=1) + "\n")
    if coverage is not None:
        written["coverage"] = write_atomically(coverage, coverage_page(checked))
    return written


def _write_coverage(path: Path) -> int:
    """Write the page on the shipped checked forecasts."""
    from clustersim.results.checked import shipped_forecasts
    from clustersim.results.files import write_atomically
    from clustersim.validation.coverage_page import coverage_page

    typer.echo(f"coverage: {write_atomically(path, coverage_page(shipped_forecasts()))}")
    return 0


def _status(verdict: Verdict, most: float | None) -> int:
    """Return 1 if cases were skipped, 4 if the error is above the tolerance, else 0."""
    from clustersim.errors import SimulationError

    if verdict.skipped:
        typer.echo(f"{len(verdict.skipped)} skipped; see the list of skipped cases", err=True)
        return SimulationError.exit_status
    return _within(verdict.summary().median_abs_error, most)


def _within(found: float | None, most: float | None) -> int:
    """Return 4 if a median error is above the tolerance, else 0."""
    from clustersim.errors import ToleranceError

    if most is not None and (found is None or found > most):
        shown = "unknown: no figure is scored" if found is None else f"{found:.1%}"
        typer.echo(f"the median error of predicted figures is {shown}; the tolerance is {most:.1%}", err=True)
        return ToleranceError.exit_status
    return 0
