"""Logs of communication benchmarks, measured by a user on the machine that is to be simulated.

Each reader converts one tool's output into seconds of collectives and of copies, and notes what it left out. It
simulates nothing and has no topology. The tool is recognised from the text of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from clustersim.reading.benchmark_logs.measurement import HOST, BenchmarkLog, CollectiveTime, CopyTime, Line, Text
from clustersim.reading.benchmark_logs.nccl_tests import is_nccl_tests, read_nccl_tests
from clustersim.reading.benchmark_logs.nccl_tests_json import is_nccl_tests_json, read_nccl_tests_json
from clustersim.reading.benchmark_logs.nvbandwidth import (
    is_nvbandwidth,
    is_nvbandwidth_json,
    read_nvbandwidth,
    read_nvbandwidth_json,
)
from clustersim.reading.benchmark_logs.osu import is_osu, read_osu
from clustersim.reading.benchmark_logs.p2p_test import is_p2p_test, read_p2p_test
from clustersim.reading.files import read_text

__all__ = ["HOST", "READERS", "BenchmarkLog", "CollectiveTime", "CopyTime", "read_benchmark"]

_MOST_BYTES = 64 << 20
"""Logs with NCCL_DEBUG=INFO are long; anything larger is not a log."""

_BEFORE = re.compile(r"\[\d+,\d+\]<std(?:out|err)>: ?|\d+: ")
"""Prefix of each line with mpirun --tag-output and srun --label."""


class Reader(NamedTuple):
    """One tool's output: how it is recognised, and how it is read."""

    is_own: Callable[[Text], bool]
    read: Callable[[Text], BenchmarkLog]


def read_benchmark(path: str | Path) -> BenchmarkLog:
    """Return the measurements of a benchmark's log, from any of the known tools.

    An unknown file, one that is truncated inside a line and one of a failed run are errors with file and line.
    """
    content = read_text(Path(path), _MOST_BYTES)
    lines = (Line(number, _BEFORE.sub("", line, count=1) if _BEFORE.match(line) else line)
             for number, line in enumerate(content.splitlines(), start=1))  # fmt: skip
    text = Text(str(path), tuple(line for line in lines if line.text.strip()))
    if not text.lines:
        raise text.mistake(None, "the file is empty", allowed=", ".join(READERS))
    if text.lines[0].text.lstrip().startswith("{"):
        return _json(text, content)
    for reader in READERS.values():
        if reader.is_own(text):
            return reader.read(text)
    raise text.mistake(
        1, f"this is not a log of a known benchmark (known: {', '.join(READERS)})", allowed=", ".join(READERS)
    )


def _json(text: Text, content: str) -> BenchmarkLog:
    try:
        document = json.loads(content)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise text.mistake(line, f"this JSON is truncated or damaged: {getattr(error, 'msg', error)}") from None
    if is_nvbandwidth_json(document):
        return read_nvbandwidth_json(text, document)
    if is_nccl_tests_json(document):
        return read_nccl_tests_json(text, document)
    raise text.mistake(1, "this JSON is not from a known benchmark", allowed="nccl-tests -J, nvbandwidth -j")


READERS = {
    "nccl-tests": Reader(is_nccl_tests, read_nccl_tests),
    "OSU micro-benchmarks": Reader(is_osu, read_osu),
    "nvbandwidth": Reader(is_nvbandwidth, read_nvbandwidth),
    "p2pBandwidthLatencyTest": Reader(is_p2p_test, read_p2p_test),
}
