"""Reads files that may be compressed (gzip, zip), bounded by what they unpack to."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from clustersim.errors import InputError, Mistake

_PIECE = 1 << 20
_LEAST_RATIO = 1032  # deflate makes data at most this many times smaller
_TRUNCATED = "is truncated: the {kind} data ends too early; copy the whole file, or export it again"


def read_packed(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a file, unpacked where it is gzip or a zip of one file; at most `most_bytes` of them."""
    found = list(read_members(path, most_bytes))
    if len(found) != 1:
        names = ", ".join(name for name, _ in found[:5])
        raise _wrong(path, f"is a zip of {len(found)} files; give one of them", names or "no file", "a zip of one file")
    return found[0][1]


def read_members(path: Path, most_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield each file of a zip by its name, or the file itself; all of them unpack to at most `most_bytes`.

    Nothing is kept of a file that unpacks to more.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
            stream.seek(0)
            if start == b"PK\x03\x04" or start == b"PK\x05\x06":
                yield from _zipped(path, stream, most_bytes)
            elif start[:2] == b"\x1f\x8b":
                yield str(path), _gunzipped(path, stream, most_bytes)
            else:
                data = stream.read(most_bytes + 1)
                if len(data) > most_bytes:
                    raise too_large(path, most_bytes)
                yield str(path), data
    except (zlib.error, EOFError):
        raise _wrong(path, _TRUNCATED.format(kind="gzip")) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise _wrong(path, f"is a zip file that cannot be unpacked: {error}") from None
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from None


def too_large(path: Path, most_bytes: int) -> InputError:
    """Return the error about a file with more than `most_bytes`."""
    allowed = f"at most {most_bytes / 1e6:,.0f} MB, unpacked"
    return _wrong(
        path, f"the file is too large; {allowed}", got=f"more than {most_bytes / 1e6:,.0f} MB", allowed=allowed
    )


def _zipped(path: Path, stream: IO[bytes], most_bytes: int) -> Iterator[tuple[str, bytes]]:
    left = most_bytes
    with zipfile.ZipFile(stream) as archive:
        members = [each for each in archive.infolist() if not each.is_dir() and "__MACOSX" not in each.filename]
        if sum(each.file_size for each in members) > most_bytes:
            raise too_large(path, most_bytes)
        for each in members:
            with archive.open(each) as member:
                data = member.read(left + 1)
            if data[:2] == b"\x1f\x8b":
                data = b"".join(_unpacked([data], left))
            if len(data) > left:
                raise too_large(path, most_bytes)
            left -= len(data)
            yield f"{path}:{each.filename}", data


def _gunzipped(path: Path, stream: IO[bytes], most_bytes: int) -> bytes:
    if path.stat().st_size * _LEAST_RATIO > most_bytes:
        num_bytes = 0
        for piece in _unpacked(_pieces(stream), most_bytes):
            num_bytes += len(piece)
        if num_bytes > most_bytes:
            raise too_large(path, most_bytes)
        stream.seek(0)
    return b"".join(_unpacked(_pieces(stream), most_bytes))


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


def _unpacked(pieces: Iterator[bytes] | list[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield unpacked gzip data of one member or of several in sequence; stop once more than `most_bytes` came."""
    unpacker, num_bytes = zlib.decompressobj(31), 0
    for piece in pieces:
        waiting, is_full = piece, False
        while waiting or is_full:
            if unpacker.eof:
                if not waiting.startswith(b"\x1f"):
                    return  # what follows the data is padding
                unpacker = zlib.decompressobj(31)
            data = unpacker.decompress(waiting, _PIECE)
            num_bytes += len(data)
            yield data
            if num_bytes > most_bytes:
                return
            waiting = unpacker.unconsumed_tail or unpacker.unused_data
            is_full = len(data) == _PIECE and not unpacker.eof
    if not unpacker.eof:
        raise EOFError


def parse_json(data: bytes, file: str, what: str) -> Any:
    """Return a JSON document (maps, lists, texts, numbers); `what` it should be is named where it is none.

    NaN, text that is not UTF-8 and nesting that is too deep are errors; large numbers may come out as infinite.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(Mistake(f"is not {what}: it is not text", file=file, line=line)) from None
    try:
        return json.loads(text, parse_constant=_not_finite)
    except json.JSONDecodeError as error:
        raise _not_json(file, text, error, what) from None
    except RecursionError:
        raise InputError(Mistake(f"is not {what}: it is nested too deeply", file=file)) from None
    except ValueError as error:
        raise InputError(Mistake(f"is not {what}: {error}", file=file)) from None


def _not_finite(text: str) -> NoReturn:
    raise ValueError(f"a number is not finite ({text[:40]})")


def _not_json(file: str, text: str, error: json.JSONDecodeError, what: str) -> InputError:
    whole = text.rstrip()
    if text.lstrip()[:1] == "{" and (error.pos >= len(whole) or not whole.endswith("}")):
        place = f"after {len(text):,} characters, line {text.count(chr(10)) + 1:,}"
        message = f"is truncated {place}; copy the whole file, or export it again and let it finish"
        return InputError(Mistake(message, file=file))
    message = f"is not JSON: {error.msg}; expected {what}"
    return InputError(Mistake(message, file=file, line=error.lineno, column=error.colno))


def _wrong(path: Path, message: str, got: str | None = None, allowed: str | None = None) -> InputError:
    return InputError(Mistake(message, file=str(path), got=got, allowed=allowed))
