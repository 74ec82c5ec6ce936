"""What one rank of a layout holds: weights, gradients and optimizer state by what is shared out, activations by what
is kept.

ZeRO (Rajbhandari et al., arXiv:1910.02054, section 5) over d copies of a model of p parameters: `zero-1` keeps 1/d of
the optimizer's state and of the fp32 weights behind 16-bit ones, `zero-2` 1/d of the gradients too, `zero-3` 1/d of
the weights too; the block in use is whole, and with `zero-3` the next one, which is gathered meanwhile. Activations
that a stage keeps are those of all micro-batches in flight. Recomputation (Chen et al., arXiv:1604.06174; Korthikanti
et al., arXiv:2205.05198, section 5) keeps the input of each block only (`full`) or drops what attention has for each
pair of tokens (`selective`; where a fused attention never stores that, every second product and what is none). With
offload the state of the optimizer lies in the host's memory, where gradients go as they are complete if they need not
wait for those of other micro-batches (Ren et al., arXiv:2101.06840), and so may what layers keep (`offload.py`).
Weight stashing (Narayanan et al., SOSP 2019, section 3.3) holds the weights of every micro-batch in flight. Where keys
and values go round in a ring, a GPU has its own and room for some blocks of others' (`clustersim.parallelism.ring`).
Where a model is cast as a whole all its activations but the loss have 16 bits. Beside that stands what exchanges hold
(`clustersim.program.exchange_buffers`). Left out: DeepSpeed's buckets of ZeRO, its parameters that stay gathered, and
gradients of 16 bits that wait beside those in fp32 for their sum.
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
from clustersim.parallelism.gathered import bytes_in_use
from clustersim.parallelism.offload import most_kept
from clustersim.parallelism.ring import BUFFERS
from clustersim.parallelism.selective import kept_of_products, repeats_input
from clustersim.parallelism.split import Piece
from clustersim.program.exchange_buffers import NOTHING_BESIDE, ExchangeBuffers


@dataclass(frozen=True)
class HeldPart:
    """Layers that follow one another on a stage, and how many micro-batches have been forward and not yet backward.

    `in_flight` is their number at the peak, and `goes_backward` says whether one of them goes backward then; `blocks`
    are where blocks begin in the part (`block_starts`), the first at 0, and `again` [num_layers] says whose forward
    pass is repeated in backward (`recomputed`).
    """

    pieces: Sequence[Piece]
    in_flight: float
    blocks: Sequence[int]
    again: Sequence[bool]
    goes_backward: bool = True

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each block begins, and where it ends."""
        return list(zip(self.blocks, [*self.blocks[1:], len(self.pieces)], strict=True))


@dataclass(frozen=True)
class PartActivations:
    """Bytes of activations of a part for one sample: what waits for backward, and what is there beside it meanwhile.

    `kept` is held for each sample that has been forward and not yet backward, `again` is made again for one block in
    backward, and `passing` is what is there beyond both at the fullest moment: gradients that a layer reads and writes,
    with what goes round beside it, less what layers after it have let go of. In the turn of a layer of which nothing is
    made again `again` is not there, so it may be below zero.
    """

    kept: float
    again: float
    passing: float


class Numbers(NamedTuple):
    """What the size of activations depends on beside what keeps them: see `HeldRules`."""

    precision: str
    casts_all: bool
    loss_bytes: float


@dataclass(frozen=True)
class HeldRules:
    """How a rank trains: samples of a micro-batch, numbers, optimizer, and the share it has of what replicas share out.

    `gradient_bytes` is a gradient's size in memory, the precision's if None; `versions` of weights are held at once.
    `casts_all` says that a model is cast as a whole (`layer_precision`), `from_fp32` that what is gathered of shares
    are copies of fp32 weights, cast for that (FSDP's `MixedPrecision`). `loss_bytes` are those of a logit in the turn
    of the loss (`loss_turn_bytes`), and `buffers` are those of exchanges.
    With `offload` the optimizer's state lies in the host's memory, with `offload_activations` so does what layers keep;
    `most_gradients` is how many parameters have gradients on the GPU at once, where these leave it (None: all).
    """

    micro_batch: int
    precision: str
    optimizer: OptimizerSpec
    sharding: str | None = None  # zero-1, zero-2, zero-3
    share: float = 1.0
    offload: bool = False
    offload_activations: bool = False
    most_gradients: float | None = None
    gradient_bytes: float | None = None
    weight_share: float = 1.0
    versions: int = 1
    casts_all: bool = False
    from_fp32: bool = False
    loss_bytes: float = 2 * LOSS_BYTES
    buffers: ExchangeBuffers = NOTHING_BESIDE

    @property
    def numbers(self) -> Numbers:
        """What activations are as large as."""
        return Numbers(self.precision, self.casts_all, self.loss_bytes)

    def share_of(self, *levels: str) -> float:
        """Return the share that a rank has of something that these levels of sharding share out."""
        return self.share if self.sharding in levels else 1.0


def stage_memory(parts: Sequence[HeldPart], rules: HeldRules) -> dict[str, float]:
    """Return the bytes that one rank holds at its peak, by what they are for, as `memory_per_gpu` names them.

    `parts` are all that lie on the rank's stage. A last layer tied to an embedding on another stage has a copy of the
    matrix, with gradients and state of its own. One part of a whole model, one micro-batch in flight and nothing shared
    out is what `memory_per_gpu` says.
    """
    own = [part_activations(part, rules) for part in parts]
    if rules.offload_activations:
        kept = kept_on_gpu(parts, rules) + max(each.again for each in own)
        gathered = [(part, *_with_gathers(part.pieces)) for part in parts]
        passing = max((_passing(*each, rules.numbers, lets_go=False) for each in gathered), default=0.0)
    else:
        kept = sum(
            each.kept * part.in_flight + each.again * part.goes_backward for part, each in zip(parts, own, strict=True)
        )
        passing = max((each.passing for each in own), default=0.0)
    held = {**stage_state(parts, rules), "activations": (kept + passing) * rules.micro_batch}
    slack = SLACK * sum(held.values())
    exchanged = rules.buffers.held(whole_gradient_bytes(parts, rules))
    return {**held, "workspace": WORKSPACE_BYTES, "context": CONTEXT_BYTES, "slack": slack, **exchanged}


def whole_gradient_bytes(parts: Sequence[HeldPart], rules: HeldRules) -> float:
    """Return the bytes of all gradients of a stage, shared out or not."""
    model = _untied(_model([piece.layer for part in parts for piece in part.pieces]))
    return float(model.num_parameters) * _gradient_bytes(rules)


def stage_state(parts: Sequence[HeldPart], rules: HeldRules) -> dict[str, float]:
    """Return the bytes that one rank holds from one iteration to the next, and of blocks that are whole in use."""
    model = _untied(_model([piece.layer for part in parts for piece in part.pieces], rules.weight_share))
    return _parameters(model, parts, rules, PRECISIONS[rules.precision])


def host_memory(parts: Sequence[HeldPart], rules: HeldRules) -> dict[str, float]:
    """Return the bytes that one rank has in its host's memory, by what they are for; nothing where nothing goes there.

    With the optimizer's state that is the fp32 weights that it updates, which the GPU has too where layers read them,
    and gradients as they come. Of activations it is what all micro-batches in flight keep at the stage's peak.
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


def kept_on_gpu(parts: Sequence[HeldPart], rules: HeldRules) -> float:
    """Return the most bytes of one sample that layers keep and that are on the GPU, where they go to the host."""
    most = 0.0
    for part in parts:
        units = [range(start, end) for start, end in part.spans]
        kept = kept_by_layer(part, rules)
        most = max(most, most_kept(kept, units, part.again))
    return most


def part_activations(part: HeldPart, rules: HeldRules) -> PartActivations:
    """Return the bytes of activations that a part keeps, makes again for one block, and writes at most at once."""
    return _activations(part.pieces, part.blocks, part.again, rules.numbers)


@cached_by_identity(64)
def _activations(
    pieces: Sequence[Piece], blocks: Sequence[int], again: Sequence[bool], numbers: Numbers
) -> PartActivations:
    if not pieces:
        return PartActivations(0.0, 0.0, 0.0)
    part, (model, owners) = HeldPart(pieces, 0.0, blocks, again), _with_gathers(pieces)
    entry, kept = _kept(part, model, owners, numbers)
    stored, working = entry, 0.0  # what comes into the part, and then its blocks
    for start, end in part.spans:
        dropped = _dropped(part, start, end)
        stored += sum(kept[number] for number in range(start, end) if number not in dropped)
        working = max(working, sum(kept[number] for number in dropped))
    return PartActivations(stored, working, _passing(part, model, owners, numbers, working))


def _passing(
    part: HeldPart,
    model: Model,
    owners: Sequence[int],
    numbers: Numbers,
    made_again: float = 0.0,
    lets_go: bool = True,
) -> float:
    """Return `PartActivations.passing` where `made_again` is made again for one block.

    What is made again is not let go of, nor anything where `lets_go` is False.
    """
    if not part.pieces:
        return 0.0
    dropped = [_dropped(part, start, end) for start, end in part.spans]
    repeats = [bool(own) for own, (start, end) in zip(dropped, part.spans, strict=True) for _ in range(start, end)]
    every = set().union(*dropped)
    kept = _kept_of_owners(part, model, owners, numbers)
    kept = [size if lets_go and owner not in every else 0.0 for owner, size in zip(owners, kept, strict=True)]
    written = [
        numbers.loss_bytes / 2 if layer.op == "loss" else size
        for layer, size in zip(
            model.layers, written_bytes(model, layer_precision(numbers.precision, numbers.casts_all)), strict=True
        )
    ]
    passing = passing_bytes(model.layers, written, kept)
    return max(
        more + 2 * BUFFERS * part.pieces[owner].block_bytes - (0.0 if repeats[owner] else made_again)
        for owner, more in zip(owners, passing, strict=True)  # values and keys go round, which are as large
    )


def kept_by_layer(part: HeldPart, rules: HeldRules) -> tuple[float, ...]:
    """Return the bytes of one sample that a part's input and each of its layers leave for backward [num_layers + 1].

    They are none of a layer whose output is made again; their sum is what `part_activations` says is kept.
    """
    if not part.pieces:
        return (0.0,)
    entry, kept = _kept(part, *_with_gathers(part.pieces), rules.numbers)
    for start, end in part.spans:
        for number in _dropped(part, start, end):
            kept[number] = 0.0
    return (entry, *kept)


def _kept(part: HeldPart, model: Model, owners: Sequence[int], numbers: Numbers) -> tuple[float, list[float]]:
    """Return the bytes of one sample of what comes into a part, and of what each piece keeps or makes again."""
    kept = [0.0] * len(part.pieces)
    for owner, size in zip(owners, _kept_of_owners(part, model, owners, numbers), strict=True):
        kept[owner] += size
    return entry_bytes(model, numbers.precision, numbers.casts_all), kept


def _kept_of_owners(part: HeldPart, model: Model, owners: Sequence[int], numbers: Numbers) -> list[float]:
    """Return what each layer of a part keeps, those of gathered inputs too, as what is repeated of it has it."""
    kept = list(kept_bytes(model, numbers.precision, numbers.casts_all))
    again = [part.again[owner] if part.again else False for owner in owners]
    return kept_of_products(model.layers, again, kept, PRECISIONS[numbers.precision].activation_bytes)


def _dropped(part: HeldPart, start: int, end: int) -> set[int]:
    """Return the layers of a block whose outputs are made again; the last of a run keeps its own, which goes on.

    Where single products are kept, and not made again, what these read is made again all the same (`repeats_input`).
    """
    layers = [piece.layer for piece in part.pieces[start:end]]
    reads = repeats_input(layers, part.again[start:end])
    return {
        number
        for number in range(start, end - 1)
        if part.again[number] and (part.again[number + 1] or reads[number - start + 1])
    }


def _parameters(model: Model, parts: Sequence[HeldPart], rules: HeldRules, number: Precision) -> dict[str, float]:
    """Return the bytes of weights, gradients and optimizer state, with those of the blocks that are whole in use."""
    num = float(model.num_parameters)
    gradient = _gradient_bytes(rules)
    weights, master, copies = _weights(model, rules, number)
    all_levels = ("zero-1", "zero-2", "zero-3")
    on_gpu = 0.0 if rules.offload else 1.0
    held = {
        "weights": weights * rules.share_of("zero-3") + master * rules.share_of(*all_levels) * on_gpu,
        "gradients": gradient
        * (num * rules.share_of("zero-2", "zero-3") if rules.most_gradients is None else rules.most_gradients),
        "optimizer": num * rules.optimizer.state_bytes_per_parameter * rules.share_of(*all_levels) * on_gpu,
    }
    if copies:
        held["weight copies"] = copies * rules.share_of("zero-3")
    if rules.versions > 1:
        held["stashed weights"] = (rules.versions - 1) * weights
    read = (weights + copies) / num if num else 0.0
    blocks = [[piece.layer for piece in part.pieces[start:end]] for part in parts for start, end in part.spans]
    whole = bytes_in_use(blocks, rules.sharding, read, gradient, rules.from_fp32) * (1 - rules.share)
    if rules.from_fp32:
        held["weights"] = num * model.weight_share * (number.master_bytes or number.weight_bytes) * rules.share
        held.pop("weight copies", None)
    if whole:
        held["blocks in use"] = whole
    return held


def _gradient_bytes(rules: HeldRules) -> float:
    return PRECISIONS[rules.precision].gradient_bytes if rules.gradient_bytes is None else rules.gradient_bytes


def _weights(model: Model, rules: HeldRules, number: Precision) -> tuple[float, float, float]:
    """Return the bytes of what layers read, of fp32 weights that only the update reads, and of autocast's copies.

    Where state is shared out or offloaded, the fp32 weights of layers that read 16 bits go with it.
    """
    num = model.num_parameters * model.weight_share
    copies = weight_copy_bytes(model, number.name)
    if not _master_bytes(number) or not (rules.sharding or rules.offload) or number.master_bytes:
        return num * number.weight_bytes, num * number.master_bytes, copies
    copied = sum(layer.num_parameters for layer in model.layers if layer.op in PRODUCTS) * model.weight_share
    return (num - copied) * number.operand_bytes, num * number.weight_bytes, copies


def _master_bytes(number: Precision) -> float:
    """Return the bytes of a parameter in fp32 that only the optimizer needs; none where layers read fp32."""
    if number.master_bytes:
        return number.master_bytes
    return number.weight_bytes if number.operand_bytes < number.weight_bytes else 0.0


def _model(layers: Sequence[Layer], weight_share: float = 1.0) -> Model:
    return Model("stage", "stage", tuple(layers), weight_share=weight_share)


def _untied(model: Model) -> Model:
    """Return the model with parameters in a last matrix whose embedding lies elsewhere."""
    if any(layer.op == "embedding" for layer in model.layers):
        return model
    return replace(model, layers=tuple(_with_own_matrix(layer) for layer in model.layers))


def _with_own_matrix(layer: Layer) -> Layer:
    if layer.op != "fully-connected" or layer.num_parameters or layer.weights_of or not layer.shape:
        return layer
    return replace(layer, num_parameters=prod(layer.shape[key] for key in ("inputs", "outputs", "count")))


@cached_by_identity(64)
def _with_gathers(pieces: Sequence[Piece]) -> tuple[Model, tuple[int, ...]]:
    """Return the layers with what they gather as layers of their own, and which piece each belongs to.

    A matrix that gathers split tokens does not keep them: it gathers them again.
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
