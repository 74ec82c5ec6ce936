"""What would make a layout fit into a GPU that it does not fit into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.scenario.layout import layout_of, work_of
from clustersim.scenario.point import Point
from clustersim.units import format_size
from clustersim.workload import LayerTime, Model


def what_fits(point: Point, model: Model, given_times: Sequence[LayerTime | None] | None, gpu: Gpu) -> str:
    """Return the least change of a layout with which it fits, or that none of them does; and who looks at all others.

    Tried are more recomputation, more sharding, and both; and with all of it, micro-batches of one sample.
    """
    plan = f"`clustersim plan SCENARIO --gpus {point.num_gpus}` goes through all layouts"
    least: tuple[float, str] | None = None
    for changes in _changes(point):
        told = ", ".join(f"{key}: {value}" for key, value in changes.items())
        changed = point.model_copy(update={"parallelism": point.parallelism.model_copy(update=changes)})
        try:
            work = work_of(changed, model, gpu, changed.micro_batch, given_times)
            held = sum(layout_of(changed, work, given_times).fullest.values())
        except InputError:
            continue
        if held <= gpu.memory_bytes:
            return f"it fits with parallelism {{{told}}}, which takes {format_size(held)}; {plan}"
        least = min(least or (held, told), (held, told))
    if least is None:
        return plan
    return f"even parallelism {{{least[1]}}} takes {format_size(least[0])}; {plan}"


def _changes(point: Point) -> Iterator[dict[str, Any]]:
    """Yield what may be changed under `parallelism`, what costs least first."""
    layout = point.parallelism
    if layout.kind != "grid" or layout.schedule == "pipedream":
        return
    recompute: list[dict[str, Any]] = [{"recompute": "full"}] if layout.recompute != "full" else []
    levels = ("zero-1", "zero-2", "zero-3") if point.grid.data > 1 and point.grid.expert == 1 else ()
    shardings: list[dict[str, Any]] = [{"sharding": level} for level in levels if level > (layout.sharding or "")]
    yield from shardings[:1]
    yield from recompute
    yield from shardings[1:]
    both = {**(shardings[-1] if shardings else {}), **(recompute[0] if recompute else {})}
    yield both
    if point.micro_batch > 1:
        yield {**both, "micro_batches": layout.micro_batches * point.micro_batch}
