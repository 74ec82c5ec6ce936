"""`clustersim calibrate`: fit the constants of a transport to measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clustersim.validation.calibration import Calibration


def calibrate(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[LOG]...",
            help="Output of nccl-tests, OSU, nvbandwidth or p2pBandwidthLatencyTest; default: all shipped cases.",
        ),
    ] = None,
    topology: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="The cluster of the logs.")] = None,
    transport: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="The initial transport, such as nccl.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of ranks, for logs that do not state it (OSU)."),
    ] = None,
    collective: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What tables of nccl-tests measure that do not name it, such as all-gather."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a transport sheet (.yaml) for use in scenarios."),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with the residuals (HTML).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")] = False,
    store: Annotated[
        bool, typer.Option("--store", help="Without logs: store the fitted constants in the shipped sheets.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Fit a transport's constants to measured collectives and copies.

    With logs: to the logs of one cluster. Without: to the microbenchmarks of all shipped cases, to check the shipped
    transports; scored figures are excluded. Each constant is printed with its standard error.
    """
    _check_options(logs, topology, transport, output, store, collective)
    from clustersim.cli.progress import progress
    from clustersim.validation import calibration

    with progress(quiet) as on_progress:
        if logs:
            found = [calibration.calibrate(logs, topology or "", transport or "", gpus, on_progress, collective)]
        else:
            from clustersim.validation import load_cases

            fits = calibration.fit_shipped(load_cases(), transport, on_progress)
            found = calibration.calibrate_shipped(fits)
    written = _write(found, output, report)
    if store:
        written += [("stored", path) for fit in fits for path in calibration.store(fit)]
    _print(found, json)
    for kind, path in written:
        typer.echo(f"{kind}: {path}", err=json)


def _check_options(
    logs: list[Path] | None,
    topology: str | None,
    transport: str | None,
    output: Path | None,
    store: bool,
    collective: str | None,
) -> None:
    """Raise an error for options that exclude each other."""
    if logs:
        for name, value in (("--topology", topology), ("--transport", transport)):
            if value is None:
                raise typer.BadParameter("logs need --topology and --transport", param_hint=f"'{name}'")
        if store:
            raise typer.BadParameter("with logs, write a sheet of your own with -o", param_hint="'--store'")
        return
    for name, given in (("--topology", topology), ("--output", output), ("--collective", collective)):
        if given is not None:
            raise typer.BadParameter("only valid with logs", param_hint=f"'{name}'")


def _write(found: list[Calibration], output: Path | None, report: Path | None) -> list[tuple[str, Path]]:
    """Write the requested files; return the kind and path of each."""
    from clustersim.results import write_atomically
    from clustersim.validation.calibration import sheet_name, sheet_text

    written = []
    if output is not None:
        text = sheet_text(found[0].fit, sheet_name(output), found[0].topology or "")
        written.append(("transport", write_atomically(output, text)))
    if report is not None:
        from clustersim.validation.calibration.page import write_calibration

        written.append(("report", write_calibration(found, report)))
    return written


def _print(found: list[Calibration], json: bool) -> None:
    if json:
        from clustersim.results.files import to_json
        from clustersim.validation.calibration.calibrate import calibration_document

        typer.echo(to_json(calibration_document(found), indent=2))
        return
    from clustersim.validation.calibration.text import calibration_text

    typer.echo("\n\n".join(map(calibration_text, found)))
