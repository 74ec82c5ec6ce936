"""The outer step of DiLoCo: what workers have changed is averaged, and applied by an optimizer of its own.

The outer gradient of a worker is the weights of the last outer step less its own. It is all-reduced, and applied by SGD
with Nesterov momentum (Douillard et al., arXiv:2311.08105, algorithm 1). The order is that of OpenDiLoCo (`main` in
open_diloco/train_diloco_torch.py, PrimeIntellect-ai/OpenDiloco, commit 828b643c): fetch the weights of the last outer
step, subtract, all-reduce, update on the GPU, store them again. Left out: int8's tables of levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clustersim.execution.job import Job
from clustersim.execution.worker import Process

OuterNumber = Literal["fp32", "fp16", "bf16", "int8"]

_FP32 = 4.0
_NUMBER_BYTES: dict[OuterNumber, float] = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0}

DIFFERENCE_BYTES = 3 * _FP32
"""Bytes per parameter to subtract the new weights from those of the last outer step: two read, one written."""

NESTEROV_BYTES = 5 * _FP32
"""Bytes per parameter of the outer update: gradient, weight and momentum read, weight and momentum written."""


@dataclass(frozen=True)
class OuterStep:
    """An outer step whose gradients travel as `number`, and whose weights are stored in GPU memory, or in the host's.

    A GPU stores the momentum, and the weights of the last outer step unless the host does, in fp32.
    """

    number: OuterNumber
    in_host: bool

    @property
    def stored_bytes_per_parameter(self) -> float:
        """Bytes of GPU memory per parameter."""
        return _FP32 if self.in_host else 2 * _FP32

    def sent_bytes(self, job: Job, gradient_bytes: float) -> float:
        """Return the bytes of outer gradients for parameters that have these bytes of gradients."""
        return gradient_bytes * _NUMBER_BYTES[self.number] / job.gradient_bytes

    def difference(self, job: Job, rank: int, iteration: int) -> Process:
        """Compute the outer gradient, in the format in which it is sent."""
        parameters = _num_parameters(job, rank, iteration)
        if self.in_host:
            yield from _copy(job, rank, iteration, to_host=False)
        yield from _move(job, rank, iteration, parameters * (DIFFERENCE_BYTES + self._cast_bytes))

    def update(self, job: Job, rank: int, iteration: int) -> Process:
        """Apply the summed outer gradient, and store the new weights."""
        parameters = _num_parameters(job, rank, iteration)
        yield from _move(job, rank, iteration, parameters * (NESTEROV_BYTES + self._cast_bytes))
        if self.in_host:
            yield from _copy(job, rank, iteration, to_host=True)

    @property
    def _cast_bytes(self) -> float:
        """Bytes per parameter that a cast of outer gradients moves; 0 in fp32."""
        number = _NUMBER_BYTES[self.number]
        return number + _FP32 if number < _FP32 else 0.0


def _copy(job: Job, rank: int, iteration: int, to_host: bool) -> Process:
    """Copy the weights of the outer step from the host, or to it, while the GPU waits."""
    gpu, start_s = job.devices[rank], float(job.env.now)
    num_bytes = _FP32 * _num_parameters(job, rank, iteration)
    yield from gpu.copy_out(num_bytes) if to_host else gpu.copy_in(num_bytes)
    job.times.offload_s[rank, iteration] += float(job.env.now) - start_s


def _num_parameters(job: Job, rank: int, iteration: int) -> float:
    """Return the number of parameters that a rank exchanges."""
    return sum(bucket.num_bytes for bucket in job.plans(rank, iteration).buckets) / job.gradient_bytes


def _move(job: Job, rank: int, iteration: int, num_bytes: float) -> Process:
    """Run kernels that move bytes of GPU memory."""
    gpu, seconds = job.devices[rank], num_bytes * float(job.moved_s_per_byte[rank])
    yield from gpu.compute(seconds * job.slowdown(rank, iteration))
    job.times.slowed_s[rank, iteration] += gpu.take_lost_s()
