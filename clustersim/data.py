"""Finds the files that ship with clustersim: `topologies/`, `scenarios/`, `validate/`.

They are under `_data` in an installed wheel, and next to the package in a checkout.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType


def data_folder(name: str) -> Path:
    """Return the folder `name` of shipped files."""
    package = Path(__file__).resolve().parent
    shipped = package / "_data" / name
    return shipped if shipped.is_dir() else package.parent / name


@lru_cache(maxsize=8)
def shipped_files(folder: str) -> Mapping[str, Path]:
    """Return the shipped YAML files of a folder by short name, in alphabetical order; the result is cached."""
    return MappingProxyType({path.stem: path for path in sorted(data_folder(folder).glob("*.yaml"))})
