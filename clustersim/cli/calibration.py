"""`clustersim calibrate`: constants of a transport from what was measured."""

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
            help="Output of nccl-tests, OSU, nvbandwidth or p2pBandwidthLatencyTest; all shipped cases where none is.",
        ),
    ] = None,
    topology: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="The cluster that the logs are of.")] = None,
    transport: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="The transport to begin with, such as nccl.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Ranks of a log that does not say how many took part (OSU's)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a transport sheet (.yaml) for scenarios to name."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with what is left over (HTML).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")] = False,
    store: Annotated[
        bool, typer.Option("--store", help="Without logs: put what is determined into the shipped sheets.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Fit a transport's constants to measured collectives and copies.

    With logs, to those of one cluster. Without, to the microbenchmarks of all shipped cases, to see what they say of
    the shipped transports; figures that are scored take no part. Each constant is told with its standard error.
    """
    _check_options(logs, topology, transport, output, store)
    from clustersim.cli.progress import progress
    from clustersim.validation import calibration as room

    with progress(quiet) as tell:
        if logs:
            found = [room.calibrate(logs, topology or "", transport or "", gpus, tell)]
        else:
            from clustersim.validation import load_cases

            fits = room.fit_shipped(load_cases(), transport, tell)
            found = room.calibrate_shipped(fits)
    written = _write(found, output, report)
    if store:
        written += [("stored", path) for fit in fits for path in room.store(fit)]
    _print(found, json)
    for kind, path in written:
        typer.echo(f"{kind}: {path}", err=json)


def _check_options(
    logs: list[Path] | None, topology: str | None, transport: str | None, output: Path | None, store: bool
) -> None:
    """Refuse options that do not go together."""
    if logs:
        for name, value in (("--topology", topology), ("--transport", transport)):
            if value is None:
                raise typer.BadParameter(
                    "logs are of a cluster and of a transport on it; say which", param_hint=f"'{name}'"
                )
        if store:
            raise typer.BadParameter("a user's logs go into a sheet of their own, with -o", param_hint="'--store'")
        return
    for name, given in (("--topology", topology), ("--output", output)):
        if given is not None:
            raise typer.BadParameter("belongs to logs, and none is given", param_hint=f"'{name}'")


def _write(found: list[Calibration], output: Path | None, report: Path | None) -> list[tuple[str, Path]]:
    """Write the files that were asked for; return what each is and where."""
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
