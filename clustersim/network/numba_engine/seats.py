"""Seats: the places of flows in the lists of their links, first come first."""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import NONE, word


@part
def take_seats(state: Any, slot: int) -> None:
    """Put a flow on its links, behind all that are there, to take part from this instant on."""
    tables.flow(state, slot).since_s = state.now_s
    path = tables.path(state, tables.flow(state, slot).path)
    for place in range(path.num_links):
        link = tables.link(state, word(tables.path_links(state)[path.first + place]))
        seat = (slot << state.seat_bits) + place
        tables.seat(state, seat).before, tables.seat(state, seat).next = link.last, NONE
        if link.last == NONE:
            link.first = seat
        else:
            tables.seat(state, link.last).next = seat
        link.last = seat
        link.num_flows += 1
    tables.started(state)[state.num_started] = slot
    state.num_started += 1


@part
def leave_seats(state: Any, slot: int, moved_bytes: float) -> None:
    """Take a flow off its links, over which it has moved so much; note the links on which others stay behind."""
    path = tables.path(state, tables.flow(state, slot).path)
    for place in range(path.num_links):
        number = word(tables.path_links(state)[path.first + place])
        link, seat = tables.link(state, number), tables.seat(state, (slot << state.seat_bits) + place)
        if seat.before == NONE:
            link.first = seat.next
        else:
            tables.seat(state, seat.before).next = seat.next
        if seat.next == NONE:
            link.last = seat.before
        else:
            tables.seat(state, seat.next).before = seat.before
        link.num_flows -= 1
        link.carried_bytes += moved_bytes
        if link.num_flows > 0 and not link.has_left:
            link.has_left = 1
            tables.left(state)[state.num_left] = number
            state.num_left += 1
