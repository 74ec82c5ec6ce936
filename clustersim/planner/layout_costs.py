"""Data shared by the layouts of one model, computed once: pieces, their times, and the first layer of each part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import prod
from typing import Any, TypeVar, get_args

import numpy as np

from clustersim.hardware import load_gpu
from clustersim.model import PRECISIONS, Layer, LayerTime, Workload
from clustersim.model.casts import casts_of
from clustersim.parallelism import AXES, REPLICAS, SHARD_GROUP, Grid, TrainingSetup
from clustersim.parallelism.experts import OP
from clustersim.parallelism.layout import offload_of, part_starts, pieces_of
from clustersim.parallelism.offload import OPTIMIZER
from clustersim.parallelism.piece_times import piece_times
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.recomputation import block_starts, recomputed
from clustersim.parallelism.ring import in_ring, ring_ops
from clustersim.parallelism.spec import RecomputeKind
from clustersim.parallelism.stages import check_parts, cut_points
from clustersim.parallelism.tensor_overlap import overlapped_ops
from clustersim.planner.links import Group, MinTimes
from clustersim.planner.space import Choice
from clustersim.program import Caps, Copies, assign_buckets
from clustersim.program.ops import BACKWARD, FORWARD, Call, Compute, Op, Wait
from clustersim.scenario import Point
from clustersim.scenario.layout import of_a_batch
from clustersim.scenario.variability import at_pace, variability_of
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup
from clustersim.stragglers import Awaited, slowest
from clustersim.strategies import Strategy

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class SplitModel:
    """The pieces of a model's layers on one GPU, the first layers of blocks, and the equal pieces.

    `kinds` [num_layers] is equal for pieces that differ only in their names.
    """

    pieces: tuple[Piece, ...]
    blocks: tuple[int, ...]
    kinds: tuple[int, ...]

    @property
    def layers(self) -> list[Layer]:
        return [piece.layer for piece in self.pieces]

    @cached_property
    def parameters(self) -> np.ndarray:
        """Parameters of each piece [num_layers]."""
        return np.array([piece.layer.num_parameters for piece in self.pieces], dtype=float)

    @cached_property
    def are_experts(self) -> np.ndarray:
        """Whether each piece is one of experts [num_layers]."""
        return np.array([piece.layer.op == OP for piece in self.pieces])

    @cached_property
    def again(self) -> dict[str, tuple[bool, ...]]:
        """For each kind of recomputation, whether the forward pass of a layer is repeated [num_layers]."""
        return {recompute: tuple(recomputed(self.layers, recompute)) for recompute in get_args(RecomputeKind)}


@dataclass(frozen=True, eq=False)
class PieceTimes:
    """Seconds of each piece for one micro-batch on one GPU of the group, columns [num_layers].

    `forward_calls_s` and `backward_calls_s` are the minimum times of the collectives around the two passes; of a
    product in turns, only the part beyond its compute. `forward_ring_s` and `backward_ring_s` are the exposed times of
    the blocks of ring attention, beyond its compute.
    """

    training: TrainingSetup
    times: tuple[LayerTime, ...]
    forward_s: np.ndarray
    backward_data_s: np.ndarray
    backward_weights_s: np.ndarray
    forward_calls_s: np.ndarray
    backward_calls_s: np.ndarray
    forward_ring_s: np.ndarray
    backward_ring_s: np.ndarray


@dataclass(frozen=True)
class StageLoad:
    """Gradients that a stage exchanges: bytes and number of gradients of its buckets, bytes of its first chunk's.

    `experts` are the bytes of gradients that replicas of experts exchange separately. `units` are the parameters of the
    units of each of its chunks: those on all replicas, and those of experts. `share` is the stage's share of the
    model's parameters; `expert_share` is the share of distributed experts in the stage's parameters.
    """

    buckets: tuple[float, ...]
    num_gradients: tuple[int, ...]
    of_first_chunk: tuple[float, ...]
    experts: tuple[float, ...]
    units: tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]
    share: float
    expert_share: float


class LayoutCosts:
    """Pieces, times and collectives for all layouts of a point's model on one number of GPUs."""

    def __init__(self, point: Point, workloads: Workloads):
        self.point = point
        self.setup = Setup(point, workloads)
        self.gpus = self.setup.gpus(0)
        self.kind = self.setup.kinds_in_use[0]
        self.gpu = load_gpu(self.kind)
        alike = hasattr(point.topology, "host") and not getattr(point.topology, "hosts", None)
        swappable = point.topology.kind == "star"
        awaited = Awaited(len(self.gpus), len(self.gpus))
        self._slowest = slowest(variability_of(point, self.gpu, self.setup.given_times), awaited)
        self.links = MinTimes(self.setup.topology, self.gpus, self.setup.transport, alike, swappable)
        self._known: dict[Hashable, Any] = {}

    def split(self, choice: Choice) -> SplitModel:
        """Return the pieces of a choice's model; raise InputError if it cannot be divided this way."""
        return self.cached(("split", choice.cut), lambda: self._split(choice))

    def strategy(self, choice: Choice) -> Strategy:
        """Return the strategy by which the replicas of a choice exchange gradients."""
        return self.cached(
            ("strategy", choice.exchange), lambda: self.point.strategy.model_copy(update=dict(choice.exchange))
        )

    def copies(self, choice: Choice) -> Copies:
        """Return the copies of gradients for their exchange, as in a point of the choice (`copies_of`)."""
        if choice.layout.sharding is not None or choice.layout.offload != "none":
            return Copies()
        return self.strategy(choice).gradient_copies(choice.grid.data == choice.num_gpus)

    def host_update_s(self, choice: Choice, stage: int) -> float | None:
        """Return the minimum time of a rank's update on its host; None if the GPU does the update.

        It is the bytes moved in host memory over the full rate of the memory, which ranks may share.
        """
        if not choice.layout.offloads(OPTIMIZER):
            return None
        training = self.timed(choice).training
        num = self.load(choice, stage).share * training.whole.model.num_parameters
        own = num / choice.grid.num_replicas if choice.layout.sharding else num
        return self.in_host_memory_s(own * offload_of(choice.layout, training).update_bytes)

    def in_host_memory_s(self, moved_bytes: float) -> float:
        """Return the minimum time in which a host moves bytes in its memory; 0 if its rate is not known."""
        rate = self._memory_bytes_per_s
        return moved_bytes / rate if rate else 0.0

    @cached_property
    def _memory_bytes_per_s(self) -> float:
        topology = self.setup.topology
        links = [topology.adders[node] for node in set(topology.memory[self.gpus].tolist()) if node in topology.adders]
        return float(topology.links.bytes_per_s[links].max(initial=0.0))

    def timed(self, choice: Choice) -> PieceTimes:
        """Return the seconds of the pieces of a choice's model for its micro-batch."""
        given = self.setup.given_times
        share = (choice.num_gpus, choice.batch) if given is not None and any(given) else None
        compute = self.point.compute
        casts = casts_of(compute.casts, choice.layout.num_passes, self.point.precision, compute.wide_share)
        return self.cached(("timed", choice.cut, choice.micro_batch, casts, share), lambda: self._timed(choice))

    def begins(self, choice: Choice) -> tuple[int, ...]:
        """Return the first layer of each part of a choice's model; raise InputError if it cannot be cut."""
        layout = choice.layout
        kept = layout.micro_batches if layout.balance == "memory" else None
        key = "begins", choice.cut, choice.micro_batch, layout.pipeline, layout.chunks, kept
        return self.cached(key, lambda: self._begins(choice))

    def check_parts(self, choice: Choice) -> None:
        """Raise InputError if a choice's model cannot be cut into its parts."""
        layout = choice.layout
        if layout.stages is not None:
            self.begins(choice)
        elif (num_parts := choice.grid.pipeline * layout.chunks) > 1:
            layers = self.setup.model.layers
            cuts = self.cached("cuts", lambda: cut_points(layers))
            check_parts(num_parts, layout.chunks, cuts, len(layers))

    def load(self, choice: Choice, stage: int) -> StageLoad:
        """Return the gradients that a stage of a choice exchanges after its passes."""
        begins = self.begins(choice)
        caps = self._caps(choice, self.timed(choice).training.whole)
        key = "load", choice.cut, begins, choice.layout.pipeline, stage, caps
        return self.cached(key, lambda: self._load(choice, begins, stage))

    def units(self, choice: Choice) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        """Return the parameters of the units of each part; the weights of a unit are gathered together.

        The first are those on all replicas, the second those of distributed experts.
        """
        begins = self.begins(choice)
        return self.cached(("units", choice.cut, begins), lambda: self._units(choice, begins))

    def _units(self, choice: Choice, begins: tuple[int, ...]) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        split = self.split(choice)
        of_experts = split.parameters * split.are_experts * (choice.grid.expert > 1)
        columns = (_of_units(split, begins, each) for each in (split.parameters - of_experts, of_experts))
        return list(zip(*columns, strict=True))

    def groups(self, choice: Choice, axes: tuple[str, ...]) -> tuple[Group, ...]:
        """Return the ranks of every group along some axes, the groups of the first stage first."""
        return self.cached(("groups", choice.grid.sizes, axes), lambda: _groups(choice.grid, axes))

    def groups_of_stage(self, choice: Choice, axes: tuple[str, ...], stage: int) -> tuple[Group, ...]:
        """Return the groups along some axes (not the pipeline) whose ranks are on a stage."""
        every = self.groups(choice, axes)
        each = len(every) // choice.grid.pipeline
        return every[stage * each : (stage + 1) * each]

    def replica_groups(self, choice: Choice, stage: int) -> tuple[Group, ...]:
        """Return the groups of ranks of a stage that have the same parameters."""
        return self.groups_of_stage(choice, REPLICAS, stage)

    def exchange_groups(self, choice: Choice, axis: str, stage: int) -> tuple[Group, ...]:
        """Return the groups of a stage that share out state (`SHARD_GROUP`) or hold the same shard (`REPLICATE_GROUP`).

        If all replicas shard together, these are the replica groups, and groups of one rank.
        """
        grid = choice.grid
        key = "met", grid.sizes, grid.shared_over, axis, stage
        return self.cached(key, lambda: _exchange_groups(grid, self.replica_groups(choice, stage), axis))

    def program_groups(self, grid: Grid, axis: str, stage: int) -> tuple[Group, ...]:
        """Return the groups of a stage's ranks along an axis of a program."""
        key = "program groups", grid, axis, stage
        return self.cached(key, lambda: _groups_of_stage(grid, axis, stage))

    def ways(self, grid: Grid, src: int, dst: int) -> tuple[tuple[int, int], ...]:
        """Return the pairs of ranks at the same places of two stages."""
        return self.cached(("ways", grid.num_ranks, grid.pipeline, src, dst), lambda: _ways(grid, src, dst))

    def expert_groups(self, choice: Choice, stage: int) -> tuple[Group, ...]:
        """Return the groups of ranks of a stage that have the same experts."""
        return self.groups_of_stage(choice, ("context", "data"), stage)

    def cached(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """Return what `make` makes, made once for a key."""
        if key not in self._known:
            self._known[key] = make()
        found: Found = self._known[key]
        return found

    def _split(self, choice: Choice) -> SplitModel:
        number = PRECISIONS[self.point.precision]
        pieces = pieces_of(choice.layout, choice.grid, self.setup.model, number.activation_bytes)
        layers = [piece.layer for piece in pieces]
        known: dict[Hashable, int] = {}
        kinds = tuple(known.setdefault(_kind(piece), len(known)) for piece in pieces)
        return SplitModel(pieces, tuple(block_starts(layers)), kinds)

    def _timed(self, choice: Choice) -> PieceTimes:
        micro_batch, split, given = choice.micro_batch, self.split(choice), self.setup.given_times
        whole = self.setup.workload(self.kind, micro_batch, choice.layout.num_passes)
        if given is not None and any(given):
            whole = of_a_batch(point_of(self.point, choice), whole, whole.batch, given)
        whole = at_pace(whole, self._slowest)
        training = TrainingSetup(
            whole=whole,
            optimizer=self.point.optimizer,
            library=self.point.compute.library,
            caps=self._caps(choice, whole),
            overlap=self.point.strategy.overlap,
        )
        times = piece_times(whole, split.pieces, training.library)
        forward, backward = (self._all_calls_s(choice, times, phase) for phase in (FORWARD, BACKWARD))
        return PieceTimes(
            training,
            times,
            np.array([time.forward_s for time in times]),
            np.array([time.backward_data_s for time in times]),
            np.array([time.backward_weights_s for time in times]),
            np.array(forward),
            np.array(backward),
            self._ring_waiting_s(choice, times, FORWARD),
            self._ring_waiting_s(choice, times, BACKWARD),
        )

    def _caps(self, choice: Choice, whole: Workload) -> Caps:
        """Return the size limits of gradient buckets; `timed` keeps only those of one of its choices."""
        copies, sharding = choice.grid.num_replicas, choice.layout.sharding
        return self.strategy(choice).bucket_caps(whole.gradient_bytes_per_parameter, copies, sharding)

    def _all_calls_s(self, choice: Choice, times: Sequence[LayerTime], phase: str) -> list[float]:
        """Return the waits for collectives around each layer [num_layers]; equal pieces wait equally long."""
        split, known, found = self.split(choice), dict[Hashable, float](), []
        for piece, kind, time in zip(split.pieces, split.kinds, times, strict=True):
            key = (kind, time.forward_s, time.backward_data_s) if piece.num_ring_steps > 1 else kind
            if key not in known:
                known[key] = self._calls_s(choice, piece, time, phase)
            found.append(known[key])
        return found

    def _calls_s(self, choice: Choice, piece: Piece, time: LayerTime, phase: str) -> float:
        """Return the minimum time that a micro-batch waits for collectives around a layer."""
        if piece.num_ring_steps > 1:
            return self._exposed_s(choice, overlapped_ops(piece, time, phase, 0, 0, choice.micro_batch))
        is_back = phase == BACKWARD
        calls = piece.before_backward + piece.after_backward if is_back else piece.before_forward + piece.after_forward
        return sum(
            self.links.collective_s(
                call.op, "auto", self.groups(choice, (call.axis,)), call.bytes_per_sample * choice.micro_batch
            )
            for call in calls
        )

    def _ring_waiting_s(self, choice: Choice, times: Sequence[LayerTime], phase: str) -> np.ndarray:
        """Return the minimum waiting time of ring attention, at the first layer of each [num_layers]."""
        awaited_s, pieces = np.zeros(len(times)), self.split(choice).pieces
        if not any(map(in_ring, pieces)):
            return awaited_s
        for is_ring, each in groupby(range(len(pieces)), lambda layer: in_ring(pieces[layer])):
            layers = list(each)
            if is_ring:
                own = [pieces[layer] for layer in layers], [times[layer] for layer in layers]
                ops = ring_ops(*own, phase, 0, 0, choice.micro_batch)
                awaited_s[layers[0]] = self._exposed_s(choice, ops)
        return awaited_s

    def _exposed_s(self, choice: Choice, ops: Iterable[Op]) -> float:
        """Return the minimum waiting time of operations, if each call ends before the next starts."""
        awaited_s = sent_s = computed_s = 0.0
        for op in ops:
            if isinstance(op, Compute):
                computed_s += op.seconds
            elif isinstance(op, Call):
                sent_s = self.links.collective_s(op.op, "auto", self.groups(choice, (op.axis,)), op.num_bytes)
                computed_s = 0.0
            elif isinstance(op, Wait):
                awaited_s += max(0.0, sent_s - computed_s)
        return awaited_s

    def _load(self, choice: Choice, begins: tuple[int, ...], stage: int) -> StageLoad:
        split, whole, num_stages = self.split(choice), self.timed(choice).training.whole, choice.grid.pipeline
        own = [np.arange(*span) for span in zip(begins, (*begins[1:], len(split.pieces)), strict=True)]
        own = own[stage::num_stages]
        layers = np.concatenate([part[::-1] for part in reversed(own)])
        sizes = split.parameters[layers] * whole.gradient_bytes_per_parameter
        separate = split.are_experts[layers] if choice.grid.expert > 1 else np.zeros(len(layers), dtype=bool)
        together, last = np.flatnonzero(~separate & (sizes > 0)), int(own[0][-1])
        caps = self._caps(choice, whole)
        members = assign_buckets(sizes[together].tolist(), caps)
        buckets = [(float(sizes[together[own]].sum()), int(layers[together[own[-1]]]) <= last) for own in members]
        every, own_parameters = whole.model.num_parameters, float(split.parameters[layers].sum())
        shared, experts = zip(*self.units(choice)[stage::num_stages], strict=True)
        return StageLoad(
            buckets=tuple(size for size, _ in buckets),
            num_gradients=tuple(map(len, members)),
            of_first_chunk=tuple(size for size, is_of_first in buckets if is_of_first),
            experts=tuple(sizes[separate & (sizes > 0)].tolist()),
            units=(shared, experts),
            share=own_parameters / every if every else 0.0,
            expert_share=float(split.parameters[layers][separate].sum()) / own_parameters if own_parameters else 0.0,
        )

    def _begins(self, choice: Choice) -> tuple[int, ...]:
        timed = self.timed(choice)
        return tuple(part_starts(choice.layout, choice.grid, timed.training, self.split(choice).pieces, timed.times))


def _groups(grid: Grid, axes: Sequence[str]) -> tuple[Group, ...]:
    """Return the ranks of every group along some axes of a grid; its first axis varies fastest.

    >>> _groups(Grid(tensor=2, data=2, pipeline=2), ("data",))
    ((0, 2), (1, 3), (4, 6), (5, 7))
    """
    box = np.arange(grid.num_ranks).reshape(grid.sizes[::-1])
    own = sorted(len(AXES) - 1 - AXES.index(axis) for axis in axes)
    size = prod(box.shape[axis] for axis in own)
    rows = np.moveaxis(box, own, range(-len(own), 0)).reshape(-1, size)
    return tuple(tuple(row) for row in rows.tolist())


def _exchange_groups(grid: Grid, replicas: Sequence[Group], axis: str) -> tuple[Group, ...]:
    """Return the distinct groups of replicas along an axis of programs."""
    if grid.shared_over is None:
        return tuple(replicas) if axis == SHARD_GROUP else ((replicas[0][0],),)
    return tuple(dict.fromkeys(grid.collective_group(rank, axis) for group in replicas for rank in group))


def _groups_of_stage(grid: Grid, axis: str, stage: int) -> tuple[Group, ...]:
    """Return the distinct groups of a stage's ranks along an axis of a program.

    >>> _groups_of_stage(Grid(tensor=2, pipeline=2), "tensor", 1)
    ((2, 3),)
    """
    each = grid.num_ranks // grid.pipeline
    left, found = dict.fromkeys(range(stage * each, (stage + 1) * each)), []
    while left:
        found.append(grid.collective_group(next(iter(left)), axis))
        for rank in found[-1]:
            left.pop(rank, None)
    return tuple(found)


def _ways(grid: Grid, src: int, dst: int) -> tuple[tuple[int, int], ...]:
    each = grid.num_ranks // grid.pipeline
    return tuple((src * each + place, dst * each + place) for place in range(each))


def point_of(point: Point, choice: Choice) -> Point:
    """Return the point with the GPUs, batch, layout and strategy of a choice."""
    strategy = point.strategy.model_copy(update=dict(choice.exchange))
    batch = point.batch.model_copy(update={"per_gpu": None, "global_": choice.batch})
    changed = {"num_gpus": choice.num_gpus, "batch": batch, "parallelism": choice.layout, "strategy": strategy}
    return point.model_copy(update=changed)


def _kind(piece: Piece) -> Hashable:
    layer = piece.layer
    sizes = layer.op, layer.num_parameters, layer.input_elements, layer.output_elements, layer.kept_bytes
    work = layer.flop, layer.flop_backward_data, layer.flop_backward_weights
    calls = piece.is_split, piece.before_forward, piece.after_forward, piece.before_backward, piece.after_backward
    return sizes, work, tuple(layer.shape.items()), calls, piece.num_blocks, piece.block_bytes, piece.num_ring_steps


def _of_units(split: SplitModel, begins: tuple[int, ...], parameters: np.ndarray) -> list[tuple[float, ...]]:
    """Return the sums of parameters [num_layers] over the units of each part."""
    total = np.concatenate([[0.0], np.cumsum(parameters)])
    units = []
    for first, end in zip(begins, (*begins[1:], len(split.pieces)), strict=True):
        starts = [first, *(block for block in split.blocks if first < block < end), end]
        units.append(tuple(np.diff(total[starts]).tolist()))
    return units
