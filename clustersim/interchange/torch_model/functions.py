"""Functions of torch that are one kernel on a GPU, but many calls on the meta device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from clustersim.interchange.torch_model.operators import Tracked
from clustersim.interchange.torch_model.work import Kernel, gemm_shape

Recipe = Callable[[Tracked, Sequence[Any], Mapping[str, Any], Any], list[Kernel]]
"""Takes known properties of tensors, the arguments of the call, and its result."""

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
_KEPT = {"lstm": 6, "gru": 4, "rnn": 1}  # gates, cell and state, of each token


def _elementwise(op: str) -> Recipe:
    def recipe(tracked: Tracked, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> list[Kernel]:
        x = _argument(args, kwargs, 0, "input")
        return [Kernel(op, x.numel(), output.numel())]

    return recipe


def _loss(tracked: Tracked, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> list[Kernel]:
    """A loss reads scores and writes as many gradients."""
    x = _argument(args, kwargs, 0, "input")
    return [Kernel("loss", x.numel(), x.numel())]


def _dropout(tracked: Tracked, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> list[Kernel]:
    x = _argument(args, kwargs, 0, "input")
    share = _argument(args, kwargs, 1, "p", 0.5)
    training = _argument(args, kwargs, 2, "training", kwargs.get("train", True))
    return [Kernel("dropout", x.numel(), x.numel())] if training and share > 0 else []


def _linear(tracked: Tracked, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> list[Kernel]:
    """A GEMM of every row with one matrix, including the bias."""
    x, weight = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "weight")
    rows, inputs, outputs = x.numel() // x.shape[-1], x.shape[-1], output.shape[-1]
    shape = gemm_shape(rows, inputs, outputs, 1)
    flop = 2.0 * rows * inputs * outputs
    needs = int(x.requires_grad), int(weight.requires_grad)
    return [Kernel("fully-connected", x.numel(), output.numel(), flop, *needs, shape)]


def _attention(tracked: Tracked, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> list[Kernel]:
    """Fused attention: two GEMMs of 2 heads x queries x keys x features FLOP; scores stay on the chip.

    With `is_causal` half of all pairs of tokens count, as the kernel skips the rest; a numeric mask skips nothing.
    Backward takes twice the forward GEMMs: the recomputation of scores in a fused kernel is not counted.
    """
    query, key, value = (_argument(args, kwargs, i, name) for i, name in enumerate(("query", "key", "value")))
    mask = _argument(args, kwargs, 3, "attn_mask", None)
    pairs = 0.5 if _argument(args, kwargs, 5, "is_causal", False) else 1.0
    heads = math.prod(query.shape[:-2])
    rows, features, keys, outputs = query.shape[-2], query.shape[-1], key.shape[-2], value.shape[-1]
    masks = (mask,) if isinstance(mask, Tensor) else ()
    scored = int(query.requires_grad) + int(key.requires_grad)
    scores = Kernel(
        "matmul", query.numel() + key.numel(), 0, pairs * 2.0 * heads * rows * features * keys, scored, 0,
        gemm_shape(rows, features, keys, heads), "scores", (query, key, *masks),
    )  # fmt: skip
    context = Kernel(
        "matmul", value.numel(), output.numel(), pairs * 2.0 * heads * rows * keys * outputs,
        int(scored > 0) + int(value.requires_grad), 0, gemm_shape(rows, keys, outputs, heads), "context", (value,),
    )  # fmt: skip
    return [scores, context]


def _recurrent(op: str) -> Recipe:
    """Return the recipe of an LSTM, GRU or RNN, possibly with several layers and bidirectional."""

    def recipe(tracked: Tracked, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> list[Kernel]:
        """Return the products of each layer and way."""
        x = args[0]
        packed = not isinstance(args[3], bool)  # then the batch sizes precede the states
        states, weights, _, num_layers, _, _, bidirectional = args[2:9] if packed else args[1:8]
        state = states[0] if isinstance(states, tuple | list) else states
        batch, tokens = (0, 0) if packed or x.dim() < 3 else x.shape[:2] if args[8] else (x.shape[1], x.shape[0])
        ways = ("", "_reverse")[: 1 + bidirectional]
        places = [f"l{layer}{way}" for layer in range(num_layers) for way in ways]
        each = len(weights) // len(places)
        found = []
        for number, label in enumerate(places):
            mine = tuple(weights[number * each : (number + 1) * each])
            first = number < len(ways)
            needs = int(x.requires_grad if first else True)
            kernel = _gates(op, x.numel() // x.shape[-1], mine, needs, (batch, tokens))
            label = label if len(places) > 1 else ""
            found.append(replace(kernel, label=label, tensors=(*mine, state) if first else mine))
        return found

    return recipe


def _gates(op: str, positions: int, weights: Sequence[Tensor], needs_data: int, sequence: tuple[int, int]) -> Kernel:
    """Return one layer and direction: a GEMM of [input, state] with all gates for each of the positions.

    `sequence` is batch and tokens: GEMMs run in sequence, token by token.
    """
    gates, inputs = weights[0].shape
    inner = inputs + weights[1].shape[1]
    hidden = gates // _GATES[op]
    batch, tokens = sequence
    return Kernel(
        op,
        positions * inputs,
        positions * _KEPT[op] * hidden,
        2.0 * inner * gates * positions,
        needs_data,
        int(weights[0].requires_grad),
        gemm_shape(batch, inner, gates, tokens) if tokens else {},
    )


_MISSING = object()


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, name: str, default: Any = _MISSING) -> Any:
    if place < len(args):
        return args[place]
    found = kwargs.get(name, default)
    assert found is not _MISSING, name
    return found


_LOSSES = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
)  # fmt: skip
_POOLS = ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "lp_pool1d", "lp_pool2d")
_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")

FUNCTIONS: dict[Any, Recipe] = {
    functional.scaled_dot_product_attention: _attention,
    functional.linear: _linear,
    functional.local_response_norm: _elementwise("lrn"),
    functional.rms_norm: _elementwise("rms-norm"),
    torch.rms_norm: _elementwise("rms-norm"),
    torch.dropout: _dropout,
    torch.lstm: _recurrent("lstm"),
    torch.gru: _recurrent("gru"),
    torch.rnn_tanh: _recurrent("rnn"),
    torch.rnn_relu: _recurrent("rnn"),
    **{getattr(functional, name): _loss for name in _LOSSES},
    **{getattr(functional, name): _elementwise("pooling") for name in _POOLS},
    **{getattr(functional, name): _dropout for name in _DROPOUTS},
}
