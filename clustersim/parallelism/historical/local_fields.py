"""Spatial parallelism: each GPU has a tile of every layer and exchanges halos with neighbouring tiles (`local-fields`).

Coates et al., "Deep learning with COTS HPC systems" (ICML 2013): GPUs form a grid over the image, and each computes the
neurons on its tile, for all samples of the batch. Before a layer whose windows reach beyond the tile, it receives the
halo from the tiles that have it (`historical.halo`); in the backward pass the gradients of the halo go back the same
way and are added there. So in both directions

    batch x elements of a position x sum over tiles of (positions read - positions on the tile)

are sent for such a layer. Weights of locally connected layers, different at every position, are stored with their tile
only, and their gradients are not exchanged among tiles. Weights that all positions share (convolutions) are on every
GPU, and their gradients are all-reduced over all tiles of all replicas, as in data parallelism.

A mean over all positions is the sum over the tiles' means. A fully connected layer reads the whole image, which is
gathered on all GPUs of a replica; it and all layers after it are computed by each of them. Batch normalisation is over
a tile and a replica's samples. Left out: computing the inner part of the tile while the halo is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.model import PRECISIONS, Layer, LayerTime, Model
from clustersim.parallelism.historical.halo import Area, Tiles, read_by
from clustersim.parallelism.memory import MemoryRules, PartInMemory, stage_memory
from clustersim.parallelism.pieces import GroupCall, Piece, calls_bytes, divided
from clustersim.parallelism.plan import Part, Rules, StagePlan, buckets_of, iteration_of
from clustersim.program.issue import PassIssue, issue_times
from clustersim.program.ops import (
    BACKWARD,
    FORWARD,
    Call,
    Compute,
    Key,
    Op,
    Program,
    Ready,
    Receive,
    Send,
    Wait,
    merged,
)

TILES = "tiles"
"""Axis name of the group of all tiles of a replica."""

UNTIED = frozenset({"locally-connected", "transposed-locally-connected"})
"""Layers that have separate weights at every position."""

NO_IMAGES = frozenset({"matmul", "embedding", "lstm", "gru", "rnn", "router", "experts"})
"""Layers whose samples are not images."""


@dataclass(frozen=True)
class Halo:
    """Elements per sample that a tile receives from another tile before a layer; backward it sends as many there."""

    tile: int
    elements: float


@dataclass(frozen=True)
class TilePiece:
    """A tile's piece of a layer, and the halos that it reads."""

    piece: Piece
    halos: tuple[Halo, ...] = ()


class _Extent(NamedTuple):
    """Height and width of a layer's output, None if every GPU has all of it; and the elements that it gathers."""

    size: tuple[int, int] | None
    gathered: float = 0.0  # elements of a sample


def has_untied(model: Model) -> bool:
    """Return whether weights are stored with their tiles only, and not on every GPU."""
    return any(layer.op in UNTIED for layer in model.layers)


def tile_pieces(model: Model, tiles: Tiles, activation_bytes: float) -> list[list[TilePiece]]:
    """Return each tile's piece of every layer [num_tiles][num_layers]; raise InputError if the model has no tiles."""
    if tiles.num == 1:
        return [[TilePiece(Piece(layer, is_split=False)) for layer in model.layers]]
    extents = list(_extents(model, tiles))
    _check_weights(model, extents)
    layers = list(zip(model.layers, extents, strict=True))
    rows = [
        [_on_tile(layer, extent, tile, tiles, activation_bytes) for layer, extent in layers]
        for tile in range(tiles.num)
    ]
    for row in rows:
        row[0] = replace(row[0], halos=())  # every GPU reads the samples with their halo
    return rows


def _extents(model: Model, tiles: Tiles) -> Iterator[_Extent]:
    """Yield the extent of each layer; raise InputError for a layer without tiles."""
    windows = [layer for layer in model.layers if _has_window(layer)]
    others = [layer for layer in model.layers if layer.op in NO_IMAGES or layer.shape.get("rows", 1) > 1]
    if not windows or others:
        why = f"'{others[0].name}' does not read images" if others else "it has no layer of windows with a shape"
        message = f"{model.name} cannot be divided into tiles: {why}; local-fields is for layers of windows on images"
        raise InputError(message, key="kind", got="local-fields", allowed="kind: grid, such as {tensor: ...}")
    size: tuple[int, int] | None = (windows[0].shape["height"], windows[0].shape["width"])
    for layer in model.layers:
        before = size
        if _has_window(layer):
            size = (layer.shape["out_height"], layer.shape["out_width"])
        elif layer.op == "fully-connected":
            size = None
        if size == (1, 1):
            size = None
        if size and (size[0] < tiles.rows or size[1] < tiles.columns):
            raise _too_many(windows, layer, size, tiles)
        yield _Extent(size, layer.input_elements if before and not size else 0.0)
        if _is_mean_of_all(layer):
            size = None


def _has_window(layer: Layer) -> bool:
    return "kernel_h" in layer.shape


def _is_mean_of_all(layer: Layer) -> bool:
    return layer.op == "pooling" and not layer.shape and layer.output_elements < layer.input_elements


def _too_many(windows: Sequence[Layer], layer: Layer, size: tuple[int, int], tiles: Tiles) -> InputError:
    """Return the error that a layer has fewer positions than tiles, with the nearest grid that works."""
    known = [(each.shape["out_height"], each.shape["out_width"]) for each in windows]
    images = [each for each in known if each != (1, 1)]
    rows, columns = (min(each[side] for each in images) for side in (0, 1))
    every = ((row, column) for row in range(1, rows + 1) for column in range(1, columns + 1))
    fitting = (grid for grid in every if tiles.num % (grid[0] * grid[1]) == 0)
    near = max(fitting, key=lambda grid: (grid[0] * grid[1], -abs(grid[0] - grid[1]), grid))
    num_replicas = tiles.num // (near[0] * near[1])
    replicas = f", with {num_replicas} replicas for each one now" if num_replicas > 1 else ""
    return InputError(
        f"the {size[0]} x {size[1]} positions of '{layer.name}' are too few for {tiles.rows} x {tiles.columns} tiles; "
        f"the nearest grid that works is tiles: [{near[0]}, {near[1]}]{replicas}",
        key="tiles",
        got=f"[{tiles.rows}, {tiles.columns}]",
        allowed=f"at most [{rows}, {columns}]",
    )


def _check_weights(model: Model, extents: Sequence[_Extent]) -> None:
    """Raise InputError for weights that all positions share beside separate weights at every position."""
    shared = [
        layer
        for layer, extent in zip(model.layers, extents, strict=True)
        if extent.size and layer.num_parameters and layer.op not in UNTIED
    ]
    if shared and has_untied(model):
        message = (
            f"'{shared[0].name}' has weights that all positions share, but other layers have separate weights at every "
            "position; local-fields all-reduces the gradients of all layers among tiles, or of none"
        )
        raise InputError(message, key="kind", got="local-fields", allowed="a model of one or the other")


def _on_tile(layer: Layer, extent: _Extent, tile: int, tiles: Tiles, activation_bytes: float) -> TilePiece:
    if extent.size is None:
        gathers = (GroupCall("all-gather", extent.gathered * activation_bytes, TILES),) if extent.gathered else ()
        return TilePiece(Piece(layer, is_split=False, before_forward=gathers))
    own, is_untied = tiles.own(tile, extent.size), layer.op in UNTIED
    part = divided(layer, own.positions, extent.size[0] * extent.size[1])
    if not is_untied:
        part = replace(part, num_parameters=layer.num_parameters)
    if _is_mean_of_all(layer):
        added = GroupCall("all-reduce", layer.output_elements * activation_bytes, TILES)
        mean = replace(part, output_elements=layer.output_elements)
        return TilePiece(Piece(mean, is_split=False, after_forward=(added,)))
    if not _has_window(layer):
        return TilePiece(Piece(part, is_split=False))
    image = (layer.shape["height"], layer.shape["width"])
    read, each = read_by(layer.op, layer.shape, own), layer.input_elements / (image[0] * image[1])
    shares = tiles.shares(read, image)
    halos = tuple(Halo(other, share.positions * each) for other, share in shares if other != tile)
    part = replace(part, input_elements=read.positions * each, shape=_shape(layer, own, read))
    return TilePiece(Piece(part, is_untied), halos)


def _shape(layer: Layer, own: Area, read: Area) -> dict[str, int]:
    (height, width), (out_height, out_width) = read.size, own.size
    return {**layer.shape, "height": height, "width": width, "out_height": out_height, "out_width": out_width}


def tile_parts(rows: Sequence[Sequence[TilePiece]], times: Sequence[Sequence[LayerTime]]) -> tuple[Part, ...]:
    """Return the part of each tile, with all layers."""
    alike = (False,) * len(rows[0])
    return tuple(
        Part(0, tuple(each.piece for each in row), tuple(seconds), alike, (0,), 0.0)
        for row, seconds in zip(rows, times, strict=True)
    )


def tile_memory(row: Sequence[TilePiece], part: Part, rules: MemoryRules) -> dict[str, float]:
    """Return the bytes that a GPU stores at its peak, by purpose: its tile's layers and their halos.

    Gathered inputs count as halos.
    """
    number = PRECISIONS[rules.precision]
    halo_bytes = sum(halo.elements for each in row for halo in each.halos) * number.activation_bytes
    gathered = calls_bytes((each.piece for each in row), "all-gather")
    held = stage_memory([PartInMemory(part.pieces, 1.0, part.units, part.recomputes)], rules)
    return {**held, "borders": (halo_bytes + gathered) * rules.micro_batch} if halo_bytes + gathered else held


def compile_tile(
    tile: int, rows: Sequence[Sequence[TilePiece]], part: Part, update_s: float, rules: Rules, activation_bytes: float
) -> StagePlan:
    """Compile the program of a tile; `rows` are the pieces of all tiles, `activation_bytes` those of an element."""
    builder = _ProgramBuilder(tile, rows, part, rules, activation_bytes * rules.micro_batch)
    for layer in range(len(part.pieces)):
        builder.forward(layer)
    for layer in reversed(range(len(part.pieces))):
        builder.backward(layer)
    return builder.plan(update_s)


@dataclass
class _ProgramBuilder:
    """Builds the program of a tile, operation by operation."""

    tile: int
    rows: Sequence[Sequence[TilePiece]]
    part: Part
    rules: Rules
    batch_bytes: float  # of an element of all samples
    ops: list[Op] = field(default_factory=list)
    completed: list[tuple[int, float, str]] = field(default_factory=list)  # operations before, parameters, layer

    def forward(self, layer: int) -> None:
        """Exchange the halos of a layer, and compute it."""
        piece, time = self.part.pieces[layer], self.part.times[layer]
        self._exchange("activations", layer, self._sent_halos(layer), self.rows[self.tile][layer].halos)
        self._calls(piece.before_forward, f"before {FORWARD}", layer)
        self._compute(time.layer.name, time.forward_s, FORWARD, time.forward_issue)
        self._calls(piece.after_forward, f"after {FORWARD}", layer)

    def backward(self, layer: int) -> None:
        """Compute, and send the gradients of the halo back to the tiles that have it."""
        piece, time = self.part.pieces[layer], self.part.times[layer]
        self._compute(time.layer.name, time.backward_s, BACKWARD, time.backward_issue)
        if piece.layer.num_parameters:
            self.completed.append((len(self.ops), float(piece.layer.num_parameters), piece.layer.name))
        self._exchange("gradients", layer, self.rows[self.tile][layer].halos, self._sent_halos(layer))

    def plan(self, update_s: float) -> StagePlan:
        """Return the program, with buckets where the last of their gradients are complete."""
        buckets, ready = buckets_of(self.completed, len(self.ops), self.rules)
        for number in reversed(range(len(buckets))):
            self.ops.insert(ready[number], Ready(number))
        program = Program(self.tile, merged(self.ops))
        return StagePlan(program, iteration_of(program, buckets, update_s))

    def _sent_halos(self, layer: int) -> list[Halo]:
        """Return the halos that other tiles receive from this one before a layer."""
        return [
            Halo(other, halo.elements)
            for other, row in enumerate(self.rows)
            for halo in row[layer].halos
            if halo.tile == self.tile
        ]

    def _exchange(self, what: str, layer: int, sent: Sequence[Halo], received: Sequence[Halo]) -> None:
        name = f"{what} of tile"
        for each in sent:
            key = Key(f"{name} {self.tile}", 0, layer)
            self.ops.append(Send(key, each.tile, each.elements * self.batch_bytes))
        for each in received:
            key = Key(f"{name} {each.tile}", 0, layer)
            self.ops.append(Receive(key, each.tile, each.elements * self.batch_bytes))

    def _calls(self, calls: Sequence[GroupCall], when: str, layer: int) -> None:
        for number, call in enumerate(calls):
            key = Key(f"{call.op} {number} {when}", 0, layer)
            self.ops += [Call(key, call.op, call.axis, call.bytes_per_sample * self.rules.micro_batch), Wait(key)]

    def _compute(self, name: str, seconds: float, phase: str, issue: PassIssue) -> None:
        if seconds:
            self.ops.append(Compute(name, seconds, phase, 0, issue=issue_times([(seconds, issue)])))
