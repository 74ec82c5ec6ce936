"""Casts to 8 or 4 bits around the GEMMs of a layer, in torchao and in TransformerEngine.

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

With `torchao-sharded` FSDP casts the shards of weights before it gathers them (`enable_fsdp_float8_all_gather`), so
each of n ranks casts 1 / n of them, by scales that are found after the update
(`precompute_float8_dynamic_scale_for_fsdp`, torchao/float8/fsdp_utils.py): they are read once and written in 8 bits, 3
bytes an element. Left out: that search for scales and its all-reduce, and gathered blocks of half the memory.

With a scale for each row (`torchao-rowwise`) each operand of each GEMM is cast along the dimension that this GEMM sums
over, so the output's gradient and the input are cast once more for the weights' gradient (the six casts of
`manual_float8_matmul_with_args_in_hp`, the same file, commit 024fe94f). Scales of blocks (`te-block`, as DeepSeek-V3
has them: 1 x 128 of activations and gradients, 128 x 128 of weights) are found in the same kernel that writes both
directions (docs/features/low_precision_training/fp8_blockwise_scaling of TransformerEngine, commit 32be907d).

MXFP8 has a scale of one byte for 32 elements in a row. Both directions are cast from 16 bits (mxfp8/mxfp8.rst there):
in TransformerEngine by one kernel (`te-mx`), in torchao by a kernel for each GEMM's operand, as with rows
(`torchao-mx`; `mx_mm` in torchao/prototype/mx_formats/mx_linear.py, commit 06f5ff43). NVFP4 (`te-nvfp4`) has a scale
of one byte for 16 elements and one of the tensor, so a kernel finds the largest element first. A second kernel writes
both directions; it applies the random Hadamard transform and rounds stochastically on the way (nvfp4/nvfp4.rst there,
commit 41f6cbf1; hadamard_transform/row_cast_col_hadamard_transform_cast_fusion.cu). torchao's NVFP4 is assumed to be
the same.

`wide_share` is the share of linear layers, the last ones, that stay in 16 bits.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

CastsKind = Literal[
    "torchao",
    "torchao-rowwise",
    "torchao-sharded",
    "te",
    "te-cached",
    "te-current-cached",
    "te-block",
    "te-block-cached",
]
"""Implementations of casts to 8 bits, as a scenario names them."""

Implementation = CastsKind | Literal["torchao-mx", "te-mx", "te-mx-cached", "te-nvfp4", "te-nvfp4-cached"]

NARROW_BYTES = {"amp-fp8": 1.0, "amp-mxfp8": 1 + 1 / 32, "amp-nvfp4": 0.5 + 1 / 16}
"""Bytes of an element in 8 or 4 bits with its share of a block's scale, by precision."""

_BOTH = {name: 2 + 2 * size for name, size in NARROW_BYTES.items()}  # read in 16 bits, written in both directions

_BYTES: dict[Implementation, float] = {
    **{
        "torchao": 5.0,
        "torchao-rowwise": 5.0,
        "torchao-sharded": 5.0,
        "te": 4.0,
        "te-cached": 4.0,
        "te-current-cached": 6.0,
    },
    **dict.fromkeys(("te-block", "te-block-cached"), 2 + 2 * (1 + 4 / 128)),
    "torchao-mx": 2 + NARROW_BYTES["amp-mxfp8"],
    **dict.fromkeys(("te-mx", "te-mx-cached"), _BOTH["amp-mxfp8"]),
    **dict.fromkeys(("te-nvfp4", "te-nvfp4-cached"), 2 + _BOTH["amp-nvfp4"]),
}
_KERNELS: dict[Implementation, float] = {
    **dict.fromkeys(("te", "te-cached", "te-block", "te-block-cached", "torchao-mx", "te-mx", "te-mx-cached"), 1.0),
    **dict.fromkeys(
        ("torchao", "torchao-rowwise", "torchao-sharded", "te-current-cached", "te-nvfp4", "te-nvfp4-cached"), 2.0
    ),
}
SHARD_BYTES = 3.0
"""Bytes of an element of a shard of weights whose scale is known: 16 bits are read, 8 are written."""

_BY_OPERAND = ("torchao-rowwise", "torchao-mx")


class Casts(NamedTuple):
    """The implementation of casts and the number of passes of an update, for all of which weights may be cast once."""

    kind: Implementation = "torchao"
    num_passes: int = 1
    wide_share: float = 0.0
    num_shards: int = 1

    @property
    def num_bytes(self) -> float:
        """Bytes of an element that cross memory in a cast."""
        return _BYTES[self.kind]

    @property
    def gathers_narrow(self) -> bool:
        """Whether weights are gathered in 8 bits, each rank having cast its shard."""
        return self.kind == "torchao-sharded"

    @property
    def stores_narrow(self) -> bool:
        """Whether products in MXFP8 and NVFP4 store the narrow copy of their input for backward; torchao's do not."""
        return not self.kind.startswith("torchao")

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
        if self.gathers_narrow:
            cast = SHARD_BYTES / self.num_bytes * weights / self.num_shards, 1 / 2
            forward, data, gradient = (read + cast[0], 1 + cast[1]), (written + cast[0], 1 + cast[1]), (read, 1.0)
        elif self.kind in ("torchao", *_BY_OPERAND):
            gradient = (read + written, 2.0) if self.kind in _BY_OPERAND else (read, 1.0)
            forward, data = (read + weights, 2.0), (written + weights, 2.0)
        else:
            share = 1 / self.num_passes if self.kind.endswith("-cached") else 1.0
            forward, data, gradient = (read + share * weights, 1 + share), (written, 1.0), (0.0, 0.0)
        return {"forward": forward, "backward_data": data, "backward_weights": gradient}[phase]


TORCHAO = Casts()


def casts_of(
    kind: CastsKind, num_passes: int, precision: str = "amp-fp8", wide_share: float = 0.0, num_shards: int = 1
) -> Casts:
    """Return the casts of an update of `num_passes` passes; the number matters where weights are cast once for all.

    In other precisions than `amp-fp8` the kind says whose kernels cast, and whether weights are cast once. `num_shards`
    are those of weights, where ranks cast their shards.

    >>> casts_of("te-cached", 4, "amp-nvfp4").kind, casts_of("torchao", 4, "amp-mxfp8").kind
    ('te-nvfp4-cached', 'torchao-mx')
    """
    own: Implementation = kind
    is_cached, is_torchao = kind.endswith("-cached"), kind.startswith("torchao")
    if precision == "amp-mxfp8":
        own = "torchao-mx" if is_torchao else "te-mx-cached" if is_cached else "te-mx"
    elif precision == "amp-nvfp4":
        own = "te-nvfp4-cached" if is_cached else "te-nvfp4"
    return Casts(own, num_passes if is_cached else 1, wide_share, num_shards if own == "torchao-sharded" else 1)


def casts_alike(kind: CastsKind, precision: str) -> CastsKind | None:
    """Return the plainer kind whose casts are the same in a precision, if there is one.

    >>> casts_alike("te-block-cached", "amp-mxfp8"), casts_alike("torchao", "amp-nvfp4"), casts_alike("te", "amp-fp8")
    ('te-cached', 'te', None)
    """
    plain: tuple[CastsKind, ...] = ("te", "te-cached", "torchao")
    own = casts_of(kind, 1, precision)
    same = next((each for each in plain if casts_of(each, 1, precision) == own), kind)
    return None if same == kind else same
