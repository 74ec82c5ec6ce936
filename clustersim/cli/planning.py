"""`clustersim plan`: the best layouts of a model on a number of GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.stopping import stoppable

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.planner import Entry, Plan

_PIPED_WIDTH = 180  # columns of the table if there is no terminal
_TABLE_WIDTH = 110  # minimum columns of the table without broken words


def plan(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one (clustersim list).")
    ],
    gpus: Annotated[str, typer.Option(metavar="N[,N]...", help="Number of GPUs; several numbers are compared.")],
    objective: Annotated[
        str, typer.Option(metavar="NAME", help="What to optimize: samples_per_s, or the cost or energy of a sample.")
    ] = "samples_per_s",
    top: Annotated[int, typer.Option(metavar="N", help="Number of layouts to show.", min=1)] = 10,
    batch: Annotated[
        str | None,
        typer.Option(metavar="N[,N]...", help="Global batch sizes to try; default: the scenario's."),
    ] = None,
    also: Annotated[
        str | None,
        typer.Option(metavar="KEY[,KEY]...", help="Also compare these keys: sharding_over, offload."),
    ] = None,
    across_hosts: Annotated[
        bool, typer.Option("--across-hosts", help="Allow GPUs of several hosts to split a layer.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; 'parallelism.tensor=8' fixes a degree."),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="GPU=DOLLARS", help="Price of one GPU for an hour, instead of its sheet's: 'h100=2.5'."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per layout.")] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of processes; 0: one per core.", min=0)] = 0,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save simulated layouts in this file; do not simulate those in it again."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Find the best layouts of a scenario's model: degrees, micro-batches, schedule, sharding, recomputation.

    Every layout gets a bound in closed form. Those with the best bounds are simulated, until no other layout can be
    among the best. Values that the scenario gives under `parallelism`, and its algorithm and buckets, do not change.
    """
    from clustersim.cli.progress import progress
    from clustersim.hardware.price import price_setting
    from clustersim.planner import plan as find

    with stoppable(json) as stop, progress(quiet) as on_progress:
        found = find(
            scenario,
            _numbers(gpus, "--gpus"),
            objective=objective,
            top=top,
            batches=() if batch is None else _numbers(batch, "--batch"),
            overrides=[*(settings or []), *map(price_setting, price or [])],
            across_hosts=across_hosts,
            also=[] if also is None else [part.strip() for part in also.split(",")],
            workers=workers,
            resume=resume,
            progress=on_progress,
        )
    _output(found, json, csv)
    if found.stopped:
        _print_stopped(found, resume)
        raise SystemExit(stop.status)


def _output(found: Plan, json: bool, csv: Path | None) -> None:
    """Print a plan and write its CSV file."""
    if csv is not None:
        _write_csv(found, csv)
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(found.to_dict(), indent=2))
    else:
        _print(found)
        if csv is not None:
            typer.echo(f"csv: {csv}")


def _print_stopped(found: Plan, resume: Path | None) -> None:
    """Say how far an interrupted search came, and how to go on."""
    from clustersim.planner import STOPPED

    most = found.num_simulated + found.discarded.get(STOPPED, 0)
    typer.echo(f"stopped after {found.num_simulated} of {most} layouts: the best of them are shown", err=True)
    if resume is None:
        typer.echo(
            "to go on later, start with --resume FILE: it keeps each simulated layout (none is kept now)",
            err=True,
        )
    else:
        typer.echo(f"the same command continues from {resume}", err=True)


def _numbers(text: str, option: str) -> list[int]:
    """Return the numbers of an option.

    >>> _numbers("32,64", "--gpus")
    [32, 64]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"'{text}' is not a number such as 64 or a list such as 32,64", param_hint=f"'{option}'"
        )
    return [int(part) for part in parts]


def _print(found: Plan) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    if console.width < _TABLE_WIDTH:
        typer.echo("\n".join(lines(found, console.width)))
    else:
        console.print(_table(found))
    if found.software:
        typer.echo(f"software: {found.software}")
    for text in (_as_run(found), _fixed(found)):
        if text:
            typer.echo(text)
    others = ". Discarded:" if found.discarded else ""
    typer.echo(f"{found.num_layouts:,} layouts, {found.num_simulated} simulated{others}")
    for why, num in sorted(found.discarded.items(), key=lambda item: -item[1]):
        typer.echo(f"  {num:,}: {why}")
    if found.anchor is not None:
        typer.echo("\n".join(found.anchor.sentences()))
        for warning in found.anchor.warnings:
            typer.echo(f"warning: {warning}", err=True)


def _as_run(found: Plan) -> str:
    """Return how the two columns of iteration times differ; empty if there is only one."""
    shares = [entry.run_s / entry.iteration_s - 1 for entry in found.best if entry.run_s is not None]
    without = f" without {', '.join(found.left_out)}," if found.left_out else ""
    if not shares:
        return f"iteration:{without} as `run` has it" if found.left_out else ""
    least, most = min(shares), max(shares)
    text = f"{most:+.1%}" if f"{least:.1%}" == f"{most:.1%}" else f"{least:+.1%} to {most:+.1%}"
    return f"iteration: planned{without} from few iterations; as run: what `clustersim run` gives for the row ({text})"


def _fixed(found: Plan) -> str:
    """Return which keys the scenario fixes, and how they are freed; empty if there are none."""
    if not found.fixed:
        return ""
    keys = ", ".join(f"{key} {_plain(value)}" for key, value in found.fixed.items())
    return f"fixed by the scenario: {keys} (--set 'parallelism={{}}' frees what parallelism fixes)"


def _plain(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _table(found: Plan) -> Table:
    from rich.table import Table

    table = Table(title=_title(found))
    for name in ("layout", *_columns(found), "why it is slower"):
        table.add_column(name, justify="left" if name in ("layout", "why it is slower") else "right", overflow="fold")
    for entry in found.best:
        table.add_row(_layout(found, entry), *_figures(found, entry), entry.reason or "(best)")
    return table


def lines(found: Plan, width: int) -> list[str]:
    """Return the plan as lines for a terminal too narrow for the table: layout, figures, and why it is slower."""
    from textwrap import wrap

    found_lines = [_title(found), ""]
    for number, entry in enumerate(found.best, start=1):
        figures = ", ".join(map(" ".join, zip(_columns(found), _figures(found, entry), strict=True)))
        slower = f"slower: {entry.reason}" if entry.reason else "(best)"
        found_lines += wrap(f"{number}. {_layout(found, entry)}", width, subsequent_indent="   ")
        for text in (figures, slower):
            found_lines += wrap(text, width, initial_indent="   ", subsequent_indent="   ")
    return found_lines


def _are_several(found: Plan) -> bool:
    return len({(entry.choice.num_gpus, entry.choice.batch) for entry in found.best}) > 1


def _title(found: Plan) -> str:
    name = f"{found.name} (ideal network)" if found.transport == "ideal" else found.name
    return name if _are_several(found) else f"{name} on {found.best[0].choice.num_gpus} {found.gpu}"


def _layout(found: Plan, entry: Entry) -> str:
    where = f"{entry.choice.num_gpus} GPUs, batch {entry.choice.batch}: " if _are_several(found) else ""
    return where + entry.choice.text()


def _columns(found: Plan) -> tuple[str, ...]:
    as_run = ("as run",) if any(entry.run_s is not None for entry in found.best) else ()
    return ("iteration", *as_run, "samples/s", "MFU", "memory", "bubble", *_PRICES.get(found.objective, ()))


def _figures(found: Plan, entry: Entry) -> list[str]:
    from clustersim.units import format_duration, format_size

    return [
        format_duration(entry.iteration_s),
        *([_run_time(entry)] if "as run" in _columns(found) else []),
        f"{entry.samples_per_s:.4g}",
        f"{entry.mfu:.1%}",
        format_size(entry.memory_bytes),
        f"{entry.bubble_share:.1%}",
        *_price(entry, found.objective),
    ]


def _run_time(entry: Entry) -> str:
    from clustersim.units import format_duration

    return "" if entry.run_s is None else format_duration(entry.run_s)


_PRICES = {"cost": ("$ / 1,000 samples",), "energy": ("J / sample, at most",)}


def _price(entry: Entry, objective: str) -> list[str]:
    if objective == "cost" and entry.dollars_per_sample is not None:
        return [f"{1000 * entry.dollars_per_sample:.4g}"]
    if objective == "energy" and entry.joules_per_sample is not None:
        return [f"{entry.joules_per_sample:.4g}"]
    return []


def _write_csv(found: Plan, path: Path) -> None:
    import csv
    from io import StringIO

    from clustersim.results.files import write_atomically

    rows = []
    for entry in found.best:
        values = entry.to_dict()
        breakdown, layout, strategy = values.pop("breakdown_s"), values.pop("parallelism"), values.pop("strategy")
        reason = values.pop("reason")
        rows.append({"layout": entry.choice.text(), **layout, **strategy, **values, **breakdown, "reason": reason})
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, stream.getvalue())
