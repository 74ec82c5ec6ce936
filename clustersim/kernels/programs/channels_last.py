"""Images whose channels lie last in memory (`nhwc`), and batch norms that take the sum and the ReLU behind them along.

Convolutions on tensor cores read channels last. A framework that holds images channels first (`nchw`) has them turned
over before and after (NVIDIA, Deep Learning Performance, Convolutional Layers User's Guide, "Tensor Layouts in
Memory"), one that holds them channels last (PyTorch's `channels_last`, MXNet's and DALI's `NHWC`) has not. TensorFlow
chooses by itself: fp16 on compute capability 7.0 and later is channels last (grappler's `generic_layout_optimizer.cc`).

For 16 bits and channels last alone, cuDNN has batch norms with an activation, or with a sum and an activation
(`cudnnBatchNormalizationForwardTrainingEx` with `CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION`; PaddlePaddle/Paddle, pull
request 27230); NVIDIA's MLPerf code and Apex have kernels of their own of the same kind (`batch_norm_add_relu.h` in
NVIDIA/apex, contrib/csrc/groupbn, commit 051cba76). What they write is the ReLU's output: forward the other term of the
sum is read besides, backward its gradient is written besides, and all that the ReLU and the sum move as operations of
their own is gone. Left out: a bit of each element, which says where the ReLU was above 0.

TensorFlow asks cuDNN for batch norms of channels last in its persistent mode alone. Without it
(`TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT` is not set, as by default) its norms of training are computed channels
first: forward it turns over what goes in and what comes out, backward the gradient that comes in, what went in and the
gradient that goes out (`FusedBatchNorm` and `FusedBatchNormGrad` in tensorflow/core/kernels/fused_batch_norm_op.cc,
`fast_nhwc_batch_norm`), each read and written once more (`cudnn-turned`).

Two things more come with channels last in 16 bits (`constants_in`). Batch norms move what PyTorch's were timed to move
so (`tools/element_wise.py`). And tensor cores have convolutions of fewer channels than they read at once, such as the
first one of a network on images (`convolution_kernels`).
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
"""How a layer is part of a fused batch norm: not, as what is `joined` to one, or as the norm that `adds` as well."""

_HALF = 2.0
_ON_CHANNELS_LAST = {
    "cudnn-fused": "cuDNN joins batch norm, sum and ReLU",
    "cudnn-turned": "batch norms are turned over",
}
"""What libraries do that need channels last."""

NO_PASS = 1e-3  # of maps turned over: a chip whose fit has none


def refuse_layout(model: Model, precision: Precision, layout: Layout, library: str) -> None:
    """Raise where channels last, or the library that needs them, would change nothing or is not to be had."""
    if library in _ON_CHANNELS_LAST:
        if layout != "nhwc" or precision.units != "tensor" or precision.activation_bytes != _HALF:
            raise InputError(
                f"{_ON_CHANNELS_LAST[library]} (library: {library}) for 16 bits with channels last alone; "
                "write layout: nhwc and a precision of 16 bits on tensor cores, or library: cudnn",
                got=f"layout: {layout}, precision: {precision.name}",
                allowed="layout: nhwc with amp-fp16 or amp-bf16",
            )
        if library == "cudnn-fused" and not any(fused_norms(model.layers)):
            raise InputError(
                f"{model.name} has no batch norm with a ReLU behind it, so that nothing can be joined "
                "(library: cudnn-fused); write library: cudnn",
                got=library,
            )
        if not any(layer.op == "batch-norm" for layer in model.layers):
            raise InputError(
                f"{model.name} has no batch norm that could be turned over (library: {library}); write library: cudnn",
                got=library,
            )
    if layout == "nchw":
        return
    if library == "unrolled":
        raise InputError("windows are written out of images that lie channels first; drop layout: nhwc", got=layout)
    if precision.units != "tensor":
        raise InputError(
            f"estimates turn images over around tensor cores alone, which {precision.name} does not use: layout: nhwc "
            "would change nothing; drop it, or take a precision on tensor cores",
            got=layout,
        )
    if not any(layer.op == "convolution" for layer in model.layers):
        raise InputError(f"{model.name} has no convolution, whose images layout: nhwc is about; drop it", got=layout)


def constants_in(
    layout: Layout, constants: KernelConstants, precision: Precision, library: str = "cudnn"
) -> KernelConstants:
    """Return the constants of a chip's kernels for images in this layout.

    Channels last nothing is turned over, and in 16 bits norms move other bytes and tensor cores fill up few channels.
    They do that where a chip's kernels turn images over as well, which from Ampere on is with channels first.
    """
    turns_over = constants.shape.layout_passes > NO_PASS
    fills = constants.tensor and precision.operand_bytes == _HALF and (layout == "nhwc" or turns_over)
    constants = replace(constants, pads_to_four_channels=fills)
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
    """Return how each layer is part of a fused batch norm [num_layers].

    A ReLU right behind a batch norm is joined to it, and so are a sum right behind one and the ReLU behind that. A sum
    without a ReLU stays by itself: cuDNN has no batch norm that ends with it.
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
    """Return what a batch norm moves that adds: forward the other term is read, backward its gradient is written."""
    forward, backward = traffic
    return forward._replace(input=forward.input + 1.0), backward._replace(output=backward.output + 1.0)


def with_transposes(traffic: tuple[Traffic, Traffic]) -> tuple[Traffic, Traffic]:
    """Return what a batch norm moves whose maps are turned over: each is read and written once more.

    Forward one that goes in and one that comes out; backward two of the size of what went in (itself and its gradient)
    and the gradient that comes in, of the size of what came out.
    """
    forward, backward = traffic
    return (
        forward._replace(input=forward.input + 2.0, output=forward.output + 2.0),
        backward._replace(input=backward.input + 4.0, output=backward.output + 2.0),
    )
