"""A GPU: its compute stream, and the copies to and from its host."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from clustersim.devices.multiprocessors import Multiprocessors, Pieces
from clustersim.devices.queueing import Queue
from clustersim.network import Network
from clustersim.stragglers import Pace
from clustersim.topology import Node

Process = Generator[simpy.Event, Any, Any]


class GpuDevice:
    """A GPU of a network's topology: `stream` computes, `copy_out` and `copy_in` move bytes to and from the host.

    `pace` is its speed over time, where that changes in slow periods and pauses. If it `shares` its `multiprocessors`,
    it computes at the speed of those that are not occupied. `number` is that of the GPU in the topology.

    >>> env = simpy.Environment()
    >>> gpu = GpuDevice(env, Network(env, {"kind": "star", "num_hosts": 1, "link": "1 GB/s", "hop": "1 us"}), 0)
    >>> env.run(env.process(gpu.compute(0.25))), env.now
    ([], 0.25)
    """

    def __init__(
        self, env: simpy.Environment, network: Network, number: int, pace: Pace | None = None, shares: bool = False
    ):
        topology = network.topology
        self.env = env
        self.number = number
        self.node = Node(topology.gpus[number])
        self.host_memory = Node(topology.memory[number])
        self.stream = Queue(env)
        self.out_engine = Queue(env)
        self.in_engine = Queue(env)
        self._network = network
        self._pace = pace
        self.multiprocessors = Multiprocessors(env, pace) if shares else None

    def compute(self, seconds: float) -> Process:
        """Occupy the compute stream with work of some seconds at full speed.

        Return the times at which its speed changed, and the work done by then, where multiprocessors are shared.
        """
        acquired = self.stream.acquire()
        if acquired is not None:
            yield acquired
        if self.multiprocessors is not None:
            pieces: Pieces = yield self.multiprocessors.work(seconds)
            self.stream.release()
            return pieces
        if self._pace is not None:
            seconds = self._pace.end_s(self.env.now, seconds) - self.env.now
        yield simpy.Timeout(self.env, seconds)
        self.stream.release()
        return []

    def take_lost_s(self) -> float:
        """Return the seconds of compute lost to occupied multiprocessors since the last call."""
        return 0.0 if self.multiprocessors is None else self.multiprocessors.take_lost_s()

    def copy_out(self, num_bytes: float) -> Process:
        """Copy bytes from GPU memory to the memory of its host."""
        yield from self._copy(self.out_engine, self.node, self.host_memory, num_bytes)

    def copy_in(self, num_bytes: float, memory: Node | None = None) -> Process:
        """Copy bytes to GPU memory, from the host memory of its socket or from another one of its host (`memory`)."""
        yield from self._copy(self.in_engine, self.host_memory if memory is None else memory, self.node, num_bytes)

    def _copy(self, engine: Queue, src: Node, dst: Node, num_bytes: float) -> Process:
        acquired = engine.acquire()
        if acquired is not None:
            yield acquired
        yield self._network.transfer(src, dst, num_bytes)
        engine.release()
