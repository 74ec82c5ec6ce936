"""Parameter servers: rank 0 is the server, in its host's memory, and all other ranks train.

Gradients and parameters are sent between the memories of hosts over gloo, for any device of the ranks: a worker copies
its gradient to the host, sends it as one message, and receives the parameters.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from real_run.ranks import Ranks
from real_run.trace_recorder import TraceRecorder, as_columns, iteration_seconds
from real_run.training import Job, LocalTraining

_RATE, _MOMENTUM = 1e-6, 0.9
_GOES_ON, _STOPS = 0.0, 1.0

Log = list[tuple[float, int, int, int]]
"""The applied gradients: time, worker, version that it was computed from, version that it produced."""


def server_training(ranks: Ranks, job: Job, wait_for_all: bool) -> dict[str, Any]:
    """Train with a server that waits for all gradients of an iteration, or applies each when it arrives.

    For the second, the measured time is from the first update after the warm-up to the last update.
    """
    training = LocalTraining(ranks, job)
    recorder = TraceRecorder(ranks, training.clock)
    size = sum(each.numel() for each in training.parameters)
    ranks.barrier()
    log: Log = []
    if ranks.is_first:
        log = _Server(ranks, training).serve(job, wait_for_all)
    else:
        _work(ranks, job, training, recorder)
    rows = [row for own in ranks.gather(recorder.rows()) for row in own]
    if not ranks.is_first:
        return {}
    found: dict[str, Any] = {"num_bytes": 4 * size, "workers": list(range(1, ranks.size)), "server": 0}
    if wait_for_all:
        rows = [row for row in rows if row[2] < job.num_iterations]
        seconds = iteration_seconds(rows)
        found |= {"iteration_s": median(seconds), "iterations_s": seconds}
    else:
        found |= _update_figures(log, job.num_warm_up * (ranks.size - 1))
    return {**found, "spans": as_columns(rows)}


def _work(ranks: Ranks, job: Job, training: LocalTraining, recorder: TraceRecorder) -> None:
    """Train until the server ends the training."""
    clock, factor = training.clock, job.factor(ranks.rank)
    buffers = _HostBuffers(training, ranks.device.is_cuda)
    begin, number = clock.mark(), -job.num_warm_up
    while True:
        loss = training.forward(training.graph)
        clock.stretch(begin, clock.mark(), factor)
        forward = clock.mark()
        training.backward(loss)
        clock.stretch(forward, clock.mark(), factor)
        computed = clock.mark()
        buffers.pack()
        copied = clock.mark()
        clock.settle()
        dist.send(buffers.gradient, dst=0, group=ranks.control)
        dist.recv(buffers.back, src=0, group=ranks.control)
        arrived = clock.mark()
        buffers.unpack()
        end = clock.mark()
        for kind, first, last in (
            ("forward", begin, forward), ("backward", forward, computed), ("copy", computed, copied),
            ("communication", copied, arrived), ("exposed", copied, arrived), ("copy", arrived, end),
        ):  # fmt: skip
            recorder.note(kind, number, first, last, "push and pull" if kind == "communication" else "")
        if float(buffers.back[-1]) == _STOPS:
            return
        begin, number = end, number + 1


class _HostBuffers:
    """Send and receive buffers of a worker in host memory: all gradients, and all parameters plus a stop flag.

    A GPU packs and unpacks them itself, so there is one copy in each direction.
    """

    def __init__(self, training: LocalTraining, is_cuda: bool):
        self._parameters = training.parameters
        self._sizes = [each.numel() for each in training.parameters]
        self.gradient = torch.zeros(sum(self._sizes), pin_memory=is_cuda)
        self.back = torch.zeros(sum(self._sizes) + 1, pin_memory=is_cuda)
        self._device = training.device
        self._staged = torch.zeros_like(self.gradient, device=training.device) if is_cuda else self.gradient

    def pack(self) -> None:
        """Copy all gradients to the send buffer."""
        rows = [torch.zeros_like(each) if each.grad is None else each.grad for each in self._parameters]
        torch.cat([row.detach().reshape(-1) for row in rows], out=self._staged)
        if self._staged is not self.gradient:
            self.gradient.copy_(self._staged, non_blocking=True)

    def unpack(self) -> None:
        """Copy the received parameters into the model."""
        parts = self.back[:-1].to(self._device, non_blocking=True).split(self._sizes)
        with torch.no_grad():
            for parameter, part in zip(self._parameters, parts, strict=True):
                parameter.copy_(part.view_as(parameter))


class _Server:
    """The parameters and their momentum in the memory of rank 0's host."""

    def __init__(self, ranks: Ranks, training: LocalTraining):
        self._ranks, self._workers = ranks, range(1, ranks.size)
        flat = [each.detach().reshape(-1).cpu() for each in training.parameters]
        self._parameters = torch.cat([*flat, torch.zeros(1)])  # the last number is the stop flag
        self._momentum = torch.zeros(len(self._parameters) - 1)

    def serve(self, job: Job, wait_for_all: bool) -> Log:
        """Serve all iterations of each worker, and return the log."""
        num_rounds = job.num_warm_up + job.num_iterations
        return self._synchronous(num_rounds) if wait_for_all else self._asynchronous(num_rounds * len(self._workers))

    def _synchronous(self, num_rounds: int) -> Log:
        log: Log = []
        group = self._ranks.control
        arrived = [torch.zeros(len(self._momentum)) for _ in self._workers]
        for number in range(num_rounds):
            waits = [
                dist.irecv(box, src=worker, group=group) for worker, box in zip(self._workers, arrived, strict=True)
            ]
            total = arrived[0]
            for wait, box in zip(waits, arrived, strict=True):
                wait.wait()
                if box is not total:
                    total.add_(box)
            self._update(total, last=number == num_rounds - 1)
            log += [(self._now_s(), worker, number, number + 1) for worker in self._workers]
            for send in [dist.isend(self._parameters, dst=worker, group=group) for worker in self._workers]:
                send.wait()
        return log

    def _asynchronous(self, num_updates: int) -> Log:
        """Apply each gradient when it arrives; after `num_updates`, the next gradient of a worker ends its work."""
        log: Log = []
        read = dict.fromkeys(self._workers, 0)
        version, left = 0, len(self._workers)
        box = torch.zeros(len(self._momentum))
        while left:
            worker = int(dist.recv(box, src=None, group=self._ranks.control))
            is_over = version >= num_updates
            self._update(box, last=is_over)
            if is_over:
                left -= 1
            else:
                version += 1
                log.append((self._now_s(), worker, read[worker], version))
            read[worker] = version
            dist.send(self._parameters, dst=worker, group=self._ranks.control)
        return log

    def _update(self, gradient: Tensor, last: bool) -> None:
        self._momentum.mul_(_MOMENTUM).add_(gradient)
        self._parameters[:-1].add_(self._momentum, alpha=-_RATE)
        self._parameters[-1] = _STOPS if last else _GOES_ON

    def _now_s(self) -> float:
        return self._ranks.common_s(time.perf_counter())


def _update_figures(log: Log, num_before: int) -> dict[str, Any]:
    """Return the mean time between updates and the staleness of gradients, without the first `num_before` of them."""
    counted = log[num_before:]
    window_s = counted[-1][0] - log[num_before - 1][0] if num_before else counted[-1][0] - counted[0][0]
    staleness = [written - 1 - read for _, _, read, written in counted]
    names = ("time_s", "worker", "version_read", "version_written")
    columns = {name: [row[number] for row in counted] for number, name in enumerate(names)}
    updates = len(counted) if num_before else len(counted) - 1
    return {
        "update_s": window_s / updates,
        "staleness": {"mean": sum(staleness) / len(staleness), "max": max(staleness)},
        "updates": columns,
    }
