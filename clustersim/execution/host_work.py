"""What ranks let their hosts do beside the GPUs: copies over PCIe, and updates by the hosts' processors."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from clustersim.devices import GpuDevice, SharedRate
from clustersim.execution.job import Job
from clustersim.execution.worker import Process
from clustersim.program.ops import Copy, HostUpdate

Note = Callable[[str, float, str, str, int], None]
"""Notes down the kind of what has ended now, when it began, its name, its cause, and its micro-batch."""


class HostWork:
    """The hosts of a job's GPUs. Copies of a GPU in one direction follow one another; those of others share the links.

    Updates in one memory, of any job, share its rate, as STREAM counts it on all cores of the socket: what an update
    takes is the bytes that it moves there. That copies take some of that rate is left out.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, bool], simpy.Event] = {}

    def begin(self, job: Job, place: int, op: Copy | HostUpdate, after: simpy.Event | None, note: Note) -> simpy.Event:
        """Begin a copy or an update of a job's rank once something else is done; return the event of its end."""
        gpu, ahead = job.devices[place], [after]
        if isinstance(op, Copy):
            ahead.append(self._last.get((gpu.number, op.to_host)))
        waits_for = [event for event in ahead if event is not None and not event.processed]
        done = job.env.process(self._go(job, gpu, op, waits_for, note))
        if isinstance(op, Copy):
            self._last[gpu.number, op.to_host] = done
        return done

    def _go(self, job: Job, gpu: GpuDevice, op: Copy | HostUpdate, waits_for: list[simpy.Event], note: Note) -> Process:
        for event in waits_for:
            if not event.processed:
                yield event
        start_s = float(job.env.now)
        if isinstance(op, HostUpdate):
            yield _memory(job, gpu).serve(op.moved_bytes)
            note("host", start_s, op.key.what, "", op.key.micro_batch)
            return
        yield from gpu.copy_out(op.num_bytes) if op.to_host else gpu.copy_in(op.num_bytes)
        way = "to" if op.to_host else "from"
        note("copy", start_s, f"{op.key.what} {way} host", "", op.key.micro_batch)


def _memory(job: Job, gpu: GpuDevice) -> SharedRate:
    """Return the memory of a GPU's host as what serves all who update there."""
    topology, node = job.network.topology, int(gpu.host_memory)
    if node not in job.host_rates:
        job.host_rates[node] = SharedRate(job.env, float(topology.links.bytes_per_s[topology.adders[node]]))
    return job.host_rates[node]
