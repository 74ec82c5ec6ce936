"""Lower bound of the iteration time of a layout, in closed form: no simulated time is below it.

The terms are unavoidable: the compute of a stage, pass by pass; the path of each micro-batch through the stages and
back; blocking collectives with uncontended messages; and the exchange of gradients after the pass that completes them.
docs/physics/planner.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.kernels import moved_s
from clustersim.model import PRECISIONS
from clustersim.parallelism import REPLICATE_GROUP, SHARD_GROUP
from clustersim.parallelism.stages import boundary_elements
from clustersim.planner.layout_costs import LayoutCosts, PieceTimes, SplitModel
from clustersim.planner.links import Group
from clustersim.planner.pass_order import first_stage_s, pass_order, stage_passes
from clustersim.planner.space import Choice
from clustersim.program.ops import BACKWARD, FORWARD, WEIGHTS


@dataclass(frozen=True, eq=False)
class Passes:
    """Minimum times of each part for one micro-batch [num_parts]: forward, backward, weight gradients.

    `sent_s` is the time of the message into a part. `tail_s` is the maximum time of the backward pass after its last
    gradients are complete: the first layers of the part may have none.
    """

    forward_s: np.ndarray
    backward_s: np.ndarray
    weights_s: np.ndarray
    sent_s: np.ndarray
    tail_s: np.ndarray

    def seconds(self) -> dict[str, list[float]]:
        """Return the seconds of a pass through each part, by phase."""
        columns = (self.forward_s, self.backward_s, self.weights_s)
        return {phase: column.tolist() for phase, column in zip((FORWARD, BACKWARD, WEIGHTS), columns, strict=True)}

    def of_stage(self, stage: int, num_stages: int) -> np.ndarray:
        """Return the seconds of a stage's passes [3, num_chunks]."""
        own = slice(stage, None, num_stages)
        return np.array([self.forward_s[own], self.backward_s[own], self.weights_s[own]])


def min_iteration_s(costs: LayoutCosts, choice: Choice) -> float:
    """Return a lower bound of the iteration time of a choice in seconds.

    It is the maximum of two bounds. First, each stage's own passes and its exchange. Second, the finish time of the
    first stage if every pass waits for its predecessors, on its stage and of its micro-batch, without contention.
    """
    layout, grid = choice.layout, choice.grid
    timed = costs.timed(choice)
    passes = _passes(costs, choice, timed, costs.begins(choice))
    shapes = stage_passes(layout.schedule, grid.pipeline, layout.micro_batches, layout.chunks)
    exchanges = [_Exchange(costs, choice, timed, stage, passes) for stage in range(grid.pipeline)]
    seconds = [passes.of_stage(stage, grid.pipeline) for stage in range(grid.pipeline)]
    own_s = [
        exchange.end_s(float((shape.every * each).sum()), [float((part * each).sum()) for part in shape.before])
        for exchange, shape, each in zip(exchanges, shapes, seconds, strict=True)
    ]
    order = pass_order(layout.schedule, grid.pipeline, layout.micro_batches, layout.chunks)
    return max(*own_s, exchanges[0].end_s(*first_stage_s(order, passes.seconds(), passes.sent_s.tolist())))


def min_compute_s(costs: LayoutCosts, choice: Choice) -> float:
    """Return the time of a mean stage's passes in seconds: fast to compute, and at most `min_iteration_s`.

    Only choices that are good enough by this bound need the full one. Raises InputError if the model cannot be cut.
    """
    costs.check_parts(choice)
    timed, layout = costs.timed(choice), choice.layout
    key = "mean stage", timed, layout.recompute, layout.schedule == "zero-bubble"
    all_s = costs.cached(key, lambda: float(np.sum(_layer_times(choice, timed, costs.split(choice)))))
    return all_s / choice.grid.pipeline * layout.micro_batches


def mean_compute_s(costs: LayoutCosts, choice: Choice) -> float:
    """Return the compute time of a mean stage in seconds, without collectives: at most that of the busiest one."""
    timed, layout = costs.timed(choice), choice.layout

    def all_s() -> float:
        again = np.array(costs.split(choice).again[layout.recompute], dtype=float)
        return float(((1 + again) * timed.forward_s + timed.backward_data_s + timed.backward_weights_s).sum())

    return costs.cached(("mean", timed, layout.recompute), all_s) / choice.grid.pipeline * layout.micro_batches


def _layer_times(choice: Choice, timed: PieceTimes, split: SplitModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the seconds of each layer in a forward pass, a backward pass and for weight gradients [num_layers]."""
    again = np.array(split.again[choice.layout.recompute], dtype=float)
    forward_s = timed.forward_s + timed.forward_calls_s
    backward_s = timed.backward_data_s + timed.backward_calls_s + timed.backward_ring_s + again * forward_s
    if choice.layout.schedule == "zero-bubble":
        return forward_s + timed.forward_ring_s, backward_s, timed.backward_weights_s
    return forward_s + timed.forward_ring_s, backward_s + timed.backward_weights_s, np.zeros_like(forward_s)


def _passes(costs: LayoutCosts, choice: Choice, timed: PieceTimes, begins: tuple[int, ...]) -> Passes:
    layout, grid, split = choice.layout, choice.grid, costs.split(choice)
    columns = _layer_times(choice, timed, split)
    sums = [np.add.reduceat(column, np.array(begins)) for column in columns]
    puts_off = layout.schedule == "zero-bubble"
    tail_s = np.zeros(len(begins)) if puts_off else _tails(split, choice, begins, columns[1])
    sent_s, joined_s = _message_times(costs, choice, begins)
    sums[0] = sums[0] + joined_s
    sums[1] = sums[1] + np.append(joined_s[1:], 0.0)
    if layout.sharding == "zero-3" and grid.num_replicas > 1:
        _add_gathers(costs, choice, sums)
    return Passes(sums[0], sums[1], sums[2], sent_s, tail_s)


def _tails(split: SplitModel, choice: Choice, begins: tuple[int, ...], backward_s: np.ndarray) -> np.ndarray:
    """Return the backward seconds of the first layers of each part without exchanged gradients [num_parts]."""
    exchanged = split.parameters > 0
    if choice.grid.expert > 1:
        exchanged &= ~split.are_experts
    firsts = np.append(np.flatnonzero(exchanged), len(exchanged))
    ends = np.minimum(firsts[np.searchsorted(firsts, begins)], [*begins[1:], len(exchanged)])
    total_s = np.append(0.0, np.cumsum(backward_s))
    tails: np.ndarray = total_s[ends] - total_s[list(begins)]
    return tails


def _message_times(costs: LayoutCosts, choice: Choice, begins: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the time of the message into each part, and the time to gather its shares [num_parts]."""
    grid, links, layers = choice.grid, costs.links, costs.setup.model.layers
    sample_bytes = PRECISIONS[costs.point.precision].activation_bytes * choice.micro_batch
    sent_s, joined_s = np.zeros(len(begins)), np.zeros(len(begins))
    for number, first in enumerate(begins):
        if not number:
            continue
        size = boundary_elements(layers, first) * sample_bytes / grid.context
        src, dst = ((number + step) % grid.pipeline for step in (-1, 0))
        sent_s[number] = links.message_s(costs.ways(grid, src, dst), size / grid.tensor)
        if grid.tensor > 1 and not choice.layout.sequence_parallel:
            joined_s[number] = links.collective_s("all-gather", "auto", costs.groups(choice, ("tensor",)), size)
    return sent_s, joined_s


def _add_gathers(costs: LayoutCosts, choice: Choice, sums: list[np.ndarray]) -> None:
    """Raise the pass times in `sums`: a pass waits for the weights of its first unit and for all gathers."""
    bytes_each = PRECISIONS[costs.point.precision].operand_bytes
    algorithm = str(getattr(costs.strategy(choice), "algorithm", "auto"))
    for number, (shared, experts) in enumerate(costs.units(choice)):
        stage = number % choice.grid.pipeline
        groups, expert_groups = costs.exchange_groups(choice, SHARD_GROUP, stage), costs.expert_groups(choice, stage)
        shared_s = [costs.links.collective_s("all-gather", algorithm, groups, size * bytes_each) for size in shared]
        experts_s = [
            costs.links.collective_s("all-gather", algorithm, expert_groups, size * bytes_each) if size else 0.0
            for size in experts
        ]
        gather_s = [max(pair) for pair in zip(shared_s, experts_s, strict=True)]
        stream_s = max(sum(shared_s), sum(experts_s))
        sums[0][number] = max(sums[0][number] + gather_s[0], stream_s)
        sums[1][number] = max(sums[1][number] + gather_s[-1], stream_s)


class _Exchange:
    """Gradient exchange and update of a stage after its passes, and the all-gather of updated weights."""

    def __init__(self, costs: LayoutCosts, choice: Choice, timed: PieceTimes, stage: int, passes: Passes):
        self._links, self._choice, whole = costs.links, choice, timed.training.whole
        self._groups: tuple[Group, ...] = costs.exchange_groups(choice, SHARD_GROUP, stage)
        self._peers: tuple[Group, ...] = costs.exchange_groups(choice, REPLICATE_GROUP, stage)
        self._expert_groups = costs.expert_groups(choice, stage)
        self._load = costs.load(choice, stage)
        self._algorithm = str(getattr(costs.strategy(choice), "algorithm", "auto"))
        self._update_s = whole.optimizer_s * self._load.share
        self._host_s = costs.host_update_s(choice, stage)
        copies, counted = costs.copies(choice), zip(self._load.buckets, self._load.num_gradients, strict=True)
        copied_s = [moved_s(2 * size, costs.gpu, number) for size, number in counted]
        self._into_s, self._back_s = copies.into * sum(copied_s), copies.back * sum(copied_s)
        self._first_into_s = copies.into * sum(copied_s[:1])
        self._overlap, self._is_skipped = timed.training.overlap, timed.training.optimizer.skipped
        self._tail_s = float(passes.tail_s[stage])
        self._gradient_bytes = whole.gradient_bytes_per_parameter
        self._weight_bytes = PRECISIONS[whole.precision].operand_bytes

    def end_s(self, passed_s: float, starts_s: list[float]) -> float:
        """Return when a stage has new weights, if its passes end at `passed_s`.

        The gradients of chunk c become complete in a pass that starts at `starts_s[c]` at the earliest.
        """
        sharding, replicas = self._choice.layout.sharding, self._choice.grid.num_replicas
        if replicas == 1:
            return passed_s + (self._update_s if self._host_s is None else self._host_s)
        passed_s += self._into_s
        if sharding == "zero-2" and not self._overlap:
            exchanged_s = passed_s  # buckets are exchanged before compute continues
        elif sharding in ("zero-2", "zero-3"):
            exchanged_s = self._streamed_s(passed_s)
        else:
            op = "reduce-scatter" if sharding else "all-reduce"
            experts_s = min(starts_s) + self._experts_s(op, self._load.experts)
            exchanged_s = max(self._exchanged_s(op, passed_s, starts_s), passed_s, experts_s)
        if self._host_s is not None:
            return exchanged_s + self._host_s
        if sharding is None:
            return exchanged_s + self._back_s + self._update_s
        own = (1 + self._load.expert_share * (self._choice.grid.expert - 1)) / self._choice.grid.shard_group_size
        return exchanged_s + self._update_s * own + self._gathered_s()

    def _exchanged_s(self, op: str, passed_s: float, starts_s: list[float]) -> float:
        """Return when the last bucket is exchanged; buckets are exchanged one after the other."""
        buckets = self._load.buckets
        every_s = self._sharers_s(op, buckets) + min(map(self._peers_s, buckets), default=0.0)
        last_s = self._sharers_s(op, buckets[-1:]) + sum(map(self._peers_s, buckets[-1:]))
        if not self._overlap:
            return max(passed_s + last_s, passed_s - self._into_s + self._first_into_s + every_s)
        return max(
            passed_s,
            passed_s - self._tail_s + last_s,
            min(starts_s) + every_s,
            starts_s[0] + self._sharers_s(op, self._load.of_first_chunk),
        )

    def _streamed_s(self, passed_s: float) -> float:
        """Return when the gradients of all micro-batches' units are reduce-scattered, including gathers of weights."""
        units, experts = ([size for part in each for size in part if size] for each in self._load.units)
        last = [size for size in self._load.units[0][0] if size][:1]
        sizes = [size * self._gradient_bytes for size in last]
        last_s = self._sharers_s("reduce-scatter", sizes) + sum(map(self._peers_s, sizes))
        stream_s = max(self._stream_s(self._sharers_s, units), self._stream_s(self._experts_s, experts))
        tail_s = self._tail_s if last else 0.0
        return max(passed_s - tail_s + last_s, passed_s, self._choice.layout.micro_batches * stream_s)

    def _stream_s(self, all_s: Callable[[str, Sequence[float]], float], units: Sequence[float]) -> float:
        """Return the time of the gradients of units for one micro-batch, and of weights if gathered."""
        shared_s = all_s("reduce-scatter", [size * self._gradient_bytes for size in units])
        if self._choice.layout.sharding != "zero-3":
            return shared_s
        return shared_s + 2 * all_s("all-gather", [size * self._weight_bytes for size in units])

    def _gathered_s(self) -> float:
        layout = self._choice.layout
        if layout.sharding == "zero-3" or layout.gather_overlap or self._is_skipped:
            return 0.0
        share = self._weight_bytes / self._gradient_bytes
        return max(
            self._sharers_s("all-gather", [size * share for size in self._load.buckets]),
            self._experts_s("all-gather", [size * share for size in self._load.experts]),
        )

    def _sharers_s(self, op: str, sizes: Sequence[float]) -> float:
        """Return the minimum time of consecutive collectives of these sizes, of all groups of the stage."""
        return self._links.sequence_s(op, self._algorithm, self._groups, sizes)

    def _peers_s(self, num_bytes: float) -> float:
        """Return the minimum time to all-reduce shares among peers, after each group has its sum."""
        share = num_bytes / self._choice.grid.shard_group_size
        return self._links.sequence_s("all-reduce", self._algorithm, self._peers, [share])

    def _experts_s(self, op: str, sizes: Sequence[float]) -> float:
        """Return the minimum time of consecutive collectives among the groups with the same experts."""
        return self._links.sequence_s(op, self._algorithm, self._expert_groups, sizes)
