"""Packs this package into one file that runs where only torch is installed: `python profile_kernels.pyz`.

A zip archive of the modules themselves (PEP 441), so that the single file and the command share one source.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

PACKAGE_FOLDER = Path(__file__).resolve().parent
_MAIN = """import sys

if sys.version_info < (3, 10):
    sys.exit("this needs Python 3.10 or newer, and runs in %s" % sys.version.split()[0])

from {module} import main

sys.exit(main())
"""
_PACKAGE = '"""The part of clustersim that measures on real devices."""\n'
_DATE = (1980, 1, 1, 0, 0, 0)  # for reproducible archives


def write_profiler(path: Path) -> Path:
    """Write the single file; an existing one is replaced."""
    return write_archive(path, "clustersim.profiling.main", {})


def write_archive(path: Path, module: str, folders: Mapping[str, Path]) -> Path:
    """Write this package and more folders of modules, by package, as one file that runs `main` of a module."""
    members = {"__main__.py": _MAIN.format(module=module), "clustersim/__init__.py": _PACKAGE}
    for package, folder in {"clustersim/profiling": PACKAGE_FOLDER, **folders}.items():
        for file in sorted(folder.rglob("*.py")):
            members[f"{package}/{file.relative_to(folder).as_posix()}"] = file.read_text(encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as output:
        output.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(output, "w") as archive:
            for name, text in members.items():
                archive.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED)
    return path
