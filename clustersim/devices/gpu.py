"""A GPU: its compute stream, and the copies to and from its host."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from clustersim.devices.multiprocessors import Multiprocessors, Pieces
from clustersim.devices.queueing import Queue
from clustersim.network import Network, moment
from clustersim.program.issue import IssueTimes
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

    def compute_issued(
        self, seconds: float, slowdown: float, issue: IssueTimes, host_s: float, each: bool
    ) -> Generator[simpy.Event, Any, tuple[Pieces, float]]:
        """Run `seconds` of kernels at a slowdown, each after it has been issued by the host, which began at `host_s`.

        With `each`, every kernel that has an issue time runs apart from those before it. Otherwise they run in one go
        where the speed of the GPU is constant; they end at the same time, to the last bit. Of GPUs that end at the same
        time, because their hosts issue at the same time, the one with the lowest number is the first to go on. Return
        the pieces of `compute`, those without a host to wait for included, and the seconds in which the GPU waited for
        its host.
        """
        if not len(issue) or host_s + issue.host_s <= self.env.now:
            return (yield from self.compute(seconds * slowdown)), 0.0
        if self._pace is not None or self.multiprocessors is not None:
            return (yield from self._compute_rows(seconds, slowdown, issue, host_s, each))
        acquired = self.stream.acquire()
        if acquired is not None:
            yield acquired
        start_s = float(self.env.now)
        if each:
            found = yield from self._wait_for_each(start_s, slowdown, issue, host_s)
        else:
            found = issue.last_wait(start_s, host_s, slowdown)
        if found is None:
            yield moment(self.env, start_s + slowdown * seconds)
        else:
            end_s = found[0] + slowdown * (seconds - found[1])
            yield moment(self.env, max(start_s, end_s), self.number)
        self.stream.release()
        waited_s = 0.0 if found is None else max(0.0, self.env.now - start_s - slowdown * seconds)
        return [], waited_s

    def _wait_for_each(
        self, start_s: float, slowdown: float, issue: IssueTimes, host_s: float
    ) -> Generator[simpy.Event, Any, tuple[float, float] | None]:
        """Run the kernels one after the other, at constant speed; return the same as `IssueTimes.last_wait`."""
        from_s, from_work_s, found = start_s, 0.0, None
        for work_s, issued_s in issue.rows:
            until_s, reached_s = host_s + issued_s, from_s + slowdown * (work_s - from_work_s)
            yield moment(self.env, max(float(self.env.now), reached_s))
            if until_s > reached_s:
                yield moment(self.env, until_s, self.number)
                found = from_s, from_work_s = until_s, work_s
        return found

    def _compute_rows(
        self, seconds: float, slowdown: float, issue: IssueTimes, host_s: float, each: bool
    ) -> Generator[simpy.Event, Any, tuple[Pieces, float]]:
        """Do the same on a GPU whose speed changes."""
        pieces: Pieces = []
        done_s = waited_s = 0.0
        for work_s, issued_s in issue.rows:
            until_s = host_s + issued_s
            reached_s = self.env.now + (work_s - done_s) * slowdown
            if reached_s >= until_s and self._pace is None and not each:
                continue  # at most at full speed, the GPU arrives there later
            found = yield from self.compute(max(0.0, work_s - done_s) * slowdown)
            pieces += [(time_s, done_s * slowdown + part_s) for time_s, part_s in found]
            done_s = work_s
            if until_s > self.env.now:
                pieces.append((float(self.env.now), done_s * slowdown))
                waited_s += until_s - self.env.now
                yield moment(self.env, until_s, self.number)
                pieces.append((float(self.env.now), done_s * slowdown))
        found = yield from self.compute(max(0.0, seconds - done_s) * slowdown)
        pieces += [(time_s, done_s * slowdown + part_s) for time_s, part_s in found]
        return pieces, waited_s

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
