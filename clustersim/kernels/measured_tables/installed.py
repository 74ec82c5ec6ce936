"""Where the measured tables are installed."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

PACKAGE = "aiconfigurator-core"
MODULE = "aiconfigurator_core"
SUPPORTED = "0.12"
"""Versions whose files were studied; another one may have other columns."""

HOW_TO_GET = "pip install 'clustersim[kernels]'"


class Tables(NamedTuple):
    """A folder with one folder for each system, and the name and version of the package that it is from."""

    folder: Path
    package: str


class Missing(NamedTuple):
    """Why there are no tables, as a sentence that ends with what to do."""

    reason: str


NOT_INSTALLED = Missing(f"measured tables of kernels are not installed; {HOW_TO_GET}")


@lru_cache(maxsize=1)
def search_tables() -> Tables | Missing:
    """Return the installed tables, or why there are none. Nothing of the package is imported."""
    if find_spec("pyarrow") is None:
        return Missing(f"measured tables of kernels need pyarrow, which is not installed; {HOW_TO_GET}")
    spec = find_spec(MODULE)
    if spec is None or not spec.submodule_search_locations:
        return NOT_INSTALLED
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        return Missing(f"{MODULE} is here without its package's version; {HOW_TO_GET}")
    if not found.startswith(f"{SUPPORTED}."):
        return Missing(f"tables of {PACKAGE} {found} are not known, only those of {SUPPORTED}; {HOW_TO_GET}")
    folder = Path(next(iter(spec.submodule_search_locations))) / "systems" / "data"
    if not folder.is_dir():
        return Missing(f"{PACKAGE} {found} has no tables in {folder}; {HOW_TO_GET}")
    return Tables(folder, f"{PACKAGE} {found}")


def find_tables() -> Tables | None:
    """Return the installed tables; None where there are none."""
    found = search_tables()
    return found if isinstance(found, Tables) else None
