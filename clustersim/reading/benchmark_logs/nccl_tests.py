"""Reads the output of nccl-tests (and rccl-tests): `all_reduce_perf` and similar programs.

Columns are identified by the names in the heading, since versions differ. Times are those of the first half, out of
place. Format: NVIDIA/nccl-tests, src/common.cu and src/util.cu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from clustersim.reading.benchmark_logs.measurement import BenchmarkLog, CollectiveTime, Line, Text

OPERATIONS = {
    "all_gather": "all-gather",
    "all_reduce": "all-reduce",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "gather": "gather",
    "reduce": "reduce",
    "reduce_scatter": "reduce-scatter",
    "scatter": "scatter",
    "sendrecv": "send-recv",
}
"""Names of the programs, without `_perf`, and of clustersim's collectives."""

_HEADING = re.compile(r"#\s+size\s+count\s+type\b")
_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\b")
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(.*?)\s*device\s+\d+")
_PROGRAM = re.compile(r"([a-z_]+)_perf\b")


@dataclass
class _Run:
    """One run of one program: a log may have several in sequence."""

    program: str | None = None
    hosts: dict[int, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    rows: list[Line] = field(default_factory=list)
    is_whole: bool = False


def is_nccl_tests(text: Text) -> bool:
    """Say whether a log is from nccl-tests: it has their column heading."""
    return any(_HEADING.match(line.text) or line.text.startswith("# nThread ") for line in text.lines)


def read_nccl_tests(text: Text) -> BenchmarkLog:
    """Return the collectives of a log of nccl-tests."""
    runs = list(_runs(text))
    found = [row for run in runs for row in _collectives(text, run)]
    if not found:
        raise text.mistake(
            text.lines[-1].number, "this log of nccl-tests has no result; it is truncated, or the run failed"
        )
    notes = []
    if not runs[-1].is_whole:
        notes.append("the log has no '# Avg bus bandwidth' at its end: it may be truncated; complete lines are used")
    return BenchmarkLog(text.file, "nccl-tests", tuple(found), tuple(notes))


def operation(text: Text, program: str | None, line: int) -> str:
    """Return the collective that a program measures, by its name in the log or otherwise in the file's."""
    named = program or next(iter(_PROGRAM.findall(text.file)), None)
    if named in OPERATIONS:
        return OPERATIONS[named]
    known = ", ".join(f"{name}_perf" for name in OPERATIONS)
    what = (
        "the log does not name its collective" if named is None else f"{named}_perf does not measure a known collective"
    )
    message = f"{what}; keep the line '# Collective test starting: ...', or name the file after the program ({known})"
    raise text.mistake(line, message, named, known)


def _runs(text: Text) -> Iterator[_Run]:
    """Yield the runs of a log; one begins with its program's name or its `nThread` line, whichever is first."""
    run = _Run()
    for line in text.lines:
        starts = "Collective test starting" in line.text or (line.text.startswith("# nThread") and run.columns)
        if starts and run.rows:
            yield run
            run = _Run()
        named = _PROGRAM.search(line.text)
        if named and not run.columns:
            run.program = named[1]
        rank = _RANK.match(line.text)
        if rank:
            if rank[2] not in (None, "0"):
                message = "several groups of ranks at once cannot be compared; give a log of one communicator"
                raise text.mistake(line.number, message, f"group {rank[2]}", "group 0")
            run.hosts[int(rank[1])] = rank[3]
        elif _HEADING.match(line.text):
            run.columns = line.text.split()[1:]
        elif run.columns and _ROW.match(line.text):
            run.rows.append(line)
        run.is_whole |= "Avg bus bandwidth" in line.text
    yield run


def _collectives(text: Text, run: _Run) -> Iterator[CollectiveTime]:
    if not run.rows:
        return
    if "time" not in run.columns:
        message = "there is no column 'time'; times of the CPU (-C 1) are not those of the collective"
        raise text.mistake(run.rows[0].number, message, " ".join(run.columns), "a column 'time'")
    op = operation(text, run.program, run.rows[0].number)
    size, time, wrong = (
        run.columns.index(name) if name in run.columns else None for name in ("size", "time", "#wrong")
    )
    most = len(run.columns) + ("timestamp" in run.columns)  # a timestamp is a date and a time
    for line in run.rows:
        tokens = line.text.split()
        if not len(run.columns) <= len(tokens) <= most:
            message = f"{len(tokens)} values under {len(run.columns)} columns: the line is truncated, or two are mixed"
            raise text.mistake(line.number, message, str(len(tokens)), str(len(run.columns)))
        if wrong is not None and tokens[wrong] not in ("0", "N/A"):
            message = f"nccl-tests found {tokens[wrong]} wrong values here; an invalid run cannot be used for fitting"
            raise text.mistake(line.number, message, tokens[wrong], "0")
        if tokens[size or 0] != "0":
            seconds = 1e-6 * text.number(line, tokens[time or 0], "a time in us")
            num_hosts = len(set(run.hosts.values())) or None
            num_bytes = float(tokens[size or 0])
            yield CollectiveTime(op, num_bytes, seconds, line.number, len(run.hosts) or None, num_hosts)
