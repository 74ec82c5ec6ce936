"""Logs of communication benchmarks, measured by a user on the machine that is to be simulated.

Each reader converts one tool's output into seconds of collectives and of copies, and notes what it left out. It
simulates nothing and has no topology. The tool is recognised from the text of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from clustersim.errors import unknown_name
from clustersim.reading.benchmark_logs.measurement import HOST, BenchmarkLog, CollectiveTime, CopyTime, Text
from clustersim.reading.benchmark_logs.nccl_tests import NCCL_TESTS, has_bare_table, is_nccl_tests, read_nccl_tests
from clustersim.reading.benchmark_logs.nccl_tests_json import is_nccl_tests_json, read_nccl_tests_json
from clustersim.reading.benchmark_logs.nvbandwidth import (
    is_nvbandwidth,
    is_nvbandwidth_json,
    read_nvbandwidth,
    read_nvbandwidth_json,
)
from clustersim.reading.benchmark_logs.operations import OPERATIONS, collective_named
from clustersim.reading.benchmark_logs.osu import is_osu, read_osu
from clustersim.reading.benchmark_logs.p2p_test import is_p2p_test, read_p2p_test
from clustersim.reading.benchmark_logs.prefixes import without_prefixes
from clustersim.reading.files import decoded, read_text
from clustersim.reading.packed import parse_json, read_packed

__all__ = ["HOST", "READERS", "BenchmarkLog", "CollectiveTime", "CopyTime", "read_benchmark"]

_MOST_BYTES = 64 << 20
"""Logs with NCCL_DEBUG=INFO are long; anything larger is not a log."""


class Reader(NamedTuple):
    """One tool's output: how it is recognised, and how it is read."""

    is_own: Callable[[Text], bool]
    read: Callable[[Text], BenchmarkLog]


def read_benchmark(path: str | Path, collective: str | None = None) -> BenchmarkLog:
    """Return the measurements of a benchmark's log, from any of the known tools; it may be compressed.

    `collective` is what tables of nccl-tests measure that do not name it. An unknown file, one that is truncated inside
    a line and one of a failed run are errors with file and line.
    """
    named = None if collective is None else collective_named(collective)
    if collective is not None and named is None:
        raise unknown_name("collective of nccl-tests", collective, OPERATIONS.values())
    content = _content(Path(path))
    text = Text(str(path), without_prefixes(content.splitlines()), named)
    if not text.lines:
        raise text.mistake(None, "the file is empty", allowed=", ".join(READERS))
    if text.lines[0].text.lstrip().startswith("{"):
        return _json(text, content)
    for reader in READERS.values():
        if reader.is_own(text):
            return _with_note(reader.read(text), named)
    if has_bare_table(text):
        return _bare(text)
    raise text.mistake(
        1, f"this is not a log of a known benchmark (known: {', '.join(READERS)})", allowed=", ".join(READERS)
    )


def _content(path: Path) -> str:
    """Return the text of a log, unpacked where it is compressed."""
    if path.is_file() and path.suffix in (".gz", ".zip"):
        return decoded(read_packed(path, _MOST_BYTES), str(path))
    return read_text(path, _MOST_BYTES)


def _bare(text: Text) -> BenchmarkLog:
    if text.collective is None:
        known = ", ".join(OPERATIONS.values())
        message = "this is a table of nccl-tests without its heading; say what it measures with --collective NAME"
        raise text.mistake(text.lines[0].number, f"{message} ({known})", allowed=known)
    return read_nccl_tests(text)


def _with_note(log: BenchmarkLog, collective: str | None) -> BenchmarkLog:
    """Return a log with a note where the name of a collective was given and is not needed."""
    if collective is None or log.tool == NCCL_TESTS:
        return log
    return replace(log, notes=(*log.notes, f"the collective that was given ({collective}) is not used: {log.tool}"))


def _json(text: Text, content: str) -> BenchmarkLog:
    document = parse_json(content.encode(), text.file, "a benchmark's JSON")
    if not isinstance(document, dict):
        raise text.mistake(1, "this JSON is not from a known benchmark", allowed="nccl-tests -J, nvbandwidth -j")
    if is_nvbandwidth_json(document):
        return _with_note(read_nvbandwidth_json(text, document), text.collective)
    if is_nccl_tests_json(document):
        return read_nccl_tests_json(text, document)
    raise text.mistake(1, "this JSON is not from a known benchmark", allowed="nccl-tests -J, nvbandwidth -j")


READERS = {
    NCCL_TESTS: Reader(is_nccl_tests, read_nccl_tests),
    "OSU micro-benchmarks": Reader(is_osu, read_osu),
    "nvbandwidth": Reader(is_nvbandwidth, read_nvbandwidth),
    "p2pBandwidthLatencyTest": Reader(is_p2p_test, read_p2p_test),
}
