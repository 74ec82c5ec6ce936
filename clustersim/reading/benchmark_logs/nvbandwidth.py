"""Reads the output of nvbandwidth, as text or with `-j`: copies between host memory and GPUs, and between GPUs.

Unidirectional copies are used, by copy engines where they were measured, otherwise by kernels. Left out, because they
do not correspond to messages of a transport: bidirectional copies, copies of all GPUs at once, and latencies of single
loads. Format: NVIDIA/nvbandwidth 0.1 to 0.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clustersim.reading.benchmark_logs.matrix import Cell, read_matrix
from clustersim.reading.benchmark_logs.measurement import HOST, BenchmarkLog, CopyTime, Text

COPY_BYTES = 512 * 2.0**20
"""The default size of a copy (--bufferSize), which the output does not contain."""

_USED = re.compile(r"(host_to_device_memcpy|device_to_host_memcpy|device_to_device_memcpy_(?:read|write))_(ce|sm)")
_RUNNING = re.compile(r"\s*Running (\w+)\.")

Test = tuple[str, str, list[Cell]]
"""Name, description (with the arrow), and cells."""


def is_nvbandwidth(text: Text) -> bool:
    """Say whether a log is from nvbandwidth."""
    return any(line.text.startswith("nvbandwidth Version") or _RUNNING.match(line.text) for line in text.lines)


def is_nvbandwidth_json(document: Mapping[str, Any]) -> bool:
    """Say whether a JSON document is from nvbandwidth."""
    return "nvbandwidth" in document


def read_nvbandwidth(text: Text) -> BenchmarkLog:
    """Return the copies of a log of nvbandwidth."""
    return _log(text, list(_tests(text)))


def read_nvbandwidth_json(text: Text, document: Mapping[str, Any]) -> BenchmarkLog:
    """Return the copies of a document of nvbandwidth."""
    try:
        tests = [_json_test(test) for test in document["nvbandwidth"]["testcases"] if test["status"] == "Passed"]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        message = f"this is not a complete document of nvbandwidth: {type(error).__name__}: {str(error)[:200]}"
        raise text.mistake(None, message, allowed="the output of nvbandwidth with -j") from None
    return _log(text, tests)


def _tests(text: Text) -> Iterator[Test]:
    name = ""
    for index, line in enumerate(text.lines):
        running = _RUNNING.match(line.text)
        name = running[1] if running else name
        if "(row)" in line.text and name:
            if index + 1 >= len(text.lines):
                raise text.mistake(line.number, "no matrix follows this title: the log is truncated", name)
            num_rows = 1 if "CPU(row)" in line.text else None
            yield name, line.text, read_matrix(text, index + 1, num_rows) if _USED.fullmatch(name) else []
            name = ""


def _json_test(test: Mapping[str, Any]) -> Test:
    matrix = test.get("bandwidth_matrix", []) if _USED.fullmatch(test["name"]) else []
    cells = [
        Cell(row, column, float(value), 1)
        for row, values in enumerate(matrix)
        for column, value in enumerate(values)
        if value != "N/A"
    ]
    return test["name"], str(test.get("bandwidth_description", "")), cells


def _log(text: Text, tests: list[Test]) -> BenchmarkLog:
    engines = {match[1] for name, _, _ in tests if (match := _USED.fullmatch(name)) and match[2] == "ce"}
    copies, unused = [], []
    for name, description, cells in tests:
        match = _USED.fullmatch(name)
        if match is None or (match[2] == "sm" and match[1] in engines):
            unused.append(name)
        else:
            copies += [_copy(text, name, description, cell) for cell in cells if _is_pair(name, cell)]
    if not copies:
        raise text.mistake(
            text.lines[-1].number,
            "no test of this log measures unidirectional copies",
            allowed="such as host_to_device_memcpy_ce",
        )
    notes = [f"copies are assumed to be of 512 MiB, nvbandwidth's default; not used: {', '.join(unused) or 'nothing'}"]
    return BenchmarkLog(text.file, "nvbandwidth", tuple(copies), tuple(notes))


def _is_pair(name: str, cell: Cell) -> bool:
    return not name.startswith("device_to_device") or cell.row != cell.column


def _copy(text: Text, name: str, description: str, cell: Cell) -> CopyTime:
    if not 0 < cell.value < float("inf"):
        raise text.mistake(
            cell.line, f"a rate must be above 0 (got {cell.value} in {name})", str(cell.value), "above 0"
        )
    row: int | str = HOST if "CPU(row)" in description else cell.row
    ends = (cell.column, row) if "<-" in description else (row, cell.column)
    return CopyTime(COPY_BYTES, COPY_BYTES / (1e9 * cell.value), cell.line, ends)
