"""Checks of `parallelism.offload`: what does not go with it, and whether the memory of the hosts is large enough."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clustersim.errors import Mistake
from clustersim.kernels import memory_lack
from clustersim.parallelism import ModelLayout
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.parallelism.route import ROUTES
from clustersim.scenario.keys import PointKeys
from clustersim.topology import Topology
from clustersim.topology.hosted_spec import HostedSpec
from clustersim.units import format_size


def offload_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield what in a point does not go with offload; keys are relative to `parallelism`."""
    layout, strategy, compression = point.parallelism, point.strategy.kind, point.compression.kind
    if layout.offload == "none":
        return
    if layout.schedule == "pipedream":
        why = "pipedream updates after every micro-batch and keeps the weights of each micro-batch in flight on the GPU"
        yield _mistake(point, f"{why}; leave offload out, or take another schedule", "none, or another schedule")
    if layout.schedule in ("zero-bubble", *ROUTES) and layout.offloads(ACTIVATIONS):
        why = f"{layout.schedule} splits the backward pass of a layer in two and keeps its activations on the GPU"
        yield _mistake(point, f"{why}; offload the optimizer alone, or take another schedule", OPTIMIZER)
    if not layout.offloads(OPTIMIZER):
        return
    if layout.sharding and point.grid.expert > 1:
        why = f"with expert, a host would update other shares of experts than of other layers ({layout.sharding})"
        yield _mistake(point, f"{why}; leave one of the three out", "none, or no sharding")
    if not point.strategy.all_reduces_gradients:
        why = f"an update on the host needs the sum of all gradients from an all-reduce (got strategy {strategy})"
        yield _mistake(point, f"{why}; take that, or leave the optimizer on the GPU", "strategy: all-reduce")
    if compression != "none":
        why = f"gradients are added before they are copied to the host, so they are not compressed (got {compression})"
        yield _mistake(point, f"{why}; leave compression out, or offload", "compression: none")


def host_memory_mistakes(point: PointKeys, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    """Yield that one of the GPUs [num_ranks] has no host memory to offload to."""
    if point.parallelism.offload == "none":
        return
    without = next((gpu for gpu in gpus.tolist() if topology.memory[gpu] == topology.gpus[gpu]), None)
    if without is not None:
        name = topology.node_names[topology.gpus[without]]
        message = (
            f"the GPU {name} of '{topology.name}' has no host memory for {point.parallelism.offload}; "
            "give the topology a host, such as host: {template: dual-socket, gpu: v100}"
        )
        yield Mistake(message, "parallelism.offload", got=point.parallelism.offload, allowed="a host with memory")


def held_in_hosts(laid_out: ModelLayout, hosts: np.ndarray, num_hosts: int) -> np.ndarray:
    """Return the bytes offloaded to each host [num_hosts]; `hosts` [num_ranks] is the host of each rank."""
    each = [sum(held.values()) for held in laid_out.host_memory]
    own = [each[laid_out.grid.stage(rank)] if any(each) else 0.0 for rank in range(len(hosts))]
    return np.bincount(hosts, own, num_hosts)


def memory_of_host(point: PointKeys) -> float | None:
    """Return the bytes of memory of each host; None if not known."""
    topology = point.topology
    if not isinstance(topology, HostedSpec) or topology.kind == "explicit" or getattr(topology, "hosts", None):
        return None
    return getattr(topology.host_with_overrides(topology.host), "memory", None)


def in_hosts_mistakes(point: PointKeys, laid_out: ModelLayout, hosts: np.ndarray) -> Iterator[Mistake]:
    """Yield that what one job offloads to `hosts` [num_ranks] does not fit into their memory."""
    capacity, held = memory_of_host(point), float(held_in_hosts(laid_out, hosts, 0).max())
    if capacity is None or held <= capacity or not point.memory_check:
        return
    message = (
        f"a host holds {format_size(capacity)}, and {point.parallelism.offload} of its GPUs takes {format_size(held)}; "
        "shard it over the copies (sharding), take fewer GPUs per host, or memory_check: false to run it anyway"
    )
    yield memory_lack(message, "parallelism.offload", held, capacity)


def jobs_in_hosts_mistakes(point: PointKeys, held: np.ndarray) -> Iterator[Mistake]:
    """Yield that what several jobs offload to each host, `held` bytes [num_hosts] in all, does not fit."""
    capacity = memory_of_host(point)
    if capacity is None or held.max() <= capacity or not point.memory_check:
        return
    message = (
        f"a host holds {format_size(capacity)}, and its jobs offload {format_size(held.max())} to it; take fewer jobs, "
        "more hosts with placement: spread, or memory_check: false to run it anyway"
    )
    yield memory_lack(message, "jobs", float(held.max()), capacity)


def _mistake(point: PointKeys, message: str, allowed: str) -> Mistake:
    return Mistake(message, key="offload", got=point.parallelism.offload, allowed=allowed)
