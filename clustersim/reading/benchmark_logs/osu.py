"""Reads the output of the OSU micro-benchmarks: osu_latency, osu_bw, osu_allreduce and other collectives.

Format: OSU Micro-Benchmarks 3 to 7, c/util/osu_util_mpi.c. MB are 1e6 bytes. The first figure of a line is the mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clustersim.reading.benchmark_logs.measurement import BenchmarkLog, CollectiveTime, CopyTime, Line, Text

WINDOW = 64
"""Messages in flight at once in osu_bw, unless set with -W, which it does not print."""

LEAST_BYTES_OF_A_RATE = 64 * 1024
"""Below, osu_bw measures the message issue rate, for which transports have no constant."""

_PER_RANK = ("all-gather", "all-to-all")  # whose sizes OSU counts for one rank

_COLLECTIVES = {
    "Allgather": "all-gather",
    "Allreduce": "all-reduce",
    "All-to-All Personalized Exchange": "all-to-all",
    "Alltoall": "all-to-all",
    "Broadcast": "broadcast",
    "Bcast": "broadcast",
    "Reduce": "reduce",
}

_TITLE = re.compile(r"#\s*OSU (MPI(?:-\w+)?) (.+?) Test\b")


def is_osu(text: Text) -> bool:
    """Say whether a log is from an OSU micro-benchmark."""
    return any(_TITLE.match(line.text) for line in text.lines)


def read_osu(text: Text) -> BenchmarkLog:
    """Return the figures of a log of OSU micro-benchmarks; it may have several runs in sequence."""
    found: list[CollectiveTime | CopyTime] = []
    notes: dict[str, None] = {}
    for title, lines in _runs(text):
        found += _run(text, title, lines, notes)
    if not found:
        raise text.mistake(
            text.lines[-1].number, "no figure of this log can be used: " + "; ".join(notes or ["it has none"])
        )
    return BenchmarkLog(text.file, "OSU micro-benchmarks", tuple(found), tuple(notes))


def _runs(text: Text) -> Iterator[tuple[re.Match[str], list[Line]]]:
    title: re.Match[str] | None = None
    lines: list[Line] = []
    for line in text.lines:
        match = _TITLE.match(line.text)
        if match:
            if title is not None:
                yield title, lines
            title, lines = match, []
        elif title is not None:
            lines.append(line)
    if title is not None:
        yield title, lines


def _run(
    text: Text, title: re.Match[str], lines: list[Line], notes: dict[str, None]
) -> Iterator[CollectiveTime | CopyTime]:
    name = title[2].removesuffix(" Latency")
    op = _COLLECTIVES.get(name)
    if op is None and title[2] not in ("Latency", "Bandwidth"):
        notes[f"'OSU {title[2]} Test' is not used"] = None
        return
    unit = "MB/s" if title[2] == "Bandwidth" else "us"
    buffers = _buffers(title[1], lines, notes)
    for line, size, value in _rows(text, lines, unit):
        if op is not None:
            if size:
                yield CollectiveTime(op, size, 1e-6 * value, line.number, buffers=buffers, is_per_rank=op in _PER_RANK)
        elif unit == "us":
            yield CopyTime(size, 1e-6 * value, line.number, buffers=buffers)
        elif size >= LEAST_BYTES_OF_A_RATE:
            yield CopyTime(size, WINDOW * size / (1e6 * value), line.number, num_messages=WINDOW, buffers=buffers)
        else:
            notes["rates of messages below 64 KiB are not used: they measure the issue rate of messages"] = None


def _buffers(library: str, lines: list[Line], notes: dict[str, None]) -> str:
    """Return the location of the buffers; version 7 does not print it, so a build with CUDA is assumed to use GPUs."""
    for line in lines:
        if "Send Buffer on" in line.text:
            return "gpu" if "DEVICE" in line.text or "MANAGED" in line.text else "host"
    if library == "MPI":
        return "host"
    notes[f"the log does not say where buffers are; with {library} they are assumed to be in GPU memory (D D)"] = None
    return "gpu"


def _rows(text: Text, lines: list[Line], unit: str) -> Iterator[tuple[Line, float, float]]:
    """Yield line, size in bytes and figure of each line under the column heading."""
    is_open = False
    for line in lines:
        if re.match(r"#\s*Size\b", line.text):
            first = re.search(r"\((us|MB/s)\)", line.text)
            if first is None or first[1] != unit:
                message = f"expected a column in ({unit}) after 'Size' (got '{line.text.strip()[:60]}')"
                raise text.mistake(line.number, message, line.text.strip()[:60], f"({unit})")
            is_open = True
        elif is_open and re.match(r"\s*\d+(\s|$)", line.text):
            tokens = line.text.split()
            if len(tokens) < 2:
                raise text.mistake(
                    line.number, "a size without a figure: the log is truncated", tokens[0], f"a value in {unit}"
                )
            if "Fail" in tokens:
                raise text.mistake(
                    line.number, "OSU's own check failed here; an invalid run cannot be used for fitting", "Fail"
                )
            yield line, float(tokens[0]), text.number(line, tokens[1], f"a value in {unit}")
