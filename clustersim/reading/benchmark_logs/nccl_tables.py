"""Finds the tables in a log of nccl-tests: their columns, rows and ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from clustersim.reading.benchmark_logs.measurement import Line, Text

ALONE = (
    "processes of nccl-tests built without MPI run alone, each with ranks from 0 on; build them with `make MPI=1` for "
    "one communicator of all processes"
)

HEADING = re.compile(r"\s*#\s+size\s+count\s+type\b")
PROGRAM = re.compile(r"(?<![a-z_])([a-z_]+)_perf(?:_mpi)?\b")

ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*(?=\s|$)")
_RANK = re.compile(r"\s*#\s+Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(Pid\s+\d+)\s+on\s+(.*?)\s*device\s+\d+")
_SENDER = re.compile(r"(?:\[[^\]]*\]\s*)?(?:[A-Za-z]|^)[\w.-]*:\d+:\d+\s+\[-?\d+\]\s+$")
"""What a line of NCCL_DEBUG begins with: it may begin inside a row, since a row is printed in three pieces."""

_SENDER_CHARACTERS = 300
_ERROR = re.compile(r"0e\+00|\de-\d+")  # the last column until 2022: a rounding error, not a number of wrong values
_RATE_TOLERANCE = 0.02  # of a rate, and in GB/s: it is printed with two decimals

_FIGURES = re.compile(r"\s*(?:(?:-?\d[\d.]*(?:e[+-]?\d+)?|N/A|inf|nan)(?:\s+|$))+")


@dataclass
class Table:
    """One table of figures, with what its program said before it."""

    program: str | None = None
    ranks: dict[int, tuple[str, str]] = field(default_factory=dict)  # host and process
    columns: list[str] = field(default_factory=list)
    rows: list[Line] = field(default_factory=list)
    is_whole: bool = False

    @property
    def num_ranks(self) -> int | None:
        """Number of ranks, None where the log does not say it."""
        return len(self.ranks) or None

    @property
    def num_hosts(self) -> int | None:
        """Number of hosts, None where the log does not say it."""
        return len({host for host, _ in self.ranks.values()}) or None


def tables(text: Text, notes: list[str]) -> Iterator[Table]:
    """Yield the tables of a log in sequence, those of each process apart; add notes on lines that are left out."""
    for lines in _streams(text.lines):
        yield from _tables(text, _joined(lines, notes))


def bare_columns(tokens: Sequence[str]) -> list[str]:
    """Return the columns of a row that has no heading; none where the rate is not that of the size and the time.

    >>> bare_columns("1000000 250000 float sum -1 500.0 2.00 3.50 0 500.0 2.00 3.50 0".split())[:6]
    ['size', 'count', 'type', 'redop', 'root', 'time']
    """
    if len(tokens) < 6:
        return []
    names = ["size", "count", "type"]
    names += ["redop"] if tokens[3].isalpha() else []
    half = ["time", "algbw", "busbw", "error" if _ERROR.fullmatch(tokens[-1]) else "#wrong"]
    num_figures = len(tokens) - len(names)
    if num_figures in (5, 7, 9) or tokens[len(names) : len(names) + 1] == ["-1"]:
        names.append("root")
        num_figures -= 1
    if num_figures not in (3, 4, 6, 8):
        return []
    names += half[:num_figures] if num_figures < 6 else 2 * half[: num_figures // 2]
    try:
        num_bytes, time_us, rate = (float(tokens[names.index(name)]) for name in ("size", "time", "algbw"))
    except ValueError:
        return []
    is_rate = time_us > 0 and abs(1e-3 * num_bytes / time_us - rate) <= _RATE_TOLERANCE * (1 + rate)
    return names if is_rate else []


def without_repeats(found: Sequence[Table], notes: list[str]) -> list[Table]:
    """Return each table, and each row of one, once: logs of several ranks, and of tee, repeat them."""
    kept: list[Table] = []
    num_rows = 0
    seen = set()
    for table in found:
        rows = {tuple(line.text.split()): line for line in reversed(table.rows)}
        own = [line for line in table.rows if rows[tuple(line.text.split())] is line]
        num_rows += len(table.rows) - len(own)
        key = (table.program, tuple(sorted(table.ranks.items())), tuple(map(str.strip, (line.text for line in own))))
        if key not in seen:
            kept.append(replace(table, rows=own))
        seen.add(key)
    if len(kept) < len(found):
        notes.append(f"{len(found) - len(kept)} of {len(found)} tables repeat another one, figure by figure: used once")
    if num_rows:
        notes.append(f"{num_rows} lines repeat another one of their table: used once")
    return kept


def _streams(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Yield the lines of each process; of all together where a row is not of a process that printed a heading."""
    headed = dict.fromkeys(line.stream for line in lines if HEADING.match(line.text))
    if len(headed) < 2 or any(line.stream not in headed for line in lines if ROW.match(line.text)):
        yield lines
        return
    for stream in headed:
        yield [line for line in lines if line.stream == stream]


def _tables(text: Text, lines: Sequence[Line]) -> Iterator[Table]:
    """Yield the tables; one begins with its program's name, its `nThread` line or its heading, whichever is first."""
    table = Table()
    for line in lines:
        is_heading = HEADING.match(line.text) is not None
        program = _program(line)
        starts = is_heading or program is not None or line.text.lstrip().startswith("# nThread")
        if starts and table.rows:
            yield table
            table = Table(table.program, dict(table.ranks)) if is_heading else Table()
        if program is not None and not table.columns:
            table.program = program
        if "Collective test concluded" in line.text and (named := PROGRAM.search(line.text)):
            table.program = table.program or named[1]
        if starts and not is_heading:
            table.ranks = {}
        _read_rank(text, line, table)
        if is_heading:
            table.columns = line.text.split()[1:]
        elif ROW.match(line.text):
            table.columns = table.columns or bare_columns(line.text.split())
            table.rows += [line] if table.columns else []
        table.is_whole |= "Avg bus bandwidth" in line.text
    yield table


def _program(line: Line) -> str | None:
    """Return the program that a line names, unless NCCL says it or the test is over."""
    if "_perf" not in line.text or "concluded" in line.text or _own(line.text) != line.text:
        return None
    named = PROGRAM.search(line.text)
    return named[1] if named else None


def _read_rank(text: Text, line: Line, table: Table) -> None:
    rank = _RANK.match(line.text)
    if rank is None:
        return
    if rank[2] not in (None, "0"):
        message = "several groups of ranks at once cannot be compared; give a log of one communicator"
        raise text.mistake(line.number, message, f"group {rank[2]}", "group 0")
    number, process = int(rank[1]), (rank[4], rank[3])
    if table.ranks.get(number, process) != process:
        message = f"rank {number} stands twice: {ALONE}"
        raise text.mistake(line.number, message, f"{process[1]} on {process[0]}", f"one process for rank {number}")
    table.ranks[number] = process


def _joined(lines: Sequence[Line], notes: list[str]) -> list[Line]:
    """Return the lines with rows whole again that messages of NCCL cut into pieces, without a last row that is cut."""
    joined: list[Line] = []
    num_columns = 0
    is_open = False
    for line in lines:
        if HEADING.match(line.text):
            num_columns = len(line.text.split()) - 1
        own = _own(line.text)
        if not own.strip():
            continue
        if ROW.match(own):
            joined.append(replace(line, text=own))
        elif is_open and _FIGURES.fullmatch(own):
            joined[-1] = replace(joined[-1], text=f"{joined[-1].text.rstrip()} {own.strip()}")
        else:
            joined.append(line)
        is_open = bool(joined) and _is_short(joined[-1], num_columns)
    if is_open and lines[-1].number == joined[-1].number:
        notes.append(f"line {joined[-1].number} is cut off at the end of the log: it is not used")
        joined.pop()
    return joined


def _own(text: str) -> str:
    """Return a line up to a message of NCCL that begins in it."""
    at = text.find("NCCL ")
    if at < 0:
        return text
    first = max(at - _SENDER_CHARACTERS, 0)
    sender = _SENDER.search(text[first:at])
    return text if sender is None else text[: first + sender.start()]


def _is_short(line: Line, num_columns: int) -> bool:
    return ROW.match(line.text) is not None and len(line.text.split()) < num_columns
