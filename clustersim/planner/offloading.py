"""Memory of layouts that offload state to the hosts' memory, on the GPU and on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from clustersim.errors import InputError
from clustersim.parallelism.layout import offload_of
from clustersim.parallelism.memory import MemoryRules, PartInMemory, stage_memory
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.planner.layout_costs import LayoutCosts, point_of
from clustersim.planner.space import Choice
from clustersim.scenario.layout_checks import layout_mistakes
from clustersim.scenario.offload_checks import host_memory_mistakes, in_hosts_mistakes
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup


def with_offload(rules: MemoryRules, costs: LayoutCosts, choice: Choice, stage: int) -> MemoryRules:
    """Return the memory rules of a stage of a choice, including its offloading."""
    layout = choice.layout
    return replace(
        rules,
        offload=layout.offloads(OPTIMIZER),
        offload_activations=layout.offloads(ACTIVATIONS),
        most_gradients=_most_gradients(costs, choice, stage),
    )


def activation_bytes(parts: Sequence[PartInMemory], rules: MemoryRules) -> float:
    """Return the peak bytes of activations on a GPU if kept activations are offloaded to the host."""
    return stage_memory(parts, rules)["activations"]


def _most_gradients(costs: LayoutCosts, choice: Choice, stage: int) -> float | None:
    """Return the maximum number of parameters with gradients on the GPU, if these leave it once complete.

    It is the maximum of two consecutive pieces: buckets, or a rank's share of units (`HostUpdates.most_parameters`).
    """
    training = costs.timed(choice).training
    if not offload_of(choice.layout, training).frees:
        return None
    load, grid = costs.load(choice, stage), choice.grid
    if choice.layout.sharding in ("zero-2", "zero-3"):
        sizes = [size / grid.num_replicas for part in load.units[0] for size in part if size]
    else:
        sizes = [size / training.whole.gradient_bytes_per_parameter for size in load.buckets]
    return max((first + second for first, second in pairwise(sizes)), default=max(sizes, default=0.0))


def fits_in_host_memory(costs: LayoutCosts, choice: Choice, workloads: Workloads) -> bool:
    """Return whether a choice is valid for its point, and its offloaded state fits in its hosts."""
    point = point_of(costs.point, choice)
    setup = Setup(point, workloads)
    gpus = setup.gpus(0)
    if layout_mistakes(point) or list(host_memory_mistakes(point, setup.topology, gpus)):
        return False
    try:
        laid_out = setup.laid_out
    except InputError:
        return False
    assert laid_out is not None
    return not list(in_hosts_mistakes(point, laid_out, setup.topology.gpu_hosts[gpus]))
