"""Results on disk: written whole or not at all."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.results.run import RESULT_SCHEMA, Sweep


def write_atomically(path: str | Path, content: str | bytes) -> Path:
    """Write a file whole or not at all, making its folder where needed; names ending in .gz are compressed."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", got=str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror}", got=str(path)) from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def to_json(document: object, indent: int | None = None) -> str:
    """Return a JSON text: absent is null, and NaN is refused as the bug that it would be."""
    return json.dumps(document, indent=indent, allow_nan=False, ensure_ascii=False)


def write_sweep(sweep: Sweep, path: str | Path) -> Path:
    """Save a sweep with all its detail, for `clustersim report`."""
    return write_atomically(path, to_json(sweep.to_dict()))


def read_sweep(path: str | Path) -> Sweep:
    """Read a saved sweep: the file, or the folder of a run."""
    path = Path(path)
    if path.is_dir():
        path = path / "result.json"
    try:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except FileNotFoundError:
        raise _wrong(path, "there is no saved run here; `clustersim run` makes one") from None
    except (OSError, EOFError, ValueError) as error:
        raise _wrong(
            path, f"this is not a saved run, such as `clustersim run` writes to result.json: {error}"
        ) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != RESULT_SCHEMA:
        raise _wrong(path, f"this is not a saved run: its schema is {schema!r}", repr(schema), RESULT_SCHEMA)
    try:
        return Sweep.from_dict(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _wrong(path, f"this is not a whole saved run: {error}") from None


def _wrong(path: Path, message: str, got: str | None = None, allowed: str | None = None) -> InputError:
    return InputError(Mistake(message, file=str(path), got=got or str(path), allowed=allowed))
