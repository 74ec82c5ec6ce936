"""What cannot be where something of what a GPU trains lies in its host's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from clustersim.errors import Mistake
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.topology import Topology

if TYPE_CHECKING:
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


def _mistake(point: Point, message: str, allowed: str) -> Mistake:
    return Mistake(message, key="offload", got=point.parallelism.offload, allowed=allowed)
