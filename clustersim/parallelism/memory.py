"""Memory of one rank: weights, gradients and optimizer state by what is sharded, activations by what is stored.

ZeRO (Rajbhandari et al., arXiv:1910.02054, section 5) over d replicas of a model of p parameters: `zero-1` stores 1/d
of the optimizer state and of the fp32 master weights, `zero-2` also 1/d of the gradients, `zero-3` also 1/d of the
weights; the block in use is whole, and with `zero-3` also the next one, which is gathered meanwhile. A stage stores the
activations of all micro-batches in flight. Recomputation (Chen et al., arXiv:1604.06174; Korthikanti et al.,
arXiv:2205.05198, section 5) stores only the input of each block (`full`) or does not store what attention has for each
pair of tokens (`selective`; if a fused attention never stores that, every second matrix product and all layers that are
no matrix product). With offload the optimizer state is in host memory. Gradients are copied there as they are complete,
if they need not wait for those of other micro-batches (Ren et al., arXiv:2101.06840). Stored activations may be
offloaded as well (`offload.py`). Weight stashing (Narayanan et al., SOSP 2019, section 3.3) stores the weights of every
micro-batch in flight. With ring attention, a GPU has its own keys and values and buffers for some blocks of others
(`clustersim.parallelism.ring`). If a model is cast as a whole, all its activations but the loss have 16 bits. Memory of
communication buffers is added (`clustersim.program.exchange_buffers`). Left out: DeepSpeed's ZeRO buckets, its
parameters that stay gathered, and 16-bit gradients that wait to be added to fp32 sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from clustersim.kernels import OptimizerSpec
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.kernels.memory import (
    CONTEXT_BYTES,
    LOSS_BYTES,
    PRODUCTS,
    SLACK,
    WORKSPACE_BYTES,
    entry_bytes,
    kept_bytes,
    layer_precision,
    passing_bytes,
    weight_copy_bytes,
    written_bytes,
)
from clustersim.model import PRECISIONS, Layer, Model, Precision
from clustersim.parallelism.offload import most_kept
from clustersim.parallelism.recomputation import kept_of_products, recomputes_input
from clustersim.parallelism.ring import BUFFERS
from clustersim.parallelism.split import Piece
from clustersim.parallelism.unsharded import largest_pair, unsharded_bytes
from clustersim.program.exchange_buffers import NO_EXCHANGE_BUFFERS, ExchangeBuffers


@dataclass(frozen=True)
class PartInMemory:
    """Consecutive layers of a stage, and their micro-batches in flight (after the forward, before the backward pass).

    `in_flight` is their number at the peak, and `goes_backward` says whether one of them is in its backward pass then.
    `blocks` are the starts of blocks within the part (`block_starts`), the first at 0. `recomputes` [num_layers] says
    which layers repeat their forward pass in the backward pass (`recomputed`).
    """

    pieces: Sequence[Piece]
    in_flight: float
    blocks: Sequence[int]
    recomputes: Sequence[bool]
    goes_backward: bool = True

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First layer and end of each block."""
        return list(zip(self.blocks, [*self.blocks[1:], len(self.pieces)], strict=True))


@dataclass(frozen=True)
class PartActivations:
    """Bytes of a part's activations for one sample: those stored for backward, and temporary ones.

    `kept` is stored for each sample in flight. `recomputed` is recomputed for one block in the backward pass. `passing`
    is what is allocated beyond both at the peak: gradients that a layer reads and writes, ring buffers, less what later
    layers have freed. During a layer without recomputation `recomputed` is not allocated, so `passing` may be negative.
    """

    kept: float
    recomputed: float
    passing: float


class Numbers(NamedTuple):
    """What sets the size of activations apart from recomputation: see `MemoryRules`."""

    precision: str
    casts_all: bool
    loss_bytes: float
    narrow: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MemoryRules:
    """How a rank trains: samples of a micro-batch, formats, optimizer, and its share of what replicas shard.

    `share` is that of trained parameters, `frozen_share` that of frozen weights.

    `gradient_bytes` is a gradient's size in memory, the precision's if None; `versions` of weights are stored at once.
    `casts_all` says that a model is cast whole (`layer_precision`), `from_fp32` that gathered weights are copies of
    fp32 shards, cast for the gather (FSDP's `MixedPrecision`). `loss_bytes` are those of a logit in the backward pass
    of the loss (`loss_peak_bytes`), `buffers` are communication buffers, and `narrow` the names of products that store
    their input in 8 or 4 bits (`narrow_inputs`). With `offload` the optimizer state is in
    host memory, with `offload_activations` so are stored activations; `most_gradients` is the number of parameters with
    gradients on the GPU at once, if these are copied out early (None: all).
    """

    micro_batch: int
    precision: str
    optimizer: OptimizerSpec
    sharding: str | None = None  # zero-1, zero-2, zero-3
    share: float = 1.0
    frozen_share: float = 1.0
    offload: bool = False
    offload_activations: bool = False
    most_gradients: float | None = None
    gradient_bytes: float | None = None
    weight_share: float = 1.0
    versions: int = 1
    casts_all: bool = False
    from_fp32: bool = False
    loss_bytes: float = 2 * LOSS_BYTES
    buffers: ExchangeBuffers = NO_EXCHANGE_BUFFERS
    narrow: frozenset[str] = frozenset()

    @property
    def numbers(self) -> Numbers:
        """What sets the size of activations."""
        return Numbers(self.precision, self.casts_all, self.loss_bytes, self.narrow)

    def share_of(self, *levels: str) -> float:
        """Return the fraction that a rank has of something that these levels of sharding shard."""
        return self.share if self.sharding in levels else 1.0


def stage_memory(parts: Sequence[PartInMemory], rules: MemoryRules) -> dict[str, float]:
    """Return the bytes of one rank at its peak, by purpose, as `memory_per_gpu` names them.

    `parts` are all those of the rank's stage. A last layer that is tied to an embedding on another stage has a copy of
    the matrix, with gradients and state. For one part of a whole model, one micro-batch in flight and no sharding, the
    result is that of `memory_per_gpu`.
    """
    own = [part_activations(part, rules) for part in parts]
    if rules.offload_activations:
        kept = kept_on_gpu(parts, rules) + max(each.recomputed for each in own)
        gathered = [(part, *_with_gathers(part.pieces)) for part in parts]
        passing = max((_passing(*each, rules.numbers, frees_early=False) for each in gathered), default=0.0)
    else:
        kept = sum(
            each.kept * part.in_flight + each.recomputed * part.goes_backward
            for part, each in zip(parts, own, strict=True)
        )
        passing = max((each.passing for each in own), default=0.0)
    held = {**stage_state(parts, rules), "activations": (kept + passing) * rules.micro_batch}
    slack = SLACK * sum(held.values())
    exchanged = rules.buffers.held(whole_gradient_bytes(parts, rules))
    return {**held, "workspace": WORKSPACE_BYTES, "context": CONTEXT_BYTES, "slack": slack, **exchanged}


def whole_gradient_bytes(parts: Sequence[PartInMemory], rules: MemoryRules) -> float:
    """Return the bytes of all gradients of a stage, as if they were not sharded."""
    model = _untied(_model([piece.layer for part in parts for piece in part.pieces]))
    return float(model.num_parameters) * _gradient_bytes(rules)


def stage_state(parts: Sequence[PartInMemory], rules: MemoryRules) -> dict[str, float]:
    """Return the bytes of weights, gradients and optimizer state of one rank, and of unsharded blocks in use."""
    model = _untied(_model([piece.layer for part in parts for piece in part.pieces], rules.weight_share))
    return _parameters(model, parts, rules, PRECISIONS[rules.precision])


def host_memory(parts: Sequence[PartInMemory], rules: MemoryRules) -> dict[str, float]:
    """Return the bytes that one rank stores in host memory, by purpose; empty without offload.

    With the optimizer state these are the fp32 weights that it updates (the GPU has them too if layers read them), and
    gradients in their own format. Of activations it is what all micro-batches in flight store at the stage's peak.
    """
    held: dict[str, float] = {}
    if rules.offload:
        number = PRECISIONS[rules.precision]
        num = _untied(
            _model([piece.layer for part in parts for piece in part.pieces], rules.weight_share)
        ).num_parameters
        share = num * rules.share_of("zero-1", "zero-2", "zero-3")
        held["weights"] = share * (_master_bytes(number) or number.weight_bytes)
        held["gradients"] = share * _gradient_bytes(rules)
        held["optimizer"] = share * rules.optimizer.state_bytes_per_parameter
    if rules.offload_activations:
        kept = sum(part_activations(part, rules).kept * part.in_flight for part in parts)
        held["activations"] = kept * rules.micro_batch
    return held


def kept_on_gpu(parts: Sequence[PartInMemory], rules: MemoryRules) -> float:
    """Return the peak bytes of stored activations on the GPU, for one sample, if they are offloaded."""
    most = 0.0
    for part in parts:
        units = [range(start, end) for start, end in part.spans]
        kept = kept_by_layer(part, rules)
        most = max(most, most_kept(kept, units, part.recomputes))
    return most


def part_activations(part: PartInMemory, rules: MemoryRules) -> PartActivations:
    """Return the bytes of activations that a part stores, recomputes for one block, and needs temporarily."""
    return _activations(part.pieces, part.blocks, part.recomputes, rules.numbers)


@cached_by_identity(64)
def _activations(
    pieces: Sequence[Piece], blocks: Sequence[int], recomputes: Sequence[bool], numbers: Numbers
) -> PartActivations:
    if not pieces:
        return PartActivations(0.0, 0.0, 0.0)
    part, (model, owners) = PartInMemory(pieces, 0.0, blocks, recomputes), _with_gathers(pieces)
    entry, kept = _kept(part, model, owners, numbers)
    stored, working = entry, 0.0  # the input of the part, then its blocks
    for start, end in part.spans:
        dropped = _dropped(part, start, end)
        stored += sum(kept[number] for number in range(start, end) if number not in dropped)
        working = max(working, sum(kept[number] for number in dropped))
    return PartActivations(stored, working, _passing(part, model, owners, numbers, working))


def _passing(
    part: PartInMemory,
    model: Model,
    owners: Sequence[int],
    numbers: Numbers,
    recomputed_bytes: float = 0.0,
    frees_early: bool = True,
) -> float:
    """Return `PartActivations.passing` if `recomputed_bytes` bytes are recomputed for one block.

    What is recomputed is not freed early, and with `frees_early` False nothing is.
    """
    if not part.pieces:
        return 0.0
    dropped = [_dropped(part, start, end) for start, end in part.spans]
    repeats = [bool(own) for own, (start, end) in zip(dropped, part.spans, strict=True) for _ in range(start, end)]
    every = set().union(*dropped)
    kept = _kept_of_owners(part, model, owners, numbers)
    kept = [size if frees_early and owner not in every else 0.0 for owner, size in zip(owners, kept, strict=True)]
    written = [
        numbers.loss_bytes / 2 if layer.op == "loss" else size
        for layer, size in zip(
            model.layers, written_bytes(model, layer_precision(numbers.precision, numbers.casts_all)), strict=True
        )
    ]
    passing = passing_bytes(model.layers, written, kept)
    return max(
        more + 2 * BUFFERS * part.pieces[owner].block_bytes - (0.0 if repeats[owner] else recomputed_bytes)
        for owner, more in zip(owners, passing, strict=True)  # the other of keys and values is as large
    )


def kept_by_layer(part: PartInMemory, rules: MemoryRules) -> tuple[float, ...]:
    """Return the bytes of one sample that a part's input and each of its layers store for backward [num_layers + 1].

    They are 0 for a layer whose output is recomputed; their sum is `part_activations(...).kept`.
    """
    if not part.pieces:
        return (0.0,)
    entry, kept = _kept(part, *_with_gathers(part.pieces), rules.numbers)
    for start, end in part.spans:
        for number in _dropped(part, start, end):
            kept[number] = 0.0
    return (entry, *kept)


def _kept(part: PartInMemory, model: Model, owners: Sequence[int], numbers: Numbers) -> tuple[float, list[float]]:
    """Return the bytes of one sample of a part's input, and of what each piece stores or recomputes."""
    kept = [0.0] * len(part.pieces)
    for owner, size in zip(owners, _kept_of_owners(part, model, owners, numbers), strict=True):
        kept[owner] += size
    return entry_bytes(model, numbers.precision, numbers.casts_all), kept


def _kept_of_owners(part: PartInMemory, model: Model, owners: Sequence[int], numbers: Numbers) -> list[float]:
    """Return what each layer of a part stores, gathered inputs included, if its readers are recomputed."""
    kept = list(kept_bytes(model, numbers.precision, numbers.casts_all, numbers.narrow))
    recomputes = [part.recomputes[owner] if part.recomputes else False for owner in owners]
    return kept_of_products(model.layers, recomputes, kept, PRECISIONS[numbers.precision].activation_bytes)


def _dropped(part: PartInMemory, start: int, end: int) -> set[int]:
    """Return the layers of a block whose outputs are recomputed; the last of a run stores its output.

    If single products are stored and not recomputed, their inputs are recomputed all the same (`recomputes_input`).
    """
    layers = [piece.layer for piece in part.pieces[start:end]]
    reads = recomputes_input(layers, part.recomputes[start:end])
    return {
        number
        for number in range(start, end - 1)
        if part.recomputes[number] and (part.recomputes[number + 1] or reads[number - start + 1])
    }


def _parameters(model: Model, parts: Sequence[PartInMemory], rules: MemoryRules, number: Precision) -> dict[str, float]:
    """Return the bytes of weights, gradients and optimizer state, and of the blocks that are whole in use."""
    num = float(model.num_parameters)
    gradient = _gradient_bytes(rules)
    weights, master, copies = _weights(model, rules, number)
    all_levels = ("zero-1", "zero-2", "zero-3")
    on_gpu = 0.0 if rules.offload else 1.0
    held = {
        "weights": weights * rules.share_of("zero-3") + master * rules.share_of(*all_levels) * on_gpu,
        "gradients": gradient
        * (num * rules.share_of("zero-2", "zero-3") if rules.most_gradients is None else rules.most_gradients),
        "optimizer": rules.optimizer.state_bytes(model.layers) * rules.share_of(*all_levels) * on_gpu,
    }
    if copies:
        held["weight copies"] = copies * rules.share_of("zero-3")
    if model.is_frozen:
        held["frozen weights"] = model.frozen_bytes * (rules.frozen_share if rules.sharding == "zero-3" else 1.0)
    if rules.versions > 1:
        held["stashed weights"] = (rules.versions - 1) * weights
    read = (weights + copies) / num if num else 0.0
    blocks = [[piece.layer for piece in part.pieces[start:end]] for part in parts for start, end in part.spans]
    whole = unsharded_bytes(blocks, rules.sharding, read, gradient, rules.from_fp32) * (1 - rules.share)
    if rules.from_fp32:
        held["weights"] = num * model.weight_share * (number.master_bytes or number.weight_bytes) * rules.share
        held.pop("weight copies", None)
    if model.is_frozen and rules.sharding == "zero-3":
        frozen = largest_pair([sum(layer.frozen_bytes or 0.0 for layer in block) for block in blocks])
        whole += frozen * (1 - rules.frozen_share)
    if whole:
        held["blocks in use"] = whole
    return held


def _gradient_bytes(rules: MemoryRules) -> float:
    return PRECISIONS[rules.precision].gradient_bytes if rules.gradient_bytes is None else rules.gradient_bytes


def _weights(model: Model, rules: MemoryRules, number: Precision) -> tuple[float, float, float]:
    """Return the bytes of weights as layers read them, of fp32 weights for the update only, and of autocast's copies.

    If state is sharded or offloaded, so are the fp32 weights of layers that read 16 bits.
    """
    num = model.num_parameters * model.weight_share
    copies = weight_copy_bytes(model, number.name)
    if not _master_bytes(number) or not (rules.sharding or rules.offload) or number.master_bytes:
        return num * number.weight_bytes, num * number.master_bytes, copies
    copied = sum(layer.num_parameters for layer in model.layers if layer.op in PRODUCTS) * model.weight_share
    return (num - copied) * number.operand_bytes, num * number.weight_bytes, copies


def _master_bytes(number: Precision) -> float:
    """Return the bytes per parameter of fp32 weights that only the optimizer needs; 0 if layers read fp32."""
    if number.master_bytes:
        return number.master_bytes
    return number.weight_bytes if number.operand_bytes < number.weight_bytes else 0.0


def _model(layers: Sequence[Layer], weight_share: float = 1.0) -> Model:
    return Model("stage", "stage", tuple(layers), weight_share=weight_share)


def _untied(model: Model) -> Model:
    """Return the model with parameters in a last matrix whose embedding is on another stage."""
    if any(layer.op == "embedding" for layer in model.layers):
        return model
    return replace(model, layers=tuple(_with_own_matrix(layer) for layer in model.layers))


def _with_own_matrix(layer: Layer) -> Layer:
    if layer.op != "fully-connected" or layer.has_weights or layer.weights_of or layer.is_frozen or not layer.shape:
        return layer
    return replace(layer, num_parameters=prod(layer.shape[key] for key in ("inputs", "outputs", "count")))


@cached_by_identity(64)
def _with_gathers(pieces: Sequence[Piece]) -> tuple[Model, tuple[int, ...]]:
    """Return the layers, with gathered inputs as separate layers, and the index of the piece of each.

    A matrix that gathers tokens does not store them: it gathers them again in the backward pass.
    """
    layers: list[Layer] = []
    owners: list[int] = []
    for number, piece in enumerate(pieces):
        layer = piece.layer
        if layer.op != "fully-connected" and any(call.op == "all-gather" for call in piece.before_forward):
            size = layer.input_elements
            layers.append(Layer(f"{layer.name} gathered", "concat", 0.0, 0.0, 0.0, 0, size, size))
            owners.append(number)
        layers.append(layer)
        owners.append(number)
    return _model(layers), tuple(owners)
