"""Collectives in lockstep: if two cycles match up to a time shift, the following ones are extrapolated.

Collectives are in lockstep when nothing is in flight but all messages of one step of each, and all have just been
sent. What happens next then depends on these steps alone. If the same collectives are in lockstep a second time, with
the same messages, and no process has acted, the cycle between the two times repeats as long as the messages stay the
same.
"""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import entry, first_key
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import ALWAYS, FIRST, INFINITE, NEVER, NONE, word
from clustersim.network.paths import BYTES_MOVED_PER_ADDED

MOST_NOTED = 64  # instants from one lockstep to the next


@part
def forget(state: Any) -> None:
    """Forget the last lockstep, since a process acts."""
    state.num_noted = 0


@part
def note(state: Any) -> None:
    """Note which instant since the last lockstep this one follows, and how long after; before it is simulated."""
    number = state.num_noted
    state.num_noted = 0
    if number == 0 or number == MOST_NOTED:
        return
    after_s = _after_s(state)
    for origin in range(number):
        if tables.noted(state, origin).time_s + after_s == state.now_s:
            instant = tables.noted(state, number)
            instant.time_s, instant.origin, instant.after_s = state.now_s, origin, after_s
            state.num_noted = number + 1
            return


@part
def _after_s(state: Any) -> float:
    """Return the duration of the event that is first due now."""
    if first_key(state.ends) == state.now_s:
        flow = tables.flow(state, entry(state.ends, 0).item)
        return flow.left_bytes / flow.bytes_per_s
    for number in range(state.num_lanes):
        lane = tables.lane(state, number)
        if lane.first_s == state.now_s:
            return _latency_s(state, lane.first)
    return INFINITE


@part
def _latency_s(state: Any, slot: int) -> float:
    return tables.path(state, tables.flow(state, slot).path).latency_s


@part
def go_on(state: Any, until_s: float) -> None:
    """Extrapolate repeated steps up to a time; to be called when an instant has been simulated."""
    if not _has_all_just_been_sent(state):
        return
    is_as_before = _look(state)
    if state.num_in_lockstep > 0:
        if is_as_before:
            _skip(state, until_s)
        _remember(state)


@part
def _has_all_just_been_sent(state: Any) -> bool:
    """Return whether nothing is in flight but messages that have been sent at this instant."""
    if state.ends.size > 0 or state.pauses.size > 0 or state.arrivals.size > 0:
        return False
    for number in range(state.num_lanes):
        lane = tables.lane(state, number)
        if lane.first != NONE and lane.first_s != state.now_s + _latency_s(state, lane.first):
            return False
    return True


@part
def _look(state: Any) -> bool:
    """Note the groups in lockstep, or none if any is not; return whether they were so before, with these messages.

    A group without steps, with pauses or with eager messages is in no lockstep.
    """
    num_before, was_noted = state.num_in_lockstep, state.num_noted > 0
    state.num_in_lockstep = 0
    state.num_locksteps += 1
    for lane in range(state.num_lanes):
        slot = tables.lane(state, lane).first
        while slot != NONE:
            flow = tables.flow(state, slot)
            group, message = tables.group(state, flow.group), tables.message(state, flow.message)
            if group.num_steps < 0 or group.delays != NONE or group.num_messages > 0 or message.end_step != ALWAYS:
                state.num_in_lockstep = 0
                return False
            if group.lockstep != state.num_locksteps:
                was_noted = was_noted and group.lockstep == state.num_locksteps - 1
                group.lockstep, group.num_at_ends = state.num_locksteps, 0
                group.step_before, group.step_now = group.step_now, flow.step
                tables.in_lockstep(state)[state.num_in_lockstep] = flow.group
                state.num_in_lockstep += 1
            if flow.step != group.step_now:
                state.num_in_lockstep = 0
                return False
            group.num_at_ends += 1 + (message.src != message.dst)
            slot = flow.behind
    for index in range(state.num_in_lockstep):
        group = tables.group(state, word(tables.in_lockstep(state)[index]))
        if group.num_at_ends != _num_at_ends(state, group):
            state.num_in_lockstep = 0
            return False
    return was_noted and state.num_in_lockstep == num_before


@part
def _num_at_ends(state: Any, group: Any) -> int:
    """Return the length of the lists of all ranks in a group's step."""
    first = tables.steps(state)[group.steps + group.step_now]
    return word(tables.own_first(state)[first + group.num_ranks] - tables.own_first(state)[first])


@part
def _remember(state: Any) -> None:
    """Begin to note what happens from this lockstep on."""
    then = state.then
    then.num_instants, then.num_flows, then.num_shares = state.num_instants, state.num_flows, state.num_shares
    then.num_solves, then.num_levels = state.num_solves, state.num_levels
    tables.noted(state, 0).time_s = state.now_s
    state.num_noted = 1


@part
def _skip(state: Any, until_s: float) -> None:
    """Repeat the cycle as often as all messages stay the same, no step is awaited, and this time is not reached."""
    times = _play_times(state, _times_alike(state), until_s)
    if times == 0:
        return
    state.num_skips += 1
    then = state.then
    state.num_instants += times * (state.num_instants - then.num_instants)
    state.num_flows += times * (state.num_flows - then.num_flows)
    state.num_shares += times * (state.num_shares - then.num_shares)
    state.num_solves += times * (state.num_solves - then.num_solves)
    state.num_levels += times * (state.num_levels - then.num_levels)
    for number in range(state.num_lanes):
        lane = tables.lane(state, number)
        slot = lane.first
        while slot != NONE:
            _move_on(state, slot, times)
            slot = tables.flow(state, slot).behind
        if lane.first != NONE:
            lane.first_s = tables.flow(state, lane.first).since_s
    for index in range(state.num_in_lockstep):
        group = tables.group(state, word(tables.in_lockstep(state)[index]))
        group.step_now += times * (group.step_now - group.step_before)


@part
def _times_alike(state: Any) -> int:
    """Return how often all groups can repeat their cycle with the same messages and no awaited step."""
    times = NEVER
    for index in range(state.num_in_lockstep):
        group = tables.group(state, word(tables.in_lockstep(state)[index]))
        lists, step = tables.steps(state)[group.steps + group.step_before], group.step_before
        while step < group.num_steps and tables.steps(state)[group.steps + step] == lists:
            step += 1
        times = min(times, (step - 1 - group.step_now) // (group.step_now - group.step_before))
    for number in range(state.num_lanes):
        slot = tables.lane(state, number).first
        while slot != NONE and times > 0:
            flow = tables.flow(state, slot)
            group, message = tables.group(state, flow.group), tables.message(state, flow.message)
            awaited = min(
                tables.rank(state, group.first_rank + message.src).awaited,
                tables.rank(state, group.first_rank + message.dst).awaited,
            )
            times = min(times, (awaited - 1 - group.step_now) // (group.step_now - group.step_before))
            slot = flow.behind
    return times


@part
def _play_times(state: Any, most: int, until_s: float) -> int:
    """Repeat the times of the noted instants, no further than to this time; return how often."""
    times, last = FIRST, state.num_noted - 1
    while times < most:
        tables.noted(state, 0).time_s = state.now_s
        for number in range(1, state.num_noted):
            instant = tables.noted(state, number)
            instant.time_s = tables.noted(state, instant.origin).time_s + instant.after_s
        if not tables.noted(state, last).time_s < until_s:
            break
        state.now_s = tables.noted(state, last).time_s
        times += 1
    return times


@part
def _move_on(state: Any, slot: int, times: int) -> None:
    """Move a message so many cycles ahead, and count the bytes in between on its links."""
    flow = tables.flow(state, slot)
    group, message = tables.group(state, flow.group), tables.message(state, flow.message)
    num_steps = times * (group.step_now - group.step_before)
    _carry(state, flow.path, num_steps * flow.num_bytes)
    if message.adding != NONE:
        _carry(state, word(message.adding), num_steps * flow.num_bytes * BYTES_MOVED_PER_ADDED)
    flow.step += num_steps
    flow.since_s = state.now_s + _latency_s(state, slot)
    for local in (message.src, message.dst):
        rank = tables.rank(state, group.first_rank + local)
        rank.step = rank.at = flow.step
        rank.reached_s = state.now_s


@part
def _carry(state: Any, path: int, num_bytes: float) -> None:
    """Add bytes to the links of a path."""
    over = tables.path(state, path)
    for index in range(over.first, over.first + over.num_links):
        tables.link(state, word(tables.path_links(state)[index])).carried_bytes += num_bytes
