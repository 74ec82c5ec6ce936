"""Embedding and output head of a language model, where a program computes them differently from the other layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.layer_times import Library, estimate_layers
from clustersim.model.layer import Layer, LayerTime, Model

EmbeddingKind = Literal["lookup", "product"]
HeadPrecision = Literal["as-others", "tf32"]


@cached_by_identity(16)
def with_one_hot_embedding(model: Model) -> Model:
    """Return the model whose embedding is a GEMM of one-hot rows, one for each token, and its tables.

    As with MaxText's `use_iota_embed` (`jnp.dot(one_hot, embedding)`, layers/embeddings.py) and Praxis's `lookup_style`
    "matmul" (`project_last_dim(one_hot_ids, emb_var)`, layers/embedding_softmax.py), including the position table: 2 T
    R F FLOP for T tokens, R rows in all tables and F features, and as many for the gradient of the tables. Left out:
    writing the one-hot rows.

    >>> from clustersim.model.catalogue import load_model
    >>> layer = with_one_hot_embedding(load_model("llama-2-7b")).layers[0]
    >>> layer.flop == 2 * 4096 * 32000 * 4096, layer.flop_backward_data
    (True, 0.0)
    """
    if not any(layer.op == "embedding" for layer in model.layers):
        message = f"embedding: product needs a model with an embedding, and {model.name} has none"
        raise InputError(message, got="product", allowed="lookup", key="compute.embedding")
    return replace(model, layers=tuple(_one_hot_gemm(layer, model) for layer in model.layers))


def _one_hot_gemm(layer: Layer, model: Model) -> Layer:
    """Return an embedding as a GEMM; its features are the inputs of the first GEMM behind it."""
    if layer.op != "embedding":
        return layer
    features = next(each.shape["inputs"] for each in model.layers if each.op == "fully-connected")
    rows, tokens = layer.num_parameters // features, int(layer.output_elements) // features
    flop = 2.0 * tokens * rows * features
    shape = {"rows": tokens, "inputs": rows, "outputs": features, "count": 1}
    return replace(layer, flop=flop, flop_backward_weights=flop, shape=shape)


def with_head_precision(
    precision: str, layers: Sequence[LayerTime], model: Model, gpu: Gpu, batch: int, library: Library
) -> tuple[LayerTime, ...]:
    """Return layer times in which the output head, the GEMM of the logits, runs in another precision.

    MaxText casts both operands to fp32 (`logits_dot_in_fp32`, on by default in 2024), which JAX multiplies on tensor
    cores in TF32. Left out: its weights and gradients are then exchanged in 4 bytes.
    """
    head = _head_index(model)
    only_head = replace(model, layers=(model.layers[head],))
    estimate = estimate_layers(only_head, gpu, batch, precision, library=library)
    provenance = "published" if layers[head].provenance == "published" else "estimated"
    return tuple(
        replace(estimate.layers[0], provenance=provenance) if index == head else time
        for index, time in enumerate(layers)
    )


def _head_index(model: Model) -> int:
    for index, (layer, reader) in enumerate(zip(model.layers, model.layers[1:], strict=False)):
        if layer.op == "fully-connected" and reader.op == "loss":
            return index
    message = f"head: tf32 needs a fully connected layer before the loss, and {model.name} has none"
    raise InputError(message, got="tf32", allowed="as-others", key="compute.head")
