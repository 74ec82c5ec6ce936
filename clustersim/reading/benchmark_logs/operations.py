"""Which collective a table of nccl-tests measures, and whether its figures can be that."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clustersim.reading.benchmark_logs.measurement import Text
from clustersim.reading.benchmark_logs.nccl_tables import PROGRAM, Table

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

_REDUCING = ("all-reduce", "reduce", "reduce-scatter")
_WITHOUT_REDOP = ("all-gather", "all-to-all", "broadcast", "gather", "scatter")
_OF_ALL_BUT_ONE = ("all-gather", "all-to-all", "gather", "reduce-scatter", "scatter")
_TOLERANCE = 0.02  # of the bus bandwidth, and in GB/s: it is printed with two decimals
_NOT_A_NAME = re.compile(r"[^a-z]+")


def collective_named(name: str) -> str | None:
    """Return the collective of a name as users write it, None for an unknown one.

    >>> collective_named("all_reduce_perf"), collective_named("ReduceScatter"), collective_named("sum")
    ('all-reduce', 'reduce-scatter', None)
    """
    short = _NOT_A_NAME.sub("", name.lower().removesuffix("_perf"))
    return {_NOT_A_NAME.sub("", op): op for op in OPERATIONS.values()}.get(short)


def operation(text: Text, program: str | None, line: int) -> str:
    """Return the collective of a program: by its name in the log, as the user says, or by the file's name."""
    named = program or (None if text.collective else next(iter(PROGRAM.findall(text.file)), None))
    if named in OPERATIONS:
        return OPERATIONS[named]
    if named is None and text.collective is not None:
        return text.collective
    known = ", ".join(f"{name}_perf" for name in OPERATIONS)
    what = (
        "the log does not name its collective" if named is None else f"{named}_perf does not measure a known collective"
    )
    message = (
        f"{what}; give it with --collective NAME, keep the line '# Collective test starting: ...', or name the file "
        f"after the program ({known})"
    )
    raise text.mistake(line, message, named, known)


def check_collective(text: Text, table: Table, op: str, rows: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Refuse a table whose columns another collective has: its reduction, its root, its bus bandwidth."""
    for number, tokens in rows:
        redop = _value(table, tokens, "redop")
        root = _value(table, tokens, "root")
        if op in _REDUCING and redop == "none":
            _refuse(text, number, op, "redop", redop)
        if op in _WITHOUT_REDOP and redop not in (None, "none"):
            _refuse(text, number, op, "redop", redop)
        if op in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all") and root not in (None, "-1"):
            _refuse(text, number, op, "root", root)
        if op in ("reduce", "broadcast") and root == "-1":
            _refuse(text, number, op, "root", root)
    _check_bandwidths(text, table, op, rows)


def _check_bandwidths(text: Text, table: Table, op: str, rows: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Refuse a table where most bus bandwidths are not what the collective makes of the rate of its size."""
    n = table.num_ranks
    if n is None or not {"algbw", "busbw"} <= set(table.columns):
        return
    share = 2 * (n - 1) / n if op == "all-reduce" else (n - 1) / n if op in _OF_ALL_BUT_ONE else 1.0
    unlike = []
    for number, tokens in rows:
        rate, bus = (_number(tokens[table.columns.index(name)]) for name in ("algbw", "busbw"))
        if rate is not None and bus is not None and abs(bus - share * rate) > _TOLERANCE * (1 + bus):
            unlike.append((number, bus, share * rate))
    if 2 * len(unlike) > len(rows):
        number, bus, expected = unlike[0]
        _refuse(text, number, op, "bus bandwidth", f"{bus:g} GB/s", f" of {n} ranks would have {expected:.2f} GB/s")


def _refuse(text: Text, line: int, op: str, what: str, got: str | None, more: str = " does not have") -> None:
    message = (
        f"the {what} is {got}, which {op}{more}: this table measures another collective; put each test into a file of "
        "its own and name the collective with --collective NAME"
    )
    raise text.mistake(line, message, got, f"the {what} of {op}")


def _value(table: Table, tokens: Sequence[str], column: str) -> str | None:
    return tokens[table.columns.index(column)] if column in table.columns else None


def _number(token: str) -> float | None:
    try:
        return float(token)
    except ValueError:
        return None
