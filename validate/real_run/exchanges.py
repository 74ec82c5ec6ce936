"""Exchanges of gradients between all ranks: by DDP during backward, after backward, or none."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from real_run.clock import Mark
from real_run.ranks import Ranks
from real_run.trace_recorder import TraceRecorder
from real_run.training import LocalTraining

CAPS = (2**20, 25 * 2**20)
"""Bytes at which the first bucket closes, and all others, as in DistributedDataParallel."""


class Exchange:
    """Wraps a model with an exchange of gradients. `buckets` are the bytes of the buckets, in the order of sending."""

    def __init__(self, training: LocalTraining, recorder: TraceRecorder):
        self.module: torch.nn.Module = training.graph
        self.buckets: list[int] = []
        self.iteration = -1
        self.ready: Mark = None  # when the last gradient was ready
        self._training, self._recorder = training, recorder

    def begin(self, iteration: int) -> None:
        """Set the number of the iteration; those below 0 are warm-up."""
        self.iteration, self.ready = iteration, None

    def after_backward(self) -> None:
        """Finish the exchange after backward."""


class SingleWorker(Exchange):
    """DDP with a hook that sends nothing: the work of a rank without communication."""

    def __init__(self, ranks: Ranks, training: LocalTraining, recorder: TraceRecorder):
        super().__init__(training, recorder)
        self.module = _ddp(ranks, training)
        self.module.register_comm_hook(None, lambda state, bucket: self._keep(bucket))

    def _keep(self, bucket: Any) -> Any:
        _note_size(self.buckets, bucket)
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future


class Overlapped(Exchange):
    """DDP as usual: a bucket is all-reduced as soon as its gradients are ready."""

    def __init__(self, ranks: Ranks, training: LocalTraining, recorder: TraceRecorder):
        super().__init__(training, recorder)
        self._size = ranks.size
        self.module = _ddp(ranks, training)
        self.module.register_comm_hook(None, lambda state, bucket: self._all_reduce(bucket))

    def _all_reduce(self, bucket: Any) -> Any:
        _note_size(self.buckets, bucket)
        clock, iteration, name = self._training.clock, self.iteration, f"bucket {bucket.index()}"
        begin = self.ready = clock.mark()
        future = dist.all_reduce(bucket.buffer().div_(self._size), async_op=True).get_future()

        def done(finished: Any) -> Tensor:
            self._recorder.note("communication", iteration, begin, clock.mark(), name)
            result: Tensor = finished.value()[0]
            return result

        return future.then(done)


class AfterBackward(Exchange):
    """The same buckets, one after the other, after backward."""

    def __init__(self, ranks: Ranks, training: LocalTraining, recorder: TraceRecorder):
        super().__init__(training, recorder)
        self._size = ranks.size
        in_order = training.parameters[::-1]
        self._groups = [
            [in_order[number] for number in bucket]
            for bucket in assign([each.numel() * each.element_size() for each in in_order])
        ]
        self._flat = [
            torch.empty(sum(each.numel() for each in group), dtype=group[0].dtype, device=training.device)
            for group in self._groups
        ]
        self.buckets = [each.numel() * each.element_size() for each in self._flat]

    def after_backward(self) -> None:
        clock = self._training.clock
        self.ready = clock.mark()
        begin = self.ready
        for number, (group, flat) in enumerate(zip(self._groups, self._flat, strict=True)):
            gradients = [_gradient(each).reshape(-1) for each in group]
            torch.cat(gradients, out=flat)
            dist.all_reduce(flat.div_(self._size))
            for gradient, part in zip(gradients, flat.split([each.numel() for each in group]), strict=True):
                gradient.copy_(part)
            end = clock.mark()
            self._recorder.note("communication", self.iteration, begin, end, f"bucket {number}")
            begin = end


def assign(num_bytes: Sequence[int]) -> list[list[int]]:
    """Return the tensors of each bucket, in the order in which they are ready; a bucket closes at its cap.

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


def _ddp(ranks: Ranks, training: LocalTraining) -> Any:
    """Return the model in DDP; buffers are not sent in forward, so only gradients are sent.

    torch 2.13 has another name for this option.
    """
    devices = [ranks.device.torch] if ranks.device.is_cuda else None
    names = signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
    return DistributedDataParallel(training.graph, device_ids=devices, **{buffers: False})


def _note_size(buckets: list[int], bucket: Any) -> None:
    """Store the bucket sizes of the current iteration: DDP rebuilds its buckets after the first one."""
    if bucket.index() == 0:
        buckets.clear()
    buckets.append(bucket.buffer().numel() * bucket.buffer().element_size())


def _gradient(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
