"""What `clustersim plan` compares layouts of, and what it does not: its bounds hold on an undisturbed cluster."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import Mistake
from clustersim.scenario.point import JobPoint, Point


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
    if (size := point.parallelism.time_chunks) > 1:
        message = "a plan does not divide sequences in time; leave time_chunks out, and run the best with it"
        yield Mistake(message, key="parallelism.time_chunks", got=str(size), allowed="1")
    if (copies := point.parallelism.sharding_copies) != "none":
        message = "a plan copies nothing around collectives; leave sharding_copies out, and run the best with it"
        yield Mistake(message, key="parallelism.sharding_copies", got=copies, allowed="none")
    if (kernels := point.parallelism.gradient_kernels) != "none":
        message = "a plan moves gradients in collectives alone; leave gradient_kernels out, and run the best with it"
        yield Mistake(message, key="parallelism.gradient_kernels", got=kernels, allowed="none")
    if (by := point.parallelism.sharding_by) != "slices":
        message = "a plan shares slices out; leave sharding_by out, and run the best with it"
        yield Mistake(message, key="parallelism.sharding_by", got=by, allowed="slices")
    if (messages := point.parallelism.messages) != "beside":
        message = "a plan has stages hand over beside compute; leave messages out, and run the best with it"
        yield Mistake(message, key="parallelism.messages", got=messages, allowed="beside")
    if (launch := point.compute.launch) != "queued":
        message = "a plan tries layouts that have things beside compute; leave launch out, and run the best with it"
        yield Mistake(message, key="compute.launch", got=launch, allowed="queued")
    if point.strategy.kind != "all-reduce":
        message = f"a plan is for copies that meet in all-reduces (the strategy is {point.strategy.kind})"
        yield Mistake(message, key="strategy.kind", got=point.strategy.kind, allowed="all-reduce")
