"""Checks of `software.launch: blocking`, where a process waits for every kernel: nothing overlaps with compute.

Also checks of messages between stages for which both stages wait (`software.messages: awaited` or `paired`).
"""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import Mistake
from clustersim.scenario.keys import PointKeys

AWAITED = ("gpipe", "1f1b")
"""Schedules in which two stages reach their messages in the same order, so that both can wait for each message."""


def launch_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield what would overlap with compute although the processes wait for every kernel."""
    yield from _message_mistakes(point)
    yield from _mask_mistakes(point)
    if point.compute.launch != "blocking":
        return
    layout = point.parallelism
    sends_beside = (layout.pipeline or 1) > 1 and layout.messages == "beside"
    can_await = layout.schedule in AWAITED
    no_messages = "send nothing during compute"
    overlapping = {
        "strategy.overlap": (point.strategy.overlap, "false", "exchange nothing during backward"),
        "parallelism.messages": (sends_beside and can_await, "awaited or paired", no_messages),
        "parallelism.schedule": (sends_beside and not can_await, "1f1b or gpipe, with messages: awaited", no_messages),
        "parallelism.sharding": (layout.sharding == "zero-3", "zero-1 or zero-2", "gather no weights during compute"),
        "parallelism.gather_overlap": (layout.gather_overlap, "false", "gather no weights during compute"),
        "parallelism.tensor_overlap": (layout.tensor_overlap, "false", "send no pieces during matrix products"),
        "parallelism.context_method": (
            layout.context_method == "ring",
            "all-gather",
            "send no blocks during matrix products",
        ),
        "parallelism.offload": (layout.offload != "none", "none", "copy nothing to the host during compute"),
    }
    for key, (overlaps, allowed, why) in overlapping.items():
        if overlaps:
            name, got = key.rpartition(".")[-1], _written(point, key)
            message = f"processes that wait for every kernel (compute.launch: blocking) {why} (got {name}: {got}); "
            message += f"give {name}: {allowed}, or leave launch out"
            yield Mistake(message, key, got=got, allowed=allowed)


def _message_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield that stages would wait for each other in a cycle."""
    layout = point.parallelism
    if layout.messages != "beside" and layout.schedule not in AWAITED:
        message = f"with {layout.schedule} two stages reach their messages in different orders and would deadlock"
        message += "; leave messages out, or take schedule: 1f1b"
        yield Mistake(
            message, "parallelism.messages", got=layout.messages, allowed=f"with schedule: {' or '.join(AWAITED)}"
        )


def _mask_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield that queued kernels may hide the time in which the process makes masks on its host."""
    if point.parallelism.masks != "none" and point.compute.launch != "blocking":
        message = "with queued kernels it is not known how much of the time to make masks they hide; "
        message += "leave masks out, or give compute.launch: blocking"
        yield Mistake(message, "parallelism.masks", got=point.parallelism.masks, allowed="with launch: blocking")


def _written(point: PointKeys, key: str) -> str:
    of, name = key.split(".")
    value = getattr(getattr(point, of), name)
    return str(value).lower() if isinstance(value, bool) else str(value)
