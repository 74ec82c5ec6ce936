"""What layouts of one model have in common, worked out once: its pieces, their times, and where parts begin."""

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
from clustersim.parallelism import AXES, REPLICAS, SHARERS, Grid, Training
from clustersim.parallelism.experts import OP
from clustersim.parallelism.layout import begins_of, offload_of, pieces_of
from clustersim.parallelism.offload import OPTIMIZER
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.recomputation import block_starts, recomputed
from clustersim.parallelism.ring import in_ring, ring_ops
from clustersim.parallelism.spec import RecomputeKind
from clustersim.parallelism.turns import turned_ops
from clustersim.parallelism.work import piece_times
from clustersim.planner.links import Group, LeastTimes
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
class Split:
    """What a GPU has of a model's layers: its pieces, where blocks begin, and which pieces are alike.

    `kinds` [num_layers] has the same number for pieces that differ in their name alone.
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
        """For each kind of recomputation, whose forward pass is repeated [num_layers]."""
        return {recompute: tuple(recomputed(self.layers, recompute)) for recompute in get_args(RecomputeKind)}


@dataclass(frozen=True, eq=False)
class Timed:
    """Seconds of each piece for one micro-batch on one GPU of the group, columns [num_layers].

    `forward_calls_s` and `backward_calls_s` are the least that collectives of groups take around the two passes, or of
    a product in turns how long they are awaited beyond its compute, and
    `forward_ring_s` and `backward_ring_s` how long blocks of an attention in a ring are awaited beyond its compute.
    """

    training: Training
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
    """What a stage exchanges: bytes of its buckets, of so many gradients each, and of those of its first chunk alone.

    `experts` are the bytes of gradients that copies of experts exchange apart from the others. `units` are the
    parameters of the units of each of its chunks, of what all replicas have and of experts. `share` is its part of the
    model's parameters, and `expert_share` is that of experts, which GPUs share out, in its own.
    """

    buckets: tuple[float, ...]
    num_gradients: tuple[int, ...]
    of_first_chunk: tuple[float, ...]
    experts: tuple[float, ...]
    units: tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]
    share: float
    expert_share: float


class Material:
    """What all layouts of a point's model on one number of GPUs are made of."""

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
        self.links = LeastTimes(self.setup.topology, self.gpus, self.setup.transport, alike, swappable)
        self._known: dict[Hashable, Any] = {}

    def split(self, choice: Choice) -> Split:
        """Return the pieces of a choice's model; raise InputError where it cannot be divided so."""
        return self._once(("split", choice.cut), lambda: self._split(choice))

    def strategy(self, choice: Choice) -> Strategy:
        """Return how the copies of a choice exchange gradients."""
        return self._once(
            ("strategy", choice.exchange), lambda: self.point.strategy.model_copy(update=dict(choice.exchange))
        )

    def copies(self, choice: Choice) -> Copies:
        """Return how often gradients are copied to travel, as a point of the choice has them (`copies_of`)."""
        if choice.layout.sharding is not None or choice.layout.offload != "none":
            return Copies()
        return self.strategy(choice).copies_made(choice.grid.data == choice.num_gpus)

    def host_update_s(self, choice: Choice, stage: int) -> float | None:
        """Return the least that the host of a rank takes to update what that has; None where the GPU does that.

        That is the bytes that it moves in its memory over the whole rate of that, which others may share.
        """
        if not choice.layout.offloads(OPTIMIZER):
            return None
        training, topology = self.timed(choice).training, self.setup.topology
        links = [topology.adders[node] for node in set(topology.memory[self.gpus].tolist()) if node in topology.adders]
        rate = float(topology.links.bytes_per_s[links].max(initial=0.0))
        num = self.load(choice, stage).share * training.whole.model.num_parameters
        own = num / choice.grid.num_replicas if choice.layout.sharding else num
        return own * offload_of(choice.layout, training).update_bytes / rate if rate else 0.0

    def timed(self, choice: Choice) -> Timed:
        """Return the seconds of the pieces of a choice's model for its micro-batch."""
        given = self.setup.given_times
        share = (choice.num_gpus, choice.batch) if given is not None and any(given) else None
        casts = casts_of(self.point.compute.casts, choice.layout.num_passes)
        return self._once(("timed", choice.cut, choice.micro_batch, casts, share), lambda: self._timed(choice))

    def begins(self, choice: Choice) -> tuple[int, ...]:
        """Return the layer that each part of a choice's model begins with; raise InputError where it cannot be cut."""
        layout = choice.layout
        kept = layout.micro_batches if layout.balance == "memory" else None
        key = "begins", choice.cut, choice.micro_batch, layout.pipeline, layout.chunks, kept
        return self._once(key, lambda: self._begins(choice))

    def load(self, choice: Choice, stage: int) -> StageLoad:
        """Return what a stage of a choice exchanges when its passes are over."""
        begins = self.begins(choice)
        caps = self._caps(choice, self.timed(choice).training.whole)
        key = "load", choice.cut, begins, choice.layout.pipeline, stage, caps
        return self._once(key, lambda: self._load(choice, begins, stage))

    def units(self, choice: Choice) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        """Return the parameters of the units of each part, whose weights are gathered together.

        Those that all replicas have, and those of experts that GPUs share out, which fewer have.
        """
        begins = self.begins(choice)
        return self._once(("units", choice.cut, begins), lambda: self._units(choice, begins))

    def _units(self, choice: Choice, begins: tuple[int, ...]) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        split = self.split(choice)
        of_experts = split.parameters * split.are_experts * (choice.grid.expert > 1)
        columns = (_of_units(split, begins, each) for each in (split.parameters - of_experts, of_experts))
        return list(zip(*columns, strict=True))

    def groups(self, choice: Choice, axes: tuple[str, ...]) -> tuple[Group, ...]:
        """Return the ranks of every group along some axes, those of the first stage first."""
        return self._once(("groups", choice.grid.sizes, axes), lambda: _groups(choice.grid, axes))

    def groups_of_stage(self, choice: Choice, axes: tuple[str, ...], stage: int) -> tuple[Group, ...]:
        """Return the groups along some axes, none of them the pipeline, whose ranks are on a stage."""
        every = self.groups(choice, axes)
        each = len(every) // choice.grid.pipeline
        return every[stage * each : (stage + 1) * each]

    def replica_groups(self, choice: Choice, stage: int) -> tuple[Group, ...]:
        """Return the groups of ranks of a stage that have the same parameters."""
        return self.groups_of_stage(choice, REPLICAS, stage)

    def groups_met(self, choice: Choice, axis: str, stage: int) -> tuple[Group, ...]:
        """Return the groups of ranks of a stage that share something out (`SHARERS`), or have the same share (`PEERS`).

        Where all copies share out, those are all that have the same parameters, and each rank by itself.
        """
        grid = choice.grid
        key = "met", grid.sizes, grid.shared_over, axis, stage
        return self._once(key, lambda: _met(grid, self.replica_groups(choice, stage), axis))

    def expert_groups(self, choice: Choice, stage: int) -> tuple[Group, ...]:
        """Return the groups of ranks of a stage that have the same experts."""
        return self.groups_of_stage(choice, ("context", "data"), stage)

    def _once(self, key: Hashable, make: Callable[[], Found]) -> Found:
        if key not in self._known:
            self._known[key] = make()
        found: Found = self._known[key]
        return found

    def _split(self, choice: Choice) -> Split:
        number = PRECISIONS[self.point.precision]
        pieces = pieces_of(choice.layout, choice.grid, self.setup.model, number.activation_bytes)
        layers = [piece.layer for piece in pieces]
        known: dict[Hashable, int] = {}
        kinds = tuple(known.setdefault(_kind(piece), len(known)) for piece in pieces)
        return Split(pieces, tuple(block_starts(layers)), kinds)

    def _timed(self, choice: Choice) -> Timed:
        micro_batch, split, given = choice.micro_batch, self.split(choice), self.setup.given_times
        whole = self.setup.workload(self.kind, micro_batch, choice.layout.num_passes)
        if given is not None and any(given):
            whole = of_a_batch(point_of(self.point, choice), whole, whole.batch, given)
        whole = at_pace(whole, self._slowest)
        training = Training(
            whole=whole,
            optimizer=self.point.optimizer,
            library=self.point.compute.library,
            caps=self._caps(choice, whole),
            overlap=self.point.strategy.overlap,
        )
        times = piece_times(whole, split.pieces, training.library)
        forward, backward = (
            [self._called_s(choice, piece, time, phase) for piece, time in zip(split.pieces, times, strict=True)]
            for phase in (FORWARD, BACKWARD)
        )
        return Timed(
            training,
            times,
            np.array([time.forward_s for time in times]),
            np.array([time.backward_data_s for time in times]),
            np.array([time.backward_weights_s for time in times]),
            np.array(forward),
            np.array(backward),
            self._awaited_s(choice, times, FORWARD),
            self._awaited_s(choice, times, BACKWARD),
        )

    def _caps(self, choice: Choice, whole: Workload) -> Caps:
        """Return the bytes that close a bucket of gradients; `timed` keeps those of one of its choices alone."""
        copies, sharding = choice.grid.num_replicas, choice.layout.sharding
        return self.strategy(choice).bucket_caps(whole.gradient_bytes_per_parameter, copies, sharding)

    def _called_s(self, choice: Choice, piece: Piece, time: LayerTime, phase: str) -> float:
        """Return the least that a micro-batch waits for collectives around a layer."""
        if piece.num_turns > 1:
            return self._beyond_compute_s(choice, turned_ops(piece, time, phase, 0, 0, choice.micro_batch))
        is_back = phase == BACKWARD
        calls = piece.before_backward + piece.after_backward if is_back else piece.before_forward + piece.after_forward
        return sum(
            self.links.collective_s(
                call.op, "auto", self.groups(choice, (call.axis,)), call.bytes_per_sample * choice.micro_batch
            )
            for call in calls
        )

    def _awaited_s(self, choice: Choice, times: Sequence[LayerTime], phase: str) -> np.ndarray:
        """Return what is waited for at least in attentions in a ring, at the first layer of each [num_layers]."""
        awaited_s, pieces = np.zeros(len(times)), self.split(choice).pieces
        for is_ring, each in groupby(range(len(pieces)), lambda layer: in_ring(pieces[layer])):
            layers = list(each)
            if is_ring:
                own = [pieces[layer] for layer in layers], [times[layer] for layer in layers]
                ops = ring_ops(*own, phase, 0, 0, choice.micro_batch)
                awaited_s[layers[0]] = self._beyond_compute_s(choice, ops)
        return awaited_s

    def _beyond_compute_s(self, choice: Choice, ops: Iterable[Op]) -> float:
        """Return how long operations wait at least, each call being awaited before the next."""
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
        apart = split.are_experts[layers] if choice.grid.expert > 1 else np.zeros(len(layers), dtype=bool)
        together, last = np.flatnonzero(~apart & (sizes > 0)), int(own[0][-1])
        caps = self._caps(choice, whole)
        members = assign_buckets(sizes[together].tolist(), caps)
        buckets = [(float(sizes[together[own]].sum()), int(layers[together[own[-1]]]) <= last) for own in members]
        every, own_parameters = whole.model.num_parameters, float(split.parameters[layers].sum())
        shared, experts = zip(*self.units(choice)[stage::num_stages], strict=True)
        return StageLoad(
            buckets=tuple(size for size, _ in buckets),
            num_gradients=tuple(map(len, members)),
            of_first_chunk=tuple(size for size, is_of_first in buckets if is_of_first),
            experts=tuple(sizes[apart & (sizes > 0)].tolist()),
            units=(shared, experts),
            share=own_parameters / every if every else 0.0,
            expert_share=float(split.parameters[layers][apart].sum()) / own_parameters if own_parameters else 0.0,
        )

    def _begins(self, choice: Choice) -> tuple[int, ...]:
        timed = self.timed(choice)
        return tuple(begins_of(choice.layout, choice.grid, timed.training, self.split(choice).pieces, timed.times))


def _groups(grid: Grid, axes: Sequence[str]) -> tuple[Group, ...]:
    """Return the ranks of every group along some axes of a grid, whose first axis counts fastest.

    >>> _groups(Grid(tensor=2, data=2, pipeline=2), ("data",))
    ((0, 2), (1, 3), (4, 6), (5, 7))
    """
    box = np.arange(grid.num_ranks).reshape(grid.sizes[::-1])
    own = sorted(len(AXES) - 1 - AXES.index(axis) for axis in axes)
    size = prod(box.shape[axis] for axis in own)
    rows = np.moveaxis(box, own, range(-len(own), 0)).reshape(-1, size)
    return tuple(tuple(row) for row in rows.tolist())


def _met(grid: Grid, replicas: Sequence[Group], axis: str) -> tuple[Group, ...]:
    """Return the groups that replicas are in along an axis of programs, each once."""
    if grid.shared_over is None:
        return tuple(replicas) if axis == SHARERS else ((replicas[0][0],),)
    return tuple(dict.fromkeys(grid.met(rank, axis) for group in replicas for rank in group))


def point_of(point: Point, choice: Choice) -> Point:
    """Return the training that a choice is, everything else as the point has it."""
    strategy = point.strategy.model_copy(update=dict(choice.exchange))
    batch = point.batch.model_copy(update={"per_gpu": None, "global_": choice.batch})
    changed = {"num_gpus": choice.num_gpus, "batch": batch, "parallelism": choice.layout, "strategy": strategy}
    return point.model_copy(update=changed)


def _kind(piece: Piece) -> Hashable:
    layer = piece.layer
    sizes = layer.op, layer.num_parameters, layer.input_elements, layer.output_elements, layer.kept_bytes
    work = layer.flop, layer.flop_backward_data, layer.flop_backward_weights
    calls = piece.is_split, piece.before_forward, piece.after_forward, piece.before_backward, piece.after_backward
    return sizes, work, tuple(layer.shape.items()), calls, piece.num_blocks, piece.block_bytes, piece.num_turns


def _of_units(split: Split, begins: tuple[int, ...], parameters: np.ndarray) -> list[tuple[float, ...]]:
    """Return the sums of parameters [num_layers] over the units of each part."""
    total = np.concatenate([[0.0], np.cumsum(parameters)])
    units = []
    for first, end in zip(begins, (*begins[1:], len(split.pieces)), strict=True):
        starts = [first, *(block for block in split.blocks if first < block < end), end]
        units.append(tuple(np.diff(total[starts]).tolist()))
    return units
