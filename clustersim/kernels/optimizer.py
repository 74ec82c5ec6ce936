"""The optimizer's step: what it keeps for each parameter, and how long it takes."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import moved_s
from clustersim.spec import Count, Spec
from clustersim.units import Duration

_STATE = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2, "lamb": 2}
_FOR_NORMS = {"lamb": 6}
"""Tensors that a rule moves beside 3 + 2 states. LAMB's (You et al., arXiv:1904.00962), as apex fuses it (NVIDIA/apex,
csrc/multi_tensor_lamb.cu, commit 06a83ce7): gradients, weights and updates read once each for their norms, and the
updates, which have to wait for these, written and read, with the weights read again."""


class Issue(Spec):
    """What a process has to issue once it has waited for the gradients' sums: the operators of the whole update."""

    operators: Count = Field(
        description="operators of an update of one GPU: of all tensors, clipping and decay included"
    )
    each: Duration = Field(gt=0, description="how long the process has to do for one of them, such as '21.3 us'")
    process: Literal["gpu", "host"] = Field(
        default="gpu",
        description="how many GPUs a process serves: each GPU has one of its own (`gpu`), or all those of a host that "
        "the job has are served by one, which issues their operators one after the other (`host`)",
    )

    def seconds(self, num_gpus: int) -> float:
        """Return how long a process has to do for an update, with so many of the job's GPUs on its host.

        GPUs that it serves x operators x seconds of each.
        """
        return (num_gpus if self.process == "host" else 1) * self.operators * self.each


class OptimizerSpec(Spec):
    """Which rule turns gradients into new weights."""

    kind: Literal["sgd", "momentum", "adagrad", "adam", "lamb"] = Field(
        default="momentum", description="rule of the update; it sets the state kept per parameter and the update's time"
    )
    passes: int | None = Field(
        default=None,
        ge=1,
        description="how many tensors the update reads and writes where each of its operations is a kernel of its own "
        "(17 for MXNet's momentum of 2016), at least those of one kernel for all; else one kernel reads and writes "
        "what the rule needs",
    )

    skipped: bool = Field(
        default=False,
        description="nothing is updated and no weights are gathered, as in iterations whose gradients overflow: the "
        "first ones where losses are scaled in fp16 until their scale is small enough (at least 17 in DeepSpeed, which "
        "begins at 2^32)",
    )

    issue: Issue | None = Field(
        default=None,
        description="how long a process takes to issue an update that it cannot begin to issue before the gradients "
        "have been summed (it waits for each sum on its host, and clips by the norm of all gradients): the update "
        "takes no less than that on several GPUs. If not given, kernels are in the queue in time",
    )

    @model_validator(mode="after")
    def _issues_what_is_done(self) -> Self:
        if self.issue is not None and self.skipped:
            message = "an update that is skipped is not issued; drop issue, or skipped"
            raise InputError(message, key="issue", got="given", allowed="without skipped")
        return self

    @model_validator(mode="after")
    def _moves_what_the_rule_needs(self) -> Self:
        passes, least = self.passes, self._least_passes
        if passes is not None and passes < least:
            message = f"one kernel of {self.kind} reads and writes {least} tensors, several no fewer (got {passes})"
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
        """Return the seconds of one update, which memory bounds.

        Each parameter moves `moved_bytes_per_parameter`, and `copy_bytes` where a short copy of the weight is
        written too. `launches` kernels are launched, one a parameter tensor in most frameworks. The rate is what the
        architecture's element-wise kernels reach of the sheet's. None where it is skipped.
        """
        if self.skipped:
            return 0.0
        return moved_s(num_parameters * (self.moved_bytes_per_parameter + copy_bytes), gpu, launches)
