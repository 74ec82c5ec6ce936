"""The programs of a point's stages, which its ranks run in an iteration, and their graphs of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.model import PRECISIONS, Layer
from clustersim.parallelism import AXES, COLLECTIVE_AXES, REPLICAS, REPLICATE_GROUP, SHARD_GROUP, Grid
from clustersim.parallelism.plan import Part, StagePlan
from clustersim.program.graph import BUCKETS, RECEIVE, SEND, GraphTask, TaskNode, Work, tags_of, tasks_of
from clustersim.program.ops import BACKWARD, FORWARD, RECOMPUTE, WEIGHTS, Call, Compute, Copy, HostUpdate, Op, Program
from clustersim.program.plain import plain_program
from clustersim.scenario import Point, Scenario, load_scenario
from clustersim.simulate.anchoring import fit_scenario
from clustersim.simulate.setup import Setup

_AXES = (*AXES, *COLLECTIVE_AXES, SHARD_GROUP, REPLICATE_GROUP)


@dataclass(frozen=True)
class Programs:
    """The plan of each stage of a point on a grid of ranks.

    `algorithm` is that of the all-reduce of buckets. `work` returns FLOP and bytes of a compute operation, by stage.
    """

    grid: Grid
    plans: tuple[StagePlan, ...]
    algorithm: str
    work: tuple[Work, ...]
    replica_axes: tuple[str, ...] = REPLICAS

    def group(self, rank: int, axis: str) -> tuple[int, ...]:
        """Return the ranks of a rank's collectives along an axis."""
        if axis == BUCKETS:
            return self.grid.replica_group(rank, self.replica_axes)
        return self.grid.collective_group(rank, axis)

    def ops(self, stage: int) -> list[Op]:
        """Return the operations of a rank of a stage, with its update at the end."""
        plan = self.plans[stage]
        update_s = plan.iteration.update_s
        return [*plan.program.ops(), *([Compute("update", update_s, "update", 0)] if update_s else [])]

    def tasks(self) -> list[list[GraphTask]]:
        """Return the graph of each stage, from which those of its ranks are made.

        Raise InputError if a trace cannot express it.
        """
        if self.plans[0].program.staleness is not None:
            message = (
                "pipedream has no flush between iterations, and a trace is one iteration on its own; export it with "
                "another schedule"
            )
            raise InputError(message, key="parallelism.schedule", got="pipedream", allowed="a schedule with a flush")
        if any(isinstance(op, Copy | HostUpdate) for plan in self.plans for op in plan.program.distinct()):
            message = (
                "a trace has no node for the work of a host, which is copies to its memory and updates there; export "
                "it without offload"
            )
            raise InputError(message, key="parallelism.offload", allowed="none")
        calls = (op for plan in self.plans for op in plan.program.distinct() if isinstance(op, Call))
        if any(call.token_route is not None for call in calls):
            message = "a trace has no node for tokens that go through other GPUs; export it with all-to-all"
            raise InputError(message, key="parallelism.expert_exchange", allowed="all-to-all")
        tags = tags_of([plan.program for plan in self.plans])
        alone = {axis for axis in (*_AXES, BUCKETS) if len(self.group(0, axis)) == 1}
        return [
            tasks_of(plan.program, plan.iteration, self.algorithm, alone, tags, work)
            for plan, work in zip(self.plans, self.work, strict=True)
        ]

    def node(self, task: GraphTask, rank: int) -> TaskNode:
        """Return the node of a rank for a task of its stage."""
        if task.axis:
            group = self.group(rank, task.axis)
            if task.node.kind in (SEND, RECEIVE):
                step = 1 if task.node.kind == SEND else -1
                return task.node._replace(peer=group[(group.index(rank) + step) % len(group)])
            return task.node._replace(group=(*group[task.root :], *group[: task.root]), channel=task.axis)
        if task.node.peer >= 0:
            return task.node._replace(peer=self.grid.in_stage(rank, task.node.peer))
        return task.node


def one_point(scenario: str | Path | Mapping[str, Any] | Scenario, overrides: Sequence[str] = ()) -> tuple[str, Point]:
    """Return the name of a scenario and its one point, as its measured runs say; raise InputError if it has several."""
    loaded = load_scenario(scenario, overrides)
    points = loaded.points()
    if len(points) > 1:
        axes = ", ".join(dict.fromkeys(key for each in points for key in each.axes)) or "num_gpus"
        message = f"'{loaded.name}' has {len(points)} points, and a program needs one point; set {axes} (--set)"
        raise InputError(message, got=str(len(points)), allowed="1")
    if len(points[0].point.each_job()) > 1:
        raise InputError(f"'{loaded.name}' has several jobs, and a program needs one job; set jobs=1", key="jobs")
    found = fit_scenario(loaded)
    point = points[0].point
    return loaded.name, found.applied(point) if found else point


def programs_of(setup: Setup) -> Programs:
    """Return the programs of a point with the strategy all-reduce; raise InputError for others.

    Times are those of the slowest GPU, for which all wait, at a slowdown of 1. Samples are assumed to be loaded.
    """
    _check_has_programs(setup)
    point, laid_out = setup.point, setup.laid_out
    algorithm = str(getattr(point.strategy, "algorithm", "auto"))
    if laid_out is None:
        return _plain(setup, algorithm)
    element_bytes, samples = PRECISIONS[point.precision].activation_bytes, setup.reference.batch
    own = [laid_out.parts_of(stage) for stage in range(laid_out.grid.pipeline)]
    if point.parallelism.kind != "grid":  # the parts of other layouts have batches of their own
        unknown = (_unknown,) * len(laid_out.plans)
        return Programs(laid_out.grid, laid_out.plans, algorithm, unknown, laid_out.replica_axes)
    work = tuple(
        _work([_layers(part) for part in parts], samples, element_bytes, plan.program)
        for parts, plan in zip(own, laid_out.plans, strict=True)
    )
    return Programs(laid_out.grid, laid_out.plans, algorithm, work)


def _check_has_programs(setup: Setup) -> None:
    """Raise InputError if a program cannot express what the workers of a point do."""
    point = setup.point
    kind = str(getattr(point.strategy, "kind", ""))
    if not point.strategy.all_reduces_gradients:
        message = f"only the strategy all-reduce has programs (the strategy is {kind})"
        raise InputError(message, key="strategy.kind", got=kind, allowed="all-reduce")
    if not setup.wire.adds:
        compression = setup.compression.kind
        message = f"{compression} gradients are gathered and not added, and a program cannot express that"
        raise InputError(message, key="compression", got=compression, allowed="gradients that can be added")
    if point.strategy.blocks_parents:
        message = "parents of a tree wait for their children (copy_stream: default), and a program cannot express that"
        raise InputError(message, key="software.copy_stream", got="default", allowed="own")
    if any(bucket.copied_s for bucket in setup.first_plan.buckets):
        copies = str(getattr(point.strategy, "copies", ""))
        message = f"workers copy or divide gradients ({copies}), and a program cannot express that"
        raise InputError(message, key="software.bucket_copies", got=copies, allowed="pytorch, pytorch-view or none")
    if len(setup.kinds_in_use) > 1:
        kinds = ", ".join(setup.kinds_in_use)
        raise InputError(
            f"ranks have the same programs only on GPUs of one kind (got {kinds})", got=kinds, key="topology"
        )


def _plain(setup: Setup, algorithm: str) -> Programs:
    """Return the program of ranks that each have a copy of the whole model."""
    reference, plan = setup.reference, setup.first_plan
    factor = setup.slowest_of(setup.kinds_in_use[0])
    layers = [time.layer for time in reference.layers]
    program = plain_program(
        [layer.name for layer in layers],
        [time.forward_s * factor for time in reference.layers],
        [time.backward_s * factor for time in reference.layers],
        plan,
    )
    work = _work([layers], reference.batch, PRECISIONS[setup.point.precision].activation_bytes, program)
    return Programs(Grid(data=setup.point.num_gpus), (StagePlan(program, plan),), algorithm, (work,))


def _layers(part: Part) -> list[Layer]:
    return [piece.block for piece in part.pieces]


def _work(parts: Sequence[Sequence[Layer]], samples: int, element_bytes: float, program: Program) -> Work:
    """Return a function that gives FLOP and bytes of a compute operation, named after its layers (`a` or `a to b`).

    FLOP are those of the layers for `samples`; bytes are those of activations and weights that they read and write.
    """
    has_weights_apart = any(isinstance(op, Compute) and op.phase == WEIGHTS for op in program.distinct())
    places = {layer.name: (number, at) for number, part in enumerate(parts) for at, layer in enumerate(part)}

    def work(op: Compute) -> tuple[float, float]:
        """Return FLOP and bytes of a compute operation; 0 if it is not named after layers of one part."""
        ends = [places.get(name) for name in (op.name.split(" to ")[0], op.name.split(" to ")[-1])]
        if ends[0] is None or ends[1] is None or ends[0][0] != ends[1][0]:
            return 0.0, 0.0
        number, first, last = ends[0][0], *sorted((ends[0][1], ends[1][1]))
        layers = parts[number][first : last + 1]
        flop = samples * sum(_flop(layer, op.phase, has_weights_apart) for layer in layers)
        moved = sum(samples * (layer.input_elements + layer.output_elements) + layer.num_parameters for layer in layers)
        return flop, moved * element_bytes

    return work


def _unknown(op: Compute) -> tuple[float, float]:
    return 0.0, 0.0


def _flop(layer: Layer, phase: str, has_weights_apart: bool) -> float:
    """Return the FLOP of a layer for one sample in a phase."""
    by_phase: Mapping[str, float] = {
        FORWARD: layer.flop,
        RECOMPUTE: layer.flop,
        BACKWARD: layer.flop_backward_data + (0.0 if has_weights_apart else layer.flop_backward_weights),
        WEIGHTS: layer.flop_backward_weights,
    }
    return by_phase.get(phase, 0.0)
