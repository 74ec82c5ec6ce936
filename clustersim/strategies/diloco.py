"""DiLoCo: workers train independently, and an outer optimizer applies the mean of what each has changed."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from clustersim.errors import Mistake
from clustersim.execution.job import Job
from clustersim.execution.rendezvous import Exchange, Rendezvous
from clustersim.execution.worker import BucketSender, Process, compute, update
from clustersim.shortcuts import Shortcut
from clustersim.strategies.collective_strategy import CollectiveStrategy

_FP32 = 4.0
_NUMBER_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0}

DIFFERENCE_BYTES = 3 * _FP32
"""Bytes per parameter to subtract the new weights from those of the last outer step: two read, one written."""

NESTEROV_BYTES = 5 * _FP32
"""Bytes per parameter of the outer update: gradient, weight and momentum read, weight and momentum written."""


class DiLoCo(CollectiveStrategy):
    """Every worker takes `steps` steps with its own optimizer; then an outer step updates the model of all.

    The outer gradient of a worker is the weights of the last outer step less its own. It is all-reduced, and applied by
    SGD with Nesterov momentum (Douillard et al., arXiv:2311.08105, algorithm 1). The order is that of OpenDiLoCo
    (`main` in open_diloco/train_diloco_torch.py, PrimeIntellect-ai/OpenDiloco, commit 828b643c): fetch the weights of
    the last outer step, subtract, all-reduce, update on the GPU, store them again. A GPU stores the momentum and, with
    `outer_weights: gpu`, the weights of the last outer step, in fp32. Whole rounds of `steps` iterations are simulated.
    Left out: int8's tables of levels.
    """

    supports_layouts: ClassVar[bool] = True
    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset({Shortcut.FOLDED_LAYOUTS})

    kind: Literal["diloco"] = "diloco"
    steps: int = Field(ge=1, description="inner steps from one outer step to the next (500 in the paper)")
    outer_gradients: Literal["fp32", "fp16", "bf16", "int8"] = Field(
        default="fp32", description="number format in which outer gradients are all-reduced"
    )
    outer_weights: Literal["gpu", "host"] = Field(
        default="gpu",
        description="where the weights of the last outer step are stored meanwhile: in GPU memory, or in that of the "
        "`host`, from which they are copied for the outer step and to which they are copied after it",
    )
    buckets: str = Field(
        default="whole",
        description="which outer gradients travel together, as for `all-reduce`; all of them are ready at once",
    )
    overlap: Literal[False] = Field(
        default=False, description="the outer step follows the last inner step, so no computation overlaps it"
    )

    @property
    def round_length(self) -> int:
        return self.steps

    @property
    def stored_bytes_per_parameter(self) -> float:
        """Bytes of GPU memory per parameter: the momentum, and the weights of the last outer step."""
        return 2 * _FP32 if self.outer_weights == "gpu" else _FP32

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        message = f"diloco averages weights, and {compression} compresses gradients only; set outer_gradients"
        return [Mistake(message, key="kind", got=self.kind, allowed="outer_gradients, without compression")]

    def exchange(self, job: Job, num_bytes: float) -> Exchange:
        """Return the all-reduce of a bucket of outer gradients; `num_bytes` are those of its gradients."""
        return super().exchange(job, num_bytes * _NUMBER_BYTES[self.outer_gradients] / job.gradient_bytes)

    def iterate(self, job: Job, rendezvous: Rendezvous, rank: int, iteration: int) -> Process:
        """Take an inner step, and the outer step at the end of a round."""
        yield from compute(job, rank, iteration)
        yield from update(job, rank, iteration)
        is_outer = (iteration + 1) % self.steps == 0 and job.num_ranks > 1
        if is_outer:
            yield from self._difference(job, rank, iteration)
        job.times.computed_s[rank, iteration] = job.times.exchanged_s[rank, iteration] = job.env.now
        if is_outer:
            sender = BucketSender(job, rendezvous, rank, iteration)
            sender.send_all()
            yield from sender.drain()
            yield from self._update(job, rank, iteration)

    def _difference(self, job: Job, rank: int, iteration: int) -> Process:
        """Compute the outer gradient, in the format in which it is sent."""
        parameters = _num_parameters(job, rank, iteration)
        if self.outer_weights == "host":
            yield from self._copy(job, rank, iteration, to_host=False)
        yield from _move(job, rank, iteration, parameters * (DIFFERENCE_BYTES + self._cast_bytes))

    def _update(self, job: Job, rank: int, iteration: int) -> Process:
        """Apply the summed outer gradient, and store the new weights."""
        parameters = _num_parameters(job, rank, iteration)
        yield from _move(job, rank, iteration, parameters * (NESTEROV_BYTES + self._cast_bytes))
        if self.outer_weights == "host":
            yield from self._copy(job, rank, iteration, to_host=True)

    @property
    def _cast_bytes(self) -> float:
        """Bytes per parameter that a cast of outer gradients moves; 0 in fp32."""
        number = _NUMBER_BYTES[self.outer_gradients]
        return number + _FP32 if number < _FP32 else 0.0

    def _copy(self, job: Job, rank: int, iteration: int, to_host: bool) -> Process:
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
