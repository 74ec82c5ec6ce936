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
Left out: buffers of the collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod, sqrt

from clustersim.parallelism.offload import most_kept
from clustersim.parallelism.ring import BUFFERS
from clustersim.parallelism.split import Piece
from clustersim.parallelism.stages import JOINS, cut_points
from clustersim.workload import PRECISIONS, Layer, Model, OptimizerSpec, Precision
from clustersim.workload.fused_attention import is_fused
from clustersim.workload.memory import (
    CONTEXT_BYTES,
    PRODUCTS,
    SLACK,
    WORKSPACE_BYTES,
    entry_bytes,
    kept_bytes,
    passing_bytes,
    weight_copy_bytes,
    written_bytes,
)


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
    backward, and `passing` is what is there beyond that at the fullest moment: gradients that a layer reads and writes,
    with what goes round beside it, less what layers after it have let go of.
    """

    kept: float
    again: float
    passing: float


@dataclass(frozen=True)
class HeldRules:
    """How a rank trains: samples of a micro-batch, numbers, optimizer, and the share it has of what replicas share out.

    `gradient_bytes` is a gradient's size in memory, the precision's if None; `versions` of weights are held at once.
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

    def share_of(self, *levels: str) -> float:
        """Return the share that a rank has of something that these levels of sharding share out."""
        return self.share if self.sharding in levels else 1.0


def stage_memory(parts: Sequence[HeldPart], rules: HeldRules) -> dict[str, float]:
    """Return the bytes that one rank holds at its peak, by what they are for, as `memory_per_gpu` names them.

    `parts` are all that lie on the rank's stage. A last layer tied to an embedding on another stage has a copy of the
    matrix, with gradients and state of its own. One part of a whole model, one micro-batch in flight and nothing shared
    out is what `memory_per_gpu` says.
    """
    own = [part_activations(part, rules.precision) for part in parts]
    if rules.offload_activations:
        kept = kept_on_gpu(parts, rules.precision) + max(each.again for each in own)
        passing = max((_passing(part, rules.precision, lets_go=False) for part in parts), default=0.0)
    else:
        kept = sum(
            each.kept * part.in_flight + each.again * part.goes_backward for part, each in zip(parts, own, strict=True)
        )
        passing = max((each.passing for each in own), default=0.0)
    held = {**stage_state(parts, rules), "activations": (kept + passing) * rules.micro_batch}
    slack = SLACK * sum(held.values())
    return {**held, "workspace": WORKSPACE_BYTES, "context": CONTEXT_BYTES, "slack": slack}


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
        kept = sum(part_activations(part, rules.precision).kept * part.in_flight for part in parts)
        held["activations"] = kept * rules.micro_batch
    return held


def kept_on_gpu(parts: Sequence[HeldPart], precision: str) -> float:
    """Return the most bytes of one sample that layers keep and that are on the GPU, where they go to the host."""
    most = 0.0
    for part in parts:
        units = [range(start, end) for start, end in part.spans]
        most = max(most, most_kept(kept_by_layer(part, precision), units, part.again))
    return most


def part_activations(part: HeldPart, precision: str) -> PartActivations:
    """Return the bytes of activations that a part keeps, makes again for one block, and writes at most at once."""
    if not part.pieces:
        return PartActivations(0.0, 0.0, 0.0)
    model, owners = _with_gathers(part.pieces)
    entry, kept = _kept(part, model, owners, precision)
    stored, working = entry, 0.0  # what comes into the part, and then its blocks
    for start, end in part.spans:
        dropped = _dropped(part, start, end)
        stored += sum(kept[number] for number in range(start, end) if number not in dropped)
        working = max(working, sum(kept[number] for number in dropped))
    return PartActivations(stored, working, _passing(part, precision))


def _passing(part: HeldPart, precision: str, lets_go: bool = True) -> float:
    """Return `PartActivations.passing`; what is made again is not let go of, nor anything where `lets_go` is False."""
    if not part.pieces:
        return 0.0
    model, owners = _with_gathers(part.pieces)
    dropped = {number for start, end in part.spans for number in _dropped(part, start, end)}
    pairs = zip(owners, kept_bytes(model, precision), strict=True)
    kept = [size if lets_go and owner not in dropped else 0.0 for owner, size in pairs]
    passing = passing_bytes(model.layers, written_bytes(model, PRECISIONS[precision]), kept)
    rounds = [2 * BUFFERS * part.pieces[owner].block_bytes for owner in owners]  # values and keys, which are as large
    return max(more + beside for more, beside in zip(passing, rounds, strict=True))


def kept_by_layer(part: HeldPart, precision: str) -> tuple[float, ...]:
    """Return the bytes of one sample that a part's input and each of its layers leave for backward [num_layers + 1].

    They are none of a layer whose output is made again; their sum is what `part_activations` says is kept.
    """
    if not part.pieces:
        return (0.0,)
    entry, kept = _kept(part, *_with_gathers(part.pieces), precision)
    for start, end in part.spans:
        for number in _dropped(part, start, end):
            kept[number] = 0.0
    return (entry, *kept)


def _kept(part: HeldPart, model: Model, owners: Sequence[int], precision: str) -> tuple[float, list[float]]:
    """Return the bytes of one sample of what comes into a part, and of what each piece keeps or makes again."""
    kept = [0.0] * len(part.pieces)
    for owner, size in zip(owners, kept_bytes(model, precision), strict=True):
        kept[owner] += size
    return entry_bytes(model, precision), kept


def block_starts(layers: Sequence[Layer]) -> list[int]:
    """Return where the blocks of a model begin: layers whose weights and activations come and go together.

    A block ends where one tensor alone goes on (`cut_points`); what follows an attention up to the next one belongs to
    it, so that a block of a transformer is one of its layers. A plain chain of n layers with parameters has about
    sqrt(n) blocks of as many of these (Chen et al., 2016, section 4.1).

    >>> from clustersim.workload import load_model
    >>> layers = load_model("gpt2-small").layers
    >>> len(block_starts(layers)), layers[block_starts(layers)[1]].name
    (14, 'drop')
    """
    if not layers:
        return []
    if not any(layer.op in JOINS for layer in layers):
        trained = [number for number, layer in enumerate(layers) if layer.num_parameters]
        each = ceil(sqrt(len(trained))) or 1
        return [0, *trained[each::each]]
    starts = [0, *(cut for cut in cut_points(layers) if 0 < cut < len(layers))]
    ends = [*starts[1:], len(layers)]
    attends = [
        any(layer.op == "matmul" for layer in layers[start:end]) for start, end in zip(starts, ends, strict=True)
    ]
    return [
        start
        for number, start in enumerate(starts)
        if attends[number] or number in (0, len(starts) - 1) or not attends[number - 1]
    ]


def recomputed(layers: Sequence[Layer], recompute: str | None) -> list[bool]:
    """Return whose forward pass is repeated in backward [num_layers].

    `full` repeats every block of a transformer, but neither its embedding nor its last layer, as Megatron-LM; of other
    models everything but the last block, whose backward pass comes next. `attention` repeats the products of an
    attention and what lies between them. So does `selective`; but in blocks whose attention is fused, and stores no
    scores, every second matrix product and what is no product, as torchtitan does
    (`torchtitan/parallelisms/parallelize_llama.py`).
    """
    again = [False] * len(layers)
    if recompute == "full":
        starts = block_starts(layers)
        blocks = [range(start, end) for start, end in zip(starts, [*starts[1:], len(layers)], strict=True)]
        attending = [block for block in blocks if any(layers[number].op == "matmul" for number in block)]
        for block in attending or blocks[:-1]:
            again[block.start : block.stop] = [True] * len(block)
    elif recompute == "attention":
        for first, last in _attentions(layers):
            again[first : last + 1] = [True] * (last + 1 - first)
    elif recompute == "selective":
        for first, last in _attentions(layers):
            again[first : last + 1] = [not is_fused(layers[first])] * (last + 1 - first)
        for block in _fused_blocks(layers):
            lasting = [number for number in block if is_fused(layers[number])]
            matrices = [number for number in block if layers[number].op in PRODUCTS and number not in lasting]
            for number in {*block} - {*lasting, *matrices[::2]}:
                again[number] = True
    return again


def _fused_blocks(layers: Sequence[Layer]) -> list[range]:
    """Return the blocks of a transformer whose attention is fused."""
    starts = block_starts(layers)
    blocks = [range(start, end) for start, end in zip(starts, [*starts[1:], len(layers)], strict=True)]
    return [block for block in blocks if any(is_fused(layers[number]) for number in block)]


def _attentions(layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """Return the first and the last product of each attention: scores, and what they weigh."""
    products = [number for number, layer in enumerate(layers) if layer.op == "matmul"]
    return list(zip(products[::2], products[1::2], strict=False))


def _dropped(part: HeldPart, start: int, end: int) -> set[int]:
    """Return the layers of a block whose outputs are made again; the last of a run keeps its own, which goes on."""
    return {number for number in range(start, end - 1) if part.again[number] and part.again[number + 1]}


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
    in_use = _in_use(parts, rules, weights + copies, num, gradient)
    if in_use:
        held["blocks in use"] = in_use
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


def _in_use(parts: Sequence[HeldPart], rules: HeldRules, weights: float, num: float, gradient: float) -> float:
    """Return the bytes of blocks that are whole for a while: gradients of one, weights of it and the next one."""
    if rules.share == 1 or rules.sharding not in ("zero-2", "zero-3") or not num:
        return 0.0
    sizes = sorted((size for part in parts for size in _block_parameters(part)), reverse=True)
    gathered = sum(sizes[:2]) * weights / num if rules.sharding == "zero-3" else 0.0
    return (gathered + sizes[0] * gradient) * (1 - rules.share)


def _block_parameters(part: HeldPart) -> list[float]:
    return [float(sum(piece.layer.num_parameters for piece in part.pieces[start:end])) for start, end in part.spans]


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


def _with_gathers(pieces: Sequence[Piece]) -> tuple[Model, list[int]]:
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
    return _model(layers), owners
