"""Tensor parallelism: what each GPU of a group computes and stores of a model, and what the GPUs exchange.

Matrix products alternate as in Megatron-LM (Shoeybi et al., arXiv:1909.08053, section 3): a matrix whose input every
GPU has whole is split by columns and its output stays split; one that reads a split input is split by rows, and its
partial outputs are summed by an all-reduce. Between the two, heads of an attention and element-wise layers work on
their part. With sequence parallelism (Korthikanti et al., arXiv:2205.05198, section 4.2.2) the layers between row and
column are split over the tokens, and each all-reduce becomes a reduce-scatter and an all-gather of the same bytes. Left
out: the gather that Megatron repeats in the backward pass, after the gradient of data, and the sum of the gradients of
a normalisation's parameters.

Convolutions are split by filters (Krizhevsky et al., 2012, the two towers of AlexNet): one that reads all channels
gathers them first; a grouped one need not if the number of GPUs divides its groups. Layers that read neighbouring
channels (`lrn`, `group-norm`) are treated as local: channels at the boundary are not exchanged.

A model is a list, so of branches only the order is known. A product that reads as much as an earlier one did, and not
what was written last, is taken to read the same tensor. A product with more or fewer tokens than the one before reads
another tensor, which all GPUs have whole, as keys and values of an encoder's output do beside a decoder's query. Left
out: the sum of that tensor's gradients if both have the same number of tokens. The bias of a matrix split by rows is
counted as split.

Matrices into the latents of a latent attention are `whole`: every GPU has them, as in Megatron-LM
(core/transformer/multi_latent_attention.py), and what is made of the latents is split by columns. Norms of each head's
features are local.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.errors import InputError
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.model import Layer, Model
from clustersim.model.layer_schema import SCANS
from clustersim.parallelism.pieces import (
    Calls,
    GroupCall,
    IndivisibleError,
    Piece,
    calls_bytes,
    check_divides,
    divided,
    part_of,
)

__all__ = ["GroupCall", "Piece", "calls_bytes", "split_model"]

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
"""Recurrent layers, and their products of hidden units per token."""

WHOLE_FEATURES = frozenset({"layer-norm", "rms-norm"})
"""Layers that need all features of a token."""

OVER_CLASSES = frozenset({"loss", "softmax", "log-softmax"})
CLASS_BYTES = 3 * 4.0
"""Bytes that a loss over split classes exchanges per token in fp32: the largest score, the sum of exponentials and the
score of the right class (Megatron-LM, core/tensor_parallel/cross_entropy.py)."""

PER_CHANNEL = frozenset({"batch-norm", "instance-norm", "group-norm", "prelu", *SCANS})
"""Layers whose parameters belong to channels and are split with them. Scans of heads are split by heads; matrices that
several heads share are computed by each GPU, and counted as split.
"""


def split_model(
    model: Model, degree: int, activation_bytes: float, sequence_parallel: bool = False, num_gpus: int | None = None
) -> tuple[Piece, ...]:
    """Return the piece of each layer on one of `degree` GPUs; `activation_bytes` is an element's size on the wire.

    If `num_gpus` is given, the degree that an error message proposes divides it. One GPU has every layer unchanged.
    Sizes that do not divide raise InputError with the nearest degree that works. A last layer of classes or words is
    padded to a multiple, as Megatron-LM pads its vocabulary. A layer that cannot be split is computed by every GPU.

    >>> from clustersim.model import load_model
    >>> pieces = split_model(load_model("gpt2-small"), 4, 2.0)
    >>> [call.op for call in pieces[-1].calls], pieces[-2].layer.shape["outputs"]
    (['all-reduce'], 12565)
    """
    try:
        return _split(model, degree, activation_bytes, sequence_parallel)
    except IndivisibleError as error:
        works = _nearest(model, degree, sequence_parallel, num_gpus or 0)
        raise InputError(
            f"{model.name} cannot be split over {degree} GPUs: {error}; the nearest number that works is {works}",
            got=str(degree),
            allowed=str(works),
            key="tensor",
        ) from None


@cached_by_identity(32)
def _split(model: Model, degree: int, activation_bytes: float, sequence_parallel: bool) -> tuple[Piece, ...]:
    if degree < 1:
        raise InputError(
            f"a model is split over at least one GPU (got {degree})", got=str(degree), allowed="1 or more", key="tensor"
        )
    if degree == 1:
        return tuple(Piece(layer, is_split=False) for layer in model.layers)
    if sequence_parallel and not any(_tokens(layer) > 1 for layer in model.layers):
        raise InputError(
            f"{model.name} has no sequence that sequence_parallel could split; leave it out",
            got="true",
            allowed="false",
            key="sequence_parallel",
        )
    splitter = _Splitter(degree, activation_bytes, sequence_parallel)
    readers: list[Layer | None] = [*model.layers[1:], None]
    return tuple(splitter.piece(layer, reader) for layer, reader in zip(model.layers, readers, strict=True))


def _nearest(model: Model, degree: int, sequence_parallel: bool, num_gpus: int) -> int:
    """Return the nearest degree that works and divides num_gpus, the smaller of two; 1 always works."""
    divisors = [other for other in range(1, 2 * degree) if num_gpus % other == 0]
    for other in sorted(divisors, key=lambda other: (abs(other - degree), other)):
        try:
            _split(model, other, 1.0, sequence_parallel)
        except IndivisibleError:
            continue
        return other
    raise AssertionError("a model was refused on one GPU")


def _tokens(layer: Layer) -> int:
    return layer.shape.get("rows", 1) if layer.op == "fully-connected" else 1


class _Splitter:
    """Goes through the layers in forward order, and tracks whether the activations are split."""

    def __init__(self, degree: int, activation_bytes: float, sequence_parallel: bool):
        self.degree = degree
        self.bytes = activation_bytes
        self.sequence_parallel = sequence_parallel
        self.is_split = False
        self.has_split_maps = False  # whether a convolution was split
        self.written = 0.0  # elements of the last output, of all GPUs
        self.shared: set[float] = set()  # elements of inputs that all GPUs have whole in a split region
        self.latents: set[float] = set()  # elements of what every GPU has computed from a whole matrix of this block
        self.product: Layer | None = None  # the last product
        self.before: Layer | None = None  # the last layer

    def piece(self, layer: Layer, reader: Layer | None) -> Piece:
        """Return this GPU's piece of the next layer; `reader` is the layer after it."""
        made = self._piece(layer, reader)
        if not self.is_split and ("whole" in layer.shape or (self.latents and layer.op in WHOLE_FEATURES)):
            self.latents.add(layer.output_elements)
        self.written = layer.output_elements
        if layer.op in GATES and layer.shape:
            self.written = self._hidden(layer)
        if layer.op != "fully-connected":  # one of several products with the same input may be as wide as this input
            self.shared.discard(self.written)
        if layer.op in ("fully-connected", "experts", "matmul"):
            self.product = layer
        self.before = layer
        return made

    def _piece(self, layer: Layer, reader: Layer | None) -> Piece:
        if layer.op == "router":
            return Piece(layer, is_split=False)
        if "whole" in layer.shape:
            return self._unsplit(layer)
        if layer.op == "embedding":
            return self._embedding(layer)
        if layer.op in ("fully-connected", "experts"):
            return self._matrix(layer, reader)
        if layer.op == "matmul":
            return self._heads(layer)
        if layer.op in GATES and layer.shape:
            return self._recurrent(layer)
        if layer.op in OVER_CLASSES:
            return self._over_classes(layer)
        if layer.op in WHOLE_FEATURES and "heads" not in layer.shape:
            return self._whole(layer)
        if layer.flop and layer.num_parameters and layer.op not in PER_CHANNEL:
            return self._filters(layer)
        return self._local(layer)

    def _embedding(self, layer: Layer) -> Piece:
        """Split a table by rows: each GPU looks up the words that it has, and the results are summed."""
        self.is_split = False
        part = replace(layer, num_parameters=-(-layer.num_parameters // self.degree))
        if layer.shape:  # one-hot rows times a table
            shape, share = {**layer.shape, "inputs": -(-layer.shape["inputs"] // self.degree)}, layer.flop / self.degree
            part = replace(part, flop=share, flop_backward_weights=share, shape=shape)
        after, before = self._sum_output(layer.output_elements)
        return Piece(part, is_split=True, after_forward=after, before_backward=before)

    def _matrix(self, layer: Layer, reader: Layer | None) -> Piece:
        if self.is_split and not self._reads_shared(layer) and not self._reads_other_tokens(layer):
            return self._by_rows(layer)
        return self._by_columns(layer, is_last=reader is not None and reader.op in OVER_CLASSES)

    def _reads_shared(self, layer: Layer) -> bool:
        """Return whether a product in a split region reads what an earlier one did: query, key and value one by one."""
        is_next = self.before is not None and self.before is self.product
        elements = layer.input_elements
        is_known = elements in self.shared or elements in self.latents
        return bool(layer.shape) and is_known and (is_next or elements != self.written)

    def _reads_other_tokens(self, layer: Layer) -> bool:
        """Return whether a product has other tokens than the one before: keys and values of an encoder's output."""
        if self.product is None or self.product.op != "fully-connected":
            return False
        before, own = _tokens(self.product), _tokens(layer)
        return before > 1 and own > 1 and before != own

    def _by_columns(self, layer: Layer, is_last: bool) -> Piece:
        elements = layer.input_elements
        calls_for_input = elements not in self.shared or not self.is_split
        before, after = self._broadcast_input(layer) if calls_for_input else ((), ())
        self.shared = {elements} | (self.shared if self.is_split else set())
        self.is_split = True
        part = part_of(layer, "outputs", self.degree, is_padded=is_last)
        return Piece(replace(part, input_elements=elements), is_split=True, before_forward=before, after_backward=after)

    def _unsplit(self, layer: Layer) -> Piece:
        """Return a matrix that every GPU has whole, of a latent attention: of its own tokens if these are split."""
        if self.is_split:
            raise IndivisibleError(f"'{layer.name}' reads an input that is split, and is not split itself")
        if not self.sequence_parallel:
            return Piece(layer, is_split=False)
        part = part_of(layer, "rows", self.degree)
        return Piece(replace(part, num_parameters=layer.num_parameters), is_split=False)

    def _by_rows(self, layer: Layer) -> Piece:
        self.is_split = False
        self.latents = set()
        part = replace(part_of(layer, "inputs", self.degree), output_elements=layer.output_elements)
        after, before = self._sum_output(layer.output_elements)
        return Piece(part, is_split=True, after_forward=after, before_backward=before)

    def _heads(self, layer: Layer) -> Piece:
        """Give each GPU some heads of an attention; if every GPU has the operands whole, each computes all heads."""
        if not self.is_split:
            return Piece(layer, is_split=False)
        return Piece(part_of(layer, "count", self.degree), is_split=True)

    def _recurrent(self, layer: Layer) -> Piece:
        """Give each GPU some hidden units with their gates; the state is gathered after each token.

        The bytes are those of all tokens. Of the output only the state is whole.
        """
        state = GroupCall("all-gather", self._hidden(layer) * self.bytes)
        state_gradient = GroupCall("reduce-scatter", self._hidden(layer) * self.bytes)
        before, after = self._gather_input(layer) if self.is_split else self._broadcast_input(layer)
        self.is_split = False
        check_divides(self.degree, layer.shape["outputs"] // GATES[layer.op], "hidden units", layer)
        part = part_of(layer, "outputs", self.degree)
        written = (layer.output_elements - self._hidden(layer)) / self.degree + self._hidden(layer)
        part = replace(part, input_elements=layer.input_elements, output_elements=written)
        return Piece(
            part,
            is_split=True,
            before_forward=before,
            after_forward=(state,),
            after_backward=(state_gradient, *after),
        )

    def _over_classes(self, layer: Layer) -> Piece:
        """Compute a loss or softmax over split classes: only three numbers per token are exchanged."""
        product = self.product
        of_heads = product is not None and product.op == "matmul"
        if not self.is_split or (of_heads and layer.op != "loss"):
            return self._local(layer)
        rows = product.shape.get("rows", 1) if product is not None else 1
        exchanged = GroupCall("all-reduce", CLASS_BYTES * rows)
        made = self._local(layer)
        self.is_split = layer.op != "loss"
        return replace(made, after_forward=(exchanged,))

    def _whole(self, layer: Layer) -> Piece:
        """Gather a split input for a layer that needs all features; every GPU then has the same gradient."""
        if not self.is_split:
            return self._local(layer)
        self.is_split = False
        gather = GroupCall("all-gather", layer.input_elements * self.bytes)
        return replace(
            self._local(layer), before_forward=(gather,), after_backward=(gather,) if self.sequence_parallel else ()
        )

    def _filters(self, layer: Layer) -> Piece:
        """Give each GPU some filters of a convolution, with the channels that they read."""
        groups = layer.shape.get("groups", 1)
        self.is_split |= self.has_split_maps and layer.input_elements != self.written  # after a branch that ended
        if groups % self.degree == 0 and self.is_split:
            return Piece(self._towers(layer, self.degree), is_split=True)
        if groups > 1 and groups % self.degree and self.degree % groups:
            raise IndivisibleError(f"the {groups} groups of '{layer.name}' lie across GPUs")
        before, after = self._gather_input(layer) if self.is_split else self._broadcast_input(layer)
        if layer.input_elements in self.shared and self.is_split:
            before = after = ()
        self.shared = {layer.input_elements} | (self.shared if self.is_split else set())
        self.is_split = self.has_split_maps = True
        own_groups = min(groups, self.degree)
        part = replace(self._towers(layer, own_groups), input_elements=layer.input_elements / own_groups)
        return Piece(part, is_split=True, before_forward=before, after_backward=after)

    def _towers(self, layer: Layer, own_groups: int) -> Layer:
        """Return the convolution of one GPU's filters, which are in 1 / `own_groups` of the groups."""
        part = part_of(layer, "filters", self.degree)
        if not layer.shape:
            return part
        channels, groups = layer.shape["channels"], layer.shape["groups"]
        return replace(
            part, shape={**part.shape, "channels": channels // own_groups, "groups": max(1, groups // own_groups)}
        )

    def _local(self, layer: Layer) -> Piece:
        """Return the piece of a layer that works on what its GPU has: its channels or heads, its tokens, or all."""
        if self.is_split:
            has_own = layer.op in PER_CHANNEL and layer.num_parameters > 0
            part = part_of(layer, "channels", self.degree)
            return Piece(part if has_own else replace(part, num_parameters=layer.num_parameters), is_split=has_own)
        if self.sequence_parallel and not layer.shape:
            part = divided(layer, 1, self.degree)
            return Piece(replace(part, num_parameters=layer.num_parameters), is_split=False)
        return Piece(layer, is_split=False)

    def _broadcast_input(self, layer: Layer) -> tuple[Calls, Calls]:
        """Return the calls before forward and after backward of a layer whose input every GPU reads whole.

        Each GPU has a partial gradient of the input: these are summed. Split tokens are gathered first.
        """
        num_bytes = layer.input_elements * self.bytes
        if self.sequence_parallel and self.before is not None:
            if _tokens(layer) > 1:
                check_divides(self.degree, _tokens(layer), "tokens", layer)
            gradient = (GroupCall("reduce-scatter", num_bytes),) if layer.flop_backward_data else ()
            return (GroupCall("all-gather", num_bytes),), gradient
        return (), (GroupCall("all-reduce", num_bytes),) if layer.flop_backward_data else ()

    def _sum_output(self, elements: float) -> tuple[Calls, Calls]:
        """Return the calls after forward and before backward of a layer of which each GPU has a partial output."""
        num_bytes = elements * self.bytes
        if self.sequence_parallel:
            return (GroupCall("reduce-scatter", num_bytes),), (GroupCall("all-gather", num_bytes),)
        return (GroupCall("all-reduce", num_bytes),), ()

    def _gather_input(self, layer: Layer) -> tuple[Calls, Calls]:
        """Return the calls before forward and after backward of a layer that reads a split input whole."""
        num_bytes = layer.input_elements * self.bytes
        gradient = (GroupCall("reduce-scatter", num_bytes),) if layer.flop_backward_data else ()
        return (GroupCall("all-gather", num_bytes),), gradient

    def _hidden(self, layer: Layer) -> float:
        """Return the elements of a recurrent layer's states, one per token."""
        return float(layer.shape["outputs"] // GATES[layer.op] * layer.shape["count"] * layer.shape["rows"])
