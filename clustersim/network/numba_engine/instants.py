"""The kernels that Python calls: simulate instant after instant, begin, enter, send, cancel."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.flows import (
    drop_flow,
    leave_links,
    needs_links,
    new_flow,
    post,
    put_on_links,
    set_first,
    take_from_lane,
)
from clustersim.network.numba_engine.heap import first_key, put, remove, take
from clustersim.network.numba_engine.jit import kernel, part
from clustersim.network.numba_engine.lockstep import forget, go_on, note
from clustersim.network.numba_engine.max_min import share
from clustersim.network.numba_engine.ranks import advance, arrived, resume
from clustersim.network.numba_engine.tables import FIRST, IN_LATENCY, INFINITE, NEVER, NONE, ON_LINKS, word
from clustersim.network.progress import SAME_INSTANT


@kernel
def play(states: np.ndarray, now_s: float, until_s: float, most: int, skips: bool) -> tuple[float, float, int, bool]:
    """Simulate what is due now, and on to the next notification, but not to `until_s`.

    Return the time, when the next thing happens, the number of notifications, which are dropped here, and whether
    links have been shared. At most `most` instants are simulated, so that Python can handle signals. Repeated steps
    are extrapolated where `skips`.
    """
    state = states[0]
    num_shares = state.num_shares
    state.now_s = max(state.now_s, now_s)
    next_s = _next_s(state)
    is_due = next_s <= _latest_s(state) or state.num_started > 0  # what was received when a rank entered
    while is_due or (state.num_notifications == 0 and next_s < until_s and next_s < INFINITE and most > 0):
        if not is_due:
            state.now_s = max(state.now_s, next_s)
        is_due = False
        note(state)
        _play_due(state)
        most -= 1
        if skips and most > 0 and state.num_notifications == 0:
            go_on(state, until_s)
        next_s = _next_s(state)
    num_notifications = state.num_notifications
    state.num_notifications = 0
    return state.now_s, max(next_s, state.now_s), num_notifications, state.num_shares > num_shares


@part
def _latest_s(state: Any) -> float:
    """Return the latest time that still counts as now; rounding must not split an instant."""
    now_s = state.now_s
    return now_s + SAME_INSTANT * abs(now_s)


@part
def _next_s(state: Any) -> float:
    """Return when the next thing happens, or infinity."""
    time_s = min(first_key(state.ends), first_key(state.pauses), first_key(state.arrivals))
    for number in range(state.num_lanes):
        time_s = min(time_s, tables.lane(state, number).first_s)
    return time_s


@part
def _play_due(state: Any) -> None:
    """Do everything that is due by now, until nothing more follows from it; then share the links."""
    state.num_instants += 1
    latest_s = _latest_s(state)
    goes_on = True
    while goes_on:
        goes_on = False
        while first_key(state.ends) <= latest_s:
            slot = take(state.ends)
            leave_links(state, slot, tables.flow(state, slot).num_bytes)
            arrived(state, slot)
            goes_on = True
        while first_key(state.pauses) <= latest_s:
            resume(state, take(state.pauses))
            goes_on = True
        while first_key(state.arrivals) <= latest_s:
            _start(state, take(state.arrivals))
            goes_on = True
        for number in range(state.num_lanes):
            while tables.lane(state, number).first_s <= latest_s:
                _start(state, take_from_lane(state, number))
                goes_on = True
    if state.num_started > 0 or state.num_left > 0:
        share(state)
        state.num_shares += 1


@part
def _start(state: Any, slot: int) -> None:
    if needs_links(state, slot):
        put_on_links(state, slot, ON_LINKS)
    else:
        arrived(state, slot)


@kernel
def begin(
    states: np.ndarray,
    number: int,
    first_rank: int,
    num_ranks: int,
    num_steps: int,
    steps: int,
    delays: int,
    first_message: int,
    num_messages: int,
    early: int,
) -> None:
    """Fill in the row of a group, and those of its ranks, none of which has begun."""
    state = states[0]
    group = tables.group(state, number)
    group.first_rank, group.num_ranks, group.num_steps, group.num_left = first_rank, num_ranks, num_steps, num_ranks
    group.steps, group.delays, group.first_message = steps, delays, first_message
    group.num_messages, group.early = num_messages, early
    for row in range(first_rank, first_rank + num_ranks):
        rank = tables.rank(state, row)
        rank.group, rank.step, rank.at, rank.unfinished, rank.awaited = number, NONE, NONE, 0, NEVER
        rank.reached_s = np.nan


@kernel
def enter(states: np.ndarray, now_s: float, rows: np.ndarray, times_s: np.ndarray) -> None:
    """Let ranks [num_rows] enter, each at its time."""
    state = states[0]
    forget(state)
    state.now_s = max(state.now_s, now_s)
    for index in range(len(rows)):
        if times_s[index] > now_s:
            tables.rank(state, rows[index]).reached_s = times_s[index]
            put(state.pauses, rows[index], times_s[index])
        else:
            advance(state, rows[index], FIRST)


@kernel
def pause(states: np.ndarray, rows: np.ndarray, times_s: np.ndarray) -> None:
    """Let ranks [num_rows] go on at their times."""
    state = states[0]
    forget(state)
    for index in range(len(rows)):
        put(state.pauses, rows[index], times_s[index])


@kernel
def send(
    states: np.ndarray,
    now_s: float,
    group: int,
    numbers: np.ndarray,
    paths: np.ndarray,
    num_bytes: np.ndarray,
    weight: np.ndarray,
    start_s: np.ndarray,
) -> float:
    """Send messages [num_messages] of a group without steps; return when the first of them reaches its links."""
    state = states[0]
    forget(state)
    state.now_s = max(state.now_s, now_s)
    arrives_s = INFINITE
    for index in range(len(numbers)):
        slot = new_flow(state, group, word(numbers[index]), word(paths[index]), num_bytes[index], weight[index])
        post(state, slot, max(start_s[index], now_s))
        arrives_s = min(arrives_s, tables.flow(state, slot).since_s)
    return arrives_s


@kernel
def send_one(
    states: np.ndarray, now_s: float, number: int, rank: int, path: int, num_bytes: float, weight: float
) -> tuple[int, float]:
    """Send a message that is a group by itself; return its row, and when it reaches its links."""
    state = states[0]
    forget(state)
    state.now_s = max(state.now_s, now_s)
    group = tables.group(state, number)
    group.first_rank, group.num_ranks, group.num_left = rank, 1, 1
    group.num_steps = NONE
    slot = new_flow(state, number, FIRST, path, num_bytes, weight)
    post(state, slot, state.now_s)
    return slot, tables.flow(state, slot).since_s


@kernel
def adopt(
    states: np.ndarray, slots: np.ndarray, due_s: np.ndarray, since_s: np.ndarray, links: np.ndarray, rates: np.ndarray
) -> None:
    """Go on with flows [num_flows] that the other engine has begun; their rows are filled in but for these columns.

    `due_s` is when each arrives at its links or ends, `links` the one that holds it back at its rate.
    """
    state = states[0]
    forget(state)
    for index in range(len(slots)):
        slot = word(slots[index])
        flow = tables.flow(state, slot)
        if flow.stage != IN_LATENCY:
            put_on_links(state, slot, flow.stage)
            flow.since_s, flow.bottleneck, flow.bytes_per_s = since_s[index], links[index], rates[index]
            flow.level = flow.bytes_per_s / flow.weight
        if due_s[index] < INFINITE and flow.stage == IN_LATENCY:
            put(state.arrivals, slot, due_s[index])
        elif due_s[index] < INFINITE:
            put(state.ends, slot, due_s[index])
    state.num_started = 0


@kernel
def set_rate(states: np.ndarray, now_s: float, link: int, bytes_per_s: float) -> None:
    """Change the rate of a link from now on."""
    state = states[0]
    forget(state)
    state.now_s = max(state.now_s, now_s)
    tables.link(state, link).bytes_per_s = bytes_per_s
    member = word(tables.link(state, link).first)
    while member != NONE:
        tables.started(state)[state.num_started] = member >> state.member_bits
        state.num_started += 1
        member = word(tables.member(state, member).next)
    share(state)


@kernel
def cancel(states: np.ndarray, now_s: float, slot: int) -> float:
    """Cancel a single message; return the share of it that has been moved."""
    state = states[0]
    forget(state)
    state.now_s = max(state.now_s, now_s)
    flow = tables.flow(state, slot)
    share_moved = 0.0
    remove(state.ends, slot)
    remove(state.arrivals, slot)
    if flow.stage == IN_LATENCY:
        _leave_lane(state, slot)
    else:
        moved_bytes = flow.num_bytes - flow.left_bytes + flow.bytes_per_s * (now_s - flow.since_s)
        share_moved = min(moved_bytes / flow.num_bytes, 1.0)  # rounding may go above
        leave_links(state, slot, share_moved * flow.num_bytes)
    drop_flow(state, slot)
    share(state)
    return share_moved


@part
def _leave_lane(state: Any, slot: int) -> None:
    """Take a message out of its lane, if it is in one."""
    number = tables.path(state, tables.flow(state, slot).path).lane
    if number == NONE:
        return
    lane = tables.lane(state, number)
    before, at = NONE, lane.first
    while at != NONE and at != slot:
        before, at = at, tables.flow(state, at).behind
    if at == NONE:
        return
    if before == NONE:
        set_first(state, number, tables.flow(state, slot).behind)
    else:
        tables.flow(state, before).behind = tables.flow(state, slot).behind
    if lane.last == slot:
        lane.last = before
