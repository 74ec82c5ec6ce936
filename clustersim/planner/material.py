"""What layouts of one model have in common, worked out once: its pieces, their times, and where parts begin."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from clustersim.hardware import load_gpu
from clustersim.parallelism import Training
from clustersim.parallelism.layout import begins_of
from clustersim.parallelism.memory import block_starts, recomputed
from clustersim.parallelism.pieces import GroupCall, Piece
from clustersim.parallelism.split import split_model
from clustersim.parallelism.work import piece_times
from clustersim.planner.links import Group, LeastTimes
from clustersim.planner.space import RECOMPUTES, Choice
from clustersim.program import assign_buckets, bucket_caps
from clustersim.scenario import Point
from clustersim.scenario.layout import of_a_batch
from clustersim.simulate.setup import Setup, Workloads
from clustersim.workload import PRECISIONS, Layer, LayerTime

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Split:
    """A model split over GPUs of a tensor group: its pieces, where blocks begin, and which pieces are alike.

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
    def again(self) -> dict[str, tuple[bool, ...]]:
        """For each kind of recomputation, whose forward pass is repeated [num_layers]."""
        return {recompute: tuple(recomputed(self.layers, recompute)) for recompute in RECOMPUTES}


@dataclass(frozen=True, eq=False)
class Timed:
    """Seconds of each piece for one micro-batch on one GPU of the group, columns [num_layers].

    `forward_calls_s` and `backward_calls_s` are the least that collectives of the group take around the two passes.
    """

    training: Training
    times: tuple[LayerTime, ...]
    forward_s: np.ndarray
    backward_data_s: np.ndarray
    backward_weights_s: np.ndarray
    forward_calls_s: np.ndarray
    backward_calls_s: np.ndarray


@dataclass(frozen=True)
class StageLoad:
    """What a stage exchanges: bytes of its buckets, and of those with gradients of its first chunk alone.

    `units` are the parameters of the units of each of its chunks, and `share` is its part of the model's parameters.
    """

    buckets: tuple[float, ...]
    of_first_chunk: tuple[float, ...]
    units: tuple[tuple[float, ...], ...]
    share: float


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
        self.links = LeastTimes(self.setup.topology, self.gpus, self.setup.transport, alike, swappable)
        self._known: dict[Hashable, Any] = {}

    def split(self, tensor: int, sequence_parallel: bool) -> Split:
        """Return the model split over so many GPUs; raise InputError where it cannot be."""
        return self._once(("split", tensor, sequence_parallel), lambda: self._split(tensor, sequence_parallel))

    def timed(self, choice: Choice) -> Timed:
        """Return the seconds of the pieces of a choice's model for its micro-batch."""
        layout, given = choice.layout, self.setup.given_times
        share = (choice.num_gpus, choice.batch) if given is not None and any(given) else None
        key = "timed", layout.tensor, layout.sequence_parallel, choice.micro_batch, share
        return self._once(key, lambda: self._timed(choice))

    def begins(self, choice: Choice) -> tuple[int, ...]:
        """Return the layer that each part of a choice's model begins with; raise InputError where it cannot be cut."""
        layout = choice.layout
        key = "begins", layout.tensor, layout.sequence_parallel, choice.micro_batch, layout.pipeline, layout.chunks
        kept = layout.micro_batches if layout.balance == "memory" else None
        return self._once((*key, kept), lambda: self._begins(choice))

    def load(self, choice: Choice, stage: int) -> StageLoad:
        """Return what a stage of a choice exchanges when its passes are over."""
        layout = choice.layout
        begins = self.begins(choice)
        key = "load", layout.tensor, layout.sequence_parallel, begins, layout.pipeline, stage
        return self._once(key, lambda: self._load(choice, begins, stage))

    def units(self, choice: Choice) -> list[list[float]]:
        """Return the parameters of the units of each part, whose weights are gathered together."""
        layout, begins = choice.layout, self.begins(choice)
        key = "units", layout.tensor, layout.sequence_parallel, begins
        return self._once(key, lambda: _units(self.split(layout.tensor or 1, layout.sequence_parallel), begins))

    def tensor_groups(self, tensor: int) -> tuple[Group, ...]:
        """Return the ranks of every group that splits layers."""
        return tuple(tuple(range(first, first + tensor)) for first in range(0, len(self.gpus), tensor))

    def replica_groups(self, choice: Choice, stage: int) -> tuple[Group, ...]:
        """Return the groups of ranks of a stage that have the same parameters."""
        grid = choice.grid
        each, tensor = grid.num_ranks // grid.pipeline, grid.tensor
        key = "replicas", each, tensor, stage
        return self._once(
            key,
            lambda: tuple(tuple(range(stage * each + place, (stage + 1) * each, tensor)) for place in range(tensor)),
        )

    def _once(self, key: Hashable, make: Callable[[], Found]) -> Found:
        if key not in self._known:
            self._known[key] = make()
        found: Found = self._known[key]
        return found

    def _split(self, tensor: int, sequence_parallel: bool) -> Split:
        number = PRECISIONS[self.point.precision]
        pieces = tuple(split_model(self.setup.model, tensor, number.activation_bytes, sequence_parallel))
        layers = [piece.layer for piece in pieces]
        known: dict[Hashable, int] = {}
        kinds = tuple(known.setdefault(_kind(piece), len(known)) for piece in pieces)
        return Split(pieces, tuple(block_starts(layers)), kinds)

    def _timed(self, choice: Choice) -> Timed:
        layout, micro_batch = choice.layout, choice.micro_batch
        split = self.split(layout.tensor or 1, layout.sequence_parallel)
        given = self.setup.given_times
        whole = self.setup.workload(self.kind, micro_batch)
        if given is not None and any(given):
            whole = of_a_batch(point_of(self.point, choice), whole, whole.batch, given)
        training = Training(
            whole=whole,
            optimizer=self.point.optimizer,
            library=self.point.compute.library,
            caps=bucket_caps(self.point.strategy.buckets),
            overlap=self.point.strategy.overlap,
        )
        times = piece_times(whole, split.pieces, training.library)
        groups = self.tensor_groups(layout.tensor or 1)

        def least_s(calls: Sequence[GroupCall]) -> float:
            return sum(
                self.links.collective_s(call.op, "auto", groups, call.bytes_per_sample * micro_batch) for call in calls
            )

        forward = [least_s(piece.before_forward + piece.after_forward) for piece in split.pieces]
        backward = [least_s(piece.before_backward + piece.after_backward) for piece in split.pieces]
        return Timed(
            training,
            times,
            np.array([time.forward_s for time in times]),
            np.array([time.backward_data_s for time in times]),
            np.array([time.backward_weights_s for time in times]),
            np.array(forward),
            np.array(backward),
        )

    def _load(self, choice: Choice, begins: tuple[int, ...], stage: int) -> StageLoad:
        split = self.split(choice.grid.tensor, choice.layout.sequence_parallel)
        training = self.timed(choice).training
        whole, num_stages = training.whole, choice.grid.pipeline
        own = [np.arange(*span) for span in zip(begins, (*begins[1:], len(split.pieces)), strict=True)]
        own = own[stage::num_stages]
        layers = np.concatenate([part[::-1] for part in reversed(own)])
        sizes = split.parameters[layers] * whole.gradient_bytes_per_parameter
        buckets = [
            (float(sizes[members].sum()), int(layers[members[-1]]) <= int(own[0][-1]))
            for members in assign_buckets(sizes.tolist(), training.caps)
        ]
        every = whole.model.num_parameters
        return StageLoad(
            buckets=tuple(size for size, _ in buckets),
            of_first_chunk=tuple(size for size, is_of_first in buckets if is_of_first),
            units=tuple(tuple(each) for each in self.units(choice)[stage::num_stages]),
            share=float(split.parameters[layers].sum()) / every if every else 0.0,
        )

    def _begins(self, choice: Choice) -> tuple[int, ...]:
        timed, layout = self.timed(choice), choice.layout
        split = self.split(layout.tensor or 1, layout.sequence_parallel)
        return tuple(begins_of(layout, choice.grid, timed.training, split.pieces, timed.times))


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
    return sizes, work, tuple(layer.shape.items()), calls


def _units(split: Split, begins: tuple[int, ...]) -> list[list[float]]:
    total = np.concatenate([[0.0], np.cumsum(split.parameters)])
    units = []
    for first, end in zip(begins, (*begins[1:], len(split.pieces)), strict=True):
        starts = [first, *(block for block in split.blocks if first < block < end), end]
        units.append(np.diff(total[starts]).tolist())
    return units
