"""What would make a layout fit into a GPU that it does not fit into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.scenario.layout import layout_of, work_of
from clustersim.scenario.offloaded import offload_mistakes
from clustersim.scenario.planned import plan_mistakes
from clustersim.scenario.point import Point
from clustersim.units import format_size
from clustersim.workload import LayerTime, Model


def what_fits(point: Point, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu) -> str:
    """Return the least change of a layout with which it fits, or that none of them does; and who looks at all others.

    That is `clustersim plan`, where it takes the point; whether that is one of a sweep, nothing here says.

    Tried are more recomputation, more sharding, and both; with all of it, micro-batches of one sample; and offload.
    """
    command = f"`clustersim plan SCENARIO --gpus {point.num_gpus}`"
    plan = f"{command} goes through all layouts (of a sweep, with one point given by --set)"
    looks_further = () if any(plan_mistakes(point)) else (plan,)
    least: tuple[float, str] | None = None
    for changes in _changes(point):
        told = ", ".join(f"{key}: {value}" for key, value in changes.items())
        held = _held_bytes(point, changes, model, given_times, gpu)
        if held is None:
            continue
        if held <= gpu.memory_bytes:
            return "; ".join((f"it fits with parallelism {{{told}}}, which takes {format_size(held)}", *looks_further))
        least = min(least or (held, told), (held, told))
    if least is None:
        return "".join(looks_further)
    return "; ".join((f"even parallelism {{{least[1]}}} takes {format_size(least[0])}", *looks_further))


def offload_that_fits(
    point: Point, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu
) -> str | None:
    """Return that a copy on each GPU fits with the optimizer's state in the host's memory; None where it does not."""
    held = _held_bytes(point, {"offload": OPTIMIZER}, model, given_times, gpu)
    if held is None or held > gpu.memory_bytes:
        return None
    return f"it fits with parallelism {{offload: {OPTIMIZER}}}, which takes {format_size(held)}"


def _held_bytes(
    point: Point,
    changes: dict[str, Any],
    model: Model,
    given_times: Sequence[LayerTime | None] | None,
    gpu: Gpu,
) -> float | None:
    """Return what a GPU holds with another layout, None where that cannot be."""
    changed = point.model_copy(update={"parallelism": point.parallelism.model_copy(update=changes)})
    try:
        if any(offload_mistakes(changed)):
            return None
        work = work_of(changed, model, gpu, changed.micro_batch, given_times)
        return sum(layout_of(changed, work, given_times).fullest.values())
    except InputError:
        return None


def _changes(point: Point) -> Iterator[dict[str, Any]]:
    """Yield what may be changed under `parallelism`, what costs least first."""
    layout = point.parallelism
    if layout.kind != "grid" or layout.schedule == "pipedream":
        return
    recompute: list[dict[str, Any]] = [{"recompute": "full"}] if layout.recompute != "full" else []
    levels = ("zero-1", "zero-2", "zero-3") if point.grid.num_replicas > 1 else ()
    shardings: list[dict[str, Any]] = [{"sharding": level} for level in levels if level > (layout.sharding or "")]
    yield from shardings[:1]
    yield from recompute
    yield from shardings[1:]
    both = {**(shardings[-1] if shardings else {}), **(recompute[0] if recompute else {})}
    if both:
        yield both
    smallest = both
    if point.micro_batch > 1:
        smallest = {**both, "micro_batches": layout.micro_batches * point.micro_batch}
        yield smallest
    if layout.offload in ("none", ACTIVATIONS):
        away = OPTIMIZER if layout.offload == "none" else f"{OPTIMIZER}+{ACTIVATIONS}"
        yield from ({**change, "offload": away} for change in ({}, both, smallest))
    if not layout.offloads(ACTIVATIONS):
        yield {**smallest, "offload": f"{OPTIMIZER}+{ACTIVATIONS}"}
