"""What replicas of a stage do with gradients as these become complete, and with weights after the last pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clustersim.parallelism.all_reduce_combiner import AllReduceCombiner, Share
from clustersim.parallelism.experts import EXPERT_REPLICAS, is_expert_parallel, updated_share
from clustersim.parallelism.gradient_owners import OwnedSlice, merge_slices, slices_by_place
from clustersim.parallelism.grid import REPLICATE_GROUP, SHARD_GROUP, Grid
from clustersim.parallelism.offload import HostUpdates
from clustersim.parallelism.plan import (
    REPLICAS,
    Part,
    Rules,
    StagePlan,
    buckets_of,
    iteration_of,
    update_issue,
    with_merged_ops,
)
from clustersim.parallelism.tensor_owners import assign_owners, largest_share
from clustersim.parallelism.updates import StageUpdate
from clustersim.program import Bucket, assign_buckets
from clustersim.program.ops import BACKWARD, UPDATE, Call, Compute, Key, Op, Pass, Program, Ready, Wait


@dataclass
class GradientExchange:
    """Tracks the gradients of a stage, and appends reductions, the update and gathers of weights to its program.

    `ops` in the methods below is the program so far.
    """

    stage: int
    grid: Grid
    parts: Sequence[Part]
    rules: Rules
    update: StageUpdate
    completed: list[tuple[int, float, str]] = field(default_factory=list)  # operations before, parameters, layer
    places: list[int] = field(default_factory=list)  # in the model, of the layers of `completed`
    first_uses: list[tuple[int, int]] = field(default_factory=list)  # operations before a layer, and its place
    reductions: list[Key] = field(default_factory=list)
    open_bucket: list[tuple[int, float]] = field(default_factory=list)  # place, parameters of each layer
    expert_layers: list[tuple[int, float]] = field(default_factory=list)  # layer, parameters: of sharded weights
    owned_slices: dict[int, list[OwnedSlice]] = field(default_factory=dict)  # slices of each layer by its place
    host: HostUpdates = field(init=False)
    combiner: AllReduceCombiner = field(init=False)

    def __post_init__(self) -> None:
        self.combiner = AllReduceCombiner(self.rules.combined_bytes)
        self.host = HostUpdates(self.rules.offload, self.rules.gradient_bytes, self.rules.weight_bytes)

    @property
    def axis(self) -> str:
        """The axis along which replicas shard."""
        return REPLICAS if self.grid.shared_over is None else SHARD_GROUP

    def gradient_complete(self, ops: list[Op | Pass], part: Part, layer: int, is_last: bool) -> None:
        """Record that the gradients of a layer are complete, if this is the last micro-batch."""
        piece = part.pieces[layer]
        if is_last and is_expert_parallel(piece, self.grid):
            self._exchange_experts(ops, float(piece.layer.num_parameters), part.first + layer)
        elif is_last and piece.layer.num_parameters:
            self.completed.append((len(ops), float(piece.layer.num_parameters), piece.layer.name))
            self.places.append(part.first + layer)

    def needs_weights(self, ops: list[Op | Pass], part: Part, layer: int) -> None:
        """Record that the next layer has to wait for its weights, if it has any."""
        if part.pieces[layer].layer.num_parameters:
            self.first_uses.append((len(ops), part.first + layer))

    def _exchange_experts(self, ops: list[Op | Pass], num_parameters: float, layer: int) -> None:
        """Reduce the gradients of experts among the GPUs with the same experts, if they are not part of a unit's."""
        key = None
        if self.grid.num_expert_replicas > 1:
            if self.rules.sharding in ("zero-1", "zero-2"):
                self.expert_layers.append((layer, num_parameters))
            if self.rules.sharding in (None, "zero-1"):
                key = Key("gradients of experts", 0, layer)
                op = "all-reduce" if self.rules.sharding is None else "reduce-scatter"
                ops.append(Call(key, op, EXPERT_REPLICAS, num_parameters * self.rules.gradient_bytes))
                self.reductions.append(key)
        if self.rules.offload.optimizer:
            ops += self.host.copy_out(num_parameters, num_parameters, key)

    def reduce_scatter_unit(self, ops: list[Op | Pass], part: Part, unit: range, micro: int, is_last: bool) -> None:
        """Reduce-scatter the gradients of a unit, if gradients are sharded.

        This is done for every micro-batch; after the last one the result may be copied to the host.
        """
        num, whole, key = self.grid.num_replicas, part.num_parameters(unit), None
        if self.rules.sharding not in ("zero-2", "zero-3") or not whole:
            return
        if self.rules.blocking_buckets:
            self._fill_bucket(ops, part, unit, micro)
            return
        for axis, num_parameters in self.replicated(part, unit):
            what = "shares of experts' gradients" if axis == EXPERT_REPLICAS else "shares of gradients"
            key, size = Key(what, micro, part.first + unit.start), num_parameters * self.rules.gradient_bytes
            joins = is_last and axis == SHARD_GROUP and self.rules.combined_bytes is not None
            ops += self._reduction(key, axis, size, is_last and not joins)
            if joins:
                self._add_to_combiner(ops, key, size / self.grid.shard_group_size, part.pieces[unit.start].layer.name)
        if is_last and self.rules.offload.optimizer:
            ops += self.host.copy_out(whole / num, whole, key)

    def _fill_bucket(self, ops: list[Op | Pass], part: Part, unit: range, micro: int) -> None:
        """Add the gradients of a unit to the open bucket; exchange the bucket first if they do not fit."""
        cap = self.rules.caps[-1] if isinstance(self.rules.caps, tuple) else None
        for layer in reversed(unit):
            size = float(part.pieces[layer].layer.num_parameters)
            held = sum(each for _, each in self.open_bucket)
            if cap is not None and held and (held + size) * self.rules.gradient_bytes > cap:
                self.flush_bucket(ops, micro)
            if size:
                self.open_bucket.append((part.first + layer, size))

    def flush_bucket(self, ops: list[Op | Pass], micro: int) -> None:
        """Exchange the open bucket; compute waits for it (DeepSpeed without `overlap_comm`)."""
        if not self.open_bucket or self.grid.num_replicas == 1:
            self.open_bucket = []
            return
        num = sum(each for _, each in self.open_bucket)
        places = [place for place, _ in self.open_bucket]
        key = Key("shares of gradients", micro, places[-1])
        self.open_bucket = []
        capacity = self.rules.caps[-1] / self.rules.gradient_bytes if isinstance(self.rules.caps, tuple) else num
        seconds = self.rules.kernels.before * num + self.rules.kernels.capacity * max(capacity, num)
        if seconds:
            ops.append(Compute("gradients", seconds, BACKWARD, micro))
        if self.rules.reduces_to_owners:
            calls = list(self._to_owners(key, places))
        else:
            op, axis = ("all-reduce", REPLICAS) if self.rules.sums_cast else ("reduce-scatter", self.axis)
            calls = [Call(key, op, axis, num * self.rules.gradient_bytes)]
        ops += [*calls, *(Wait(call.key) for call in calls)]

    def _to_owners(self, key: Key, places: Sequence[int]) -> Iterator[Call]:
        """Reduce each slice of a bucket, whose layers have these places, to the replica that updates it."""
        self.owned_slices = self.owned_slices or slices_by_place(self.parts, self.grid.num_replicas)
        for number, run in enumerate(merge_slices(self.owned_slices[place] for place in places)):
            part = key._replace(what=f"{key.what}, part {number}")
            yield Call(part, "reduce", REPLICAS, run.num_parameters * self.rules.gradient_bytes, root=run.owner)

    def _add_to_combiner(self, ops: list[Op | Pass], key: Key, num_bytes: float, name: str) -> None:
        """Record that a shard is complete, to be all-reduced among its replicas together with others."""
        scattered = key if self.grid.shard_group_size > 1 else None
        self.combiner.shares.append(Share(len(ops), scattered, num_bytes, key.place, name))

    def _reduction(self, key: Key, axis: str, num_bytes: float, is_last: bool = True) -> list[Op]:
        """Return the operations that reduce gradients: each rank along an axis gets its shard of the sum.

        If replicas shard in several groups, each group has its own sum. Replicas that have the same shard all-reduce it
        after the last micro-batch (`allreduce_mics_shard_grads` in deepspeed/runtime/zero/mics.py).
        """
        ops: list[Op] = []
        if self.grid.shard_group_size > 1 or axis == EXPERT_REPLICAS:
            ops.append(Call(key, "reduce-scatter", axis, num_bytes))
        if axis == SHARD_GROUP and is_last and not self.rules.groups_apart:
            scattered = key if ops else None
            key = key._replace(what=f"{key.what} of all groups")
            ops.append(
                Call(key, "all-reduce", REPLICATE_GROUP, num_bytes / self.grid.shard_group_size, after=scattered)
            )
        if ops:
            self.reductions.append(key)
        return ops

    def replicated(self, part: Part, unit: range) -> Iterator[tuple[str, float]]:
        """Yield the axes along which a unit is replicated, with its parameters along each: experts have fewer."""
        expert_parameters = sum(
            part.pieces[layer].layer.num_parameters
            for layer in unit
            if is_expert_parallel(part.pieces[layer], self.grid)
        )
        if self.grid.num_replicas > 1:
            yield self.axis, part.num_parameters(unit) - expert_parameters
        if expert_parameters and self.grid.num_expert_replicas > 1:
            yield EXPERT_REPLICAS, float(expert_parameters)

    def frozen_bytes(self, part: Part, unit: range) -> dict[str, float]:
        """Return the bytes of a unit's frozen weights that are gathered, by the axis along which they are sharded."""
        found: dict[str, float] = {}
        for layer in unit:
            piece = part.pieces[layer]
            if piece.layer.frozen_bytes:
                axis = EXPERT_REPLICAS if is_expert_parallel(piece, self.grid) else self.axis
                found[axis] = found.get(axis, 0.0) + piece.layer.frozen_bytes
        has_replicas = self.grid.num_expert_replicas > 1
        return {axis: size for axis, size in found.items() if axis == self.axis or has_replicas}

    def all_reduce_micro_batch(self, ops: list[Op | Pass], micro: int) -> list[Key]:
        """All-reduce the gradients of one micro-batch, bucket by bucket; return the keys that the update waits for."""
        if self.grid.num_replicas > 1:
            buckets, ready = buckets_of(self.completed, len(ops), self.rules)
            for number in reversed(range(len(buckets))):
                key = Key("gradients of replicas", micro, number)
                ops.insert(ready[number], Call(key, "all-reduce", REPLICAS, buckets[number].num_bytes))
                self.reductions.append(key)
        awaited, self.reductions, self.completed = self.reductions, [], []
        return awaited

    def plan(self, ops: list[Op | Pass]) -> StagePlan:
        """Return the program, with buckets where their last gradients are complete, or with what sharding adds."""
        completed = self.completed if self.rules.sharding != "zero-3" else []
        buckets, ready = buckets_of(completed, len(ops), self.rules)
        if self.rules.offload.optimizer:
            return self._offloaded(ops, buckets, ready)
        if self.rules.sharding is not None:
            return self._sharded(ops, buckets, ready)
        for number in reversed(range(len(buckets))):
            ops[ready[number] : ready[number]] = [*self._kernels_before(buckets[number]), Ready(number)]
        ops += [Wait(key) for key in self.reductions]
        program = Program(self.stage, with_merged_ops(ops))
        return StagePlan(program, iteration_of(program, buckets, self.update.seconds + self._kernels_after_s(1.0)))

    def _sharded(self, ops: list[Op | Pass], buckets: list[Bucket], ready: list[int]) -> StagePlan:
        """Return the program if replicas shard: reductions, update of the own shard, gathers of the weights."""
        rules, replicas = self.rules, self.grid.num_replicas
        if replicas > 1 and rules.sharding == "zero-1":
            for number in reversed(range(len(buckets))):
                key, size = Key("shares of gradients", 0, number), buckets[number].num_bytes
                if rules.sums_cast:
                    size *= rules.weight_bytes / rules.gradient_bytes
                sums_whole = rules.by_tensors or rules.sums_cast
                summed = self._all_reduce(key, size) if sums_whole else self._reduction(key, self.axis, size)
                ops[ready[number] : ready[number]] = [*self._kernels_before(buckets[number]), *summed]
        ops += [Wait(key) for key in [*self.reductions, *self.combiner.insert_into(ops)]]
        share = self._updated_share()
        sends = not rules.by_tensors and not rules.skips_update
        ops += _awaited(self.update.gathers(rules.sharding, self.axis) if sends else ())
        ops.append(self._update(self.update.shared_s(share) + self._kernels_after_s(share)))
        ops += _awaited(self.update.returns(rules.sharding, self.axis) if sends else ())
        is_gathered = rules.sharding == "zero-3" or rules.gathers_each_pass
        if not is_gathered and self.grid.shard_group_size > 1 and not rules.skips_update:
            call_of = self._broadcasts() if rules.by_tensors else self._gathers(buckets)
            if rules.gather_overlap:
                self._overlap_gathers(ops, call_of)
            else:
                calls = dict.fromkeys(call_of.values())
                ops += [*calls, *(Wait(call.key) for call in calls)]
        combined = self._shares_apart(ops) if rules.groups_apart else []
        program = Program(self.stage, with_merged_ops(ops))
        return StagePlan(program, iteration_of(program, combined, 0.0))

    def _shares_apart(self, ops: list[Op | Pass]) -> list[Bucket]:
        """Return this rank's share of the weights as a bucket, which the strategy combines with those of other groups.

        It is ready at the end of the program.
        """
        num = sum(size for _, size, _ in self.completed) / self.grid.shard_group_size
        ops.append(Ready(0))
        return [Bucket("weights", num * self.rules.gradient_bytes, 0.0, len(self.completed))]

    def _update(self, seconds: float) -> Compute:
        """Return the update by the optimizer, and the kernels before and after it."""
        return Compute(UPDATE, seconds, UPDATE, 0, issue=update_issue(seconds, self.rules.host, self.grid.pipeline))

    def _kernels_before(self, bucket: Bucket) -> list[Op]:
        """Return the kernels that process the gradients of a bucket before their exchange."""
        seconds = self.rules.kernels.before * bucket.num_bytes / self.rules.gradient_bytes
        return [Compute("gradients", seconds, BACKWARD, self.rules.num_passes - 1)] if seconds else []

    def _kernels_after_s(self, share: float) -> float:
        """Return the seconds of kernels after the exchange: for all gradients, and for the share that is updated."""
        kernels = self.rules.kernels
        return sum(size for _, size, _ in self.completed) * (kernels.after + share * kernels.share)

    def _all_reduce(self, key: Key, num_bytes: float) -> list[Op]:
        """Return the all-reduce of some gradients over all replicas."""
        self.reductions.append(key)
        return [Call(key, "all-reduce", REPLICAS, num_bytes)]

    def _updated_share(self) -> float:
        """Return the fraction of a stage's parameters that one rank updates; with whole tensors the largest one."""
        if self.rules.by_tensors:
            return largest_share(
                [size for _, size in self._parameters_by_place], self.grid.shard_group_size, self.rules.gather_overlap
            )
        return updated_share([piece for part in self.parts for piece in part.pieces], self.grid)

    def _gathers(self, buckets: Sequence[Bucket]) -> dict[int, Call]:
        """Return, by a layer's place in the model, the all-gather that brings its weights."""
        rules = self.rules
        share = rules.weight_bytes / rules.gradient_bytes
        gathers = [
            Call(Key("weights", 0, number), "all-gather", self.axis, bucket.num_bytes * share)
            for number, bucket in enumerate(buckets)
        ]
        members = assign_buckets([size * rules.gradient_bytes for _, size, _ in self.completed], rules.caps)
        call_of = {self.places[each]: gathers[number] for number, own in enumerate(members) for each in own}
        for layer, whole in self.expert_layers:
            key = Key("weights of experts", 0, layer)
            call_of[layer] = Call(key, "all-gather", EXPERT_REPLICAS, whole * rules.weight_bytes)
        return call_of

    def _broadcasts(self) -> dict[int, Call]:
        """Return, by a layer's place, the broadcast that brings its weights from the rank that has updated them.

        Ranks broadcast one after the other, each all of its tensors at once.
        """
        owners = assign_owners(
            [size for _, size in self._parameters_by_place], self.grid.shard_group_size, self.rules.gather_overlap
        )
        by_owner = sorted(zip(owners, self._parameters_by_place, strict=True))
        num_bytes: dict[int, float] = {}
        for owner, (_, size) in by_owner:
            num_bytes[owner] = num_bytes.get(owner, 0.0) + size * self.rules.weight_bytes
        calls = {
            owner: Call(Key("weights", 0, owner), "broadcast", self.axis, size, root=owner)
            for owner, size in num_bytes.items()
        }
        return {place: calls[owner] for owner, (place, _) in by_owner}

    @property
    def _parameters_by_place(self) -> list[tuple[int, float]]:
        """Place in the model and number of parameters of each layer that has any, in the model's order."""
        return sorted(zip(self.places, (size for _, size, _ in self.completed), strict=True))

    def _overlap_gathers(self, ops: list[Op | Pass], call_of: Mapping[int, Call]) -> None:
        """Make each layer of the first forward passes wait for its weights, while those of later layers are gathered.

        So an iteration begins with gathers of the weights that the iteration before has updated, in the order of the
        layers.
        """
        firsts: dict[Call, int] = {}  # operations before the first layer that waits for it
        for at, place in self.first_uses:
            if place in call_of:
                firsts.setdefault(call_of[place], at)
        for call, at in reversed(firsts.items()):
            ops.insert(at, Wait(call.key))
        ops[:0] = firsts

    def _offloaded(self, ops: list[Op | Pass], buckets: list[Bucket], ready: list[int]) -> StagePlan:
        """Return the program if the host updates this rank's share of the reduced gradients and returns weights."""
        rules, num, num_before = self.rules, self.grid.num_replicas, len(self.host.pieces)
        is_sharded = rules.sharding in ("zero-2", "zero-3")
        what, op = ("shares of gradients", "reduce-scatter") if rules.sharding else ("gradients", "all-reduce")
        copied_out: list[list[Op]] = []
        for number, bucket in enumerate([] if is_sharded else buckets):
            key, whole = Key(f"{what} of replicas", 0, number), bucket.num_bytes / rules.gradient_bytes
            share = whole / num if rules.sharding else whole
            copies = self.host.copy_out(
                share, whole, key if num > 1 else None, is_first=len(self.host.pieces) == num_before
            )
            copied_out.append([*([Call(key, op, REPLICAS, bucket.num_bytes)] if num > 1 else []), *copies])
        for own, at in zip(reversed(copied_out), reversed(ready[: len(copied_out)]), strict=True):
            ops[at:at] = own
        ops += [Wait(key) for key in self.reductions]
        gathers = REPLICAS if num > 1 and rules.sharding in ("zero-1", "zero-2") else None
        ops += self.host.update(gathers)
        program = Program(self.stage, with_merged_ops(ops))
        return StagePlan(program, iteration_of(program, [], 0.0), self.host.most_parameters(is_sharded))


def _awaited(calls: Iterable[Call]) -> list[Op]:
    """Return collectives, and waits for all of them behind the last."""
    found = list(calls)
    return [*found, *(Wait(call.key) for call in found)]
