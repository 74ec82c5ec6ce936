"""Finds the files that ship with clustersim: `topologies/`, `scenarios/`, `validate/`.

They lie inside an installed wheel under `_data`, and beside the package in a checkout.
"""

from __future__ import annotations

from pathlib import Path


def data_folder(name: str) -> Path:
    """Return the folder of shipped files called `name`."""
    package = Path(__file__).resolve().parent
    shipped = package / "_data" / name
    return shipped if shipped.is_dir() else package.parent / name


def shipped_files(folder: str) -> dict[str, Path]:
    """Return the shipped YAML files of a folder by short name, in alphabetical order."""
    return {path.stem: path for path in sorted(data_folder(folder).glob("*.yaml"))}
