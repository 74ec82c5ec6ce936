"""Which operators of torch compute which kind of layer."""

from __future__ import annotations

_KINDS = {
    "convolution": ("conv1d", "conv2d", "conv3d", "convolution", "cudnn_convolution", "mkldnn_convolution"),
    "fully-connected": ("linear", "addmm", "mm"),
    "matmul": ("matmul", "bmm", "baddbmm"),
    "lstm": ("lstm", "_cudnn_rnn"),
    "attention": ("scaled_dot_product_attention",),
    "embedding": ("embedding",),
    "batch-norm": ("batch_norm", "cudnn_batch_norm", "native_batch_norm"),
    "layer-norm": ("layer_norm", "native_layer_norm"),
    "pooling": ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "mean"),
    "relu": ("relu", "relu_", "threshold", "clamp_min", "clamp_min_"),
    "gelu": ("gelu",),
    "dropout": ("dropout", "dropout_", "native_dropout", "feature_dropout"),
    "softmax": ("softmax", "log_softmax", "_softmax"),
    "concat": ("cat", "concat"),
    "add": ("add", "add_"),
    "loss": ("cross_entropy_loss", "nll_loss_nd", "nll_loss", "mse_loss", "binary_cross_entropy"),
}

KIND_OF = {f"aten::{name}": kind for kind, names in _KINDS.items() for name in names}
"""The kind of layer that an operator computes, by the operator's name."""
