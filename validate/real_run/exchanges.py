"""How gradients meet among all ranks: by DDP while backward runs, all together after it, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from real_run.clock import Mark
from real_run.diary import TraceRecorder
from real_run.ranks import Ranks
from real_run.training import Trainee

CAPS = (2**20, 25 * 2**20)
"""Bytes at which a bucket closes: the first, and all others, as DistributedDataParallel has them."""


class Exchange:
    """Wraps a model so that its gradients meet. `buckets` are the bytes of each, in the order in which they travel."""

    def __init__(self, trainee: Trainee, diary: TraceRecorder):
        self.module: torch.nn.Module = trainee.graph
        self.buckets: list[int] = []
        self.iteration = -1
        self.ready: Mark = None  # when the last gradient was there
        self._trainee, self._diary = trainee, diary

    def begin(self, iteration: int) -> None:
        """Say which iteration this is; those below 0 warm up."""
        self.iteration, self.ready = iteration, None

    def after_backward(self) -> None:
        """Do what is left to do when backward has ended."""


class SingleWorker(Exchange):
    """DDP with a hook that sends nothing: what a rank does when nobody else has a say."""

    def __init__(self, ranks: Ranks, trainee: Trainee, diary: TraceRecorder):
        super().__init__(trainee, diary)
        self.module = _ddp(ranks, trainee)
        self.module.register_comm_hook(None, lambda state, bucket: self._keep(bucket))

    def _keep(self, bucket: Any) -> Any:
        _note_size(self.buckets, bucket)
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future


class Overlapped(Exchange):
    """DDP as it comes: a bucket is all-reduced as soon as its gradients are there."""

    def __init__(self, ranks: Ranks, trainee: Trainee, diary: TraceRecorder):
        super().__init__(trainee, diary)
        self._size = ranks.size
        self.module = _ddp(ranks, trainee)
        self.module.register_comm_hook(None, lambda state, bucket: self._all_reduce(bucket))

    def _all_reduce(self, bucket: Any) -> Any:
        _note_size(self.buckets, bucket)
        clock, iteration, name = self._trainee.clock, self.iteration, f"bucket {bucket.index()}"
        begin = self.ready = clock.mark()
        future = dist.all_reduce(bucket.buffer().div_(self._size), async_op=True).get_future()

        def done(finished: Any) -> Tensor:
            self._diary.note("communication", iteration, begin, clock.mark(), name)
            result: Tensor = finished.value()[0]
            return result

        return future.then(done)


class AfterBackward(Exchange):
    """The same buckets, one after the other, when backward has ended."""

    def __init__(self, ranks: Ranks, trainee: Trainee, diary: TraceRecorder):
        super().__init__(trainee, diary)
        self._size = ranks.size
        in_order = trainee.parameters[::-1]
        self._groups = [
            [in_order[number] for number in bucket]
            for bucket in assign([each.numel() * each.element_size() for each in in_order])
        ]
        self._flat = [
            torch.empty(sum(each.numel() for each in group), dtype=group[0].dtype, device=trainee.device)
            for group in self._groups
        ]
        self.buckets = [each.numel() * each.element_size() for each in self._flat]

    def after_backward(self) -> None:
        clock = self._trainee.clock
        self.ready = clock.mark()
        begin = self.ready
        for number, (group, flat) in enumerate(zip(self._groups, self._flat, strict=True)):
            gradients = [_gradient(each).reshape(-1) for each in group]
            torch.cat(gradients, out=flat)
            dist.all_reduce(flat.div_(self._size))
            for gradient, part in zip(gradients, flat.split([each.numel() for each in group]), strict=True):
                gradient.copy_(part)
            end = clock.mark()
            self._diary.note("communication", self.iteration, begin, end, f"bucket {number}")
            begin = end


def assign(num_bytes: Sequence[int]) -> list[list[int]]:
    """Return which tensors, in the order in which they are ready, travel together: a bucket closes at its cap.

    >>> assign([2**20, 10, 25 * 2**20, 4])
    [[0], [1, 2], [3]]
    """
    buckets: list[list[int]] = [[]]
    held = 0
    for number, size in enumerate(num_bytes):
        buckets[-1].append(number)
        held += size
        if held >= CAPS[min(len(buckets), len(CAPS)) - 1]:
            buckets.append([])
            held = 0
    return buckets if buckets[-1] else buckets[:-1]


def _ddp(ranks: Ranks, trainee: Trainee) -> Any:
    """Return the model in DDP; no buffers are sent in forward, so that only gradients travel.

    torch 2.13 has another name for saying so.
    """
    devices = [ranks.device.torch] if ranks.device.is_cuda else None
    names = signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
    return DistributedDataParallel(trainee.graph, device_ids=devices, **{buffers: False})


def _note_size(buckets: list[int], bucket: Any) -> None:
    """Keep the sizes of the iteration under way: DDP makes its buckets anew after the first."""
    if bucket.index() == 0:
        buckets.clear()
    buckets.append(bucket.buffer().numel() * bucket.buffer().element_size())


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
