"""What a workload file need not say of a layer, because it follows from the rest; here reader and writer agree."""

from __future__ import annotations

from collections.abc import Sequence

PRODUCT = ("rows", "inputs", "outputs", "count")
POOLING = (
    "channels", "height", "width", "kernel_h", "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w", "out_height",
    "out_width",
)  # fmt: skip
CONVOLUTION = (*POOLING, "filters", "groups")
FREE_SHAPE_KEYS = {"matmul": ("flash",), "softmax": ("unmasked",)}
"""Keys that the shape of an operation may have besides: which fused attention the product is half of, no mask."""
FLASH = {1: "FlashAttention", 2: "FlashAttention-2", 3: "FlashAttention-3", 9: "cuDNN 9"}
"""Kernels of fused attention, by what `flash` says; 2 where it says nothing."""
LOCAL = (*POOLING, "filters", "block")
PRODUCT_OPS = (
    "convolution", "transposed-convolution", "locally-connected", "transposed-locally-connected", "fully-connected",
    "matmul", "experts", "lstm", "gru", "rnn",
)  # fmt: skip
KNOWN_OPS = (
    *PRODUCT_OPS, "custom", "embedding", "router", "pooling", "relu", "gelu", "silu", "softmax", "batch-norm",
    "layer-norm", "rms-norm", "lrn", "dropout", "add", "multiply", "divide", "concat", "loss",
)  # fmt: skip
"""Operations that a layer with FLOP or a shape can have, unless it has times of its own. One without takes the time of
its bytes, whatever it is called: importers write torch's and ONNX's own names."""
LARGEST_SIZE = 10**12
"""No side of a kernel is as long; what is larger is a mistake."""


def shape_keys(op: str) -> tuple[str, ...]:
    """Return the keys that the shape of an operation has, all of them or none, beside free ones (`FREE_SHAPE_KEYS`).

    >>> shape_keys("lstm")
    ('rows', 'inputs', 'outputs', 'count')
    """
    known = {
        "convolution": CONVOLUTION,
        "locally-connected": LOCAL,
        "transposed-locally-connected": LOCAL,
        "pooling": POOLING,
        "experts": (*PRODUCT, "experts"),
        "softmax": (),
    }
    return known.get(op, PRODUCT)


def passed_on(output_elements: Sequence[float]) -> list[float]:
    """Return what each layer reads: what the one before it writes, the first as much as it writes itself.

    >>> passed_on([3.0, 5.0, 1.0])
    [3.0, 3.0, 5.0]
    """
    return [*output_elements[:1], *output_elements[:-1]]


def backward_flop(flop: float, has_parameters: bool, trained_below: bool) -> tuple[float, float]:
    """Return the FLOP to data and to weights: twice the forward ones, half to each.

    Without parameters all go to data; and where nothing below has parameters, none.

    >>> backward_flop(3.0, has_parameters=True, trained_below=False)
    (0.0, 3.0)
    """
    weights = flop if has_parameters else 0.0
    data = (flop if has_parameters else 2 * flop) if trained_below else 0.0
    return data, weights
