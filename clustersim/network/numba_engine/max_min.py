"""Max-min fair sharing kept up to date: the algorithm of `clustersim.network.python_engine.max_min` on tables.

The state may belong to `instants` or to `inner`: these tables and counts have the same names in both. What ends
when is in its heap `ends`.
"""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import has_key, put, remove
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.solve import fix, give_all, release, rise, solve
from clustersim.network.numba_engine.tables import INFINITE, NONE, word
from clustersim.network.python_engine.max_min import FEW, FULL, SAME


@part
def share(state: Any) -> None:
    """Let this instant's flows start, after others have left links, and note when those end whose rates are new."""
    state.rising += 2
    state.num_rising = state.num_changed = 0
    for index in range(state.num_left):
        number = word(tables.left(state)[index])
        tables.link(state, number).has_left = 0
        release(state, number)
    for index in range(state.num_started):
        _begin(state, word(tables.started(state)[index]))
    state.num_left = state.num_started = 0
    if state.num_rising > 0 and not _fix_at_once(state):
        solve(state)
    for index in range(state.num_changed):
        _expect(state, word(tables.changed(state)[index]))


@part
def _begin(state: Any, slot: int) -> None:
    """Give a flow the rate of its narrowest link if it has its links alone; else let it rise."""
    path = tables.path(state, tables.flow(state, slot).path)
    narrowest, least = NONE, INFINITE
    for index in range(path.first, path.first + path.num_links):
        number = word(tables.path_links(state)[index])
        link = tables.link(state, number)
        if link.num_flows > 1:
            rise(state, slot)
            return
        if narrowest == NONE or link.bytes_per_s < least:
            narrowest, least = number, link.bytes_per_s
    give_all(state, slot, narrowest)


@part
def _expect(state: Any, slot: int) -> None:
    """Note when a flow will end at its rate."""
    flow = tables.flow(state, slot)
    end_s = state.now_s + flow.left_bytes / flow.bytes_per_s if flow.bytes_per_s > 0 else INFINITE
    if end_s == INFINITE:
        remove(state.ends, slot)
    elif not has_key(state.ends, slot, end_s):
        put(state.ends, slot, end_s)


@part
def _fix_at_once(state: Any) -> bool:
    """Fix rising flows if that is simple; return whether it is."""
    rising = state.rising
    state.num_held = state.num_tried = 0
    for index in range(state.num_rising):
        slot = word(tables.risen(state)[index])
        if tables.flow(state, slot).held != rising and not _try_lowest(state, slot):
            return False
    for index in range(state.num_held):
        if not _finds_room(state, word(tables.held(state)[index])):
            return False
    state.num_solves += 1
    state.num_levels += state.num_tried
    for index in range(state.num_tried):
        number = word(tables.tried(state)[index])
        fix(state, number, tables.link(state, number).tried_level)
    return True


@part
def _try_lowest(state: Any, slot: int) -> bool:
    """Try the link of a flow with the lowest rate over the weight of all on it; return whether that is simple."""
    path = tables.path(state, tables.flow(state, slot).path)
    lowest, level = word(tables.path_links(state)[path.first]), INFINITE
    for index in range(path.first, path.first + path.num_links):
        number = word(tables.path_links(state)[index])
        now = tables.link(state, number).bytes_per_s / _weight(state, number)
        if now < level:
            lowest, level = number, now
    return _try(state, lowest, level)


@part
def _weight(state: Any, number: int) -> float:
    """Return the weight of all flows on a link."""
    weight, bits = 0.0, state.member_bits
    member = word(tables.link(state, number).first)
    while member != NONE:
        weight += tables.flow(state, member >> bits).weight
        member = word(tables.member(state, member).next)
    return weight


@part
def _try(state: Any, number: int, level: float) -> bool:
    """Try a level for all flows on a link; return whether none of them has another tried level."""
    rising, bits, link = state.rising, state.member_bits, tables.link(state, number)
    if level == 0 or link.num_flows > FEW:
        return False
    link.tried, link.tried_level = rising, level
    tables.tried(state)[state.num_tried] = number
    state.num_tried += 1
    member = word(link.first)
    while member != NONE:
        other = tables.flow(state, member >> bits)
        if other.held == rising:
            return False
        other.held, other.held_level = rising, level
        tables.held(state)[state.num_held] = member >> bits
        state.num_held += 1
        member = word(tables.member(state, member).next)
    return True


@part
def _finds_room(state: Any, slot: int) -> bool:
    """Return whether a flow may have the tried level without changing flows on its other links."""
    flow = tables.flow(state, slot)
    level = flow.held_level
    if flow.mark != state.rising and flow.level < level * (1 - SAME):
        return False
    gets_slower = flow.level > level * (1 + SAME)
    path = tables.path(state, flow.path)
    for index in range(path.first, path.first + path.num_links):
        number = word(tables.path_links(state)[index])
        is_tried = tables.link(state, number).tried == state.rising
        if not is_tried and not _has_room(state, number, gets_slower):
            return False
    return True


@part
def _has_room(state: Any, number: int, gets_slower: bool) -> bool:
    """Return whether a link has room for the tried levels, and none left for others that it holds back."""
    rising, bits, link = state.rising, state.member_bits, tables.link(state, number)
    room, member = link.bytes_per_s * (1 + FULL), word(link.first)
    while member != NONE:
        other = tables.flow(state, member >> bits)
        if other.held == rising:
            room -= other.weight * other.held_level
        elif gets_slower and other.bottleneck == number:
            return False
        else:
            room -= other.bytes_per_s
        member = word(tables.member(state, member).next)
    return room >= 0
