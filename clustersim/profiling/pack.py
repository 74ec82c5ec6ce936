"""Packs this room into one file that runs where nothing but torch is installed: `python profile_kernels.pyz`.

A zip archive of the modules themselves (PEP 441), so that the single file and the command are one source.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

_MAIN = "import sys\n\nfrom clustersim.profiling.main import main\n\nsys.exit(main())\n"
_PACKAGE = '"""The part of clustersim that profiles kernels."""\n'
_DATE = (1980, 1, 1, 0, 0, 0)  # the archive of one source is always the same file


def write_profiler(path: Path) -> Path:
    """Write the single file; one that exists is replaced."""
    room = Path(__file__).resolve().parent
    members = {"__main__.py": _MAIN, "clustersim/__init__.py": _PACKAGE}
    for file in sorted(room.rglob("*.py")):
        members[f"clustersim/profiling/{file.relative_to(room).as_posix()}"] = file.read_text(encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as output:
        output.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(output, "w") as archive:
            for name, text in members.items():
                archive.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED)
    return path
