"""LoRA (Hu et al., arXiv:2106.09685): frozen weights, and trained adapters of low rank beside chosen products.

A product y = W x of a target becomes y = W x + s B A x, with A of `rank` rows and B of `rank` columns. W and all other
weights are frozen: they have no gradients, no optimizer state and no product for the gradient of weights. Each target
has an A and a B of its own, as in PEFT (`LoraLayer`, src/peft/tuners/lora/layer.py) and torchtune
(torchtune/modules/peft/lora.py); two matrices in one product (query, key and value) are adapted separately. The scaled
sum takes 3 elements of memory traffic per element of its output forward, and 5 backward. No gradient flows into the
layers before the first adapter, but their element-wise kernels are counted. Left out: dropout before A.

Frozen weights are stored as products read them, or, those of linear layers but the head, in 4 bits (QLoRA, Dettmers et
al., arXiv:2305.14314): blocks of 64 with an fp32 maximum, which double quantization stores in 8 bits with an fp32
number for 256 of them, 4.127 bits per weight. A kernel widens such a matrix before every product with it, forward and
backward (`MatMul4Bit`: `F.linear(A, F.dequantize_4bit(B, ...))`, bitsandbytes/autograd/_functions.py). Since
version 0.43.2 it stores no input for backward (`ctx.tensors = (None, B)`; commit 9e753741, July 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from clustersim.common_words import hint_for_name
from clustersim.errors import InputError, Mistake, hint_after, unknown_name
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.model.layer import Layer, Model
from clustersim.spec import Count, Spec

Target = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
Storage = Literal["operands", "nf4", "nf4-double"]

STORED_BYTES: dict[Storage, float] = {"nf4": 0.5 + 4 / 64, "nf4-double": 0.5 + 1 / 64 + 4 / (64 * 256)}
"""Bytes of a weight of a linear layer by its storage, with the scales of its block."""

SUM = "adapter-sum"
"""Operation that adds the scaled outputs of adapters to that of the frozen product."""

_ALL, _WHAT = "all-linear", "adapter target"
_TARGETS: tuple[str, ...] = get_args(Target)
_ENDS = ("add", "embedding")  # what ends the layers before an attention or a feed-forward part
_LINEAR = "fully-connected"


def _known_targets(value: Any) -> Any:
    """Refuse what is neither `all-linear` nor a list of targets; the names that models of others have are explained."""
    if value == _ALL or value is None:
        return value
    listed = isinstance(value, list | tuple)
    if not listed or not value:
        shown = f"'{value}'" if isinstance(value, str) else "an empty list" if listed else "no list"
        allowed = f"{_ALL}, or a list of {', '.join(_TARGETS)}"
        hint = hint_after(hint_for_name(_WHAT, str(value)), f"[{value}]" if value in _TARGETS else None)
        raise InputError(f"expected {allowed} (got {shown}){hint}", got=shown, allowed=allowed)
    wrong = [(number, each) for number, each in enumerate(value) if each not in _TARGETS]
    if wrong:
        raise InputError([_unknown_target(str(number), each) for number, each in wrong])
    return tuple(value)


def _unknown_target(key: str, got: object) -> Mistake:
    return replace(unknown_name(_WHAT, got, _TARGETS).mistakes[0], key=key)


class Lora(Spec):
    """Adapters of low rank that are trained in place of all weights (LoRA, QLoRA)."""

    rank: Count = Field(description="columns of A and rows of B of each adapter")
    targets: Annotated[
        Annotated[tuple[Target, ...], Field(min_length=1)] | Literal["all-linear"], BeforeValidator(_known_targets)
    ] = Field(
        default=("q_proj", "v_proj"),
        description="the products with adapters, by the names that Hugging Face's Llama has for them, or `all-linear`: "
        "every linear layer but the output head",
    )
    storage: Storage = Field(
        default="operands",
        description="how frozen weights are stored: as products read them (`operands`: 16 bits with amp-bf16), or "
        "those of linear layers but the head in 4 bits (QLoRA): `nf4`, or `nf4-double` with double quantization",
    )


class _Part(NamedTuple):
    """A matrix of a product: its name as a target, and its rows, the features that it writes."""

    target: str
    outputs: int


def with_adapters(model: Model, lora: Lora, operand_bytes: float) -> Model:
    """Return a model with frozen weights and adapters; products read frozen weights in `operand_bytes` each.

    >>> from clustersim.model import load_model
    >>> with_adapters(load_model("llama-2-7b"), Lora(rank=8), 2.0).num_parameters
    4194304
    """
    return _with_adapters(model, lora.rank, lora.targets, lora.storage, operand_bytes)


@cached_by_identity(16)
def _with_adapters(
    model: Model, rank: int, names: Sequence[Target] | str, storage: Storage, operand_bytes: float
) -> Model:
    targets = _targets(model, names)
    made: list[Layer] = []
    trains = False
    readers = (*model.layers[1:], None)
    for index, (layer, reader) in enumerate(zip(model.layers, readers, strict=True)):
        is_quantized = layer.op in (_LINEAR, "experts") and not (reader is not None and reader.op == "loss")
        width = STORED_BYTES.get(storage, operand_bytes) if is_quantized else operand_bytes
        frozen = replace(layer, num_parameters=0, frozen_bytes=layer.num_parameters * width, flop_backward_weights=0.0)
        if not trains:
            frozen = replace(frozen, flop_backward_data=0.0)
        if index in targets:
            made += _adapters(layer, targets[index], rank, into_data=trains)
            trains = True
        made.append(frozen)
    title = f"{model.title}, adapters of rank {rank}"
    return replace(model, title=title, layers=tuple(made))


def _adapters(layer: Layer, parts: Sequence[_Part], rank: int, into_data: bool) -> Iterator[Layer]:
    """Yield the A of each part, then the B of each, and the sum: so each is read by the layer behind it or not at all.

    `into_data` says whether the layer's input needs a gradient.
    """
    rows, inputs = layer.shape["rows"], layer.shape["inputs"]
    for part in parts:
        yield _product(layer.name, f"{part.target}.lora_A", rows, inputs, rank, into_data)
    for part in parts:
        yield _product(layer.name, f"{part.target}.lora_B", rows, rank, part.outputs, True)
    written = float(rows * sum(part.outputs for part in parts))
    yield Layer(f"{layer.name}.lora_sum", SUM, 0.0, 0.0, 0.0, 0, 2 * written, written, adapts=layer.name)


def _product(base: str, name: str, rows: int, inputs: int, outputs: int, into_data: bool) -> Layer:
    flop = 2.0 * rows * inputs * outputs
    shape = {"rows": rows, "inputs": inputs, "outputs": outputs, "count": 1}
    read, written = float(rows * inputs), float(rows * outputs)
    data = flop if into_data else 0.0
    weights = inputs * outputs
    return Layer(f"{base}.{name}", _LINEAR, flop, data, flop, weights, read, written, shape, adapts=base)


def _targets(model: Model, names: Sequence[Target] | str) -> dict[int, list[_Part]]:
    """Return the matrices with adapters of each product, by its place in the model."""
    found = dict(_roles(model))
    named = {part.target for parts in found.values() for part in parts}
    known = [target for target in _TARGETS if target in named]
    if isinstance(names, str):
        if not found:
            raise _no_target(model, names, [])
        return found
    for target in names:
        if target not in known:
            raise _no_target(model, target, [*known, *([_ALL] if found else [])])
    own = {index: [part for part in parts if part.target in names] for index, parts in found.items()}
    return {index: parts for index, parts in own.items() if parts}


def _no_target(model: Model, target: str, known: Sequence[str]) -> InputError:
    allowed = ", ".join(known) or "a model with attention or linear layers"
    message = f"{model.name} has no product that is known as {target} (allowed: {allowed})"
    return InputError(message, got=target, allowed=allowed, key="lora.targets")


def _roles(model: Model) -> Iterator[tuple[int, list[_Part]]]:
    """Yield each linear layer but the head with its matrices; those of no known role have their layer's name."""
    layers = model.layers
    heads = {index for index, layer in enumerate(layers[1:]) if layer.op == "loss"}
    linear = [index for index, layer in enumerate(layers) if layer.op == _LINEAR and index not in heads]
    known: dict[int, list[_Part]] = {}
    starts = [0, *(index + 1 for index, layer in enumerate(layers) if layer.op in _ENDS)]
    for start, end in zip(starts, [*starts[1:], len(layers)], strict=True):
        known |= _of_segment(layers, [index for index in linear if start <= index < end], range(start, end))
    for index in linear:
        layer = layers[index]
        if layer.num_parameters and layer.shape:
            whole = _Part(layer.name.rpartition(".")[2], layer.shape["outputs"] * layer.shape["count"])
            yield index, known.get(index, [whole])


def _of_segment(layers: Sequence[Layer], linear: Sequence[int], segment: range) -> dict[int, list[_Part]]:
    """Return the roles of linear layers between two residual sums: around an attention, and of a feed-forward part."""
    products = [index for index in segment if layers[index].op == "matmul"]
    if len(products) != 2:
        return _of_feed_forward(layers, linear)
    before = [index for index in linear if index < products[0]]
    behind = [index for index in linear if index > products[1]]
    found = _of_attention(layers, before, layers[products[0]])
    if found and behind:
        found[behind[0]] = [_Part("o_proj", layers[behind[0]].shape["outputs"])]
    return found | _of_feed_forward(layers, behind[1:])


def _of_attention(layers: Sequence[Layer], linear: Sequence[int], scores: Layer) -> dict[int, list[_Part]]:
    """Return the roles of the products that make query, key and value, whose widths follow from the scores."""
    query = scores.shape["count"] * scores.shape["inputs"] if scores.shape else 0
    written = [layers[index].shape.get("outputs", 0) * layers[index].shape.get("count", 1) for index in linear]
    value, odd = divmod(sum(written) - query, 2)
    if value <= 0 or odd or not query:
        return {}
    names, sizes = ("q_proj", "k_proj", "v_proj"), (query, value, value)
    parts = [_Part(*each) for each in zip(names, sizes, strict=True)]
    if len(linear) == 1:
        return {linear[0]: parts}
    if written == [query, 2 * value]:
        return {linear[0]: parts[:1], linear[1]: parts[1:]}
    return {index: [part] for index, part in zip(linear, parts, strict=True)} if written == list(sizes) else {}


def _of_feed_forward(layers: Sequence[Layer], linear: Sequence[int]) -> dict[int, list[_Part]]:
    """Return the roles of a feed-forward part: one or two matrices up, and one down."""
    if len(linear) not in (2, 3):
        return {}
    *into, out = linear
    outputs = [(index, layers[index].shape.get("outputs", 0)) for index in into for _ in range(_count(layers[index]))]
    if len(outputs) > 2:
        return {}
    names = ("gate_proj", "up_proj") if len(outputs) == 2 else ("up_proj",)
    found: dict[int, list[_Part]] = {out: [_Part("down_proj", layers[out].shape.get("outputs", 0))]}
    for name, (index, size) in zip(names, outputs, strict=True):
        found.setdefault(index, []).append(_Part(name, size))
    return found


def _count(layer: Layer) -> int:
    return layer.shape.get("count", 1)
