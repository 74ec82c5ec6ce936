"""Ranks of collectives: each goes from step to step, gated by its own messages and its own pauses.

A message starts when both its ends have reached its step (rendezvous). So the positions of ranks say all about
messages, and memory grows with the ranks, however far they drift apart.
"""

from __future__ import annotations

from typing import Any

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.flows import begin_adding, drop_flow, new_flow, post
from clustersim.network.numba_engine.heap import put
from clustersim.network.numba_engine.jit import part
from clustersim.network.numba_engine.tables import ADDING, EACH, FIRST, NEVER, NONE, word
from clustersim.network.paths import BYTES_MOVED_PER_ADDED


@part
def notify(state: Any, group: int, rank: int) -> None:
    """Add a notification for Python."""
    tables.notification(state, state.num_notifications).group = group
    tables.notification(state, state.num_notifications).rank = rank
    state.num_notifications += 1


@part
def advance(state: Any, row: int, step: int) -> None:
    """Take a rank to a step, through those without messages for it, or out at the end."""
    rank = tables.rank(state, row)
    group = tables.group(state, rank.group)
    local = row - group.first_rank
    rank.reached_s = state.now_s
    while True:
        rank.step = step
        rank.at = NONE
        if step >= rank.awaited:
            rank.awaited = NEVER
            notify(state, rank.group, local)
        if step == group.num_steps:
            finish(state, rank.group, row)
            return
        if group.delays != NONE:
            pause_s = tables.delays(state)[group.delays + local * group.num_steps + step]
            if pause_s > 0:
                put(state.pauses, row, state.now_s + pause_s)
                return
        if begin_step(state, row):
            return
        step = _next_step(state, row)


@part
def resume(state: Any, row: int) -> None:
    """Let a rank go on after its pause, before it enters or before its messages of a step."""
    step = tables.rank(state, row).step
    if step < 0:
        advance(state, row, FIRST)
    elif not begin_step(state, row):
        advance(state, row, _next_step(state, row))


@part
def _next_step(state: Any, row: int) -> int:
    """Return the next step of a rank that has nothing left to do in its own; steps without messages for it are skipped.

    Where messages are listed once for all steps, and none is of this one, the next is that in which one begins. Pauses
    come before every step.
    """
    rank = tables.rank(state, row)
    group = tables.group(state, rank.group)
    lists = tables.steps(state)[group.steps + rank.step] + row - group.first_rank
    first, last = word(tables.own_first(state)[lists]), word(tables.own_first(state)[lists + 1])
    if first == last or group.delays != NONE:
        return rank.step + 1
    following = group.num_steps
    for index in range(first, last):
        number = word(tables.own(state)[index])
        if _is_sent(state, number, rank.step):
            return rank.step + 1
        begins = word(tables.message(state, number).first_step)
        if rank.step < begins < following:
            following = begins
    return following


@part
def begin_step(state: Any, row: int) -> bool:
    """Let a rank send and receive its own messages in its step; return whether it has to wait for any."""
    rank = tables.rank(state, row)
    group = tables.group(state, rank.group)
    local = row - group.first_rank
    lists = tables.steps(state)[group.steps + rank.step] + local
    first, last = word(tables.own_first(state)[lists]), word(tables.own_first(state)[lists + 1])
    num_sent = FIRST
    for index in range(first, last):
        num_sent += _is_sent(state, word(tables.own(state)[index]), rank.step)
    if num_sent == 0:
        return False
    rank.unfinished = num_sent
    rank.at = rank.step
    for index in range(first, last):
        number = word(tables.own(state)[index])
        message = tables.message(state, number)
        if not _is_sent(state, number, rank.step):
            continue
        if message.eager and message.dst == local:
            _receive_if_early(state, row, number)
        elif message.eager or tables.rank(state, group.first_rank + message.src + message.dst - local).at == rank.step:
            slot = new_flow(state, rank.group, number, word(message.path), message.num_bytes, 1.0)
            tables.flow(state, slot).step = rank.step
            post(state, slot, state.now_s)
    if rank.unfinished == 0:
        rank.at = NONE
        return False
    return True


@part
def _is_sent(state: Any, number: int, step: int) -> bool:
    """Return whether a message that is listed is sent in a step."""
    message = tables.message(state, number)
    return word(message.first_step) <= step < word(message.end_step)


@part
def _receive_if_early(state: Any, row: int, number: int) -> None:
    """Let a rank take an eager message that arrived before the rank reached this step."""
    rank = tables.rank(state, row)
    group = tables.group(state, rank.group)
    early, place = tables.early(state), group.early + number - group.first_message
    if early[place] == 0:
        return
    early[place] -= 1
    message = tables.message(state, number)
    slot = new_flow(state, rank.group, number, word(message.path), message.num_bytes, 1.0)
    if not _is_to_add(state, slot):
        drop_flow(state, slot)
        rank.unfinished -= 1


@part
def arrived(state: Any, slot: int) -> None:
    """Note that a message has arrived; where the receiver adds it, that is next."""
    flow = tables.flow(state, slot)
    group = tables.group(state, flow.group)
    if group.num_steps < 0:
        number, message = flow.group, flow.message
        drop_flow(state, slot)
        if group.num_steps == EACH:
            notify(state, number, message)
        else:
            finish(state, number, group.first_rank + message)
    elif tables.message(state, flow.message).eager:
        _arrived_eager(state, slot)
    elif not _is_to_add(state, slot):
        message = tables.message(state, flow.message)
        drop_flow(state, slot)
        _finish_message_of(state, group.first_rank + message.src)
        if message.dst != message.src:
            _finish_message_of(state, group.first_rank + message.dst)


@part
def _arrived_eager(state: Any, slot: int) -> None:
    """Let the sender of an eager message go on, and its receiver add it, now or when it reaches this step."""
    flow = tables.flow(state, slot)
    group = tables.group(state, flow.group)
    message = tables.message(state, flow.message)
    has_been_added, step = flow.stage == ADDING, flow.step
    is_awaited = has_been_added or tables.rank(state, group.first_rank + message.dst).at == step
    if not is_awaited:
        tables.early(state)[group.early + flow.message - group.first_message] += 1
    if not is_awaited or not _is_to_add(state, slot):
        drop_flow(state, slot)
        if is_awaited:
            _finish_message_of(state, group.first_rank + message.dst)
    if not has_been_added:
        _finish_message_of(state, group.first_rank + message.src)


@part
def _is_to_add(state: Any, slot: int) -> bool:
    """Begin to add a message that has arrived and has not been added; return whether that takes time."""
    flow = tables.flow(state, slot)
    adding = word(tables.message(state, flow.message).adding)
    if flow.stage == ADDING or adding == NONE:
        return False
    return begin_adding(state, slot, adding, flow.num_bytes * BYTES_MOVED_PER_ADDED)


@part
def _finish_message_of(state: Any, row: int) -> None:
    """Note that a message of a rank's step has ended; after the last one the rank goes on."""
    rank = tables.rank(state, row)
    rank.unfinished -= 1
    if rank.unfinished == 0:
        advance(state, row, rank.step + 1)


@part
def finish(state: Any, number: int, row: int) -> None:
    """Note that a rank is done, or that a single message has ended."""
    group = tables.group(state, number)
    tables.rank(state, row).reached_s = state.now_s
    group.num_left -= 1
    if group.num_left == 0:
        notify(state, number, NONE)
