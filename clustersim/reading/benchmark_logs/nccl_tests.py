"""Reads the output of nccl-tests (and rccl-tests): `all_reduce_perf` and similar programs.

Columns are identified by the names in the heading, since versions differ. Times are those of the first half, out of
place. Format: NVIDIA/nccl-tests, src/common.cu and src/util.cu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clustersim.reading.benchmark_logs.measurement import BenchmarkLog, CollectiveTime, Line, Text
from clustersim.reading.benchmark_logs.nccl_tables import (
    ALONE,
    HEADING,
    ROW,
    Table,
    bare_columns,
    tables,
    without_repeats,
)
from clustersim.reading.benchmark_logs.operations import check_collective, operation

NCCL_TESTS = "nccl-tests"

_DEVICE = re.compile(r"#\s*Rank\s+\d+\b.* device\s+\d+ \[[0-9a-fA-Fx:.]+\]\s+(\S.*?)\s*$")
"""The line of a rank in the heading; its end is the name of its GPU."""

ONE_RANK = f"each communicator has one rank, so that nothing is sent between GPUs; where several were started: {ALONE}"


def is_nccl_tests(text: Text) -> bool:
    """Say whether a log is from nccl-tests: it has their column heading."""
    return any(HEADING.match(line.text) or line.text.lstrip().startswith("# nThread ") for line in text.lines)


def has_bare_table(text: Text) -> bool:
    """Say whether a text has rows of nccl-tests without their heading."""
    return any(bare_columns(line.text.split()) for line in text.lines if ROW.match(line.text))


def read_nccl_tests(text: Text) -> BenchmarkLog:
    """Return the collectives of a log of nccl-tests."""
    notes: list[str] = []
    found = list(tables(text, notes))
    kept = without_repeats([table for table in found if table.rows], notes)
    if not kept:
        raise text.mistake(
            text.lines[-1].number, "this log of nccl-tests has no result; it is truncated, or the run failed"
        )
    used = [table for table in kept if table.num_ranks != 1]
    if not used:
        raise text.mistake(kept[0].rows[0].number, ONE_RANK, "1 rank", "2 ranks or more")
    if len(used) < len(kept):
        notes.append(f"{len(kept) - len(used)} of {len(kept)} tables are not used: {ONE_RANK}")
    rows = [row for table in used for row in _collectives(text, table)]
    if not found[-1].is_whole:
        notes.append("the log has no '# Avg bus bandwidth' at its end: it may be truncated; complete lines are used")
    notes += _of_the_same(used, rows)
    named = (device[1] for line in text.lines if (device := _DEVICE.match(line.text.lstrip())))
    return BenchmarkLog(text.file, NCCL_TESTS, tuple(rows), tuple(notes), tuple(dict.fromkeys(named)))


def _of_the_same(used: list[Table], rows: list[CollectiveTime]) -> list[str]:
    """Return a note where several tables have figures of one collective at one size."""
    counts: dict[tuple[str, float, int | None], int] = {}
    for row in rows:
        key = (row.op, row.num_bytes, row.num_ranks)
        counts[key] = counts.get(key, 0) + 1
    repeated = {key: count for key, count in counts.items() if count > 1}
    if len(used) < 2 or not repeated:
        return []
    ops = ", ".join(sorted({op for op, _, _ in repeated}))
    most = max(repeated.values())
    return [f"{len(used)} tables: {ops} has up to {most} figures at one size and number of ranks; all of them are used"]


def _collectives(text: Text, table: Table) -> Iterator[CollectiveTime]:
    first = table.rows[0]
    if "time" not in table.columns:
        message = "there is no column 'time'; times of the CPU (-C 1) are not those of the collective"
        raise text.mistake(first.number, message, " ".join(table.columns), "a column 'time'")
    size, time = table.columns.index("size"), table.columns.index("time")
    rows = [(line, _tokens(text, table, line)) for line in table.rows]
    op = operation(text, table.program, first.number)
    check_collective(text, table, op, [(line.number, tokens) for line, tokens in rows])
    for line, tokens in rows:
        num_bytes = _size(text, line, tokens[size])
        if num_bytes:
            seconds = 1e-6 * text.number(line, tokens[time], "a time in us")
            yield CollectiveTime(op, num_bytes, seconds, line.number, table.num_ranks, table.num_hosts)


def _tokens(text: Text, table: Table, line: Line) -> list[str]:
    """Return the values of a row, as many as there are columns; refuse wrong results."""
    tokens = line.text.split()
    most = len(table.columns) + ("timestamp" in table.columns)  # a timestamp is a date and a time
    if not len(table.columns) <= len(tokens) <= most:
        message = f"{len(tokens)} values under {len(table.columns)} columns: the line is truncated, or two are mixed"
        raise text.mistake(line.number, message, str(len(tokens)), str(len(table.columns)))
    wrong = tokens[table.columns.index("#wrong")] if "#wrong" in table.columns else "0"
    if wrong not in ("0", "N/A"):
        message = f"nccl-tests found {wrong} wrong values here; an invalid run cannot be used for fitting"
        raise text.mistake(line.number, message, wrong, "0")
    return tokens


def _size(text: Text, line: Line, token: str) -> float:
    """Return a size in bytes; 0 is one."""
    return 0.0 if token.strip("0") == "" else text.number(line, token, "a size in bytes")
