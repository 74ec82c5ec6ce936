"""Fixes rising flows link by link, in the order of the levels at which links are full."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import clear, first_key, put, take
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import FIRST, INFINITE, NONE, word
from clustersim.network.python_engine.max_min import FULL, SAME


@part
def solve(state: Any) -> None:
    """Fix every rising flow, and every standing one that has to become slower."""
    full = state.full
    state.num_solves += 1
    state.floor, state.sees_standing, state.num_to_fix = 0.0, 0, state.num_rising
    _queue_links_of_rising(state, FIRST)
    while full.size > 0 and (state.num_to_fix > 0 or state.sees_standing):
        level = first_key(full)
        number = take(full)
        now = _level(state, number)  # flows fixed since it was queued have left more for the others
        if now == INFINITE:
            continue
        if now > level * (1 + SAME) and now > first_key(full):
            put(full, number, now)
            continue
        state.floor = max(state.floor, now)
        num_before = state.num_rising
        fix(state, number, now)
        _queue_links_of_rising(state, num_before)
    clear(full)
    for index in range(state.num_rising):
        slot = word(tables.risen(state)[index])
        if tables.flow(state, slot).mark == state.rising:  # only links without a limit
            path = tables.path(state, tables.flow(state, slot).path)
            give_all(state, slot, word(tables.path_links(state)[path.first]))


@part
def fix(state: Any, number: int, level: float) -> None:
    """Fix at a level all flows on a link that rise or stand above it; where a flow has become slower, others rise."""
    rising, bits, above = state.rising, state.member_bits, level * (1 + SAME)
    member = word(tables.link(state, number).first)
    while member != NONE:
        slot = member >> bits
        member = word(tables.member(state, member).next)
        flow = tables.flow(state, slot)
        mark, old = flow.mark, flow.level
        if mark != rising and (mark > rising or old <= above):
            continue
        state.num_to_fix -= mark == rising
        flow.mark = rising + 1
        flow.bottleneck = number
        if abs(old - level) <= SAME * level:
            continue
        give(state, slot, level)
        if level < old:
            path = tables.path(state, flow.path)
            for index in range(path.first, path.first + path.num_links):
                other = word(tables.path_links(state)[index])
                if other != number:
                    release(state, other)


@part
def _queue_links_of_rising(state: Any, first: int) -> None:
    """Queue the links that rising flows share, and the narrowest of those that a flow has alone."""
    state.batch += 1
    for index in range(first, state.num_rising):
        path = tables.path(state, tables.flow(state, word(tables.risen(state)[index])).path)
        narrowest, least = NONE, INFINITE
        for at in range(path.first, path.first + path.num_links):
            number = word(tables.path_links(state)[at])
            link = tables.link(state, number)
            if link.num_flows == 1:
                if narrowest == NONE or link.bytes_per_s < least:
                    narrowest, least = number, link.bytes_per_s
            elif link.batch != state.batch:
                link.batch = state.batch
                _queue(state, number)
        if narrowest != NONE:
            _queue(state, narrowest)


@part
def _queue(state: Any, number: int) -> None:
    level = _level(state, number)
    if level < INFINITE:
        put(state.full, number, level)


@part
def _level(state: Any, number: int) -> float:
    """Return the level at which a link is full, or infinity where it has room for all (see `MaxMin`)."""
    state.num_levels += 1
    rising, bits, capacity = state.rising, state.member_bits, tables.link(state, number).bytes_per_s
    room, weight, highest = capacity, 0.0, 0.0
    member = word(tables.link(state, number).first)
    while member != NONE:
        flow = tables.flow(state, member >> bits)
        if flow.mark == rising:
            weight += flow.weight
        else:
            room -= flow.bytes_per_s
            if flow.mark < rising and flow.level > highest:
                highest = flow.level
        member = word(tables.member(state, member).next)
    if highest > 0:
        state.sees_standing = 1
    level = state.floor
    if weight > 0:
        level = max(room / weight, level)
    elif room >= -FULL * capacity:
        return INFINITE
    if highest > level * (1 + SAME):
        level = _level_with_those_above(state, number, level)
    return level


@part
def _level_with_those_above(state: Any, number: int, level: float) -> float:
    rising, bits = state.rising, state.member_bits
    while True:
        room, weight, above = tables.link(state, number).bytes_per_s, 0.0, level * (1 + SAME)
        member = word(tables.link(state, number).first)
        while member != NONE:
            flow = tables.flow(state, member >> bits)
            if flow.mark == rising or (flow.mark < rising and flow.level > above):
                weight += flow.weight
            else:
                room -= flow.bytes_per_s
            member = word(tables.member(state, member).next)
        if weight == 0 or not room / weight > above:
            return level
        level = room / weight


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
