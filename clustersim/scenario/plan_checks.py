"""Checks of what `clustersim plan` supports: its bounds hold for one job on a cluster without stragglers."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import Mistake
from clustersim.scenario.point import JobPoint, Point
from clustersim.scenario.software_keys import as_written

_PLANNED = "schedules with a flush"

_ONLY = {
    "parallelism.time_chunks": ("1", "does not divide sequences in time"),
    "parallelism.sharding_copies": ("none", "makes no copies around collectives"),
    "parallelism.gathers": ("update", "gathers weights once per update"),
    "parallelism.joined_sums": ("None", "adds the sums of groups block by block"),
    "parallelism.recompute_blocks": ("None", "recomputes all blocks, or none"),
    "parallelism.gradient_kernels": ("none", "moves gradients only in collectives"),
    "parallelism.input_sums": ("joined", "adds the gradient of a shared input once"),
    "parallelism.dispatched": ("activations", "sends tokens to experts as activations"),
    "parallelism.sharding_by": ("slices", "shards by slices"),
    "parallelism.handed": ("in-shares", "sends activations between stages in shares"),
    "parallelism.messages": ("beside", "overlaps messages between stages with compute"),
    "compute.launch": ("queued", "tries layouts that overlap communication with compute"),
    "optimizer.skipped": ("false", "compares iterations with an update"),
    "optimizer.issue": ("None", "assumes that kernels are queued in time"),
    "strategy.stream": ("own", "puts copies between GPUs in their own streams"),
    "strategy.shared_weights": ("once", "tries layouts in which no gradient is sent twice"),
}
"""The only value of a key that a plan supports, and what a plan does."""


def left_out_of_a_plan(point: Point) -> dict[str, str]:
    """Return the settings of the software's sheet that a plan does not support, with the values that it takes."""
    found = {}
    for key, (allowed, _) in _ONLY.items():
        of, name = key.split(".")
        written = as_written(key)
        got = str(getattr(getattr(point, of), name, allowed))
        if key in point.supplied and got.casefold() != allowed.casefold() and written != key:
            found[written.removeprefix("software.")] = allowed
    return found


def plan_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what in a point a plan does not support, on any cluster."""
    given = {
        "stragglers": bool(point.stragglers),
        "failures": point.failures is not None,
        "input": point.input is not None,
        "jobs": point.jobs != 1 or isinstance(point, JobPoint),
        "compression": point.compression.kind != "none",
        "lora": point.lora is not None,
        "packing": point.packing is not None,
    }
    for key in (key for key, is_given in given.items() if is_given):
        message = (
            f"a plan compares layouts of one job on an undisturbed cluster; leave {key} out, and run its best with it"
        )
        yield Mistake(message, key=key, got="given", allowed=f"no {key}")
    if (kind := point.parallelism.kind) != "grid":
        message = f"a plan compares layouts on a grid of GPUs (got {kind}); compare its best with a run of {kind}"
        yield Mistake(message, key="parallelism.kind", got=kind, allowed="grid")
    if (schedule := point.parallelism.schedule) == "pipedream":
        message = f"a plan compares {_PLANNED} (got {schedule}); compare its best with a run of {schedule}"
        yield Mistake(message, key="parallelism.schedule", got=schedule, allowed=_PLANNED)
    for key, (allowed, why) in _ONLY.items():
        of, name = key.split(".")
        got = str(getattr(getattr(point, of), name, allowed))
        if got.casefold() != allowed.casefold():
            message = f"a plan {why}; leave {as_written(key).rpartition('.')[2]} out, and run the best with it"
            yield Mistake(message, key=as_written(key), got=got, allowed=allowed)
    if point.compute.casts == "torchao-sharded":
        message = "a plan casts whole weights (got torchao-sharded); take torchao, and run its best with it"
        yield Mistake(message, key=as_written("compute.casts"), got="torchao-sharded", allowed="other casts")
    if point.optimizer.orthogonalizes:
        message = "a plan bounds updates by their parameters (got muon); leave it out, and run its best with it"
        yield Mistake(message, key="optimizer.kind", got="muon", allowed="another kind")
    if not point.strategy.all_reduces_gradients:
        message = f"a plan is for strategy all-reduce (got {point.strategy.kind})"
        yield Mistake(message, key="strategy.kind", got=point.strategy.kind, allowed="all-reduce")
