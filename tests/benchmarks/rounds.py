"""Rounds of measurements: ours and SimGrid's in turn, since a machine is not equally fast all day."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .child import Child, run_child
from .simgrid.programs import PeerRun, run_program, why_missing
from .table import Work

PLAY = (sys.executable, "-m", "tests.benchmarks.play")


@dataclass
class Ours:
    """Our measurements of one work, one of each a round. CPU seconds, bytes.

    `run_s` is of a process in which the work was played before; `cold_run_s`, `whole_s` and `memory_bytes`
    are of one in which it was not.
    """

    num_messages: int = 0
    run_s: list[float] = field(default_factory=list)
    cold_run_s: list[float] = field(default_factory=list)
    imports_s: list[float] = field(default_factory=list)
    setup_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)


@dataclass
class Peer:
    """SimGrid's measurements of one work with one solver: CPU seconds, bytes, and how far our ends are from its."""

    run_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    difference: float = 0.0


@dataclass
class Row:
    """All measurements of one work. Lists of a peer may be shorter than ours: not every round has every peer."""

    work: Work
    ours: Ours = field(default_factory=Ours)
    peers: dict[str, Peer] = field(default_factory=dict)


class Ratio:
    """How many times as long as we somebody took: round by round, median and spread."""

    def __init__(self, theirs: Sequence[float], ours: Sequence[float]):
        self.rounds = [one / other for one, other in zip(theirs, ours, strict=False)]
        if len(self.rounds) == 1:
            self.rounds = [theirs[0] / statistics.median(ours)]

    def __str__(self) -> str:
        middle = f"{statistics.median(self.rounds):.3g}"
        if len(self.rounds) == 1:
            return f"{middle} (1 run)"
        return f"{middle} ({min(self.rounds):.3g} to {max(self.rounds):.3g})"


def measure(name: str, work: Work, rounds: int, small: bool = False, say: Callable[[str], None] = print) -> Row:
    """Measure one work in so many rounds; each measurement is a process of its own."""
    row = Row(work)
    wanted = {"Lazy": work.lazy_rounds, "Full": work.full_rounds} if why_missing() is None else {}
    row.peers = {solver: Peer() for solver, most in wanted.items() if most}
    play = [*PLAY, name, *(["--small"] if small else [])]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        inputs = json.loads(run_child([*play, "--inputs", str(folder)]).stdout) if row.peers else {}
        for number in range(rounds):
            say(f"{work.spec}: round {number + 1} of {rounds}")
            ends_s = _measure_ours(play, folder / "ends", row.ours)
            for solver, peer in row.peers.items():
                if number < wanted[solver]:
                    told = run_program(inputs["program"], inputs["inputs"], solver)
                    _note_peer(peer, told, ends_s)
    return row


def _measure_ours(play: list[str], ends: Path, ours: Ours) -> list[float]:
    """Measure ourselves cold and warm; return when each rank or message ended."""
    cold = run_child(play)
    warm = _told(run_child([*play, "--warm", "--ends", str(ends)]))
    told = _told(cold)
    ours.num_messages = told["num_messages"]
    ours.run_s.append(warm["run_cpu_s"])
    ours.cold_run_s.append(told["run_cpu_s"])
    ours.imports_s.append(told["imports_cpu_s"])
    ours.setup_s.append(told["setup_cpu_s"])
    ours.whole_s.append(cold.cpu_s)
    ours.memory_bytes.append(cold.max_rss_bytes)
    return [float(line) for line in ends.read_text().split()]


def _told(child: Child) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(child.stdout)
    return told


def _note_peer(peer: Peer, told: PeerRun, ends_s: list[float]) -> None:
    peer.run_s.append(told.run_cpu_s)
    peer.whole_s.append(told.cpu_s)
    peer.memory_bytes.append(told.max_rss_bytes)
    pairs = zip(ends_s, told.end_s, strict=True)
    peer.difference = max(peer.difference, *(abs(one / other - 1) for one, other in pairs))
