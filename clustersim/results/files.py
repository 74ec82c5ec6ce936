"""Result files: written atomically, and read."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from itertools import chain, count
from pathlib import Path
from threading import get_ident
from typing import IO, Any

from clustersim.errors import InputError, Mistake
from clustersim.reading.packed import parse_json, read_packed
from clustersim.results.run import RESULT_SCHEMA, Sweep

_MOST_BYTES = 2 << 30
_MADE_BY, _HEAD_BYTES = b'<meta name="generator" content="clustersim', 4096  # in the head of a report


def write_atomically(path: str | Path, content: str | bytes) -> Path:
    """Write a file atomically, and create its folder if needed; files with a name in .gz are compressed."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    with atomically(path) as file:
        file.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def write_pieces(path: str | Path, pieces: Iterable[str]) -> Path:
    """Write a file as `write_atomically` does, from texts that are not all in memory."""
    path = Path(path)
    with atomically(path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, filename="", mode="wb", mtime=0) as packed:
                for piece in pieces:
                    packed.write(piece.encode())
        else:
            for piece in pieces:
                file.write(piece.encode())
    return path


@contextmanager
def atomically(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of `path` at the end of the block, unless that fails."""
    handle, temporary = _temporary(path)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
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


def check_writable(path: Path) -> None:
    """Raise InputError if a file cannot be written, before the work for it."""
    if path.is_dir():
        raise InputError(f"cannot write {path}: {os.strerror(EISDIR)}", got=str(path))
    handle, temporary = _temporary(path)
    os.close(handle)
    Path(temporary).unlink()


def _temporary(path: Path) -> tuple[int, str]:
    """Return an open file beside a path, whose folder is made, and its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", got=str(path)) from None


def to_json(document: object, indent: int | None = None) -> str:
    """Return a JSON text: None is null, and NaN raises ValueError since it would be a bug."""
    return json.dumps(document, indent=indent, allow_nan=False, ensure_ascii=False)


def json_pieces(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield the text of `to_json(document, indent=2)` of a map, given by its items, piece by piece.

    A value that is an iterator is a list whose elements are taken one by one.

    >>> "".join(json_pieces([("a", iter([1, {}])), ("b", [])])) == to_json({"a": [1, {}], "b": []}, indent=2)
    True
    """
    yield "{"
    for number, (key, value) in enumerate(items):
        yield f"{',' if number else ''}\n  {to_json(key)}: "
        if isinstance(value, Iterator):
            yield from _list_pieces(value)
        else:
            yield _indented(value, 2)
    yield "\n}"


def _list_pieces(values: Iterator[Any]) -> Iterator[str]:
    is_empty = True
    for value in values:
        yield f"{'[' if is_empty else ','}\n    {_indented(value, 4)}"
        is_empty = False
    yield "[]" if is_empty else "\n  ]"


def _indented(value: Any, columns: int) -> str:
    return to_json(value, indent=2).replace("\n", "\n" + " " * columns)


def write_sweep(sweep: Sweep, path: str | Path) -> Path:
    """Save a sweep with all details, for `clustersim report`."""
    return write_atomically(path, to_json(sweep.to_dict()))


def save_run(sweep: Sweep, path: Path) -> Path | None:
    """Save a sweep; return the folder into which an earlier run of other content was moved, None if there was none.

    A run that another process saves at the same time is kept too.
    """
    data = to_json(sweep.to_dict()).encode()
    hidden = write_atomically(path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}"), data)
    kept = None
    try:
        while not _holds(path, data):
            kept = _keep_earlier(path) or kept
            try:
                os.link(hidden, path)  # which fails if the file exists
            except FileExistsError:
                continue
            except OSError:  # a file system without links
                os.replace(hidden, path)
            break
        return kept
    finally:
        hidden.unlink(missing_ok=True)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _not_kept(path, error) from None


def _keep_earlier(path: Path) -> Path | None:
    """Move a saved run, and the report beside it, into a new folder `earlier-N` next to it; None if there is none."""
    if not path.exists():
        return None
    try:
        folder = _new_folder(path.parent)
        try:
            os.replace(path, folder / path.name)
        except FileNotFoundError:  # another process has moved it
            folder.rmdir()
            return None
        if _is_report(report := path.with_name("report.html")):
            os.replace(report, folder / report.name)
    except OSError as error:
        raise _not_kept(path, error) from None
    return folder


def _not_kept(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot keep the earlier run {path}: {error.strerror}", got=str(path))


def _new_folder(parent: Path) -> Path:
    """Make the first folder `earlier-N` that is not there yet."""
    for number in count(1):
        folder = parent / f"earlier-{number}"
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError


def _is_report(path: Path) -> bool:
    """Return whether a file is a report that clustersim wrote."""
    try:
        with path.open("rb") as file:
            return _MADE_BY in file.read(_HEAD_BYTES)
    except OSError:
        return False


def read_sweep(path: str | Path) -> Sweep:
    """Return a saved sweep, from its file or the folder of a run."""
    path = Path(path)
    if path.is_dir():
        path = path / "result.json"
    if not path.exists():
        raise _read_error(path, "no saved run found; `clustersim run` makes one")
    document = parse_json(
        read_packed(path, _MOST_BYTES), str(path), "a saved run (`clustersim run` writes result.json)"
    )
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != RESULT_SCHEMA:
        raise _read_error(path, f"not a saved run: its schema is {schema!r}", repr(schema), RESULT_SCHEMA)
    try:
        sweep = Sweep.from_dict(document)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise _read_error(path, f"not a complete saved run: {error}") from None
    wrong = next(chain(sweep.wrong_types(), sweep.contradictions()), None)
    if wrong is not None:
        raise _read_error(path, f"not a saved run: {wrong}")
    return sweep


def _read_error(path: Path, message: str, got: str | None = None, allowed: str | None = None) -> InputError:
    return InputError(Mistake(message, file=str(path), got=got or str(path), allowed=allowed))
