"""What a process that waits for every kernel cannot have: anything beside its kernels (`compute.launch: blocking`).

And how stages hand something over that both wait for (`parallelism.messages: awaited` or `paired`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clustersim.errors import Mistake

if TYPE_CHECKING:
    from clustersim.scenario.point import Point

AWAITED = ("gpipe", "1f1b")
"""Schedules in which two stages always come to a message of theirs in the same order, so that both can wait for it."""


def blocking_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what of a scenario would be beside compute, where its processes wait for every kernel."""
    yield from _message_mistakes(point)
    yield from _mask_mistakes(point)
    if point.compute.launch != "blocking":
        return
    layout = point.parallelism
    sends_beside = (layout.pipeline or 1) > 1 and layout.messages == "beside"
    can_await = layout.schedule in AWAITED
    silent = "send nothing beside compute"
    beside = {
        "strategy.overlap": (point.strategy.overlap, "false", "exchange nothing beside backward"),
        "parallelism.messages": (sends_beside and can_await, "awaited or paired", silent),
        "parallelism.schedule": (sends_beside and not can_await, "1f1b or gpipe, with messages: awaited", silent),
        "parallelism.sharding": (layout.sharding == "zero-3", "zero-1 or zero-2", "gather no weights beside compute"),
        "parallelism.gather_overlap": (layout.gather_overlap, "false", "gather no weights beside compute"),
        "parallelism.tensor_overlap": (layout.tensor_overlap, "false", "send no pieces beside products"),
        "parallelism.context_method": (layout.context_method == "ring", "all-gather", "send no blocks beside products"),
        "parallelism.offload": (layout.offload != "none", "none", "copy nothing to the host beside compute"),
    }
    for key, (is_beside, allowed, why) in beside.items():
        if is_beside:
            message = f"processes that wait for every kernel (compute.launch: blocking) {why}; "
            message += f"give {key.rpartition('.')[-1]}: {allowed}, or leave launch out"
            yield Mistake(message, key, got=_written(point, key), allowed=allowed)


def _message_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield that stages would wait for each other in a circle."""
    layout = point.parallelism
    if layout.messages != "beside" and layout.schedule not in AWAITED:
        message = f"with {layout.schedule} two stages come to their messages in different orders, and cannot await them"
        message += "; leave messages out, or take schedule: 1f1b"
        yield Mistake(
            message, "parallelism.messages", got=layout.messages, allowed=f"with schedule: {' or '.join(AWAITED)}"
        )


def _mask_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield that kernels in a queue may hide what their process does on its host."""
    if point.parallelism.masks != "none" and point.compute.launch != "blocking":
        message = "where kernels are in a queue, how much of the making of masks they hide is not known; "
        message += "leave masks out, or give compute.launch: blocking"
        yield Mistake(message, "parallelism.masks", got=point.parallelism.masks, allowed="with launch: blocking")


def _written(point: Point, key: str) -> str:
    of, name = key.split(".")
    value = getattr(getattr(point, of), name)
    return str(value).lower() if isinstance(value, bool) else str(value)
