"""`clustersim plan`: the best layouts of a model on so many GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.failure import INTERRUPTED

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.planner import Entry, Plan

_PIPED_WIDTH = 180  # columns of the table where no terminal says how wide it is
_TABLE_WIDTH = 110  # columns that the table needs for words to stay whole


def plan(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one (clustersim list).")
    ],
    gpus: Annotated[str, typer.Option(metavar="N[,N]...", help="How many GPUs; several numbers are compared.")],
    objective: Annotated[
        str, typer.Option(metavar="NAME", help="What is to be best: samples_per_s, cost or energy of a sample.")
    ] = "samples_per_s",
    top: Annotated[int, typer.Option(metavar="N", help="How many layouts to show.", min=1)] = 10,
    batch: Annotated[
        str | None, typer.Option(metavar="N[,N]...", help="Samples over all GPUs to try; the scenario's if absent.")
    ] = None,
    also: Annotated[
        str | None,
        typer.Option(metavar="KEY[,KEY]...", help="Compare these too: sharding_over, offload."),
    ] = None,
    across_hosts: Annotated[
        bool, typer.Option("--across-hosts", help="Let GPUs of several hosts split a layer.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; 'parallelism.tensor=8' fixes one."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row a layout.")] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes; one a core if 0.", min=0)] = 0,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep what is simulated in a file, and simulate nothing that is in it."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Find the best layouts of a scenario's model: degrees, micro-batches, schedule, sharding, recomputation.

    Every layout is bounded in closed form; those with the best bounds are simulated until no other can be among the
    best. What the scenario says under `parallelism`, or of the strategy's algorithm and buckets, stays as it is.
    """
    from clustersim.cli.progress import progress
    from clustersim.planner import plan as find

    with progress(quiet) as tell:
        found = find(
            scenario,
            _numbers(gpus, "--gpus"),
            objective=objective,
            top=top,
            batches=() if batch is None else _numbers(batch, "--batch"),
            overrides=settings or [],
            across_hosts=across_hosts,
            also=[] if also is None else [part.strip() for part in also.split(",")],
            workers=workers,
            resume=resume,
            progress=tell,
        )
    if csv is not None:
        _write_csv(found, csv)
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(found.to_dict(), indent=2))
    else:
        _print(found)
        if csv is not None:
            typer.echo(f"csv: {csv}")
    if found.stopped:
        typer.echo(f"interrupted: the best of {found.num_simulated} layouts that had been simulated", err=True)
        if resume is not None:
            typer.echo(f"the same command goes on from {resume}", err=True)
        raise SystemExit(INTERRUPTED)


def _numbers(text: str, option: str) -> list[int]:
    """Return the numbers of an option.

    >>> _numbers("32,64", "--gpus")
    [32, 64]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"'{text}' is not a number such as 64, or several as 32,64", param_hint=f"'{option}'")
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
    others = ". Of the others:" if found.discarded else ""
    typer.echo(f"{found.num_layouts:,} layouts, {found.num_simulated} simulated{others}")
    for why, num in sorted(found.discarded.items(), key=lambda item: -item[1]):
        typer.echo(f"  {num:,}: {why}")


def _table(found: Plan) -> Table:
    from rich.table import Table

    table = Table(title=_title(found))
    for name in ("layout", *_columns(found), "loses by"):
        table.add_column(name, justify="left" if name in ("layout", "loses by") else "right", overflow="fold")
    for entry in found.best:
        table.add_row(_layout(found, entry), *_figures(found, entry), entry.reason or "(the best)")
    return table


def lines(found: Plan, width: int) -> list[str]:
    """Return what the table says for a terminal that is too narrow for it: a layout, its figures, what it loses by."""
    from textwrap import wrap

    told = [_title(found), ""]
    for number, entry in enumerate(found.best, start=1):
        figures = ", ".join(map(" ".join, zip(_columns(found), _figures(found, entry), strict=True)))
        loses = f"loses by {entry.reason}" if entry.reason else "(the best)"
        told += wrap(f"{number}. {_layout(found, entry)}", width, subsequent_indent="   ")
        for text in (figures, loses):
            told += wrap(text, width, initial_indent="   ", subsequent_indent="   ")
    return told


def _are_several(found: Plan) -> bool:
    return len({(entry.choice.num_gpus, entry.choice.batch) for entry in found.best}) > 1


def _title(found: Plan) -> str:
    return found.name if _are_several(found) else f"{found.name} on {found.best[0].choice.num_gpus} {found.gpu}"


def _layout(found: Plan, entry: Entry) -> str:
    where = f"{entry.choice.num_gpus} GPUs, batch {entry.choice.batch}: " if _are_several(found) else ""
    return where + entry.choice.text()


def _columns(found: Plan) -> tuple[str, ...]:
    return ("iteration", "samples/s", "MFU", "memory", "bubble", *_PRICES.get(found.objective, ()))


def _figures(found: Plan, entry: Entry) -> list[str]:
    from clustersim.units import format_duration, format_size

    return [
        format_duration(entry.iteration_s),
        f"{entry.samples_per_s:.4g}",
        f"{entry.mfu:.1%}",
        format_size(entry.memory_bytes),
        f"{entry.bubble_share:.1%}",
        *_price(entry, found.objective),
    ]


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
        told = entry.to_dict()
        breakdown, layout, strategy = told.pop("breakdown_s"), told.pop("parallelism"), told.pop("strategy")
        reason = told.pop("reason")
        rows.append({"layout": entry.choice.text(), **layout, **strategy, **told, **breakdown, "reason": reason})
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, stream.getvalue())
