"""Collectives for real: torch's own over gloo, and any of our schedules over torch's send and receive."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clustersim.collectives import COLLECTIVES, Schedule
from validate.lab.ranks import Place

if TYPE_CHECKING:
    import torch

ITEM_BYTES = 4
_TRIES = 3
"""How often more repeats are made where those so far differ."""

_SPREAD = 0.02

_WORD = 1
"""Tag of the word that says that a message is there."""


@dataclass(frozen=True)
class Call:
    """One collective: `algorithm` is one of ours, or `torch`, which is what gloo takes itself."""

    op: str
    algorithm: str
    num_bytes: int


def time_calls(
    place: Place, store: str, calls: Sequence[Call], num_warm_up: int, num_repeats: int
) -> list[list[tuple[float, float]]]:
    """Return, for every call, when this rank began and ended each of its repeats [num_calls][num_repeats].

    Where the repeats of a call differ by more than 2 %, as on a machine that does something else for a while, more
    are made; the median is taken of all.
    """
    import torch.distributed as dist

    begin_group(place, store)
    try:
        found = []
        for call in calls:
            run, check = prepared(place, call)
            for _ in range(num_warm_up):
                place.meet()
                run()
            check()
            times: list[tuple[float, float]] = []
            for _ in range(_TRIES):
                for _ in range(num_repeats):
                    began_s = place.meet()
                    run()
                    times.append((began_s, time.monotonic()))
                if _agree(place, times):
                    break
            found.append(times)
        return found
    finally:
        dist.destroy_process_group()


def _agree(place: Place, times: Sequence[tuple[float, float]]) -> bool:
    """Say whether most repeats took about the same; rank 0 decides, and tells the others."""
    import torch
    import torch.distributed as dist

    took = sorted(ended - began for began, ended in times)
    middle = took[len(took) // 2]
    quarter = len(took) // 4
    said = torch.tensor([float(took[-1 - quarter] - took[quarter] <= _SPREAD * middle)])
    dist.broadcast(said, 0)
    return bool(said.item())


def begin_group(place: Place, store: str) -> None:
    """Meet the other ranks in torch, through a file, with one thread for arithmetic."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=place.rank, world_size=place.num_ranks)


def prepared(place: Place, call: Call) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return what runs a collective, again and again, and what checks its result after having run at least once."""
    if call.algorithm == "torch":
        return _of_torch(place, call)
    schedule = COLLECTIVES[call.op][call.algorithm](place.num_ranks, float(call.num_bytes))
    return _of_schedule(place, call, schedule)


def _of_torch(place: Place, call: Call) -> tuple[Callable[[], Any], Callable[[], None]]:
    import torch
    import torch.distributed as dist

    num_items, share = call.num_bytes // ITEM_BYTES, call.num_bytes // ITEM_BYTES // place.num_ranks
    whole, own = torch.zeros(num_items), torch.ones(share)
    ones = torch.ones(num_items)

    def all_reduce() -> None:
        whole.copy_(ones)
        dist.all_reduce(whole)

    def broadcast() -> None:
        dist.broadcast(whole, 0)

    if place.rank == 0 and call.op == "broadcast":
        whole.fill_(1.0)
    runs: dict[str, tuple[Callable[[], Any], torch.Tensor, float]] = {
        "all-reduce": (all_reduce, whole, place.num_ranks),
        "broadcast": (broadcast, whole, 1.0),
        "all-gather": (lambda: dist.all_gather_into_tensor(whole, own), whole, 1.0),
        "reduce-scatter": (lambda: dist.reduce_scatter_tensor(own, ones), own, place.num_ranks),
    }
    run, result, expected = runs[call.op]
    return run, lambda: _check(call, result, expected)


def _of_schedule(place: Place, call: Call, schedule: Schedule) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return what goes through a schedule's steps: receive and send what they say, wait for all, add what is to add."""
    import torch
    import torch.distributed as dist

    buffer, ones = torch.zeros(call.num_bytes // ITEM_BYTES), torch.ones(call.num_bytes // ITEM_BYTES)
    steps = [_own_part(place.rank, schedule, number, buffer) for number in range(schedule.num_steps)]
    word = torch.ones(1)

    def run() -> None:
        buffer.copy_(ones)
        for sends, receives in steps:
            arriving = [dist.irecv(each.part, each.peer) for each in receives]
            waiting = [dist.irecv(torch.zeros(1), each.peer, tag=_WORD) for each in sends if each.confirmed]
            waiting += [dist.isend(each.part, each.peer) for each in sends]
            for each, arrival in zip(receives, arriving, strict=True):
                arrival.wait()
                if each.confirmed:
                    waiting.append(dist.isend(word, each.peer, tag=_WORD))
                if each.target is not None:
                    each.target.add_(each.part)
            for work in waiting:
                work.wait()

    return run, lambda: _check(call, buffer, place.num_ranks)


@dataclass(frozen=True)
class Message:
    """One message of a step as one of its ends sees it; what is to be added to `target` arrives beside the buffer."""

    peer: int
    part: torch.Tensor
    target: torch.Tensor | None
    confirmed: bool


def _own_part(rank: int, schedule: Schedule, number: int, buffer: torch.Tensor) -> tuple[list[Message], list[Message]]:
    """Return the messages of one step that a rank sends, and those that it receives."""
    import torch

    sends, receives = [], []
    step = schedule.step(number)
    confirmed = to_confirm(schedule, number)
    columns = (step.src, step.dst, step.chunk, step.num_chunks, step.reduce)
    for src, dst, chunk, num_chunks, reduce in zip(*(column.tolist() for column in columns), strict=True):
        first, last = (len(buffer) * edge // schedule.granularity for edge in (chunk, chunk + num_chunks))
        part, asked = buffer[first:last], (src, dst) in confirmed
        if src == rank:
            sends.append(Message(dst, part, None, asked))
        if dst == rank:
            beside = torch.zeros_like(part) if reduce else part
            receives.append(Message(src, beside, part if reduce else None, asked))
    return sends, receives


def to_confirm(schedule: Schedule, number: int) -> set[tuple[int, int]]:
    """Return the (src, dst) of a step whose sender must be told that the message is there.

    A step ends when its messages have arrived, and torch's send when the kernel has the bytes. That matters to a rank
    that goes on to send to somebody else, unless it hears from its receiver in the same step anyway.
    """
    here = _pairs(schedule, number)
    later = [_pairs(schedule, following) for following in range(number + 1, schedule.num_steps)]
    found = set()
    for src, dst in here:
        sent_next = next((own for step in later if (own := {to for who, to in step if who == src})), set())
        if sent_next - {dst} and (dst, src) not in here:
            found.add((src, dst))
    return found


def _pairs(schedule: Schedule, number: int) -> set[tuple[int, int]]:
    step = schedule.step(number)
    return set(zip(step.src.tolist(), step.dst.tolist(), strict=True))


def _check(call: Call, result: torch.Tensor, expected: float) -> None:
    if not bool((result == expected).all()):
        raise RuntimeError(f"{call.op} by {call.algorithm} gave {result[:4].tolist()}, and all should be {expected}")
