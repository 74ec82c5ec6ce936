"""Flows that may get a higher rate, and what they get."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE, word


@part
def rise(state: Any, slot: int) -> None:
    """Let a flow rise in this share."""
    tables.flow(state, slot).mark = state.rising
    tables.risen(state)[state.num_rising] = slot
    state.num_rising += 1
    state.num_to_fix += 1


@part
def release(state: Any, number: int) -> None:
    """Let the standing flows rise that a link has held back."""
    rising, bits = state.rising, state.member_bits
    member = word(tables.link(state, number).first)
    while member != NONE:
        flow = tables.flow(state, member >> bits)
        if flow.bottleneck == number and flow.mark < rising:
            rise(state, member >> bits)
        member = word(tables.member(state, member).next)


@part
def give_all(state: Any, slot: int, narrowest: int) -> None:
    """Give a flow the whole rate of its narrowest link."""
    flow, bytes_per_s = tables.flow(state, slot), tables.link(state, narrowest).bytes_per_s
    flow.bottleneck = narrowest
    give(state, slot, bytes_per_s / flow.weight)
    flow.bytes_per_s = bytes_per_s


@part
def give(state: Any, slot: int, level: float) -> None:
    """Give a flow a new rate; what it has moved at the old one is subtracted."""
    flow = tables.flow(state, slot)
    left_bytes = flow.left_bytes - flow.bytes_per_s * (state.now_s - flow.since_s)
    flow.left_bytes = left_bytes if left_bytes > 0 else 0.0  # rounding may go below
    flow.since_s = state.now_s
    flow.level = level
    flow.bytes_per_s = level * flow.weight
    tables.changed(state)[state.num_changed] = slot
    state.num_changed += 1
