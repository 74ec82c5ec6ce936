"""Packs the worker for real nodes into one file that runs where only torch is: `torchrun ... real_run.pyz`.

A zip archive of the modules themselves (PEP 441): the worker's, and those of the profiler that it builds on.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from clustersim import profiling
from clustersim.data import data_folder

_MAIN = "import sys\n\nfrom real_run.command import main\n\nsys.exit(main())\n"
_PACKAGE = '"""The part of clustersim that measures on real nodes."""\n'
_DATE = (1980, 1, 1, 0, 0, 0)  # the archive of one source is always the same file


def write_worker(path: Path) -> Path:
    """Write the single file; one that exists is replaced."""
    worker = data_folder("validate") / "real_run"
    profiler = Path(str(profiling.__file__)).resolve().parent
    members = {"__main__.py": _MAIN, "clustersim/__init__.py": _PACKAGE}
    for folder, package in ((profiler, "clustersim/profiling"), (worker, "real_run")):
        for file in sorted(folder.rglob("*.py")):
            members[f"{package}/{file.relative_to(folder).as_posix()}"] = file.read_text(encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as output:
        output.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(output, "w") as archive:
            for name, text in members.items():
                archive.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED)
    return path
