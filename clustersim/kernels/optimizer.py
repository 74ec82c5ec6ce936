"""The optimizer's update: its state per parameter, and its time."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import moved_s
from clustersim.spec import Count, Spec, of_software
from clustersim.units import Duration

_STATE = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2, "lamb": 2}
_FOR_NORMS = {"lamb": 6}
"""Tensors that a rule moves in addition to 3 + 2 states. LAMB (You et al., arXiv:1904.00962), as fused in apex
(NVIDIA/apex, csrc/multi_tensor_lamb.cu, commit 06a83ce7): gradients, weights and updates are read once each for their
norms. The updates depend on these norms, so they are written and read, with the weights read again.
"""


class Issue(Spec):
    """Time of a process to issue the operators of the whole update after it has waited for the summed gradients."""

    operators: Count = Field(
        description="operators of an update of one GPU: of all tensors, clipping and decay included"
    )
    each: Duration = Field(gt=0, description="time of the process to issue one of them, such as '21.3 us'")
    process: Literal["gpu", "host"] = Field(
        default="gpu",
        description="how many GPUs a process serves: one process per GPU (`gpu`), or one process for all of the job's "
        "GPUs on a host, which issues their operators in sequence (`host`)",
    )

    def seconds(self, num_gpus: int) -> float:
        """Return the time of a process to issue an update, with this many of the job's GPUs on its host.

        GPUs that it serves x operators x seconds of each.
        """
        return (num_gpus if self.process == "host" else 1) * self.operators * self.each


class OptimizerSpec(Spec):
    """The rule that turns gradients into new weights."""

    kind: Literal["sgd", "momentum", "adagrad", "adam", "lamb"] = Field(
        default="momentum", description="update rule; it sets the state per parameter and the update's time"
    )
    passes: int | None = Field(
        json_schema_extra=of_software("update_passes"),
        default=None,
        ge=1,
        description="how many tensors the update reads and writes where each of its operations is a separate kernel "
        "(17 for MXNet's momentum of 2016); at least as many as one fused kernel. If not given, one fused kernel reads "
        "and writes the tensors of the rule",
    )

    skipped: bool = Field(
        default=False,
        description="no update and no gathering of weights, as in iterations whose gradients overflow. With loss "
        "scaling in fp16 these are the first iterations, until the scale is small enough (at least 17 in DeepSpeed, "
        "which begins at 2^32)",
    )

    issue: Issue | None = Field(
        json_schema_extra=of_software("update_issue"),
        default=None,
        description="time to issue the update, for a process that can start only after the gradients are summed "
        "(it waits for each sum on its host, and clips by the norm of all gradients). On several GPUs the update "
        "takes at least this long. If not given, kernels are queued in time",
    )

    @model_validator(mode="after")
    def _issues_what_is_done(self) -> Self:
        if self.issue is not None and self.skipped:
            message = "a skipped update is not issued; drop issue, or skipped"
            raise InputError(message, key="issue", got="given", allowed="without skipped")
        return self

    @model_validator(mode="after")
    def _moves_what_the_rule_needs(self) -> Self:
        passes, least = self.passes, self._least_passes
        if passes is not None and passes < least:
            message = f"{self.kind} reads and writes at least {least} tensors, those of one fused kernel (got {passes})"
            raise InputError(message, key="passes", got=str(passes), allowed=f"at least {least}")
        return self

    @property
    def _least_passes(self) -> int:
        """Tensors that the rule reads and writes in one kernel."""
        return 3 + 2 * _STATE[self.kind] + _FOR_NORMS.get(self.kind, 0)

    @property
    def state_bytes_per_parameter(self) -> float:
        """Bytes of optimizer state per parameter, in fp32: none, a momentum, a sum of squares, or two moments."""
        return 4.0 * _STATE[self.kind]

    @property
    def moved_bytes_per_parameter(self) -> float:
        """Bytes that an update moves per parameter, in fp32: weight, gradient and state read, weight and state written.

        4 (3 + 2 states): 12 for SGD, 20 for momentum and AdaGrad, 28 for Adam; 52 for LAMB, whose norms move 6 tensors
        more. Or 4 for each of its `passes`.
        """
        return 4.0 * (self.passes or self._least_passes)

    def update_s(self, num_parameters: float, gpu: Gpu, *, launches: int = 1, copy_bytes: float = 0.0) -> float:
        """Return the seconds of one update, which is bound by memory.

        Each parameter moves `moved_bytes_per_parameter`, and `copy_bytes` where a 16-bit copy of the weight is written
        too. `launches` kernels are launched, one per parameter tensor in most frameworks. The rate is that of the
        architecture's element-wise kernels. 0 where the update is skipped.
        """
        if self.skipped:
            return 0.0
        return moved_s(num_parameters * (self.moved_bytes_per_parameter + copy_bytes), gpu, launches)
