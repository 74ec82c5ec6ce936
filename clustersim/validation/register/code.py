"""Which code makes a forecast: version, git commit, and a hash of the package with its sheets and tables."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import clustersim
from clustersim.data import data_folder

_PACKAGE = Path(clustersim.__file__).resolve().parent
_SUFFIXES = (".py", ".yaml", ".json", ".gz", ".csv", ".npz", ".md")
_GIT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class CodeState:
    """The code of a forecast; `commit` and `is_modified` are None outside a git checkout.

    `is_modified` is true if the package differs from the commit. `package_sha256` is the hash of all its files.
    """

    version: str
    commit: str | None
    is_modified: bool | None
    package_sha256: str


def code_state() -> CodeState:
    """Return the state of the code that runs."""
    is_checkout = _git("ls-files", "--error-unmatch", "__init__.py") is not None
    commit = _git("rev-parse", "HEAD") if is_checkout else None
    changed = _git("status", "--porcelain", "--", ".", "../topologies") if commit else None
    return CodeState(clustersim.__version__, commit, None if changed is None else bool(changed), package_sha256())


def package_sha256() -> str:
    """Return the hash of the names and bytes of all files that a forecast may depend on; a wheel has the same."""
    total = hashlib.sha256()
    for name, path in _files():
        total.update(f"{name}\0{file_sha256(path)}\n".encode())
    return total.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _files() -> Iterator[tuple[str, Path]]:
    """Yield the files of the package and the shipped clusters, by name."""
    for prefix, folder in (("clustersim", _PACKAGE), ("topologies", data_folder("topologies"))):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and path.suffix in _SUFFIXES and name.parts[0] != "_data":
                yield f"{prefix}/{name.as_posix()}", path


def _git(*arguments: str) -> str | None:
    """Return what a git command about the package prints; None if it fails or git is not installed."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_PACKAGE, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
