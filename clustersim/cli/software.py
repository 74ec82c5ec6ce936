"""`clustersim software`: show a program; `clustersim migrate`: rewrite a scenario from before `software`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

software = typer.Typer(
    name="software", help="Show the settings of a program.", no_args_is_help=True, rich_markup_mode=None
)


@software.callback()
def _commands() -> None:
    """Keep `show` a command of its own."""


@software.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A program (clustersim list software), or a sheet file.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the text.")] = False,
) -> None:
    """Print what a program can do, and each of its settings with its source."""
    from clustersim.results.files import to_json
    from clustersim.scenario.software_sheets import checked_software

    sheet = checked_software(name)
    settings = {key: {"value": value, "source": sheet.sources[f"values.{key}"]} for key, value in sheet.values.items()}
    if json:
        document = {
            "schema": "clustersim.software/1",
            "name": sheet.name,
            "title": sheet.title,
            "year": sheet.year,
            "layouts": list(sheet.layouts),
            "strategies": list(sheet.strategies),
            "settings": settings,
        }
        typer.echo(to_json(document, indent=2))
        return
    lines = [
        f"{sheet.name}: {sheet.title}",
        f"  layouts: {', '.join(sheet.layouts)}",
        f"  strategies: {', '.join(sheet.strategies)}",
    ]
    for key, setting in settings.items():
        lines += [f"  {key}: {_text(setting['value'])}", f"      {setting['source']}"]
    typer.echo("\n".join(lines))


def _text(value: object) -> str:
    """Return a value as YAML writes it.

    >>> _text(True), _text(["a", "b"]), _text(17)
    ('true', 'a, then b', '17')
    """
    if isinstance(value, list):
        return ", then ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def migrate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files; each is rewritten in place.")],
    program: Annotated[
        str, typer.Option("--software", metavar="NAME", help="The program that a file names from now on.")
    ] = "plain",
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the new text and leave the file as it is.")] = False,
) -> None:
    """Rewrite scenarios from before `software`, so that they give the same forecast.

    Keys that say how a program is written move into `software`. The default program `plain` has the defaults that these
    keys had. With another program, every setting in which it differs is written too. A file that extends another one
    names no program: rewrite that one too.
    """
    from clustersim.scenario.migrate import migrated

    texts = {file: migrated(file, program) for file in files}
    for file, text in texts.items():
        if stdout:
            typer.echo(text, nl=False)
            continue
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        beside.write_bytes(text.encode())
        beside.replace(file)
        typer.echo(f"scenario: {file}")
