"""What layouts hold on a GPU and in its host, and take there, where something lies in the hosts' memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from clustersim.errors import InputError
from clustersim.parallelism.layout import offload_of
from clustersim.parallelism.memory import HeldPart, HeldRules, stage_memory
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.planner.material import Material, point_of
from clustersim.planner.space import Choice
from clustersim.scenario.laid_out import layout_mistakes
from clustersim.scenario.offloaded import host_memory_mistakes, in_hosts_mistakes
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup


def with_offload(rules: HeldRules, material: Material, choice: Choice, stage: int) -> HeldRules:
    """Return what a stage of a choice holds by, with what of it lies in the host's memory."""
    layout = choice.layout
    return replace(
        rules,
        offload=layout.offloads(OPTIMIZER),
        offload_activations=layout.offloads(ACTIVATIONS),
        most_gradients=_most_gradients(material, choice, stage),
    )


def activation_bytes(parts: Sequence[HeldPart], rules: HeldRules) -> float:
    """Return the bytes of activations on a GPU at its peak, where what layers keep goes to the host."""
    return stage_memory(parts, rules)["activations"]


def _most_gradients(material: Material, choice: Choice, stage: int) -> float | None:
    """Return how many parameters have gradients on the GPU at once, where these leave it as they are complete.

    Those are two pieces that follow one another: buckets, or a rank's share of units (`HostUpdates.most_parameters`).
    """
    training = material.timed(choice).training
    if not offload_of(choice.layout, training).frees:
        return None
    load, grid = material.load(choice, stage), choice.grid
    if choice.layout.sharding in ("zero-2", "zero-3"):
        sizes = [size / grid.num_replicas for part in load.units[0] for size in part if size]
    else:
        sizes = [size / training.whole.gradient_bytes_per_parameter for size in load.buckets]
    return max((first + second for first, second in pairwise(sizes)), default=max(sizes, default=0.0))


def fits_in_hosts(material: Material, choice: Choice, workloads: Workloads) -> bool:
    """Say whether a choice can be as its point is, and what it offloads fits in its hosts."""
    point = point_of(material.point, choice)
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
