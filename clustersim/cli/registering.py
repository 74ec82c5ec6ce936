"""`clustersim register`: forecasts that are written down before their figures are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clustersim.cli.validation import parse_share

if TYPE_CHECKING:
    from clustersim.validation.register import RegisterScore

register = typer.Typer(
    name="register",
    help="Write forecasts down before their figures are known, and score them afterwards.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_ENTRIES = typer.Argument(
    metavar="[ENTRY]...",
    help="Names of shipped entries, folders of entries, or a folder that holds entries; default: all shipped ones.",
)
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the tables.")]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
_Workers = Annotated[int, typer.Option(metavar="N", help="Number of processes; 0: one per core.", min=0)]


@register.command()
def add(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A file, or the name of a shipped scenario.")],
    points: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table of the points to forecast (CSV): metric, unit and keys of the scenario. "
            "Default: points.csv of the entry, else the points of the scenario's sweep.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the entry; default: that of the scenario's file.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The register; default: ./register.")
    ] = None,
    json: _Json = False,
    workers: _Workers = 0,
    quiet: _Quiet = False,
) -> None:
    """Forecast the points of a scenario and write them down, with date, version and hashes, in DIR/NAME/forecast.json.

    If the scenario's folder has a source.md, that folder is the entry, unless --name or --output is given. Otherwise
    the scenario and the files that it names are copied to DIR/NAME.

    First forecasts are never rewritten, and an entry whose measured.csv exists is refused (exit status 3). When the
    figures are known, write them to measured.csv: the columns of points.csv, and value, role, provenance and where.
    """
    from clustersim.cli.progress import progress
    from clustersim.results.files import to_json
    from clustersim.validation.register import add_entry
    from clustersim.validation.register.text import first_text

    with progress(quiet) as on_progress:
        added = add_entry(scenario, points, name, output, on_progress, workers)
    typer.echo(to_json(added.first.to_dict(), indent=2) if json else first_text(added.first))
    if added.first.code.is_modified:
        typer.echo("note: clustersim differs from its git commit; forecast.json has the hash of its files", err=True)
    typer.echo(f"entry: {added.folder}", err=json)


@register.command()
def score(
    entries: Annotated[list[str] | None, _ENTRIES] = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Score first forecasts only; do not simulate with the present version.")
    ] = False,
    max_error: Annotated[
        str | None,
        typer.Option(metavar="P", help="Exit with status 4 if the median error of first forecasts is above '10%'."),
    ] = None,
    json: _Json = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with a figure and all tables (HTML).")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables as a Markdown page.")] = None,
    workers: _Workers = 0,
    quiet: _Quiet = False,
) -> int:
    """Compare first forecasts with their figures, beside the present version's forecasts of the same scenarios.

    Entries whose figures are not known are listed. The files of an entry must be those of its first forecast. Every
    source has equal weight in the errors over all entries. If a simulation fails, the exit status is 1.
    """
    most = None if max_error is None else parse_share(max_error)
    from clustersim.cli.progress import progress
    from clustersim.results.files import to_json
    from clustersim.validation.register import score_register
    from clustersim.validation.register.text import score_text

    with progress(quiet) as on_progress:
        scored = score_register(entries or (), not recorded, on_progress, workers)
    written = _write(scored, report, markdown)
    typer.echo(to_json(scored.to_dict(), indent=2) if json else score_text(scored))
    for kind, path in written:
        typer.echo(f"{kind}: {path}", err=json)
    return _status(scored, most)


@register.command("list")
def list_entries(entries: Annotated[list[str] | None, _ENTRIES] = None, json: _Json = False) -> None:
    """List the entries of a register: when they were forecast, and whether their figures are known."""
    from clustersim.results.files import to_json
    from clustersim.validation.register import load_entries
    from clustersim.validation.register.text import entries_document, entries_text

    found = load_entries(entries or ())
    typer.echo(to_json(entries_document(found), indent=2) if json else entries_text(found))


@register.command("note-migration")
def note_migration(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="The name of a shipped entry, or its folder.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What was rewritten, and by which command.")],
) -> None:
    """Note that an entry's files were rewritten without a change of meaning, such as by `clustersim migrate`.

    The new hashes are added to its forecast.json with date, version and reason. Its first forecasts stay as they are.
    """
    from clustersim.validation.register import migrate
    from clustersim.validation.register.entry import entry_folder

    noted = migrate.note_migration(entry_folder(entry), reason)
    typer.echo(f"noted: {', '.join(noted.files)}: {noted.reason}")


def _write(scored: RegisterScore, report: Path | None, markdown: Path | None) -> list[tuple[str, Path]]:
    """Write the requested files; return the kind and path of each."""
    from clustersim.results.files import write_atomically
    from clustersim.validation.register.text import score_page

    written = []
    if report is not None:
        from clustersim.validation.register.page import seen_errors, write_register

        written.append(("report", write_register(scored, seen_errors(), report)))
    if markdown is not None:
        written.append(("markdown", write_atomically(markdown, score_page(scored))))
    return written


def _status(scored: RegisterScore, most: float | None) -> int:
    """Return 1 if a point could not be simulated, 4 if the error of first forecasts is above the tolerance, else 0."""
    from clustersim.errors import SimulationError, ToleranceError

    if scored.skipped:
        typer.echo(f"{len(scored.skipped)} skipped; see the list of skipped points", err=True)
        return SimulationError.exit_status
    found = scored.summary().median_abs_error
    if most is not None and (found is None or found > most):
        shown = "unknown: no figure is scored" if found is None else f"{found:.1%}"
        typer.echo(f"the median error of first forecasts is {shown}; the tolerance is {most:.1%}", err=True)
        return ToleranceError.exit_status
    return 0
