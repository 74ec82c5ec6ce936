"""A GPU that computes and copies."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from clustersim.network import Network
from clustersim.stragglers import Pace
from clustersim.topology import Node

Process = Generator[simpy.Event, Any, Any]


class GpuDevice:
    """A GPU of a network's topology: `stream` computes, `copy_out` and `copy_in` move bytes to and from the host.

    `pace` says how fast it computes as time passes, where that changes: in slow periods and pauses.

    >>> env = simpy.Environment()
    >>> gpu = GpuDevice(env, Network(env, {"kind": "star", "num_hosts": 1, "link": "1 GB/s", "hop": "1 us"}), 0)
    >>> env.run(env.process(gpu.compute(0.25))), env.now
    (None, 0.25)
    """

    def __init__(self, env: simpy.Environment, network: Network, number: int, pace: Pace | None = None):
        topology = network.topology
        self.env = env
        self.number = number
        self.node = Node(topology.gpus[number])
        self.host_memory = Node(topology.memory[number])
        self.stream = simpy.Resource(env, capacity=1)
        self.out_engine = simpy.Resource(env, capacity=1)
        self.in_engine = simpy.Resource(env, capacity=1)
        self._network = network
        self._pace = pace

    def compute(self, seconds: float) -> Process:
        """Occupy the compute stream with work that takes so many seconds at full pace."""
        with self.stream.request() as turn:
            if not turn.triggered:
                yield turn
            if self._pace is not None:
                seconds = self._pace.end_s(self.env.now, seconds) - self.env.now
            yield self.env.timeout(seconds)

    def copy_out(self, num_bytes: float) -> Process:
        """Copy from GPU memory to the memory of its host."""
        with self.out_engine.request() as turn:
            if not turn.triggered:
                yield turn
            yield self._network.transfer(self.node, self.host_memory, num_bytes)

    def copy_in(self, num_bytes: float) -> Process:
        """Copy from the memory of its host to GPU memory."""
        with self.in_engine.request() as turn:
            if not turn.triggered:
                yield turn
            yield self._network.transfer(self.host_memory, self.node, num_bytes)
