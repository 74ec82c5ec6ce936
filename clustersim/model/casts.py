"""Casts to FP8 around the GEMMs of a layer, in torchao and in TransformerEngine.

torchao (`torchao`) finds the largest element with one kernel; a second reads the elements again and writes 8 bits, 5
bytes an element. Forward it casts the input and the weights, backward the output's gradient and the weights, and then
the input, for whose GEMM the cast gradient already exists (`matmul_with_hp_or_float8_args` in
`torchao/float8/float8_linear.py`, dynamic scales for whole tensors).

TransformerEngine (`te`) casts with one kernel that reads 2 bytes and writes 8 bits twice, plain and transposed
(`fp8_cast_transpose_fused`), 4 bytes an element: forward the input and the weights, backward the output's gradient
(`fp8_cast_transpose_bgrad_fused`); all other operands already exist. That is with delayed scaling, whose scales come
from previous iterations; with current scaling a kernel before finds the largest element, 2 bytes more. Megatron-LM
passes which micro-batch is the first of an update (`is_first_microbatch` in
megatron/core/extensions/transformer_engine.py): weights are cast only for that one (`-cached`; "FP8 weight caching" in
TransformerEngine's user guide). Left out: casts by the norms before GEMMs (`LayerNormLinear`), and transposes after a
gather where layers are split.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

CastsKind = Literal["torchao", "te", "te-cached", "te-current-cached"]

_BYTES = {"torchao": 5.0, "te": 4.0, "te-cached": 4.0, "te-current-cached": 6.0}
_KERNELS = {"torchao": 2.0, "te": 1.0, "te-cached": 1.0, "te-current-cached": 2.0}


class Casts(NamedTuple):
    """The implementation of casts and the number of passes of an update, for all of which weights may be cast once."""

    kind: CastsKind = "torchao"
    num_passes: int = 1

    @property
    def num_bytes(self) -> float:
        """Bytes of an element that cross memory in a cast."""
        return _BYTES[self.kind]

    @property
    def num_kernels(self) -> float:
        """Kernels of a cast."""
        return _KERNELS[self.kind]

    def elements(self, read: float, written: float, weights: float, phase: str) -> tuple[float, float]:
        """Return the elements that are cast in a phase of a layer, and the number of tensors.

        `read` and `written` are the elements that the layer reads and writes in a pass. Weights that are cast once for
        all passes count in part with each of them.

        >>> Casts("te-cached", 4).elements(10.0, 20.0, 40.0, "forward")
        (20.0, 1.25)
        """
        if self.kind == "torchao":
            forward, data, gradient = (read + weights, 2.0), (written + weights, 2.0), (read, 1.0)
        else:
            share = 1 / self.num_passes if self.kind.endswith("-cached") else 1.0
            forward, data, gradient = (read + share * weights, 1 + share), (written, 1.0), (0.0, 0.0)
        return {"forward": forward, "backward_data": data, "backward_weights": gradient}[phase]


TORCHAO = Casts()


def casts_of(kind: CastsKind, num_passes: int) -> Casts:
    """Return the casts of an update of `num_passes` passes; the number matters where weights are cast once for all."""
    return Casts(kind, num_passes if kind.endswith("-cached") else 1)
