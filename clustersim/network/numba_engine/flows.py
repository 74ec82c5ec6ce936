"""Flows: from their sender through latency to their links, and off them.

Each link has a linked list of its flows, first come first. A flow is a member of one list for each of its links.
"""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import put
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import ADDING, IN_LATENCY, INFINITE, NONE, word


@part
def new_flow(state: Any, group: int, message: int, path: int, num_bytes: float, weight: float) -> int:
    """Return the row of a new flow, which is not sent yet."""
    state.num_free -= 1
    slot = word(tables.free(state)[state.num_free])
    flow = tables.flow(state, slot)
    flow.group, flow.message, flow.path = group, message, path
    flow.num_bytes = flow.left_bytes = num_bytes
    flow.weight = weight
    flow.bytes_per_s = flow.level = 0.0
    flow.bottleneck, flow.behind = NONE, NONE
    flow.mark = 0
    flow.stage = IN_LATENCY
    return slot


@part
def post(state: Any, slot: int, start_s: float) -> None:
    """Send a flow at a time that is not before now: latency first, then its links."""
    flow = tables.flow(state, slot)
    path = tables.path(state, flow.path)
    flow.since_s = start_s + path.latency_s
    if path.lane == NONE or start_s > state.now_s:
        put(state.arrivals, slot, flow.since_s)
        return
    lane = tables.lane(state, path.lane)
    if lane.first == NONE:
        lane.first, lane.first_s = slot, flow.since_s
    else:
        tables.flow(state, lane.last).behind = slot
    lane.last = slot


@part
def take_from_lane(state: Any, number: int) -> int:
    """Remove the first message of a lane and return it; there must be one."""
    lane = tables.lane(state, number)
    slot = lane.first
    set_first(state, number, tables.flow(state, slot).behind)
    tables.flow(state, slot).behind = NONE
    return slot


@part
def set_first(state: Any, number: int, slot: int) -> None:
    """Make a message, or none, the first of a lane."""
    lane = tables.lane(state, number)
    lane.first = slot
    lane.first_s = INFINITE if slot == NONE else tables.flow(state, slot).since_s


@part
def needs_links(state: Any, slot: int) -> bool:
    """Return whether a flow has bytes to move and links to move them over."""
    flow = tables.flow(state, slot)
    return flow.num_bytes > 0 and tables.path(state, flow.path).num_links > 0


@part
def put_on_links(state: Any, slot: int, stage: int) -> None:
    """Put a flow on its links from now on."""
    tables.flow(state, slot).stage = stage
    join_links(state, slot)
    state.num_flows += 1


@part
def begin_adding(state: Any, slot: int, path: int, num_bytes: float) -> bool:
    """Begin to add a message that has arrived in memory; return whether that takes time."""
    flow = tables.flow(state, slot)
    flow.path, flow.num_bytes, flow.left_bytes = path, num_bytes, num_bytes
    flow.bytes_per_s = flow.level = 0.0
    if needs_links(state, slot):
        put_on_links(state, slot, ADDING)
        return True
    return False


@part
def drop_flow(state: Any, slot: int) -> None:
    """Free the row of a flow."""
    tables.flow(state, slot).group = NONE
    tables.free(state)[state.num_free] = slot
    state.num_free += 1


@part
def join_links(state: Any, slot: int) -> None:
    """Put a flow on its links, behind all flows there, from this instant on."""
    tables.flow(state, slot).since_s = state.now_s
    path = tables.path(state, tables.flow(state, slot).path)
    for place in range(path.num_links):
        link = tables.link(state, word(tables.path_links(state)[path.first + place]))
        member = (slot << state.member_bits) + place
        tables.member(state, member).before, tables.member(state, member).next = link.last, NONE
        if link.last == NONE:
            link.first = member
        else:
            tables.member(state, link.last).next = member
        link.last = member
        link.num_flows += 1
    tables.started(state)[state.num_started] = slot
    state.num_started += 1


@part
def leave_links(state: Any, slot: int, moved_bytes: float) -> None:
    """Take a flow off its links, over which it has moved so many bytes; note the links with other flows."""
    path = tables.path(state, tables.flow(state, slot).path)
    for place in range(path.num_links):
        number = word(tables.path_links(state)[path.first + place])
        link, member = tables.link(state, number), tables.member(state, (slot << state.member_bits) + place)
        if member.before == NONE:
            link.first = member.next
        else:
            tables.member(state, member.before).next = member.next
        if member.next == NONE:
            link.last = member.before
        else:
            tables.member(state, member.next).before = member.before
        link.num_flows -= 1
        link.carried_bytes += moved_bytes
        if link.num_flows > 0 and not link.has_left:
            link.has_left = 1
            tables.left(state)[state.num_left] = number
            state.num_left += 1
