"""`clustersim run` and `clustersim report`: a forecast and its report."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from clustersim.cli.failing_points import POINT_TIMEOUT, STRICT, WHERE
from clustersim.cli.learning import CURVES, NO_LEARN, note_untrained, tell_cost

if TYPE_CHECKING:
    from clustersim.results import Sweep

MOST_ANSWERED = 2000
"""Runs of a sweep at most whose answer is sought: it needs all of them in memory."""


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
    where: Annotated[list[str] | None, WHERE] = None,
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
    tokens: Annotated[
        float | None,
        typer.Option(metavar="N", help="Tokens to train on, such as 1e12: for days and dollars of the training."),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of all random streams.", min=0)] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Take no shortcut, simulate every event.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per run.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace for Perfetto (.json or .json.gz).")
    ] = None,
    curves: Annotated[Path | None, CURVES] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="The report to write.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the report in the browser, or the page of --what-if.")
    ] = False,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Also write a page with sliders, over points simulated beforehand.")
    ] = False,
    what_if_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page of --what-if; default: runs/NAME/what-if.html.")
    ] = None,
    what_if_points: Annotated[
        int | None, typer.Option(metavar="N", help="Points of --what-if at most; default: 400.", min=2)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Processes for the points; 0: one per core. Default: 1 for a sweep, one per core for --what-if.",
            min=0,
        ),
    ] = None,
    no_learn: Annotated[bool, NO_LEARN] = False,
    strict: Annotated[bool, STRICT] = False,
    point_timeout: Annotated[float | None, POINT_TIMEOUT] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let the scenario extend files outside its folder and repository.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Forecast a scenario: print a table, write a report.

    The report goes to runs/NAME/report.html and the result to runs/NAME/result.json, from which `clustersim
    report` makes it again. An earlier run of that name with another result is moved with its report to
    runs/NAME/earlier-N, also with --no-report; a line says so. With
    --json: one document on stdout, and only the requested files. A point of a sweep that does not fit or that
    fails is a row with the reason; the exit status is 0 if any point has a forecast.
    """
    what_if = what_if or what_if_file is not None or what_if_points is not None
    if what_if:
        _check_what_if(measured, where, exact, allow_outside)
    if report is not None and no_report:
        raise typer.BadParameter("--report and --no-report exclude each other")
    if open_ and not what_if and (no_report or (json and report is None)):
        raise typer.BadParameter(
            "--open needs a report: " + ("leave --no-report out" if no_report else "add --report FILE")
        )
    if curves is not None and no_learn:
        raise typer.BadParameter("--curves and --no-learn exclude each other")
    if scenario is None and not settings:
        raise typer.BadParameter("name a SCENARIO, or give its keys by --set")
    from clustersim.cli.progress import progress
    from clustersim.scenario import load_scenario
    from clustersim.sweep import check_ran, sweep

    overrides = _overrides(settings, price, {"train_tokens": tokens, "seed": seed})
    source: dict[str, Any] | str = {} if scenario is None else scenario
    strict = strict or what_if  # whose sliders need valid points
    loaded = load_scenario(source, overrides, measured or [], allow_outside, strict, where or [])
    if not no_learn and not quiet:
        tell_cost(loaded)
    with progress(quiet) as on_progress:
        result = sweep(
            loaded,
            on_progress,
            exact=exact,
            workers=1 if workers is None else workers,
            strict=strict,
            point_timeout_s=point_timeout,
            learns=not no_learn,
        )
    check_ran(loaded, result)
    folder = Path("runs") / folder_name(result.name)
    if report is None and not no_report and not json:
        report = folder / "report.html"
    written = _write_and_print(result, folder, _Outputs(report, csv, trace, curves), json)
    if what_if:
        from clustersim.what_if_file import MOST_POINTS, write_what_if

        note_untrained("the page of --what-if", [] if scenario is None else [scenario], overrides)
        page, most = what_if_file or folder / "what-if.html", what_if_points or MOST_POINTS
        with progress(quiet) as on_progress:
            write_what_if(source, page, overrides, most=most, workers=workers or 0, progress=on_progress)
        written["what-if"] = page
        typer.echo(f"what-if: {page}", err=json)
    if open_:
        from clustersim.cli.opening import open_page

        open_page(written["what-if" if what_if else "report"])


def _check_what_if(measured: list[str] | None, where: list[str] | None, exact: bool, allow_outside: bool) -> None:
    given = {
        "--where": bool(where),
        "--measured (write the runs as `measured` into the scenario)": bool(measured),
        "--exact": exact,
        "--allow-outside": allow_outside,
    }
    for option, is_given in given.items():
        if is_given:
            raise typer.BadParameter(f"--what-if cannot be combined with {option}")


def _overrides(settings: list[str] | None, price: list[str] | None, numbers: Mapping[str, float | None]) -> list[str]:
    """Return what the options set, as texts of --set."""
    from clustersim.hardware.price import price_setting

    options = [f"{key}={value!r}" for key, value in numbers.items() if value is not None]
    return [*(settings or []), *map(price_setting, price or []), *options]


class _Outputs(NamedTuple):
    """The files that are asked for."""

    report: Path | None
    csv: Path | None
    trace: Path | None
    curves: Path | None


def _write_and_print(result: Sweep, folder: Path, outputs: _Outputs, json: bool) -> dict[str, Path]:
    """Write the files, the saved run too unless JSON is printed, print the result, and return the path of each file."""
    if json:
        written = _write_files(result, None, outputs)
        _print_json(result)
        return written
    try:
        written = _write_files(result, folder, outputs)
    finally:
        print_table(result)
    for kind, path in written.items():
        typer.echo(f"{kind}: {path}")
    return written


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A saved run: its folder, or its result.json; or a ledger of `sweep`.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write; default: beside the run."),
    ] = None,
    updates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the update log instead: W_101 = W_100 - lr * dW_97 ..., or .csv."),
    ] = None,
    curves: Annotated[Path | None, CURVES] = None,
    name: Annotated[
        str | None,
        typer.Option("--sweep", metavar="NAME", help="The sweep of a ledger with several; default: the last one."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
) -> None:
    """Write the report of a saved run, or of a sweep in a ledger, without simulating.

    With --updates or --curves only these are written, unless --output names the report too.
    """
    from clustersim.interchange import write_curves, write_updates
    from clustersim.report import write_report

    has_report = output is not None or (updates is None and curves is None)
    if open_ and not has_report:
        raise typer.BadParameter("--open needs a report: add --output FILE")
    sweep, beside = _saved(run, name, updates is not None)
    if updates is not None:
        typer.echo(f"updates: {write_updates(sweep, updates)}")
    if curves is not None:
        typer.echo(f"curves: {write_curves(sweep, curves)}")
    if has_report:
        if sweep.ran:
            print_answer(sweep)
        _report_written(write_report(sweep, output or beside), open_)


def _saved(run: Path, name: str | None, needs_detail: bool) -> tuple[Sweep, Path]:
    """Return a saved run, or a sweep of a ledger, and the file of its report beside it."""
    from clustersim.results import read_sweep
    from clustersim.sweep.ledger import is_sqlite

    if not is_sqlite(run):
        return read_sweep(run), (run if run.is_dir() else run.parent) / "report.html"
    from clustersim.cli.sweeping import sweep_of_ledger

    if needs_detail:
        raise typer.BadParameter("--updates needs a run with its details; a ledger keeps none")
    return sweep_of_ledger(run, name), run.with_suffix(".html")


def _report_written(path: Path, is_opened: bool) -> None:
    typer.echo(f"report: {path}")
    if is_opened:
        from clustersim.cli.opening import open_page

        open_page(path)


def print_answer(result: Sweep) -> None:
    """Print the answer of a sweep in lines as wide as the terminal."""
    from clustersim.report.findings import findings
    from clustersim.report.text_table import wrapped

    for sentence in findings(result):
        typer.echo("\n".join(wrapped(sentence, console_width())))


def console_width() -> int:
    """Return the columns of the terminal; of a pipe those that a table may have."""
    from rich.console import Console

    from clustersim.report.terminal import WIDTH

    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_known else WIDTH).width


def answer_of(result: Sweep) -> list[str]:
    """Return the answer of a sweep as plain sentences; none for more than `MOST_ANSWERED` runs."""
    from clustersim.report.findings import findings
    from clustersim.report.text_table import plain

    is_answered = 0 < len(result.runs) <= MOST_ANSWERED
    return [plain(sentence) for sentence in findings(result)] if is_answered else []


def _print_json(result: Sweep) -> None:
    from clustersim.results.files import to_json

    document = result.to_dict(detail=False)
    document["answer"] = answer_of(result)
    typer.echo(to_json(document, indent=2))


def print_table(result: Sweep) -> None:
    """Print the table of a sweep, its answer and its warnings."""
    from rich.console import Console

    from clustersim.report.terminal import printed

    console = Console(width=console_width())
    for part in printed(result, console.width):
        if isinstance(part, str):
            typer.echo(part)
        else:
            console.print(part)
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _write_files(result: Sweep, folder: Path | None, outputs: _Outputs) -> dict[str, Path]:
    """Write the requested files, the result first, and return the path of each."""
    written: dict[str, Path] = {}
    if folder is not None:
        from clustersim.results import save_run

        if kept := save_run(result, folder / "result.json"):
            has_report = (kept / "report.html").exists()
            written["kept the earlier run and its report" if has_report else "kept the earlier run"] = kept
        written["result"] = folder / "result.json"
    if outputs.report is not None:
        from clustersim.report import write_report

        written["report"] = write_report(result, outputs.report)
    if outputs.csv is not None:
        from clustersim.interchange import write_csv

        written["csv"] = write_csv(result, outputs.csv)
    if outputs.trace is not None:
        from clustersim.interchange import write_perfetto

        written["trace"] = write_perfetto(result, outputs.trace)
    if outputs.curves is not None:
        from clustersim.interchange import write_curves

        written["curves"] = write_curves(result, outputs.curves)
    return written


def folder_name(name: str) -> str:
    """Return a scenario's name as a valid folder name.

    >>> folder_name("../GoogLeNet on Titan")
    'GoogLeNet-on-Titan'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "scenario"
