"""Number formats of training: bytes of each kind of number, and the arithmetic units that multiply."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.registry import Registry


@dataclass(frozen=True)
class Precision:
    """Bytes per number, and the units that multiply.

    `weight_bytes` is the width that kernels read, `master_bytes` an fp32 copy that the optimizer keeps in addition (0
    where the weights are already that copy), `wire_bytes` a gradient's size in the exchange unless compression changes
    it. `units` is `ordinary` or `tensor` (tensor cores). The amp kinds are automatic mixed precision as in PyTorch's
    `torch.amp`: fp32 weights and gradients, 2-byte operands and activations. Where only some GEMMs are in a precision,
    `base` names that of the others, and `stored_bytes` is the width in which a narrow product stores its input for
    backward, with its share of scales; 0 where that is as it reads it.
    """

    name: str
    units: str
    weight_bytes: float
    activation_bytes: float
    gradient_bytes: float
    wire_bytes: float
    master_bytes: float = 0.0
    operand_bytes: float = 4.0
    title: str = ""
    base: str = ""
    stored_bytes: float = 0.0


PRECISIONS: Registry[Precision] = Registry(
    "precision",
    {
        "fp32": Precision("fp32", "ordinary", 4.0, 4.0, 4.0, 4.0, title="32-bit floats throughout"),
        "tf32": Precision(
            "tf32", "tensor", 4.0, 4.0, 4.0, 4.0, title="32-bit floats, multiplied at 19 bits on tensor cores"
        ),
        "fp16": Precision(
            "fp16", "ordinary", 2.0, 2.0, 2.0, 2.0, 4.0, 2.0, "16-bit floats without tensor cores, fp32 master weights"
        ),
        "amp-fp16": Precision(
            "amp-fp16", "tensor", 4.0, 2.0, 4.0, 4.0, 0.0, 2.0, "fp32 weights, 16-bit operands on tensor cores"
        ),
        "amp-bf16": Precision(
            "amp-bf16", "tensor", 4.0, 2.0, 4.0, 4.0, 0.0, 2.0, "fp32 weights, bfloat16 operands on tensor cores"
        ),
        "amp-fp8": Precision(
            *("amp-fp8", "tensor", 4.0, 2.0, 4.0, 4.0, 0.0, 2.0),
            title="amp-bf16 with the operands of linear layers cast to 8 bits",
            base="amp-bf16",
        ),
        "amp-mxfp8": Precision(
            *("amp-mxfp8", "tensor", 4.0, 2.0, 4.0, 4.0, 0.0, 2.0),
            title="amp-bf16 with the operands of linear layers cast to 8 bits, with a scale for 32 of them",
            base="amp-bf16",
            stored_bytes=1 + 1 / 32,
        ),
        "amp-nvfp4": Precision(
            *("amp-nvfp4", "tensor", 4.0, 2.0, 4.0, 4.0, 0.0, 2.0),
            title="amp-bf16 with the operands of linear layers cast to 4 bits, with a scale for 16 of them",
            base="amp-bf16",
            stored_bytes=0.5 + 1 / 16,
        ),
    },
)


def precision_on(gpu: Gpu, name: str) -> Precision:
    """Return the precision of this name; a GPU whose sheet has no peak for it is refused."""
    precision = PRECISIONS[name]
    if name not in gpu.flop_per_s:
        allowed = ", ".join(known for known in PRECISIONS if known in gpu.flop_per_s)
        raise InputError(
            f"{gpu.title} ({gpu.name}) does not compute in {name}: its sheet gives no peak for it; "
            f"write one of: {allowed}",
            got=name,
            allowed=allowed,
        )
    return precision
