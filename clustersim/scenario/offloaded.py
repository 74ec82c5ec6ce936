"""What cannot be where something of what a GPU trains lies in its host's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from clustersim.errors import Mistake
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.topology import Topology
from clustersim.topology.hosted_spec import HostedSpec
from clustersim.units import format_size

if TYPE_CHECKING:
    from clustersim.parallelism import ModelLayout
    from clustersim.scenario.point import Point


def offload_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what of a point does not go with offload; keys are as seen from `parallelism`."""
    layout, strategy, compression = point.parallelism, point.strategy.kind, point.compression.kind
    if layout.offload == "none":
        return
    if layout.schedule == "pipedream":
        why = "pipedream updates after every micro-batch, and stashes the weights of each that is in flight on the GPU"
        yield _mistake(point, f"{why}; leave offload out, or take another schedule", "none, or another schedule")
    if layout.schedule == "zero-bubble" and layout.offloads(ACTIVATIONS):
        why = "zero-bubble goes backward through a layer twice, with what it keeps on the GPU in between"
        yield _mistake(point, f"{why}; offload the optimizer alone, or take another schedule", OPTIMIZER)
    if not layout.offloads(OPTIMIZER):
        return
    if layout.sharding and point.grid.expert > 1:
        why = f"with expert, a host would update other shares of experts than of the rest ({layout.sharding})"
        yield _mistake(point, f"{why}; leave one of the three out", "none, or no sharding")
    if strategy != "all-reduce":
        why = f"a host updates by the sum of all gradients, which an all-reduce makes (got strategy {strategy})"
        yield _mistake(point, f"{why}; take that, or leave the optimizer on the GPU", "strategy: all-reduce")
    if compression != "none":
        why = f"gradients are added up as they are before they go to the host, so that nobody makes them {compression}"
        yield _mistake(point, f"{why}; leave compression out, or offload", "compression: none")


def host_memory_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    """Yield that GPUs [num_ranks] have no host memory to which anything could go."""
    if point.parallelism.offload == "none":
        return
    without = next((gpu for gpu in gpus.tolist() if topology.memory[gpu] == topology.gpus[gpu]), None)
    if without is not None:
        name = topology.node_names[topology.gpus[without]]
        message = (
            f"the GPU {name} of '{topology.name}' has no host memory, to which {point.parallelism.offload} could go; "
            "give the topology a host, such as host: {template: dual-socket, gpu: v100}"
        )
        yield Mistake(message, "parallelism.offload", got=point.parallelism.offload, allowed="a host with memory")


def held_in_hosts(laid_out: ModelLayout, hosts: np.ndarray, num_hosts: int) -> np.ndarray:
    """Return the bytes that ranks have in the memory of each host [num_hosts]; `hosts` [num_ranks] are theirs."""
    each = [sum(held.values()) for held in laid_out.host_memory]
    own = [each[laid_out.grid.stage(rank)] if any(each) else 0.0 for rank in range(len(hosts))]
    return np.bincount(hosts, own, num_hosts)


def memory_of_host(point: Point) -> float | None:
    """Return the bytes of memory that every host has; None where that is not known."""
    topology = point.topology
    if not isinstance(topology, HostedSpec) or topology.kind == "explicit" or getattr(topology, "hosts", None):
        return None
    return getattr(topology.host_with_overrides(topology.host), "memory", None)


def in_hosts_mistakes(point: Point, laid_out: ModelLayout, hosts: np.ndarray) -> Iterator[Mistake]:
    """Yield that what lies in the memory of the ranks' `hosts` [num_ranks] does not fit there."""
    has, held = memory_of_host(point), float(held_in_hosts(laid_out, hosts, 0).max())
    if has is None or held <= has or not point.memory_check:
        return
    message = (
        f"a host holds {format_size(has)}, and {point.parallelism.offload} of the GPUs on it takes {format_size(held)} "
        "there; let copies share it out (sharding), take fewer GPUs of a host, or memory_check: false to run it all "
        "the same"
    )
    yield Mistake(message, "parallelism.offload", got=format_size(held), allowed=f"at most {format_size(has)}")


def jobs_in_hosts_mistakes(point: Point, held: np.ndarray) -> Iterator[Mistake]:
    """Yield that what several jobs have in the memory of each host, `held` bytes [num_hosts] in all, is too much."""
    has = memory_of_host(point)
    if has is None or held.max() <= has or not point.memory_check:
        return
    message = (
        f"a host holds {format_size(has)}, and what the jobs on it offload takes {format_size(held.max())} there; take "
        "fewer jobs, more hosts with placement: spread, or memory_check: false to run it all the same"
    )
    yield Mistake(message, "jobs", got=format_size(held.max()), allowed=f"at most {format_size(has)}")


def _mistake(point: Point, message: str, allowed: str) -> Mistake:
    return Mistake(message, key="offload", got=point.parallelism.offload, allowed=allowed)
