"""Errors for requests without a valid layout: the missing memory, and the nearest layout that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.planner.layout_costs import LayoutCosts, point_of
from clustersim.planner.peak_memory import PeakMemory
from clustersim.planner.request import PlanRequest
from clustersim.planner.space import Choice
from clustersim.scenario import Point, build_topology
from clustersim.scenario.layout_checks import layout_mistakes
from clustersim.scenario.offload_checks import host_memory_mistakes, in_hosts_mistakes
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup
from clustersim.units import format_size

_MOST_TIMES = 64
"""Maximum factor in the number of GPUs that is tried."""


def no_layout_fits(request: PlanRequest, workloads: Workloads, gpu: Gpu, held: float, choice: Choice) -> InputError:
    """Return the error that no layout fits; `choice` needs least. It names the fewest GPUs on which one fits."""
    missing = format_size(held - gpu.memory_bytes)
    has = format_size(gpu.memory_bytes)
    cluster = build_topology(request.point.topology).num_gpus
    nearest = _on_more_gpus(request, workloads, gpu, cluster)
    if nearest is None:
        hint = f"up to {_MOST_TIMES} times as many GPUs are not enough; use GPUs with more memory, or a smaller model"
    else:
        of_cluster = f" (the cluster has {cluster})" if nearest.num_gpus > cluster else ""
        hint = f"on {nearest.num_gpus} GPUs{of_cluster} it would fit with {nearest.text()}"
    return InputError(
        f"no layout fits: the one that needs least ({choice.text()}) needs {format_size(held)} on each GPU, "
        f"{missing} more than the {has} of {gpu.name}; {_with_host(request, workloads, choice)}{hint}",
        key="parallelism",
        got=format_size(held),
        allowed=f"at most {has}",
    )


def _with_host(request: PlanRequest, workloads: Workloads, choice: Choice) -> str:
    """Return the offloading with which the layout fits; empty if there is none.

    Activations are offloaded instead of recomputed.
    """
    kept = request.fixed.get("recompute", "none")
    ways = {"offload": "optimizer"}, {"offload": "optimizer+activations", "recompute": kept}
    for way in ways:
        point = point_of(request.point, replace(choice, layout=choice.layout.model_copy(update=way)))
        if _fits(point, Setup(point, workloads)):
            more = "" if "offload" in request.also else ", as --also offload compares"
            return f"with {', '.join(f'{key}: {value}' for key, value in way.items())} that one fits{more}; "
    return ""


def _fits(point: Point, setup: Setup) -> bool:
    """Return whether a point with offloading is valid and fits in the memory of its GPUs and hosts."""
    gpus = setup.gpus(0)
    if layout_mistakes(point) or list(host_memory_mistakes(point, setup.topology, gpus)):
        return False
    try:
        setup.memory_warnings()
    except InputError:
        return False
    assert setup.laid_out is not None
    return not list(in_hosts_mistakes(point, setup.laid_out, setup.topology.gpu_hosts[gpus]))


def no_layout(request: PlanRequest, discarded: Mapping[str, int]) -> InputError:
    """Return the error that there is no layout at all, with the most frequent reason."""
    why, num = max(
        discarded.items(), key=lambda item: item[1], default=("the product of the degrees is not the number of GPUs", 0)
    )
    given = ", ".join(f"{key} {value}" for key, value in request.fixed.items())
    beside = f" with {given}" if given else ""
    sizes = ", ".join(map(str, request.num_gpus))
    return InputError(
        f"there is no layout of {sizes} GPUs{beside}: {why} ({num} of them); change the batch, or fix less",
        key="parallelism",
        got=given or f"{sizes} GPUs",
        allowed="degrees whose product is the number of GPUs, and a batch that they divide",
    )


def short_reason(error: InputError) -> str:
    """Return the reason why a layout is invalid, in the same words for the same cause."""
    first = error.mistakes[0]
    causes = {
        "pipeline": "more parts than the model can be cut into",
        "chunks": "more parts than the model can be cut into",
        "tensor": "layers do not divide over the GPUs",
        "expert": "experts do not divide over the GPUs",
        "context": "tokens do not divide over the GPUs",
        "stages": "the stages given are not those of the layout",
    }
    return causes.get(first.key or "", first.message)


def _on_more_gpus(request: PlanRequest, workloads: Workloads, gpu: Gpu, cluster: int) -> Choice | None:
    """Return a layout that fits on 2, 4, 8 ... times as many GPUs, with the least memory in all keys not fixed.

    There may be more GPUs than in the `cluster` or in the placement: groups beyond these count like the others.
    """
    num_gpus = max(request.num_gpus)
    least = {"sharding": "zero-3", "recompute": "full", "schedule": "1f1b", "chunks": 1}
    times = 2
    while times <= _MOST_TIMES:
        batches = {num_gpus * times: request.batches[num_gpus]}
        fixed = {**least, **{key: value for key, value in request.fixed.items() if key != "data"}}
        memory = _memory(request, workloads, min(num_gpus * times, cluster))
        for (choice,) in request.space(batches, fixed).families({}):
            try:
                if memory.peak_bytes(choice) <= gpu.memory_bytes:
                    return choice
            except InputError:
                continue
        times *= 2
    return None


def _memory(request: PlanRequest, workloads: Workloads, num_gpus: int) -> PeakMemory:
    """Return the peak memory of layouts on a number of GPUs; on that of the request if these cannot be placed."""
    try:
        return PeakMemory(LayoutCosts(request.point.model_copy(update={"num_gpus": num_gpus}), workloads))
    except InputError:
        return PeakMemory(LayoutCosts(request.point, workloads))
