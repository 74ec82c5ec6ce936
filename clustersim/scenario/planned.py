"""What `clustersim plan` compares layouts of, and what it does not: its bounds hold on an undisturbed cluster."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import Mistake
from clustersim.scenario.point import JobPoint, Point

_ONLY = {
    "parallelism.time_chunks": ("1", "does not divide sequences in time"),
    "parallelism.sharding_copies": ("none", "copies nothing around collectives"),
    "parallelism.gathers": ("update", "gathers weights once an update"),
    "parallelism.joined_sums": ("None", "adds up what groups have block by block"),
    "parallelism.recompute_blocks": ("None", "computes all blocks again, or none"),
    "parallelism.gradient_kernels": ("none", "moves gradients in collectives alone"),
    "parallelism.input_sums": ("joined", "adds up once what several matrices read"),
    "parallelism.sharding_by": ("slices", "shares slices out"),
    "parallelism.handed": ("in-shares", "has stages hand over in shares"),
    "parallelism.messages": ("beside", "has stages hand over beside compute"),
    "compute.launch": ("queued", "tries layouts that have things beside compute"),
    "optimizer.skipped": ("false", "compares iterations that update"),
    "optimizer.issue": ("None", "takes kernels to be in the queue in time"),
    "strategy.stream": ("own", "has copies between GPUs in streams of their own"),
    "strategy.shared_weights": ("once", "divides layers and shares state out, where nothing travels twice"),
}
"""What a scenario says in every plan, and why nothing else."""


def plan_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what a point has that layouts cannot be compared with in a plan, whatever its cluster is."""
    given = {
        "stragglers": bool(point.stragglers),
        "failures": point.failures is not None,
        "input": point.input is not None,
        "jobs": point.jobs != 1 or isinstance(point, JobPoint),
        "compression": point.compression.kind != "none",
    }
    for key in (key for key, is_given in given.items() if is_given):
        message = (
            f"a plan compares layouts of one job on an undisturbed cluster; leave {key} out, and run the best with it"
        )
        yield Mistake(message, key=key, got="given", allowed=f"no {key}")
    if (kind := point.parallelism.kind) != "grid":
        message = f"a plan lays models out over a grid of GPUs; run {kind} beside the best of these"
        yield Mistake(message, key="parallelism.kind", got=kind, allowed="grid")
    if (schedule := point.parallelism.schedule) == "pipedream":
        message = f"a plan compares layouts that train alike; leave {schedule} out, and run it beside the best of these"
        yield Mistake(message, key="parallelism.schedule", got=schedule, allowed="a schedule with a flush")
    for key, (allowed, why) in _ONLY.items():
        of, name = key.split(".")
        got = str(getattr(getattr(point, of), name, allowed))
        if got.casefold() != allowed.casefold():
            message = f"a plan {why}; leave {name} out, and run the best with it"
            yield Mistake(message, key=key, got=got, allowed=allowed)
    if point.strategy.kind != "all-reduce":
        message = f"a plan is for copies that meet in all-reduces (the strategy is {point.strategy.kind})"
        yield Mistake(message, key="strategy.kind", got=point.strategy.kind, allowed="all-reduce")
