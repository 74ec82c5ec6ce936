"""Flows that may have more, and what they get."""

from __future__ import annotations

from typing import Any

from clustersim.network.compiled.inner import tables
from clustersim.network.compiled.jit import part
from clustersim.network.compiled.tables import NONE


@part
def rise(wires: Any, who: int) -> None:
    """Let a flow rise in this share."""
    tables.flow(wires, who).mark = wires.rising
    tables.risen(wires)[wires.num_rising] = who
    wires.num_rising += 1
    wires.num_to_fix += 1


@part
def release(wires: Any, number: int) -> None:
    """Let the standing flows rise that a link has held back."""
    seat = tables.link(wires, number).first
    while seat != NONE:
        flow = tables.flow(wires, seat >> wires.seat_bits)
        if flow.bottleneck == number and flow.mark < wires.rising:
            rise(wires, seat >> wires.seat_bits)
        seat = tables.seat(wires, seat).next


@part
def let_go(wires: Any, who: int, narrowest: int) -> None:
    """Give a flow all that its narrowest link has."""
    tables.flow(wires, who).bottleneck = narrowest
    give(wires, who, tables.link(wires, narrowest).bytes_per_s)


@part
def give(wires: Any, who: int, bytes_per_s: float) -> None:
    """Give a flow a new rate; what it has moved at the old one is behind it."""
    flow = tables.flow(wires, who)
    left_bytes = flow.left_bytes - flow.bytes_per_s * (wires.now_s - flow.since_s)
    flow.left_bytes = left_bytes if left_bytes > 0 else 0.0  # rounding may take it below
    flow.since_s = wires.now_s
    flow.bytes_per_s = bytes_per_s
    tables.changed(wires)[wires.num_changed] = who
    wires.num_changed += 1
