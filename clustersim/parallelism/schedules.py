"""Pipeline schedules: the order of forward and backward passes of the micro-batches on a stage.

A model of p stages with v chunks each is cut into p v parts; part k is on stage k mod p. A schedule returns, for each
stage, the order of its passes: which micro-batch, which chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clustersim.errors import InputError
from clustersim.parallelism.dualpipe import dualpipe, dualpipe_v
from clustersim.parallelism.slot import Slot, deferred_weights
from clustersim.program.ops import BACKWARD, FORWARD, UPDATE, WEIGHTS
from clustersim.registry import Registry


def gpipe(stage: int, num_stages: int, num_micro: int, num_chunks: int) -> list[Slot]:
    """All forward, then all backward, the last micro-batch first (Huang et al., arXiv:1811.06965).

    The idle fraction of a stage is (p - 1) / (m + p - 1) if passes take the same time on every stage.
    """
    _one_chunk("gpipe", num_chunks)
    forward = [Slot(FORWARD, number, 0) for number in range(num_micro)]
    return forward + [Slot(BACKWARD, number, 0) for number in reversed(range(num_micro))]


def one_forward_one_backward(stage: int, num_stages: int, num_micro: int, num_chunks: int) -> list[Slot]:
    """Run the backward pass of a micro-batch as early as possible, so that a stage has at most p - stage in flight.

    PipeDream-Flush (Narayanan et al., arXiv:2006.09503): the same time as GPipe, with less memory.
    """
    _one_chunk("1f1b", num_chunks)
    ahead = min(num_stages - 1 - stage, num_micro)
    return _alternate([(number, 0) for number in range(num_micro)], [(number, 0) for number in range(num_micro)], ahead)


def interleaved(stage: int, num_stages: int, num_micro: int, num_chunks: int) -> list[Slot]:
    """Run 1F1B over several chunks a stage, in rounds of p micro-batches (Narayanan et al., arXiv:2104.04473).

    The idle time is that of 1F1B divided by the chunks.
    """
    if num_chunks == 1:
        return one_forward_one_backward(stage, num_stages, num_micro, 1)
    if num_micro % num_stages:
        near = num_micro // num_stages * num_stages
        allowed = f"a multiple of {num_stages}, such as {near or num_stages}"
        raise InputError(
            f"interleaved needs a multiple of {num_stages} micro-batches, one for each stage (got {num_micro}); use "
            f"{allowed}",
            key="micro_batches",
            got=str(num_micro),
            allowed=allowed,
        )
    forward, backward = [], []
    for first in range(0, num_micro, num_stages):
        for chunk in range(num_chunks):
            for number in range(first, first + num_stages):
                forward.append((number, chunk))
                backward.append((number, num_chunks - 1 - chunk))
    ahead = (num_stages - 1 - stage) * 2 + (num_chunks - 1) * num_stages
    return _alternate(forward, backward, min(ahead, len(forward)))


def zero_bubble(stage: int, num_stages: int, num_micro: int, num_chunks: int) -> list[Slot]:
    """Run 1F1B with gradients of weights deferred into idle time (ZB-H1, Qi et al., arXiv:2401.10241).

    Stage s defers those of s micro-batches, so it stores no more activations than 1F1B's first stage. The idle time is
    (p - 1) (forward + backward - weights) if passes take the same time on every stage.
    """
    _one_chunk("zero-bubble", num_chunks)
    slots, put_off = [], 0
    for slot in one_forward_one_backward(stage, num_stages, num_micro, 1):
        slots.append(slot)
        if slot.phase == BACKWARD and slot.micro_batch >= stage:
            slots.append(Slot(WEIGHTS, put_off, 0))
            put_off += 1
    return slots + [Slot(WEIGHTS, number, 0) for number in range(put_off, num_micro)]


def pipedream(stage: int, num_stages: int, num_micro: int, num_chunks: int) -> list[Slot]:
    """Run 1F1B without a flush, with an update after each backward pass (Narayanan et al., SOSP 2019).

    Stage s is p - 1 - s micro-batches further forward than backward, also from one iteration to the next, and no stage
    is idle if passes take the same time on every stage. A micro-batch uses weights without the updates of the p - 1 - s
    micro-batches before it, and its backward pass uses the same weights.
    """
    _one_chunk("pipedream", num_chunks)
    ahead = num_stages - 1 - stage
    phases = ((FORWARD, 0), (BACKWARD, ahead), (UPDATE, ahead))
    return [Slot(phase, number - behind, 0) for number in range(num_micro) for phase, behind in phases]


SCHEDULES: Registry[Callable[[int, int, int, int], list[Slot]]] = Registry(
    "schedule",
    {
        "gpipe": gpipe,
        "1f1b": one_forward_one_backward,
        "interleaved": interleaved,
        "zero-bubble": zero_bubble,
        "pipedream": pipedream,
        "dualpipe": dualpipe,
        "dualpipe-v": dualpipe_v,
    },
)
"""Each takes the stage, and the numbers of stages, of micro-batches and of chunks per stage."""


def in_flight_counts(slots: Sequence[Slot]) -> np.ndarray:
    """Return how many micro-batches of each chunk are in flight during each pass [num_slots, num_chunks].

    A micro-batch counts from the beginning of its forward pass to the end of the last pass that needs its activations.

    >>> in_flight_counts(one_forward_one_backward(0, 2, 3, 1))[:, 0].tolist()
    [1.0, 2.0, 2.0, 2.0, 2.0, 1.0]
    """
    chunks = np.array([slot.chunk for slot in slots])
    deferred = deferred_weights(slots)
    change = np.zeros((len(slots) + 1, int(chunks.max()) + 1))
    change[0, 0] = max(0, -min(slot.micro_batch for slot in slots))
    for number, slot in enumerate(slots):
        change[number, slot.chunk] += slot.phase == FORWARD
        puts_off = (slot.micro_batch, slot.chunk) in deferred
        change[number + 1, slot.chunk] -= slot.phase == (WEIGHTS if puts_off else BACKWARD)
    kept: np.ndarray = np.cumsum(change, axis=0)[:-1]
    return kept


def peak_pass(slots: Sequence[Slot], kept_bytes: Sequence[float], recomputed_bytes: Sequence[float]) -> int:
    """Return the index of the backward pass during which a stage stores the most.

    `kept_bytes` [num_chunks] are those of a micro-batch in flight, `recomputed_bytes` those that a backward pass
    recomputes.
    """
    backward = [number for number, slot in enumerate(slots) if slot.phase == BACKWARD]
    held = in_flight_counts(slots)[backward] @ np.array(kept_bytes)
    held += np.array([recomputed_bytes[slots[number].chunk] for number in backward])
    return backward[int(held.argmax())]


def _alternate(forward: list[tuple[int, int]], backward: list[tuple[int, int]], ahead: int) -> list[Slot]:
    """Return `ahead` forward passes, then one forward and one backward in turn, then the remaining backward passes."""
    slots = [Slot(FORWARD, *each) for each in forward[:ahead]]
    for number, each in enumerate(forward[ahead:]):
        slots += [Slot(FORWARD, *each), Slot(BACKWARD, *backward[number])]
    return slots + [Slot(BACKWARD, *each) for each in backward[len(forward) - ahead :]]


def _one_chunk(schedule: str, num_chunks: int) -> None:
    if num_chunks > 1:
        raise InputError(
            f"{schedule} has one chunk of the model on each stage (got {num_chunks}); interleaved has several",
            key="chunks",
            got=str(num_chunks),
            allowed="1, or schedule: interleaved",
        )
