"""What ranks let their hosts do beside the GPUs: copies over PCIe, and updates by the hosts' processors."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from clustersim.devices import GpuDevice, SharedRate
from clustersim.network import Network
from clustersim.program.ops import Copy, HostUpdate
from clustersim.strategies.day import Process

Note = Callable[[str, float, str], None]
"""Notes down the kind of what has ended now, when it began, and its name."""


class HostSide:
    """The hosts of a job's GPUs. Copies of a GPU in one direction follow one another; those of others share the links.

    Updates in one memory share its rate, as STREAM counts it on all cores of the socket: what an update takes is the
    bytes that it moves there. That copies take some of that rate is left out.
    """

    def __init__(self, network: Network):
        self._network, self._env = network, network.env
        self._memories: dict[int, SharedRate] = {}
        self._last: dict[tuple[int, bool], simpy.Event] = {}

    def begin(self, gpu: GpuDevice, op: Copy | HostUpdate, after: simpy.Event | None, note: Note) -> simpy.Event:
        """Begin a copy or an update once something else is done; return the event of its end."""
        ahead = [after]
        if isinstance(op, Copy):
            ahead.append(self._last.get((gpu.number, op.to_host)))
        waits_for = [event for event in ahead if event is not None and not event.processed]
        done = self._env.process(self._go(gpu, op, waits_for, note))
        if isinstance(op, Copy):
            self._last[gpu.number, op.to_host] = done
        return done

    def _go(self, gpu: GpuDevice, op: Copy | HostUpdate, waits_for: list[simpy.Event], note: Note) -> Process:
        for event in waits_for:
            if not event.processed:
                yield event
        start_s = float(self._env.now)
        if isinstance(op, HostUpdate):
            yield self._memory(gpu).serve(op.moved_bytes)
            note("host", start_s, f"{op.key.what}, micro-batch {op.key.micro_batch}")
            return
        yield from gpu.copy_out(op.num_bytes) if op.to_host else gpu.copy_in(op.num_bytes)
        way = "to" if op.to_host else "from"
        note("copy", start_s, f"{op.key.what} {way} host, micro-batch {op.key.micro_batch}")

    def _memory(self, gpu: GpuDevice) -> SharedRate:
        """Return the memory of a GPU's host as what serves those who update there."""
        topology, node = self._network.topology, int(gpu.host_memory)
        if node not in self._memories:
            rate = float(topology.links.bytes_per_s[topology.adders[node]])
            self._memories[node] = SharedRate(self._env, rate)
        return self._memories[node]
