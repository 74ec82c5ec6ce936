"""Max-min fair sharing kept up to date: the algorithm of `clustersim.network.max_min` on tables.

A flow's level is its rate per weight. Flows that may get more *rise*; every other one stands. Links are
visited in order of the level at which they are full, and what is on them is fixed there.
"""

from __future__ import annotations

from typing import Any

from clustersim.network.compiled import tables
from clustersim.network.compiled.heap import clear, first_key, put, take
from clustersim.network.compiled.jit import part
from clustersim.network.compiled.tables import FIRST, INFINITE, NONE, word

_SAME = 1e-13  # levels closer than this, relatively, are one level
_FULL = 1e-12  # a link is not overloaded by less than this part of its capacity, which rounding can reach


@part
def share(state: Any) -> None:
    """Let this instant's flows start, after others have left links, and note when each will end."""
    state.rising += 2
    state.num_rising = state.num_to_fix = state.num_changed = 0
    for index in range(state.num_left):
        tables.link(state, tables.left(state)[index]).has_left = 0
        release(state, word(tables.left(state)[index]))
    for index in range(state.num_started):
        slot = word(tables.started(state)[index])
        if not let_go_if_alone(state, slot):
            rise(state, slot)
    if state.num_rising > 0:
        solve(state)
    for index in range(state.num_changed):
        note_end(state, tables.changed(state)[index])
    state.num_left = state.num_started = 0


@part
def note_end(state: Any, slot: int) -> None:
    """Note when a flow will end at its rate."""
    flow = tables.flow(state, slot)
    put(state.due, slot, state.now_s + flow.left_bytes / flow.bytes_per_s if flow.bytes_per_s > 0 else INFINITE)


@part
def let_go_if_alone(state: Any, slot: int) -> bool:
    """Give a flow that shares none of its links all that the narrowest has; return whether it is such a flow."""
    path = tables.path(state, tables.flow(state, slot).path)
    narrowest, least = NONE, INFINITE
    for index in range(path.first, path.first + path.num_links):
        number = word(tables.path_links(state)[index])
        link = tables.link(state, number)
        if link.num_flows > 1:
            return False
        if narrowest == NONE or link.bytes_per_s < least:
            narrowest, least = number, link.bytes_per_s
    give(state, slot, narrowest, least / tables.flow(state, slot).weight)
    note_end(state, slot)
    return True


@part
def rise(state: Any, slot: int) -> None:
    """Let a flow rise in this solve."""
    tables.flow(state, slot).mark = state.rising
    tables.risen(state)[state.num_rising] = slot
    state.num_rising += 1
    state.num_to_fix += 1


@part
def release(state: Any, link: int) -> None:
    """Let the standing flows rise that a link has held back."""
    rising, bits = state.rising, state.seat_bits
    seat = word(tables.link(state, link).first)
    while seat != NONE:
        flow = tables.flow(state, seat >> bits)
        if flow.bottleneck == link and flow.mark < rising:
            rise(state, seat >> bits)
        seat = word(tables.seat(state, seat).next)


@part
def solve(state: Any) -> None:
    """Fix every rising flow, and every standing one that has to give way, link by link."""
    full = state.full
    state.num_solves += 1
    state.floor = 0.0
    state.sees_standing = 0
    queue_links_of_rising(state, FIRST)
    while full.size > 0 and (state.num_to_fix > 0 or state.sees_standing):
        level = first_key(full)
        link = take(full)
        now = full_level(state, link)  # flows fixed since it was queued have left more for the others
        if now == INFINITE:
            continue
        if now > level * (1 + _SAME) and now > first_key(full):
            put(full, link, now)
            continue
        state.floor = max(state.floor, now)
        num_before = state.num_rising
        fix(state, link, now)
        queue_links_of_rising(state, num_before)
    clear(full)


@part
def queue_links_of_rising(state: Any, first: int) -> None:
    """Queue the links that rising flows share, and of those that a flow has for itself the narrowest."""
    state.batch += 1
    for index in range(first, state.num_rising):
        path = tables.path(state, tables.flow(state, tables.risen(state)[index]).path)
        narrowest, least = NONE, INFINITE
        for at in range(path.first, path.first + path.num_links):
            number = word(tables.path_links(state)[at])
            link = tables.link(state, number)
            if link.num_flows > 1:
                if link.batch != state.batch:
                    link.batch = state.batch
                    _queue(state, number)
            elif narrowest == NONE or link.bytes_per_s < least:
                narrowest, least = number, link.bytes_per_s
        if narrowest != NONE:
            _queue(state, narrowest)


@part
def _queue(state: Any, link: int) -> None:
    level = full_level(state, link)
    if level < INFINITE:
        put(state.full, link, level)


@part
def full_level(state: Any, link: int) -> float:
    """Return the level at which a link is full, or infinity where it has room for all.

    Rising flows share what fixed and standing ones leave. Standing ones above that level share as well:
    counting them in lifts it, until no more of them are above.
    """
    state.num_levels += 1
    rising, bits = state.rising, state.seat_bits
    capacity = tables.link(state, link).bytes_per_s
    room, weight, highest = capacity, 0.0, 0.0
    seat = word(tables.link(state, link).first)
    while seat != NONE:
        flow = tables.flow(state, seat >> bits)
        if flow.mark == rising:
            weight += flow.weight
        else:
            room -= flow.bytes_per_s
            if flow.mark < rising and flow.level > highest:
                highest = flow.level
        seat = word(tables.seat(state, seat).next)
    if highest > 0:
        state.sees_standing = 1
    level = state.floor
    if weight > 0:
        level = max(room / weight, level)
    elif room >= -_FULL * capacity:
        return INFINITE
    if highest > level * (1 + _SAME):
        level = _level_with_those_above(state, link, level)
    return level


@part
def _level_with_those_above(state: Any, link: int, level: float) -> float:
    rising, bits = state.rising, state.seat_bits
    while True:
        room, weight, above = tables.link(state, link).bytes_per_s, 0.0, level * (1 + _SAME)
        seat = word(tables.link(state, link).first)
        while seat != NONE:
            flow = tables.flow(state, seat >> bits)
            if flow.mark == rising or (flow.mark < rising and flow.level > above):
                weight += flow.weight
            else:
                room -= flow.bytes_per_s
            seat = word(tables.seat(state, seat).next)
        if weight == 0 or not room / weight > above:
            return level
        level = room / weight


@part
def fix(state: Any, link: int, level: float) -> None:
    """Fix at a level all that rises on a link or stands above; where a flow has become slower, others rise."""
    rising, bits = state.rising, state.seat_bits
    above = level * (1 + _SAME)
    seat = word(tables.link(state, link).first)
    while seat != NONE:
        slot = seat >> bits
        seat = word(tables.seat(state, seat).next)
        flow = tables.flow(state, slot)
        mark, old = flow.mark, flow.level
        if mark != rising and (mark > rising or old <= above):
            continue
        if mark == rising:
            state.num_to_fix -= 1
        flow.mark = rising + 1
        if abs(old - level) <= _SAME * level:
            flow.bottleneck = link
            continue
        give(state, slot, link, level)
        tables.changed(state)[state.num_changed] = slot
        state.num_changed += 1
        if level < old:
            path = tables.path(state, flow.path)
            for at in range(path.first, path.first + path.num_links):
                other = word(tables.path_links(state)[at])
                if other != link:
                    release(state, other)


@part
def give(state: Any, slot: int, bottleneck: int, level: float) -> None:
    """Give a flow a new rate; what it has moved at the old one is behind it."""
    flow = tables.flow(state, slot)
    moved = flow.bytes_per_s * (state.now_s - flow.since_s)
    flow.left_bytes = max(flow.left_bytes - moved, 0.0)  # rounding may take it below
    flow.since_s = state.now_s
    flow.bottleneck = bottleneck
    flow.level = level
    flow.bytes_per_s = level * flow.weight
