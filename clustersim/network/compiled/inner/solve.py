"""Fixing what rises link by link, in the order of the levels at which they are full."""

from __future__ import annotations

from typing import Any

from clustersim.network.compiled.inner import tables
from clustersim.network.compiled.inner.heap import first_key, put, take
from clustersim.network.compiled.inner.rise import give, let_go, release
from clustersim.network.compiled.jit import part
from clustersim.network.compiled.tables import FIRST, INFINITE, NONE
from clustersim.network.max_min import FULL, SAME


@part
def solve(wires: Any) -> None:
    """Fix every rising flow, and every standing one that has to give way."""
    full = wires.full
    wires.floor, wires.sees_standing, wires.num_to_fix, wires.num_queued = 0.0, 0, wires.num_rising, 0
    _queue_links_of_rising(wires, FIRST)
    while full.size > 0 and (wires.num_to_fix > 0 or wires.sees_standing):
        level = first_key(full)
        entry = take(full)
        number = tables.queued(wires)[entry]
        if tables.link(wires, number).entry != entry:
            continue  # it has been queued again since
        now = _level(wires, number)  # flows fixed since it was queued have left more for the others
        if now == INFINITE:
            continue
        if now > level * (1 + SAME) and now > first_key(full):
            put(full, entry, now)
            continue
        wires.floor = max(wires.floor, now)
        num_before = wires.num_rising
        fix(wires, number, now)
        _queue_links_of_rising(wires, num_before)
    while full.size > 0:
        take(full)
    for index in range(wires.num_rising):
        who = tables.risen(wires)[index]
        if tables.flow(wires, who).mark == wires.rising:  # only links without a limit
            path = tables.path(wires, tables.flow(wires, who).path)
            let_go(wires, who, tables.path_links(wires)[path.first])


@part
def fix(wires: Any, number: int, level: float) -> None:
    """Fix at a level all that rises on a link or stands above; where a flow has become slower, others rise."""
    rising, above = wires.rising, level * (1 + SAME)
    seat = tables.link(wires, number).first
    while seat != NONE:
        who = seat >> wires.seat_bits
        seat = tables.seat(wires, seat).next
        flow = tables.flow(wires, who)
        mark, old = flow.mark, flow.bytes_per_s
        if mark != rising and (mark > rising or old <= above):
            continue
        wires.num_to_fix -= mark == rising
        flow.mark = rising + 1
        flow.bottleneck = number
        if abs(old - level) <= SAME * level:
            continue
        give(wires, who, level)
        if level < old:
            path = tables.path(wires, flow.path)
            for index in range(path.first, path.first + path.num_links):
                other = tables.path_links(wires)[index]
                if other != number:
                    release(wires, other)


@part
def _queue_links_of_rising(wires: Any, first: int) -> None:
    """Queue the links that rising flows share, and of those that a flow has for itself the narrowest."""
    wires.batch += 1
    for index in range(first, wires.num_rising):
        path = tables.path(wires, tables.flow(wires, tables.risen(wires)[index]).path)
        narrowest, least = NONE, INFINITE
        for at in range(path.first, path.first + path.num_links):
            number = tables.path_links(wires)[at]
            link = tables.link(wires, number)
            if link.num_flows == 1:
                if narrowest == NONE or link.bytes_per_s < least:
                    narrowest, least = number, link.bytes_per_s
            elif link.batch != wires.batch:
                link.batch = wires.batch
                _queue(wires, number)
        if narrowest != NONE:
            _queue(wires, narrowest)


@part
def _queue(wires: Any, number: int) -> None:
    level = _level(wires, number)
    if level < INFINITE:
        tables.queued(wires)[wires.num_queued] = number
        tables.link(wires, number).entry = wires.num_queued
        put(wires.full, wires.num_queued, level)
        wires.num_queued += 1


@part
def _level(wires: Any, number: int) -> float:
    """Return the level at which a link is full, or infinity where it has room for all (see `MaxMin`)."""
    rising, capacity = wires.rising, tables.link(wires, number).bytes_per_s
    room, weight, highest = capacity, 0.0, 0.0
    seat = tables.link(wires, number).first
    while seat != NONE:
        flow = tables.flow(wires, seat >> wires.seat_bits)
        if flow.mark == rising:
            weight += 1.0
        else:
            room -= flow.bytes_per_s
            if flow.mark < rising and flow.bytes_per_s > highest:
                highest = flow.bytes_per_s
        seat = tables.seat(wires, seat).next
    if highest > 0:
        wires.sees_standing = 1
    level = wires.floor
    if weight > 0:
        level = max(room / weight, level)
    elif room >= -FULL * capacity:
        return INFINITE
    if highest > level * (1 + SAME):
        level = _level_with_those_above(wires, number, level)
    return level


@part
def _level_with_those_above(wires: Any, number: int, level: float) -> float:
    rising = wires.rising
    while True:
        room, weight, above = tables.link(wires, number).bytes_per_s, 0.0, level * (1 + SAME)
        seat = tables.link(wires, number).first
        while seat != NONE:
            flow = tables.flow(wires, seat >> wires.seat_bits)
            if flow.mark == rising or (flow.mark < rising and flow.bytes_per_s > above):
                weight += 1.0
            else:
                room -= flow.bytes_per_s
            seat = tables.seat(wires, seat).next
        if weight == 0 or not room / weight > above:
            return level
        level = room / weight
