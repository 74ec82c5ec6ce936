"""Work of the hosts in the background of a layout: copies over PCIe, and updates by the hosts' processors."""

from __future__ import annotations

from collections.abc import Callable

import simpy

from clustersim.devices import GpuDevice, SharedRate
from clustersim.execution.job import Job
from clustersim.execution.worker import Process
from clustersim.program.ops import Copy, HostUpdate

Note = Callable[[str, float, str, str, int], None]
"""Records a span that ends now: its kind, its start in seconds, its name, its cause and its micro-batch."""


class HostWork:
    """Copies and updates by the hosts of a job's GPUs.

    Copies of one GPU in one direction run one after the other; copies of different GPUs share the links. Updates in one
    memory, of any job, share its rate, which is the rate of STREAM on all cores of the socket. An update costs the
    bytes that it moves in that memory. Left out: copies take some of that rate, too.
    """

    def __init__(self) -> None:
        self._last_copy: dict[tuple[int, bool], simpy.Event] = {}  # by GPU, and whether it is to the host

    def begin(self, job: Job, place: int, op: Copy | HostUpdate, after: simpy.Event | None, note: Note) -> simpy.Event:
        """Begin a copy or an update of a job's rank after the event `after`; return the event of its end."""
        gpu, previous = job.devices[place], [after]
        if isinstance(op, Copy):
            previous.append(self._last_copy.get((gpu.number, op.to_host)))
        waits_for = [event for event in previous if event is not None and not event.processed]
        done = job.env.process(self._run(job, gpu, op, waits_for, note))
        if isinstance(op, Copy):
            self._last_copy[gpu.number, op.to_host] = done
        return done

    def _run(
        self, job: Job, gpu: GpuDevice, op: Copy | HostUpdate, waits_for: list[simpy.Event], note: Note
    ) -> Process:
        for event in waits_for:
            if not event.processed:
                yield event
        start_s = float(job.env.now)
        if isinstance(op, HostUpdate):
            yield _memory(job, gpu).serve(op.moved_bytes)
            note("host-update", start_s, op.key.what, "", op.key.micro_batch)
            return
        yield from gpu.copy_out(op.num_bytes) if op.to_host else gpu.copy_in(op.num_bytes)
        direction = "to" if op.to_host else "from"
        note("copy", start_s, f"{op.key.what} {direction} host", "", op.key.micro_batch)


def _memory(job: Job, gpu: GpuDevice) -> SharedRate:
    """Return the memory of a GPU's host, whose rate all updates there share."""
    topology, node = job.network.topology, int(gpu.host_memory)
    if node not in job.host_rates:
        job.host_rates[node] = SharedRate(job.env, float(topology.links.bytes_per_s[topology.adders[node]]))
    return job.host_rates[node]
