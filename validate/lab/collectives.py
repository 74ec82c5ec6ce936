"""Real collectives: those of torch over gloo, and our schedules over torch's send and receive."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clustersim.collectives import COLLECTIVES, Schedule
from validate.lab.ranks import RankContext

if TYPE_CHECKING:
    import torch

ITEM_BYTES = 4
_TRIES = 3
"""Most rounds of repeats, if the repeats differ."""

_SPREAD = 0.02

_CONFIRMATION = 1
"""Tag of the confirmation that a message has arrived."""


@dataclass(frozen=True)
class Call:
    """One collective: `algorithm` is one of ours, or `torch` for gloo's own choice."""

    op: str
    algorithm: str
    num_bytes: int


def time_calls(
    context: RankContext, store: str, calls: Sequence[Call], num_warm_up: int, num_repeats: int
) -> list[list[tuple[float, float]]]:
    """Return the start and end times of every call's repeats on this rank [num_calls][num_repeats].

    If the repeats of a call differ by more than 2 %, for example because of other load, more are made; the median is
    that of all repeats.
    """
    import torch.distributed as dist

    begin_group(context, store)
    try:
        found = []
        for call in calls:
            run, check = prepared(context, call)
            for _ in range(num_warm_up):
                context.barrier()
                run()
            check()
            times: list[tuple[float, float]] = []
            for _ in range(_TRIES):
                for _ in range(num_repeats):
                    began_s = context.barrier()
                    run()
                    times.append((began_s, time.monotonic()))
                if _agree(context, times):
                    break
            found.append(times)
        return found
    finally:
        dist.destroy_process_group()


def _agree(context: RankContext, times: Sequence[tuple[float, float]]) -> bool:
    """Return whether most repeats took about the same time; rank 0 decides and broadcasts the result."""
    import torch
    import torch.distributed as dist

    took = sorted(ended - began for began, ended in times)
    middle = took[len(took) // 2]
    quarter = len(took) // 4
    agreed = torch.tensor([float(took[-1 - quarter] - took[quarter] <= _SPREAD * middle)])
    dist.broadcast(agreed, 0)
    return bool(agreed.item())


def begin_group(context: RankContext, store: str) -> None:
    """Join torch's process group through a file, with one compute thread."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=context.rank, world_size=context.num_ranks)


def prepared(context: RankContext, call: Call) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return a function that runs a collective once, and one that checks the result after at least one run."""
    if call.algorithm == "torch":
        return _of_torch(context, call)
    schedule = COLLECTIVES[call.op][call.algorithm](context.num_ranks, float(call.num_bytes))
    return _of_schedule(context, call, schedule)


def _of_torch(context: RankContext, call: Call) -> tuple[Callable[[], Any], Callable[[], None]]:
    import torch
    import torch.distributed as dist

    num_items, share = call.num_bytes // ITEM_BYTES, call.num_bytes // ITEM_BYTES // context.num_ranks
    whole, own = torch.zeros(num_items), torch.ones(share)
    ones = torch.ones(num_items)

    def all_reduce() -> None:
        whole.copy_(ones)
        dist.all_reduce(whole)

    def broadcast() -> None:
        dist.broadcast(whole, 0)

    if context.rank == 0 and call.op == "broadcast":
        whole.fill_(1.0)
    runs: dict[str, tuple[Callable[[], Any], torch.Tensor, float]] = {
        "all-reduce": (all_reduce, whole, context.num_ranks),
        "broadcast": (broadcast, whole, 1.0),
        "all-gather": (lambda: dist.all_gather_into_tensor(whole, own), whole, 1.0),
        "reduce-scatter": (lambda: dist.reduce_scatter_tensor(own, ones), own, context.num_ranks),
    }
    run, result, expected = runs[call.op]
    return run, lambda: _check(call, result, expected)


def _of_schedule(context: RankContext, call: Call, schedule: Schedule) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return functions to run and check a schedule: each step receives, sends, waits for all, and adds."""
    import torch
    import torch.distributed as dist

    buffer, ones = torch.zeros(call.num_bytes // ITEM_BYTES), torch.ones(call.num_bytes // ITEM_BYTES)
    steps = [_own_part(context.rank, schedule, number, buffer) for number in range(schedule.num_steps)]
    confirmation = torch.ones(1)

    def run() -> None:
        buffer.copy_(ones)
        for sends, receives in steps:
            arriving = [dist.irecv(each.part, each.peer) for each in receives]
            waiting = [dist.irecv(torch.zeros(1), each.peer, tag=_CONFIRMATION) for each in sends if each.confirmed]
            waiting += [dist.isend(each.part, each.peer) for each in sends]
            for each, arrival in zip(receives, arriving, strict=True):
                arrival.wait()
                if each.confirmed:
                    waiting.append(dist.isend(confirmation, each.peer, tag=_CONFIRMATION))
                if each.target is not None:
                    each.target.add_(each.part)
            for work in waiting:
                work.wait()

    return run, lambda: _check(call, buffer, context.num_ranks)


@dataclass(frozen=True)
class Message:
    """One message of a step at one of its ends; a message that is added to `target` arrives in a separate buffer."""

    peer: int
    part: torch.Tensor
    target: torch.Tensor | None
    confirmed: bool


def _own_part(rank: int, schedule: Schedule, number: int, buffer: torch.Tensor) -> tuple[list[Message], list[Message]]:
    """Return the messages that a rank sends and receives in one step."""
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
    """Return the (src, dst) of a step whose sender needs a confirmation that the message has arrived.

    A step ends when its messages have arrived, and torch's send ends when the kernel has the bytes. This matters for a
    rank whose next message goes to another rank, unless it receives from the same rank in this step anyway.
    """
    here = _pairs(schedule, number)
    later = [_pairs(schedule, following) for following in range(number + 1, schedule.num_steps)]
    found = set()
    for src, dst in here:
        sent_next = next((own for step in later if (own := {to for sender, to in step if sender == src})), set())
        if sent_next - {dst} and (dst, src) not in here:
            found.add((src, dst))
    return found


def _pairs(schedule: Schedule, number: int) -> set[tuple[int, int]]:
    step = schedule.step(number)
    return set(zip(step.src.tolist(), step.dst.tolist(), strict=True))


def _check(call: Call, result: torch.Tensor, expected: float) -> None:
    if not bool((result == expected).all()):
        raise RuntimeError(f"{call.op} by {call.algorithm} gave {result[:4].tolist()}, expected {expected} everywhere")
