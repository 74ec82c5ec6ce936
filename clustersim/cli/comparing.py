"""`clustersim diff`: where the seconds went between two forecasts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.learning import note_untrained

if TYPE_CHECKING:
    from clustersim.difference import Difference


def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A scenario (file or name), or a saved run (folder or result.json).")
    ],
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="The one to compare with it; default: A, with other values.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of both scenarios.")
    ] = None,
    a_settings: Annotated[
        list[str] | None,
        typer.Option("--a", metavar="KEY=VALUE", help="Set a key of A alone, or choose the point of its sweep."),
    ] = None,
    b_settings: Annotated[
        list[str] | None,
        typer.Option("--b", metavar="KEY=VALUE", help="Set a key of B alone, or choose the point of its sweep."),
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="Count seconds of an iteration, sample, token or gpu-sample; default: what both do alike.",
        ),
    ] = None,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="If several keys differ, also simulate A with each key of B alone.")
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Take no shortcut, simulate every event.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the text.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per cause.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with the waterfall.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    workers: Annotated[
        int, typer.Option(metavar="N", help="Processes for the points of a sweep; 0: one per core.", min=0)
    ] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Say where the seconds went between two forecasts: by part, layer, link class, collective and rank.

    A saved run is read, a scenario is simulated. If both have several points, those with equal values on all axes are
    compared.
    """
    if open_ and report is None:
        raise typer.BadParameter("--open needs a page: add --report FILE")
    if b is None and not a_settings and not b_settings:
        raise typer.BadParameter("name a second one, or say what differs by --a KEY=VALUE and --b KEY=VALUE")
    from clustersim.cli.progress import progress
    from clustersim.difference import diff as compare

    note_untrained("a comparison", filter(None, [a, b]), [*(settings or []), *(a_settings or [])])
    with progress(quiet) as on_progress:
        found = compare(
            a,
            b,
            overrides=settings or [],
            a_settings=a_settings or [],
            b_settings=b_settings or [],
            per=per,
            one_by_one=one_by_one,
            exact=exact,
            workers=workers,
            progress=on_progress,
        )
    written = _write(found, report, csv)
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(found.to_dict(), indent=2))
    else:
        _print(found)
        for kind, path in written.items():
            typer.echo(f"{kind}: {path}")
    if open_:
        from clustersim.cli.opening import open_page

        open_page(written["report"])


def _write(found: Difference, report: Path | None, csv: Path | None) -> dict[str, Path]:
    """Write the requested files and return the path of each."""
    written = {}
    if report is not None:
        from clustersim.difference import write_diff_report

        written["report"] = write_diff_report(found, report)
    if csv is not None:
        from clustersim.interchange import write_rows

        written["csv"] = write_rows(found.to_rows(), csv)
    return written


def _print(found: Difference) -> None:
    """Print what is compared, the sentences, and the tables."""
    from rich.console import Console

    from clustersim.cli.forecast import console_width
    from clustersim.difference.tables import sides_line, text_tables
    from clustersim.report.text_table import wrapped

    console = Console(width=console_width())
    for text in (sides_line(found, 0), sides_line(found, 1), "", *found.answer, ""):
        typer.echo("\n".join(wrapped(text, console.width)))
    for table in text_tables(found):
        for part in table.parts(console.width):
            if isinstance(part, str):
                typer.echo(part)
            else:
                console.print(part)
        typer.echo("")
