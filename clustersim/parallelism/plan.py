"""What is compiled from a model cut into parts: the plans of stages, and what of them the strategies see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clustersim.model import LayerTime
from clustersim.parallelism.gradient_kernels import NOTHING_MOVED, Moved
from clustersim.parallelism.offload import NOTHING_AWAY, Offload
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.sharding_copies import NO_COPIES, BufferCopies
from clustersim.program import Bucket, Caps, Iteration, assign_buckets
from clustersim.program.ops import FORWARD, Compute, Op, Pass, Program, Ready, Receive, Wait, merged

ACTIVATIONS, GRADIENTS, REPLICAS, SAMPLES = "activations", "gradients", "replicas", "samples"


@dataclass(frozen=True)
class Part:
    """Layers that follow one another on one stage: pieces with their seconds for one micro-batch.

    `first` is the number of the first layer in the model, `again` [num_layers] says whose forward pass is repeated
    in backward, and `units` are where the parts of it begin whose weights are gathered together. `entry_bytes` is what
    a stage hands over to the part for one micro-batch. `kept` [num_layers + 1] are the bytes that its input and each
    layer leave for backward of one micro-batch, where these go to the host.
    """

    first: int
    pieces: tuple[Piece, ...]
    times: tuple[LayerTime, ...]
    again: tuple[bool, ...]
    units: tuple[int, ...]
    entry_bytes: float
    kept: tuple[float, ...] = ()

    def unit_layers(self) -> list[range]:
        """Return the layers of each unit."""
        ends = [*self.units[1:], len(self.pieces)]
        return [range(first, end) for first, end in zip(self.units, ends, strict=True)]

    def num_parameters(self, unit: range) -> float:
        """Return how many parameters a unit has."""
        return float(sum(self.pieces[layer].layer.num_parameters for layer in unit))


@dataclass(frozen=True)
class Rules:
    """How replicas exchange what they have: bucket caps, overlap, sharding, and bytes of a parameter's gradient.

    `weight_bytes` are those of a parameter as it is gathered; `sent_whole` says that the GPUs that split a layer have
    the whole of what a stage hands over, of which each sends its share, or all (not `in_shares`). `sample_bytes` are
    those of the samples of a pass, None where these are there. `gather_overlap` has updated weights gathered beside the
    first passes forward. `by_tensors` says that state is shared out in whole tensors, and not in slices of everything.
    `buffer_copies` is what is copied around the collectives of shared weights, `kernels` the seconds of a parameter in which
    gradients are summed, cast, divided and read for their norm, `waits` those of a tensor that a process waits for such
    kernels, `mask_s` those in which it makes the mask of a micro-batch, `issued_s` those in which nothing computes
    while it issues what GPUs that split a layer exchange, and `num_passes` how many micro-batches there are. Messages
    between stages that are `awaited` hold both ranks up, and where they are `paired` one each way is on its way at the
    same time. Shares that groups add up are joined up to `combined_bytes`, or not at all. With `blocking_buckets` gradients
    that are shared out go by the bucket, and nothing computes while one is exchanged; `reduces_to_owners` reduces each stretch
    of it to the copy that updates it (`owned_runs`). With `sums_norms` GPUs that have tokens each add up the gradients
    of norms behind every micro-batch, one by one. With `skips_update` there are no weights to gather at the end, and
    with `gathers_each_pass` none either: every pass forward gathers its own.
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


@dataclass(frozen=True)
class StagePlan:
    """The program of a stage, and the iteration that a strategy sees: buckets, and the update at its end.

    `most_gradients` is how many parameters have gradients on the GPU at once, where these leave it for the host.
    """

    program: Program
    iteration: Iteration
    most_gradients: float | None = None


def buckets_of(completed: Sequence[tuple[int, float, str]], end: int, rules: Rules) -> tuple[list[Bucket], list[int]]:
    """Return the buckets, and how many operations come before each is ready.

    `completed` has for each gradient, in the order in which they are complete, how many operations there are before that,
    its parameters and its layer; without overlap all are ready at the `end`.
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
    """Return the same operations with neighbours that compute for the same pass as one; passes stay as they are."""
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
    """Return the iteration that a strategy sees: the last bucket is its own to send where nothing follows it."""
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
