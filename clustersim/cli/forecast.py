"""`clustersim run` and `clustersim report`: a forecast and its report."""

from __future__ import annotations

import os
import re
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from clustersim.results import Sweep

_PIPED_WIDTH = 140  # columns of the table if there is no terminal


def run(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A scenario file, or the name of a shipped one (clustersim list); default: the keys of --set alone.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, such as 'batch.per_gpu=32'."),
    ] = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GPUS=FIGURE",
            help="Anchor the forecast on a measured run: '8=105.2/s' (samples) or '8=1.2s' (of an iteration).",
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="GPU=DOLLARS", help="Price of one GPU for an hour, instead of its sheet's: 'h100=2.5'."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of all random streams.", min=0)] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Take no shortcut, simulate every event.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per run.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace for Perfetto (.json or .json.gz).")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="The report to write.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    workers: Annotated[
        int, typer.Option(metavar="N", help="Processes for the points of a sweep; 0: one per core.", min=0)
    ] = 1,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let the scenario extend files outside its folder and repository.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Forecast a scenario: print a table, write a report.

    The report goes to runs/NAME/report.html and the result to runs/NAME/result.json, from which `clustersim
    report` makes it again. An earlier run of that name with another result is kept in runs/NAME/earlier-N. With
    --json: one document on stdout, and only the requested files.
    """
    if report is not None and no_report:
        raise typer.BadParameter("--report and --no-report exclude each other")
    from clustersim.cli.progress import progress
    from clustersim.hardware.price import price_setting
    from clustersim.scenario import load_scenario
    from clustersim.sweep import sweep

    overrides = [*(settings or []), *map(price_setting, price or []), *([] if seed is None else [f"seed={seed}"])]
    if scenario is None and not settings:
        raise typer.BadParameter("name a SCENARIO, or give its keys by --set")
    source: dict[str, Any] | str = {} if scenario is None else scenario
    loaded = load_scenario(source, overrides=overrides, measured=measured or [], allow_outside=allow_outside)
    with progress(quiet) as on_progress:
        result = sweep(loaded, progress=on_progress, exact=exact, workers=workers)
    folder = Path("runs") / folder_name(result.name)
    if report is None and not no_report and not json:
        report = folder / "report.html"
    if json:
        _write_files(result, None, report, csv, trace)
        _print_json(result)
        return
    try:
        written = _write_files(result, folder, report, csv, trace)
    finally:
        _print_table(result)
    for kind, path in written.items():
        typer.echo(f"{kind}: {path}")


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A saved run: its folder, or its result.json.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write; default: beside the run."),
    ] = None,
    updates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the update log instead: W_101 = W_100 - lr * dW_97 ..., or .csv."),
    ] = None,
) -> None:
    """Write the report of a saved run, without simulating."""
    from clustersim.report import write_report
    from clustersim.results import read_sweep

    folder = run if run.is_dir() else run.parent
    sweep = read_sweep(run)
    if updates is not None:
        from clustersim.interchange import write_updates

        typer.echo(f"updates: {write_updates(sweep, updates)}")
    if updates is None or output is not None:
        typer.echo(f"report: {write_report(sweep, output or folder / 'report.html')}")


def _print_json(result: Sweep) -> None:
    from clustersim.results.files import to_json

    typer.echo(to_json(result.to_dict(detail=False), indent=2))


def _print_table(result: Sweep) -> None:
    from rich.console import Console

    from clustersim.report import tables
    from clustersim.report.failures import failure_table
    from clustersim.report.jobs import job_table
    from clustersim.report.table import lines_below
    from clustersim.report.text_table import wrapped

    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if is_known else _PIPED_WIDTH)
    others = [found.parts(console.width) for found in (job_table(result), failure_table(result)) if found is not None]
    for part in chain(tables(result, console.width), *others):
        if isinstance(part, str):
            typer.echo(part)
        else:
            console.print(part)
    for line in lines_below(result):
        typer.echo("\n".join(wrapped(line, console.width)))
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _write_files(
    result: Sweep, folder: Path | None, report: Path | None, csv: Path | None, trace: Path | None
) -> dict[str, Path]:
    """Write the requested files, the result first, and return the path of each."""
    written: dict[str, Path] = {}
    if folder is not None:
        from clustersim.results import save_run

        if kept := save_run(result, folder / "result.json"):
            written["kept the earlier run"] = kept
        written["result"] = folder / "result.json"
    if report is not None:
        from clustersim.report import write_report

        written["report"] = write_report(result, report)
    if csv is not None:
        from clustersim.interchange import write_csv

        written["csv"] = write_csv(result, csv)
    if trace is not None:
        from clustersim.interchange import write_perfetto

        written["trace"] = write_perfetto(result, trace)
    return written


def folder_name(name: str) -> str:
    """Return a scenario's name as a valid folder name.

    >>> folder_name("../GoogLeNet on Titan")
    'GoogLeNet-on-Titan'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "scenario"
