"""Measurements of a benchmark's log, independent of the tool: seconds of collectives and of copies."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.errors import InputError, Mistake

HOST = "host"
"""The end of a copy that is host memory; other ends are GPU numbers of the host."""


@dataclass(frozen=True)
class CollectiveTime:
    """One collective as nccl-tests counts it: `num_bytes` is the whole buffer, `time_s` the mean of one call.

    `num_ranks` and `num_hosts` are None where the log does not give them. `buffers` is the location of the data: `gpu`
    or `host`. `is_per_rank` where `num_bytes` counts one rank's part, as in OSU: the buffer is `num_ranks` times that.
    """

    op: str
    num_bytes: float
    time_s: float
    line: int
    num_ranks: int | None = None
    num_hosts: int | None = None
    buffers: str = "gpu"
    is_per_rank: bool = False


@dataclass(frozen=True)
class CopyTime:
    """`num_messages` of `num_bytes` each, sent at once from one place to another, and when the last has arrived.

    `ends` are GPU numbers or `HOST`; None for the two ranks of a run that does not identify them.
    """

    num_bytes: float
    time_s: float
    line: int
    ends: tuple[int | str, int | str] | None = None
    num_messages: int = 1
    buffers: str = "gpu"


@dataclass(frozen=True)
class BenchmarkLog:
    """The content of a log: its tool, its figures, and in `notes` omissions and assumptions.

    `gpus` are the names of the devices in it, each once; empty where it names none.
    """

    file: str
    tool: str
    measurements: tuple[CollectiveTime | CopyTime, ...]
    notes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of a log with its number from 1; `text` is without what the launcher put before it.

    `stream` is that prefix without times: lines of one process have the same.
    """

    number: int
    text: str
    stream: str = ""


@dataclass(frozen=True)
class Text:
    """A log as lines; `collective` is what tables measure that do not name it, as the user says."""

    file: str
    lines: tuple[Line, ...]
    collective: str | None = None

    def mistake(self, line: int | None, message: str, got: str | None = None, allowed: str | None = None) -> InputError:
        """Return the error about a line of the log."""
        return InputError(Mistake(message, file=self.file, line=line, got=got, allowed=allowed))

    def number(self, line: Line, token: str, what: str) -> float:
        """Return a token as a finite number above 0."""
        try:
            value = float(token)
        except ValueError:
            value = -1.0
        if 0 < value < float("inf"):
            return value
        message = f"expected {what}, a number above 0 (got '{token[:40]}'); is the log truncated, or are two mixed?"
        raise self.mistake(line.number, message, token[:40], "a number above 0")
