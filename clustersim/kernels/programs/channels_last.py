"""Channels-last images (`nhwc`), and batch norms fused with the sum and the ReLU behind them.

Convolutions on tensor cores read NHWC. A framework that holds images in NCHW (`nchw`) transposes them before and after
(NVIDIA, Deep Learning Performance, Convolutional Layers User's Guide, "Tensor Layouts in Memory"). A framework that
holds them in NHWC (PyTorch's `channels_last`, MXNet's and DALI's `NHWC`) does not. TensorFlow chooses the layout
itself: fp16 on compute capability 7.0 and later is NHWC (grappler's `generic_layout_optimizer.cc`).

Only for 16 bits and NHWC, cuDNN has batch norms with an activation, or with a sum and an activation
(`cudnnBatchNormalizationForwardTrainingEx` with `CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION`; PaddlePaddle/Paddle, pull
request 27230). NVIDIA's MLPerf code and Apex have similar kernels (`batch_norm_add_relu.h` in NVIDIA/apex,
contrib/csrc/groupbn, commit 051cba76). They write the ReLU's output. Forward also reads the other term of the sum,
backward also writes its gradient, and the traffic of separate ReLU and sum kernels is saved. Left out: one bit per
element, which records where the ReLU was above 0.

TensorFlow requests cuDNN's NHWC batch norms only in persistent mode. Without it
(`TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT` is not set, the default) its training norms are computed in NCHW: forward
transposes the input and the output, backward the incoming gradient, the saved input and the outgoing gradient
(`FusedBatchNorm` and `FusedBatchNormGrad` in tensorflow/core/kernels/fused_batch_norm_op.cc, `fast_nhwc_batch_norm`),
each read and written once more (`cudnn-turned`).

NHWC in 16 bits has two more effects (`constants_in`). Batch norms move the bytes that PyTorch's were timed to move in
this layout (`tools/element_wise.py`). And tensor cores can run convolutions of fewer channels than they read at once,
such as the first one of an image network (`convolution_kernels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from clustersim.errors import InputError
from clustersim.kernels.kernel_constants import KernelConstants, Traffic
from clustersim.model.layer import Layer, Model
from clustersim.model.precision import Precision

Layout = Literal["nchw", "nhwc"]
Fused = Literal["", "joined", "adds"]
"""Role of a layer in a fused batch norm: none, a layer that is `joined` to one, or a norm that `adds` as well."""

_HALF = 2.0
_ON_CHANNELS_LAST = {
    "cudnn-fused": "cuDNN fuses batch norm, sum and ReLU",
    "cudnn-turned": "batch norms are transposed",
}
"""Operations of libraries that need NHWC."""

NO_PASS = 1e-3  # at or below this number of layout passes, a chip's fit has no transposes


def refuse_layout(model: Model, precision: Precision, layout: Layout, library: str) -> None:
    """Raise where channels last, or a library that needs it, would change nothing or is not available."""
    if library in _ON_CHANNELS_LAST:
        if layout != "nhwc" or precision.units != "tensor" or precision.activation_bytes != _HALF:
            raise InputError(
                f"{_ON_CHANNELS_LAST[library]} (library: {library}) only in 16 bits with channels last; "
                "write image_layout: nhwc and a precision of 16 bits on tensor cores, or library: cudnn",
                got=f"layout: {layout}, precision: {precision.name}",
                allowed="image_layout: nhwc with amp-fp16 or amp-bf16",
            )
        if library == "cudnn-fused" and not any(fused_norms(model.layers)):
            raise InputError(
                f"{model.name} has no batch norm with a ReLU behind it, so nothing can be fused "
                "(library: cudnn-fused); write library: cudnn",
                got=library,
            )
        if not any(layer.op == "batch-norm" for layer in model.layers):
            raise InputError(
                f"{model.name} has no batch norm to transpose (library: {library}); write library: cudnn",
                got=library,
            )
    if layout == "nchw":
        return
    if library == "unrolled":
        raise InputError("library: unrolled (im2col) needs channels first; drop image_layout: nhwc", got=layout)
    if precision.units != "tensor":
        raise InputError(
            f"images are transposed only around tensor cores, which {precision.name} does not use: image_layout: nhwc "
            "would change nothing; drop it, or choose a precision on tensor cores",
            got=layout,
        )
    if not any(layer.op == "convolution" for layer in model.layers):
        raise InputError(f"{model.name} has no convolution, so layout: nhwc has no effect; drop it", got=layout)


def constants_in(
    layout: Layout, constants: KernelConstants, precision: Precision, library: str = "cudnn"
) -> KernelConstants:
    """Return the constants of a chip's kernels for images in this layout.

    In NHWC nothing is transposed, and in 16 bits norms move a different number of bytes and tensor cores pad narrow
    channels. They also pad where a chip's kernels transpose images, which from Ampere on is the case in NCHW.
    """
    transposes = constants.shape.layout_passes > NO_PASS
    pads = constants.tensor and precision.operand_bytes == _HALF and (layout == "nhwc" or transposes)
    constants = replace(constants, pads_to_four_channels=pads)
    if layout == "nchw":
        return constants
    traffic = constants.channels_last if precision.activation_bytes == _HALF else {}
    if library == "cudnn-turned":
        traffic = {**traffic, "batch-norm": with_transposes(constants.element_wise["batch-norm"])}
    return replace(
        constants,
        shape=replace(constants.shape, layout_passes=0.0),
        element_wise={**constants.element_wise, **traffic},
    )


def fused_norms(layers: Sequence[Layer]) -> list[Fused]:
    """Return the role of each layer in a fused batch norm [num_layers].

    A ReLU directly behind a batch norm is joined to it, and so are a sum directly behind one and the ReLU behind that.
    A sum without a ReLU stays separate: cuDNN has no batch norm that ends with a sum.
    """
    found: list[Fused] = [""] * len(layers)
    for index, layer in enumerate(layers):
        behind = [each.op for each in layers[index + 1 : index + 3]]
        if layer.op == "batch-norm" and behind[:1] == ["relu"]:
            found[index + 1] = "joined"
        elif layer.op == "batch-norm" and behind == ["add", "relu"]:
            found[index : index + 3] = ["adds", "joined", "joined"]
    return found


def with_term(traffic: tuple[Traffic, Traffic]) -> tuple[Traffic, Traffic]:
    """Return the traffic of a batch norm that adds: forward reads the other term, backward writes its gradient."""
    forward, backward = traffic
    return forward._replace(input=forward.input + 1.0), backward._replace(output=backward.output + 1.0)


def with_transposes(traffic: tuple[Traffic, Traffic]) -> tuple[Traffic, Traffic]:
    """Return the traffic of a batch norm with transposed feature maps: each is read and written once more.

    Forward its input and its output; backward two tensors of the size of the input (itself and its gradient)
    and the incoming gradient, of the size of the output.
    """
    forward, backward = traffic
    return (
        forward._replace(input=forward.input + 2.0, output=forward.output + 2.0),
        backward._replace(input=backward.input + 4.0, output=backward.output + 2.0),
    )
