"""The plans of stages that are compiled from a model in parts, and what the strategies see of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clustersim.model import LayerTime
from clustersim.model.layer import NO_HOST, HostIssue
from clustersim.parallelism.gradient_kernels import NOTHING_MOVED, Moved
from clustersim.parallelism.offload import NOTHING_AWAY, Offload
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.sharding_copies import NO_COPIES, BufferCopies
from clustersim.program import Bucket, Caps, Iteration, assign_buckets
from clustersim.program.issue import NO_ISSUE, IssueTimes, IterationIssue, PassIssue, issue_times
from clustersim.program.ops import FORWARD, Compute, Op, Pass, Program, Ready, Receive, Wait, merged

ACTIVATIONS, GRADIENTS, REPLICAS, SAMPLES = "activations", "gradients", "replicas", "samples"

FIXED = "fixed time of the iteration"
"""The name of compute that belongs to no layer."""


@dataclass(frozen=True)
class Part:
    """Consecutive layers of one stage: pieces with their seconds for one micro-batch.

    `first` is the index of the first layer in the model. `recomputes` [num_layers] says which layers repeat their
    forward pass in the backward pass, and `units` are the starts of the groups of layers whose weights are gathered
    together. `entry_bytes` is what the part receives from the stage before for one micro-batch. `kept` [num_layers + 1]
    are the bytes that its input and each layer store for the backward pass of one micro-batch, if these are offloaded.
    """

    first: int
    pieces: tuple[Piece, ...]
    times: tuple[LayerTime, ...]
    recomputes: tuple[bool, ...]
    units: tuple[int, ...]
    entry_bytes: float
    kept: tuple[float, ...] = ()

    def unit_layers(self) -> list[range]:
        """Return the layers of each unit."""
        ends = [*self.units[1:], len(self.pieces)]
        return [range(first, end) for first, end in zip(self.units, ends, strict=True)]

    def num_parameters(self, unit: range) -> float:
        """Return the number of parameters of a unit."""
        return float(sum(self.pieces[layer].layer.num_parameters for layer in unit))


@dataclass(frozen=True)
class Rules:
    """How ranks exchange gradients, weights and activations.

    Replicas: `caps` are the capacities of buckets, `gradient_bytes` and `weight_bytes` those of a parameter as it is
    reduced and gathered. `gather_overlap`: updated weights are gathered during the first forward passes. `by_tensors`:
    state is sharded in whole tensors, not in slices. `buffer_copies` are copies around the collectives of sharded
    weights, `narrow` the places of layers whose weights are gathered in 8 bits, `kernels` the seconds per parameter in
    which gradients are summed, cast, divided and read for their norm,
    `waits` the seconds per tensor in which a process waits for such kernels. Shards are all-reduced between groups in
    combinations of up to `combined_bytes`, None for one by one. `blocking_buckets`: sharded gradients are exchanged
    bucket by bucket, while nothing computes; `reduces_to_owners`: each slice of a bucket is reduced to the replica that
    updates it (`gradient_owners`). `sums_norms`: tensor parallel groups all-reduce the gradients of norms after every
    micro-batch, one by one. `skips_update`: there are no weights to gather at the end. `gathers_each_pass`: the same,
    since every forward pass gathers its own. `groups_apart`: groups that shard do not add up their gradients; each
    updates by its own, and the strategy combines their weights.

    Stages: `sent_whole`: the GPUs of a tensor parallel group all have the whole of what a stage sends, of which each
    sends its share (`in_shares`) or all. `awaited`: messages block both ranks, and with `paired` one in each direction
    is in flight at the same time. `sample_bytes` are those of the samples of a pass, None if these need not be waited
    for. `num_passes` is the number of micro-batches.

    Host: what it takes to issue collectives, messages and the update (`host`).

    Processes: `mask_s` are the seconds in which a process builds the mask of a micro-batch, `issued_s` those in which
    nothing computes while it launches a collective of a tensor parallel group.
    """

    micro_batch: int
    caps: Caps
    overlap: bool
    sharding: str | None
    gradient_bytes: float
    weight_bytes: float
    sent_whole: bool
    in_shares: bool = True
    offload: Offload = NOTHING_AWAY
    sample_bytes: float | None = None
    gather_overlap: bool = False
    by_tensors: bool = False
    buffer_copies: BufferCopies = NO_COPIES
    kernels: Moved = NOTHING_MOVED
    sums_cast: bool = False
    sums_norms: bool = False
    waits: Moved = NOTHING_MOVED
    mask_s: float = 0.0
    issued_s: float = 0.0
    num_passes: int = 1
    awaited: bool = False
    paired: bool = False
    combined_bytes: float | None = None
    blocking_buckets: bool = False
    reduces_to_owners: bool = False
    skips_update: bool = False
    gathers_each_pass: bool = False
    host: HostIssue = NO_HOST
    groups_apart: bool = False
    narrow: frozenset[int] = frozenset()


@dataclass(frozen=True)
class StagePlan:
    """The program of a stage, and the iteration that a strategy sees: buckets, and the update at its end.

    `most_gradients` is the peak number of parameters with gradients on the GPU, if these are copied to the host early.
    """

    program: Program
    iteration: Iteration
    most_gradients: float | None = None


def with_host(plan: StagePlan, host: HostIssue, num_stages: int) -> StagePlan:
    """Return the plan of a stage with what its host takes to issue collectives, messages and the update.

    The kernels of the update are divided evenly among the stages.
    """
    if host == NO_HOST:
        return plan
    iteration, update = plan.iteration, update_issue(plan.iteration.update_s, host, num_stages)
    no_cuts = np.zeros(len(iteration.cuts_s), dtype=np.int64)
    return replace(
        plan,
        program=replace(
            plan.program,
            exchange_s=host.exchange_s,
            message_s=host.message_s,
            host_awaits_messages=host.awaits_messages,
        ),
        iteration=replace(iteration, issue=IterationIssue(NO_ISSUE, no_cuts, update)),
    )


def with_fixed(plan: StagePlan, fixed_s: float) -> StagePlan:
    """Return the plan of a stage whose iteration begins with `fixed_s` seconds in which its host issues nothing."""
    if not fixed_s:
        return plan
    begins = Compute(FIXED, fixed_s, FORWARD, 0, issue=issue_times([(fixed_s, PassIssue(fixed_s))]))
    iteration = replace(plan.iteration, forward_s=plan.iteration.forward_s + fixed_s)
    return replace(plan, program=replace(plan.program, parts=(begins, *plan.program.parts)), iteration=iteration)


def update_issue(update_s: float, host: HostIssue, num_stages: int) -> IssueTimes:
    """Return the issue times of the update of a stage, which takes `update_s` seconds of kernels."""
    kernels = -(-host.update.kernels // num_stages)
    return issue_times([(update_s, PassIssue(host.update.host_s / num_stages, kernels))])


def buckets_of(completed: Sequence[tuple[int, float, str]], end: int, rules: Rules) -> tuple[list[Bucket], list[int]]:
    """Return the buckets, and the number of operations before each is ready.

    `completed` has for each gradient, in the order of completion, the number of operations before it, its parameters
    and its layer; without overlap all are ready at the `end`.
    """
    buckets, ready = [], []
    sizes = [size * rules.gradient_bytes for _, size, _ in completed]
    for members in assign_buckets(sizes, rules.caps):
        first, last = completed[members[0]], completed[members[-1]]
        name = first[2] if first is last else f"{first[2]} to {last[2]}"
        buckets.append(Bucket(name, sum(sizes[member] for member in members), 0.0, len(members)))
        ready.append(last[0] if rules.overlap else end)
    return buckets, ready


def with_merged_ops(ops: Sequence[Op | Pass]) -> tuple[Op | Pass, ...]:
    """Return the same operations with neighbours that compute for the same pass merged; passes are unchanged."""
    out: list[Op | Pass] = []
    plain: list[Op] = []
    for op in ops:
        if isinstance(op, Pass):
            out += [*merged(plain), op]
            plain = []
        else:
            plain.append(op)
    return (*out, *merged(plain))


def iteration_of(program: Program, buckets: Sequence[Bucket], update_s: float) -> Iteration:
    """Return the iteration that a strategy sees; a bucket that no operation follows is ready at the end of backward."""
    takes_time = (Compute, Receive, Wait, Pass)
    follows, is_followed = {}, False
    for op in reversed(program.parts):
        if isinstance(op, Ready):
            follows[op.bucket] = is_followed
        is_followed |= isinstance(op, takes_time)
    seconds = program.phase_s()
    forward_s = seconds.get(FORWARD, 0.0)
    backward_s = sum(seconds.values()) - forward_s
    ready_s = (0.0 if follows[number] else backward_s for number in range(len(buckets)))
    with_times = tuple(replace(bucket, ready_s=time_s) for bucket, time_s in zip(buckets, ready_s, strict=True))
    return Iteration(forward_s, backward_s, update_s, with_times)
