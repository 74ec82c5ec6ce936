"""The optimizer's update: its state per parameter, and its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import moved_s
from clustersim.kernels.muon import MATRIX_BYTES, MatrixTime, matrices_of, matrix_times, shared_out_s
from clustersim.model.layer import Layer
from clustersim.spec import Count, Spec, of_software
from clustersim.units import Duration

Kind = Literal["sgd", "momentum", "adagrad", "adam", "adam-8bit", "lamb", "lion", "muon"]
Written = Literal[
    "sgd", "momentum", "sgd-nesterov", "adagrad", "adam", "adamw", "adam-8bit", "adamw-8bit", "lamb", "lion", "muon"
]

ALIASES = {"adamw": "adam", "adamw-8bit": "adam-8bit", "sgd-nesterov": "momentum"}
"""Other names of rules that move and store the same tensors: decay and a step ahead are part of the same kernel."""

_STATE = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2, "adam-8bit": 2, "lamb": 2, "lion": 1, "muon": 1}
_FP32_BYTES = 4.0
_STATE_BYTES = {"adam-8bit": 1 + 4 / 2048}
"""Bytes of one state of a parameter where that is not fp32. 8-bit Adam (Dettmers et al., arXiv:2110.02861) has a byte,
and an fp32 maximum for each block of 2,048 (`Optimizer2State.init_state` in bitsandbytes/optim/optimizer.py,
bitsandbytes-foundation/bitsandbytes, commit 06029dd6). Left out: tensors of less than 4,096 numbers, which stay in
fp32.
"""
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


def _known_by(name: Any) -> Any:
    return ALIASES.get(name, name) if isinstance(name, str) else name


class UpdateWork(NamedTuple):
    """Seconds of an update: of element-wise kernels, and of matrices that are orthogonalized."""

    element_wise_s: float
    matrices: tuple[MatrixTime, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds on a GPU that updates all parameters."""
        return self.element_wise_s + shared_out_s(self.matrices, 1)


class OptimizerSpec(Spec):
    """The rule that turns gradients into new weights."""

    kind: Annotated[Kind, BeforeValidator(_known_by, json_schema_input_type=Written)] = Field(
        default="momentum",
        description="update rule; it sets the state per parameter and the update's time. `adamw` is `adam`, "
        "`adamw-8bit` is `adam-8bit` (bitsandbytes) and `sgd-nesterov` is `momentum`; `muon` orthogonalizes the "
        "momentum of matrices, and updates embeddings, the output head, biases and norms by Adam",
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
        if passes is not None and self.kind in ("muon", "adam-8bit"):
            message = f"passes are tensors in fp32, which {self.kind} has not alone; leave passes out"
            raise InputError(message, key="passes", got=str(passes), allowed=f"without kind: {self.kind}")
        return self

    @property
    def _least_passes(self) -> int:
        """Tensors that the rule reads and writes in one kernel."""
        return 3 + 2 * _STATE[self.kind] + _FOR_NORMS.get(self.kind, 0)

    @property
    def orthogonalizes(self) -> bool:
        """Whether matrices are updated whole, by the products of `clustersim.kernels.muon`."""
        return self.kind == "muon"

    @property
    def state_bytes_per_parameter(self) -> float:
        """Bytes of optimizer state per parameter, in fp32: none, a momentum, a sum of squares, or two moments.

        8-bit Adam has 2 (1 + 4 / 2048); Muon that of a matrix, a momentum (`state_bytes` has also what Adam updates).
        """
        return _STATE_BYTES.get(self.kind, _FP32_BYTES) * _STATE[self.kind]

    def state_bytes(self, layers: Sequence[Layer]) -> float:
        """Return the bytes of optimizer state of the parameters of some layers."""
        num = float(sum(layer.num_parameters for layer in layers))
        if not self.orthogonalizes:
            return num * self.state_bytes_per_parameter
        of_matrices = sum(each.num_parameters for each in matrices_of(layers) if each)
        return self.state_bytes_per_parameter * of_matrices + _ADAM.state_bytes_per_parameter * (num - of_matrices)

    @property
    def moved_bytes_per_parameter(self) -> float:
        """Bytes that an update moves per parameter, in fp32: weight, gradient and state read, weight and state written.

        4 (3 + 2 states): 12 for SGD, 20 for momentum, AdaGrad and Lion, 28 for Adam; 52 for LAMB, whose norms move 6
        tensors more. Or 4 for each of its `passes`. 8-bit Adam moves 12 and twice its state. Muon moves `MATRIX_BYTES`
        for a parameter of a matrix, beside its products.
        """
        if self.orthogonalizes:
            return MATRIX_BYTES
        if self.kind in _STATE_BYTES:
            return 3 * _FP32_BYTES + 2 * self.state_bytes_per_parameter
        return 4.0 * (self.passes or self._least_passes)

    def work_of(self, layers: Sequence[Layer], gpu: Gpu, *, copy_bytes: float = 0.0) -> UpdateWork:
        """Return the update of all parameters of some layers; `copy_bytes` is as in `update_s`."""
        launches = sum(1 for layer in layers if layer.num_parameters)
        num = sum(layer.num_parameters for layer in layers)
        if self.skipped or not self.orthogonalizes:
            return UpdateWork(self.update_s(num, gpu, launches=launches, copy_bytes=copy_bytes))
        found = matrices_of(layers)
        of_matrices = sum(each.num_parameters for each in found if each)
        moved = of_matrices * (MATRIX_BYTES + copy_bytes)
        moved += (num - of_matrices) * (_ADAM.moved_bytes_per_parameter + copy_bytes)
        return UpdateWork(moved_s(moved, gpu, launches), matrix_times(found, gpu))

    def update_s(self, num_parameters: float, gpu: Gpu, *, launches: int = 1, copy_bytes: float = 0.0) -> float:
        """Return the seconds of one update, which is bound by memory.

        Each parameter moves `moved_bytes_per_parameter`, and `copy_bytes` where a 16-bit copy of the weight is written
        too. `launches` kernels are launched, one per parameter tensor in most frameworks. The rate is that of the
        architecture's element-wise kernels. 0 where the update is skipped.
        """
        if self.skipped:
            return 0.0
        return moved_s(num_parameters * (self.moved_bytes_per_parameter + copy_bytes), gpu, launches)


_ADAM = OptimizerSpec(kind="adam")
