"""`clustersim copy` and `clustersim schema`: help for writing a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def copy(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="The name of a shipped scenario (clustersim list scenarios).")
    ],
    destination: Annotated[
        Path | None, typer.Argument(metavar="DEST", help="A file or a folder; default: the working folder.")
    ] = None,
) -> None:
    """Copy a shipped scenario as a starting point. No file is overwritten."""
    from clustersim.data import shipped_files
    from clustersim.errors import InputError, unknown_name

    shipped = shipped_files("scenarios")
    if scenario not in shipped:
        raise unknown_name("shipped scenario", scenario, shipped)
    target = destination or Path()
    if target.is_dir():
        target = target / f"{scenario}.yaml"
    try:
        with target.open("xb") as file:
            file.write(shipped[scenario].read_bytes())
    except FileExistsError:
        raise InputError(f"{target} already exists; name another file", got=str(target)) from None
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}", got=str(target)) from None
    typer.echo(f"scenario: {target}")


def schema() -> None:
    """Print the JSON Schema of a scenario, for completion and checks in an editor."""
    from clustersim.results.files import to_json
    from clustersim.scenario import json_schema

    typer.echo(to_json(json_schema(), indent=2))
