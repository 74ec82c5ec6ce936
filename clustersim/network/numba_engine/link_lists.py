"""The linked lists of flows on links, first come first; a flow is a member of one list for each of its links."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE, word


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
