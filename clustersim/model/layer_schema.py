"""Default values and shape keys of layers in a workload file; reader and writer share them."""

from __future__ import annotations

from collections.abc import Sequence

GEMM_KEYS = ("rows", "inputs", "outputs", "count")
POOLING = (
    "channels", "height", "width", "kernel_h", "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w", "out_height",
    "out_width",
)  # fmt: skip
CONVOLUTION = (*POOLING, "filters", "groups")
OPTIONAL_SHAPE_KEYS = {
    "fully-connected": ("whole",),
    "layer-norm": ("heads",),
    "matmul": ("flash",),
    "rms-norm": ("heads",),
    "softmax": ("unmasked",),
}
"""Optional keys in the shape of an operation: the kernel of the fused attention that a GEMM is half of, no mask, a norm
of each head's features, and a matrix that tensor parallelism does not split."""
FLASH = {1: "FlashAttention", 2: "FlashAttention-2", 3: "FlashAttention-3", 9: "cuDNN 9"}
"""Kernels of fused attention by the value of `flash`; 2 if not given."""
LOCALLY_CONNECTED = (*POOLING, "filters", "block")
KERNEL_OPS = (
    "convolution", "transposed-convolution", "locally-connected", "transposed-locally-connected", "fully-connected",
    "matmul", "experts", "lstm", "gru", "rnn",
)  # fmt: skip
SCANS = ("causal-convolution", "chunked-scan", "selective-scan")
"""Fused kernels along the tokens of a recurrence. They have FLOP and no shape, and take the time of their bytes, or of
their FLOP at the rate of a large product where that is more.
"""
KNOWN_OPS = (
    *KERNEL_OPS, *SCANS, "custom", "embedding", "router", "pooling", "relu", "gelu", "silu", "softmax", "batch-norm",
    "layer-norm", "rms-norm", "lrn", "dropout", "add", "multiply", "divide", "concat", "loss",
)  # fmt: skip
"""Operations of layers with FLOP or a shape, unless they have their own times. A layer with neither takes the time of
its bytes, whatever its name: importers write torch's and ONNX's own names.
"""
LARGEST_SIZE = 10**12
"""Limit of a kernel's side length; anything larger is a mistake."""


def shape_keys(op: str) -> tuple[str, ...]:
    """Return the keys in the shape of an operation, all or none, besides optional ones (`OPTIONAL_SHAPE_KEYS`).

    >>> shape_keys("lstm")
    ('rows', 'inputs', 'outputs', 'count')
    """
    known = {
        "convolution": CONVOLUTION,
        "locally-connected": LOCALLY_CONNECTED,
        "transposed-locally-connected": LOCALLY_CONNECTED,
        "pooling": POOLING,
        "experts": (*GEMM_KEYS, "experts"),
        **dict.fromkeys((*SCANS, "layer-norm", "rms-norm", "softmax"), ()),
    }
    return known.get(op, GEMM_KEYS)


def default_inputs(output_elements: Sequence[float]) -> list[float]:
    """Return the default input size of each layer: the output of the one before it; for the first, its own output.

    >>> default_inputs([3.0, 5.0, 1.0])
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
