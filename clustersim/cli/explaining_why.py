"""`clustersim why`: what a run would gain from each of its resources, and what to buy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.learning import note_untrained

if TYPE_CHECKING:
    from clustersim.sensitivity import Why


def why(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one (clustersim list).")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, such as 'num_gpus=64'."),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="SHARE", help="How much faster each resource is made: 10%, or 0.1.")
    ] = "10%",
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="GPU=DOLLARS", help="Price of one GPU for an hour, instead of its sheet's: 'h100=2.5'."),
    ] = None,
    upgrades: Annotated[
        bool, typer.Option("--upgrades/--no-upgrades", help="Also try other GPUs, the next link, more cards.")
    ] = True,
    exact: Annotated[bool, typer.Option("--exact", help="Take no shortcut, simulate every event.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")] = False,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per resource and upgrade.")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with a figure.")] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of processes; 0: one per core.", min=0)] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Say why a run is not faster: what 10 % more of each resource would give, and what to buy.

    Each link class, the GPU's FLOP and memory rates, the host, delays and the message library are made faster, one at a
    time, and the run is simulated with each. Then hardware with a name is tried, with its price where it is known. Of a
    sweep, the point with the most GPUs is explained, and of several such the fastest; --set selects another.
    """
    from clustersim.cli.progress import progress
    from clustersim.hardware.price import price_setting
    from clustersim.sensitivity import why as explain

    share = _share(by)
    overrides = [*(settings or []), *map(price_setting, price or [])]
    note_untrained("`clustersim why`", [scenario], settings or [])
    with progress(quiet) as on_progress:
        found = explain(
            scenario, overrides, by=share, upgrades=upgrades, exact=exact, workers=workers, progress=on_progress
        )
    written = _write_files(found, csv, report)
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(found.to_dict(), indent=2))
        return
    _print(found)
    for kind, path in written.items():
        typer.echo(f"{kind}: {path}")


def _share(text: str) -> float:
    """Return a share that is written as `10%` or `0.1`.

    >>> _share("10%"), _share("0.25")
    (0.1, 0.25)
    """
    from clustersim.sensitivity.differences import MOST

    number, is_percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        share = float(number) / (100 if is_percent else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= MOST:
        message = f"'{text}' is not a share such as 10% or 0.1, above 0 and at most {MOST:.0%}"
        raise typer.BadParameter(message, param_hint="'--by'")
    return share


def _write_files(found: Why, csv: Path | None, report: Path | None) -> dict[str, Path]:
    written = {}
    if csv is not None:
        from clustersim.interchange.csv_file import write_rows

        written["csv"] = write_rows(found.to_rows(), csv)
    if report is not None:
        from clustersim.sensitivity.page import write_why

        written["report"] = write_why(found, report)
    return written


def _print(found: Why) -> None:
    from rich.console import Console

    from clustersim.cli.forecast import console_width
    from clustersim.sensitivity.table import printed

    console = Console(width=console_width())
    for part in printed(found, console.width):
        if isinstance(part, str):
            typer.echo(part)
        else:
            console.print(part)
