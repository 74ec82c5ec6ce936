"""A job: the workers of one training run on the clock, and the times they note down."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import simpy

from clustersim.devices import GpuDevice
from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.program import Bucket, Iteration
from clustersim.results import Timesheet


@dataclass
class Job:
    """Workers on `gpus` [num_ranks]. Each goes through `plans(rank, iteration)`.

    What it computes is slowed by `slowdown` [num_ranks, num_iterations]; `algorithms` [num_buckets] is noted
    down by the strategy.

    `update_bytes_per_byte` is how many bytes the optimizer moves for each byte of gradient, which is what
    an update costs in a server's memory.
    """

    env: simpy.Environment
    network: Network
    transport: Transport
    gpus: np.ndarray
    plans: Callable[[int, int], Iteration]
    slowdown: np.ndarray
    update_bytes_per_byte: float
    times: Timesheet = field(init=False)
    algorithms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.times = Timesheet.blank(self.num_ranks, self.num_iterations, len(self.buckets))

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """What is exchanged in every iteration; the same for all ranks, but for when it is ready."""
        return self.plans(0, 0).buckets

    @property
    def num_ranks(self) -> int:
        return int(self.slowdown.shape[0])

    @property
    def num_iterations(self) -> int:
        return int(self.slowdown.shape[1])

    @cached_property
    def devices(self) -> list[GpuDevice]:
        return [GpuDevice(self.env, self.network, int(gpu)) for gpu in self.gpus]

    @cached_property
    def hosts(self) -> np.ndarray:
        """[num_ranks] the host of each rank."""
        return np.asarray(self.network.topology.gpu_hosts[self.gpus])

    @property
    def is_staged(self) -> bool:
        """Whether messages start and end in host memory."""
        return self.transport.buffers == "host"

    def buffer_nodes(self) -> list[Hashable]:
        """Return where each rank's messages start and end [num_ranks]."""
        return [device.host_memory if self.is_staged else device.node for device in self.devices]
