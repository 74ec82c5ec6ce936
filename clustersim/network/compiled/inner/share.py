"""Max-min fair sharing kept up to date: `clustersim.network.max_min` on tables, of flows that all weigh the same."""

from __future__ import annotations

from typing import Any

from clustersim.network.compiled.inner import tables
from clustersim.network.compiled.inner.heap import has_key, put, remove
from clustersim.network.compiled.inner.rise import let_go, release, rise
from clustersim.network.compiled.inner.solve import fix, solve
from clustersim.network.compiled.jit import part
from clustersim.network.compiled.tables import INFINITE, NONE
from clustersim.network.max_min import FEW, FULL, SAME


@part
def share(wires: Any) -> None:
    """Let this instant's flows start, after others have left links, and note when those end whose rates are new."""
    wires.rising += 2
    wires.num_rising = wires.num_changed = 0
    for index in range(wires.num_left):
        number = tables.left(wires)[index]
        tables.link(wires, number).has_left = 0
        release(wires, number)
    for index in range(wires.num_started):
        _begin(wires, tables.started(wires)[index])
    wires.num_left = wires.num_started = 0
    if wires.num_rising > 0 and not _fix_at_once(wires):
        solve(wires)
    for index in range(wires.num_changed):
        _expect(wires, tables.changed(wires)[index])


@part
def _begin(wires: Any, who: int) -> None:
    """Let a flow go that has its links for itself, or else let it rise."""
    path = tables.path(wires, tables.flow(wires, who).path)
    narrowest = tables.path_links(wires)[path.first]
    for index in range(path.first, path.first + path.num_links):
        number = tables.path_links(wires)[index]
        link = tables.link(wires, number)
        if link.num_flows > 1:
            rise(wires, who)
            return
        if link.bytes_per_s < tables.link(wires, narrowest).bytes_per_s:
            narrowest = number
    let_go(wires, who, narrowest)


@part
def _expect(wires: Any, who: int) -> None:
    """Note when a flow will end at its rate."""
    flow = tables.flow(wires, who)
    end_s = wires.now_s + flow.left_bytes / flow.bytes_per_s if flow.bytes_per_s > 0 else INFINITE
    if end_s == INFINITE:
        remove(wires.ends, who)
    elif not has_key(wires.ends, who, end_s):
        put(wires.ends, who, end_s)


@part
def _fix_at_once(wires: Any) -> bool:
    """Fix rising flows if that is simple; return whether it is."""
    rising = wires.rising
    wires.num_held = wires.num_tried = 0
    for index in range(wires.num_rising):
        who = tables.risen(wires)[index]
        if tables.flow(wires, who).held != rising and not _try(wires, _lowest(wires, who)):
            return False
    for index in range(wires.num_held):
        if not _finds_room(wires, tables.held(wires)[index]):
            return False
    for index in range(wires.num_tried):
        number = tables.tried(wires)[index]
        fix(wires, number, tables.link(wires, number).tried_level)
    return True


@part
def _lowest(wires: Any, who: int) -> int:
    """Return the link of a flow that has least for each of all on it."""
    path = tables.path(wires, tables.flow(wires, who).path)
    lowest, level = tables.path_links(wires)[path.first], INFINITE
    for index in range(path.first, path.first + path.num_links):
        number = tables.path_links(wires)[index]
        link = tables.link(wires, number)
        if link.bytes_per_s / link.num_flows < level:
            lowest, level = number, link.bytes_per_s / link.num_flows
    return lowest


@part
def _try(wires: Any, number: int) -> bool:
    """Let all on a link have an equal part of it, to see; return whether none of them has another one already."""
    rising, link = wires.rising, tables.link(wires, number)
    level = link.bytes_per_s / link.num_flows
    if level == 0 or link.num_flows > FEW:
        return False
    link.tried, link.tried_level = rising, level
    tables.tried(wires)[wires.num_tried] = number
    wires.num_tried += 1
    seat = link.first
    while seat != NONE:
        other = tables.flow(wires, seat >> wires.seat_bits)
        if other.held == rising:
            return False
        other.held, other.held_level = rising, level
        tables.held(wires)[wires.num_held] = seat >> wires.seat_bits
        wires.num_held += 1
        seat = tables.seat(wires, seat).next
    return True


@part
def _finds_room(wires: Any, who: int) -> bool:
    """Say whether a flow may have the level that was tried, and nobody on its other links feels it."""
    flow = tables.flow(wires, who)
    level = flow.held_level
    if flow.mark != wires.rising and flow.bytes_per_s < level * (1 - SAME):
        return False
    gets_slower = flow.bytes_per_s > level * (1 + SAME)
    path = tables.path(wires, flow.path)
    for index in range(path.first, path.first + path.num_links):
        number = tables.path_links(wires)[index]
        is_tried = tables.link(wires, number).tried == wires.rising
        if not is_tried and not _has_room(wires, number, gets_slower):
            return False
    return True


@part
def _has_room(wires: Any, number: int, gets_slower: bool) -> bool:
    """Say whether a link is wide enough for the levels that were tried, and leaves nothing to others that want it."""
    link = tables.link(wires, number)
    room, seat = link.bytes_per_s * (1 + FULL), link.first
    while seat != NONE:
        other = tables.flow(wires, seat >> wires.seat_bits)
        if other.held == wires.rising:
            room -= other.held_level
        elif gets_slower and other.bottleneck == number:
            return False
        else:
            room -= other.bytes_per_s
        seat = tables.seat(wires, seat).next
    return room >= 0
