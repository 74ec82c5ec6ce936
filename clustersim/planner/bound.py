"""The least time of an iteration of a layout, in closed form: no layout is simulated in less.

Every term is what somebody cannot help spending: what a stage computes, one pass after another; the way of each
micro-batch through the stages and back; collectives that it waits for, its own messages alone on the links; and the
exchange of gradients after the pass that completes them. docs/physics/planner.md writes them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.kernels import moved_s
from clustersim.model import PRECISIONS
from clustersim.parallelism import REPLICATE_GROUP, SHARD_GROUP
from clustersim.parallelism.stages import boundary_elements
from clustersim.planner.links import Group
from clustersim.planner.material import Material, Split, Timed
from clustersim.planner.shapes import stage_shapes
from clustersim.planner.space import Choice
from clustersim.planner.way import first_stage_s, pass_order
from clustersim.program.ops import BACKWARD, FORWARD, WEIGHTS


@dataclass(frozen=True, eq=False)
class Passes:
    """The least that each part takes for one micro-batch [num_parts]: forward, backward, gradients of its weights.

    `sent_s` is what the message takes that comes into a part, and `tail_s` what a pass backward through it takes at
    most once its last gradients are complete: layers without any come first in it.
    """

    forward_s: np.ndarray
    backward_s: np.ndarray
    weights_s: np.ndarray
    sent_s: np.ndarray
    tail_s: np.ndarray

    def seconds(self) -> dict[str, list[float]]:
        """Return the seconds of a pass through each part, by its phase."""
        columns = (self.forward_s, self.backward_s, self.weights_s)
        return {phase: column.tolist() for phase, column in zip((FORWARD, BACKWARD, WEIGHTS), columns, strict=True)}

    def of_stage(self, stage: int, num_stages: int) -> np.ndarray:
        """Return the seconds of a stage's passes [3, num_chunks]."""
        own = slice(stage, None, num_stages)
        return np.array([self.forward_s[own], self.backward_s[own], self.weights_s[own]])


def least_iteration_s(material: Material, choice: Choice) -> float:
    """Return the least time of an iteration of a choice in seconds.

    The greater of two: what each stage takes for its own passes and its exchange; and what the first stage takes where
    every pass waits for those before it, on its stage and of its micro-batch, as if all GPUs and links were its own.
    """
    layout, grid = choice.layout, choice.grid
    timed = material.timed(choice)
    passes = _passes(material, choice, timed, material.begins(choice))
    shapes = stage_shapes(layout.schedule, grid.pipeline, layout.micro_batches, layout.chunks)
    exchanges = [_Exchange(material, choice, timed, stage, passes) for stage in range(grid.pipeline)]
    seconds = [passes.of_stage(stage, grid.pipeline) for stage in range(grid.pipeline)]
    own_s = [
        exchange.end_s(float((shape.every * each).sum()), [float((part * each).sum()) for part in shape.before])
        for exchange, shape, each in zip(exchanges, shapes, seconds, strict=True)
    ]
    order = pass_order(layout.schedule, grid.pipeline, layout.micro_batches, layout.chunks)
    return max(*own_s, exchanges[0].end_s(*first_stage_s(order, passes.seconds(), passes.sent_s.tolist())))


def least_passes_s(material: Material, choice: Choice) -> float:
    """Return what the busiest stage takes at least for its own passes in seconds: quick to say, and no more than above.

    So only choices that are good enough by this need the whole bound.
    """
    grid, begins = choice.grid, np.array(material.begins(choice))
    columns = _of_layers(choice, material.timed(choice), material.split(choice))
    parts = np.add.reduceat(columns[0] + columns[1] + columns[2], begins)
    return float(parts.reshape(-1, grid.pipeline).sum(axis=0).max()) * choice.layout.micro_batches


def _of_layers(choice: Choice, timed: Timed, split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the seconds of each layer in a pass forward, backward, and for gradients of weights [num_layers]."""
    again = np.array(split.again[choice.layout.recompute], dtype=float)
    forward_s = timed.forward_s + timed.forward_calls_s
    backward_s = timed.backward_data_s + timed.backward_calls_s + timed.backward_ring_s + again * forward_s
    if choice.layout.schedule == "zero-bubble":
        return forward_s + timed.forward_ring_s, backward_s, timed.backward_weights_s
    return forward_s + timed.forward_ring_s, backward_s + timed.backward_weights_s, np.zeros_like(forward_s)


def _passes(material: Material, choice: Choice, timed: Timed, begins: tuple[int, ...]) -> Passes:
    layout, grid, split = choice.layout, choice.grid, material.split(choice)
    columns = _of_layers(choice, timed, split)
    sums = [np.add.reduceat(column, np.array(begins)) for column in columns]
    puts_off = layout.schedule == "zero-bubble"
    tail_s = np.zeros(len(begins)) if puts_off else _tails(split, choice, begins, columns[1])
    sent_s, joined_s = _handed_over(material, choice, begins)
    sums[0] = sums[0] + joined_s
    sums[1] = sums[1] + np.append(joined_s[1:], 0.0)
    if layout.sharding == "zero-3" and grid.num_replicas > 1:
        _with_gathers(material, choice, sums)
    return Passes(sums[0], sums[1], sums[2], sent_s, tail_s)


def _tails(split: Split, choice: Choice, begins: tuple[int, ...], backward_s: np.ndarray) -> np.ndarray:
    """Return the seconds backward of the first layers of each part that copies exchange no gradients of [num_parts]."""
    exchanged = split.parameters > 0
    if choice.grid.expert > 1:
        exchanged &= ~split.are_experts
    firsts = np.append(np.flatnonzero(exchanged), len(exchanged))
    ends = np.minimum(firsts[np.searchsorted(firsts, begins)], [*begins[1:], len(exchanged)])
    total_s = np.append(0.0, np.cumsum(backward_s))
    tails: np.ndarray = total_s[ends] - total_s[list(begins)]
    return tails


def _handed_over(material: Material, choice: Choice, begins: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return what the message into each part takes, and what its shares are gathered in [num_parts]."""
    grid, links, layers = choice.grid, material.links, material.setup.model.layers
    sample_bytes = PRECISIONS[material.point.precision].activation_bytes * choice.micro_batch
    sent_s, joined_s = np.zeros(len(begins)), np.zeros(len(begins))
    each = grid.num_ranks // grid.pipeline
    for number, first in enumerate(begins):
        if not number:
            continue
        size = boundary_elements(layers, first) * sample_bytes / grid.context
        src, dst = ((number + step) % grid.pipeline * each for step in (-1, 0))
        ways = tuple((src + place, dst + place) for place in range(each))
        sent_s[number] = links.message_s(ways, size / grid.tensor)
        if grid.tensor > 1 and not choice.layout.sequence_parallel:
            joined_s[number] = links.collective_s("all-gather", "auto", material.groups(choice, ("tensor",)), size)
    return sent_s, joined_s


def _with_gathers(material: Material, choice: Choice, sums: list[np.ndarray]) -> None:
    """Let each pass wait for the weights of its first unit, and for the gathering of all."""
    bytes_each = PRECISIONS[material.point.precision].operand_bytes
    algorithm = str(getattr(material.strategy(choice), "algorithm", "auto"))
    for number, (shared, experts) in enumerate(material.units(choice)):
        stage = number % choice.grid.pipeline
        groups, expert_groups = material.groups_met(choice, SHARD_GROUP, stage), material.expert_groups(choice, stage)
        shared_s = [material.links.collective_s("all-gather", algorithm, groups, size * bytes_each) for size in shared]
        experts_s = [
            material.links.collective_s("all-gather", algorithm, expert_groups, size * bytes_each) if size else 0.0
            for size in experts
        ]
        gather_s = [max(pair) for pair in zip(shared_s, experts_s, strict=True)]
        stream_s = max(sum(shared_s), sum(experts_s))
        sums[0][number] = max(sums[0][number] + gather_s[0], stream_s)
        sums[1][number] = max(sums[1][number] + gather_s[-1], stream_s)


class _Exchange:
    """What a stage does when its passes are over: gradients or their shares meet, weights are updated and given out."""

    def __init__(self, material: Material, choice: Choice, timed: Timed, stage: int, passes: Passes):
        self._links, self._choice, whole = material.links, choice, timed.training.whole
        self._groups: tuple[Group, ...] = material.groups_met(choice, SHARD_GROUP, stage)
        self._peers: tuple[Group, ...] = material.groups_met(choice, REPLICATE_GROUP, stage)
        self._expert_groups = material.expert_groups(choice, stage)
        self._load = material.load(choice, stage)
        self._algorithm = str(getattr(material.strategy(choice), "algorithm", "auto"))
        self._update_s = whole.optimizer_s * self._load.share
        self._host_s = material.host_update_s(choice, stage)
        copies, counted = material.copies(choice), zip(self._load.buckets, self._load.num_gradients, strict=True)
        copied_s = [moved_s(2 * size, material.gpu, number) for size, number in counted]
        self._into_s, self._back_s = copies.into * sum(copied_s), copies.back * sum(copied_s)
        self._first_into_s = copies.into * sum(copied_s[:1])
        self._overlap, self._is_skipped = timed.training.overlap, timed.training.optimizer.skipped
        self._tail_s = float(passes.tail_s[stage])
        self._gradient_bytes = whole.gradient_bytes_per_parameter
        self._weight_bytes = PRECISIONS[whole.precision].operand_bytes

    def end_s(self, passed_s: float, starts_s: list[float]) -> float:
        """Return when a stage has new weights that is through with its passes then, from when on it counts.

        The gradients of chunk c become complete in a pass that begins at `starts_s[c]` at the earliest.
        """
        sharding, replicas = self._choice.layout.sharding, self._choice.grid.num_replicas
        if replicas == 1:
            return passed_s + (self._update_s if self._host_s is None else self._host_s)
        passed_s += self._into_s
        if sharding == "zero-2" and not self._overlap:
            met_s = passed_s  # by the bucket, in front of what computes: as soon as that is through at the earliest
        elif sharding in ("zero-2", "zero-3"):
            met_s = self._streamed_s(passed_s)
        else:
            op = "reduce-scatter" if sharding else "all-reduce"
            apart_s = min(starts_s) + self._all_of_experts_s(op, self._load.experts)
            met_s = max(self._met_s(op, passed_s, starts_s), passed_s, apart_s)
        if self._host_s is not None:
            return met_s + self._host_s
        if sharding is None:
            return met_s + self._back_s + self._update_s
        own = (1 + self._load.expert_share * (self._choice.grid.expert - 1)) / self._choice.grid.shard_group_size
        return met_s + self._update_s * own + self._given_out_s()

    def _met_s(self, op: str, passed_s: float, starts_s: list[float]) -> float:
        """Return when the last bucket is exchanged, one after the other."""
        buckets = self._load.buckets
        every_s = self._all_s(op, buckets) + min(map(self._among_peers_s, buckets), default=0.0)
        last_s = self._all_s(op, buckets[-1:]) + sum(map(self._among_peers_s, buckets[-1:]))
        if not self._overlap:
            return max(passed_s + last_s, passed_s - self._into_s + self._first_into_s + every_s)
        return max(
            passed_s,
            passed_s - self._tail_s + last_s,
            min(starts_s) + every_s,
            starts_s[0] + self._all_s(op, self._load.of_first_chunk),
        )

    def _streamed_s(self, passed_s: float) -> float:
        """Return when the gradients of every micro-batch's units are shared out, beside gathered weights if any."""
        units, experts = ([size for part in each for size in part if size] for each in self._load.units)
        last = [size for size in self._load.units[0][0] if size][:1]
        sizes = [size * self._gradient_bytes for size in last]
        last_s = self._all_s("reduce-scatter", sizes) + sum(map(self._among_peers_s, sizes))
        stream_s = max(self._stream_s(self._all_s, units), self._stream_s(self._all_of_experts_s, experts))
        tail_s = self._tail_s if last else 0.0
        return max(passed_s - tail_s + last_s, passed_s, self._choice.layout.micro_batches * stream_s)

    def _stream_s(self, all_s: Callable[[str, Sequence[float]], float], units: Sequence[float]) -> float:
        """Return what gradients of units with so many parameters take for a micro-batch, and weights if gathered."""
        shared_s = all_s("reduce-scatter", [size * self._gradient_bytes for size in units])
        if self._choice.layout.sharding != "zero-3":
            return shared_s
        return shared_s + 2 * all_s("all-gather", [size * self._weight_bytes for size in units])

    def _given_out_s(self) -> float:
        layout = self._choice.layout
        if layout.sharding == "zero-3" or layout.gather_overlap or self._is_skipped:
            return 0.0
        share = self._weight_bytes / self._gradient_bytes
        return max(
            self._all_s("all-gather", [size * share for size in self._load.buckets]),
            self._all_of_experts_s("all-gather", [size * share for size in self._load.experts]),
        )

    def _all_s(self, op: str, sizes: Sequence[float]) -> float:
        """Return the least that collectives of these sizes take one after the other, of all groups of the stage."""
        return self._links.one_after_another_s(op, self._algorithm, self._groups, sizes)

    def _among_peers_s(self, num_bytes: float) -> float:
        """Return the least that those take who add up their shares of so many bytes, once each group has its sum."""
        share = num_bytes / self._choice.grid.shard_group_size
        return self._links.one_after_another_s("all-reduce", self._algorithm, self._peers, [share])

    def _all_of_experts_s(self, op: str, sizes: Sequence[float]) -> float:
        """Return the same of the groups that have the same experts."""
        return self._links.one_after_another_s(op, self._algorithm, self._expert_groups, sizes)
