"""Compiles the programs of pipeline stages from a model that is cut into parts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from clustersim.model import Layer
from clustersim.model.tensors import num_tensors
from clustersim.parallelism.dualpipe import overlapped
from clustersim.parallelism.exchange import GradientExchange
from clustersim.parallelism.experts import EXPERT_REPLICAS
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.offload import ActivationCopies
from clustersim.parallelism.pieces import GroupCall
from clustersim.parallelism.plan import (
    ACTIVATIONS,
    GRADIENTS,
    SAMPLES,
    Part,
    Rules,
    StagePlan,
    iteration_of,
    update_issue,
    with_host,
    with_merged_ops,
)
from clustersim.parallelism.ring import in_ring, ring_ops
from clustersim.parallelism.route import Route
from clustersim.parallelism.slot import Slot, deferred_weights
from clustersim.parallelism.split import WHOLE_FEATURES
from clustersim.parallelism.tensor_overlap import overlapped_ops
from clustersim.parallelism.updates import StageUpdate
from clustersim.program.issue import NO_ISSUE, IssueTimes, PassIssue, issue_of_pass
from clustersim.program.ops import (
    BACKWARD,
    FORWARD,
    RECOMPUTE,
    UPDATE,
    WEIGHTS,
    Call,
    Compute,
    Key,
    Op,
    Pass,
    Program,
    Read,
    Receive,
    Send,
    Wait,
    merged,
)


def compile_stage(
    stage: int,
    grid: Grid,
    route: Route,
    parts: Sequence[Part],
    slots: Sequence[Slot],
    update: StageUpdate,
    rules: Rules,
) -> StagePlan:
    """Compile the program of a stage; its slots are the order of its passes of micro-batches through its chunks.

    `parts` are those of the whole model, in order; `route` says on which stages they are.
    """
    builder = _ProgramBuilder(stage, grid, route, parts, rules, update, deferred_weights(slots))
    if any(slot.phase == UPDATE for slot in slots):
        builder.staleness = -min(slot.micro_batch for slot in slots)
        last = {}
    else:
        last = {slot.chunk: number for number, slot in enumerate(slots) if slot.phase != FORWARD}
    for number, slot in enumerate(slots):
        builder.turns_around = _turns_around(slots, number)
        if slot.overlaps:
            builder.write_pair(slot, slots[number + 1])
        elif not number or not slots[number - 1].overlaps:
            builder.write(slot, is_last=last.get(slot.chunk) == number)
    if builder.staleness is None:
        plan = builder.exchange.plan(builder.ops)
    else:
        program = Program(stage, with_merged_ops(builder.ops), builder.staleness)
        plan = StagePlan(program, iteration_of(program, [], 0.0))
    return with_host(plan, rules.host, route.num_stages // route.num_copies)


def _turns_around(slots: Sequence[Slot], number: int) -> bool:
    """Return whether a slot and its neighbour are a forward pass directly followed by its own backward pass."""
    ends = slots[number : number + 2] if slots[number].phase == FORWARD else slots[max(0, number - 1) : number + 1]
    is_turn = [end.phase for end in ends] == [FORWARD, BACKWARD]
    return is_turn and (ends[0].micro_batch, ends[0].chunk) == (ends[1].micro_batch, ends[1].chunk)


@dataclass
class _ProgramBuilder:
    """Builds the program of a stage, operation by operation."""

    stage: int
    grid: Grid
    route: Route
    parts: Sequence[Part]
    rules: Rules
    update: StageUpdate
    deferred: frozenset[tuple[int, int]] = frozenset()  # micro-batches and chunks with weights in slots of their own
    staleness: int | None = None  # of weights, if each micro-batch is an update
    ops: list[Op | Pass] = field(default_factory=list)
    turns_around: bool = False  # whether the current pass is directly followed by its backward, or is that backward
    bodies: dict[Hashable, tuple[tuple[Op, ...], list[Key]]] = field(default_factory=dict)
    to_update: list[Key] = field(default_factory=list)  # collectives that the update of a micro-batch waits for
    entered_chunks: set[int] = field(default_factory=set)  # chunks with at least one slot so far
    is_first: bool = False  # whether the current pass is the first forward pass of its chunk
    activation_copies: ActivationCopies = field(init=False)  # of the current pass
    exchange: GradientExchange = field(init=False)

    def __post_init__(self) -> None:
        self.exchange = GradientExchange(self.stage, self.grid, self.parts, self.rules, self.update)

    def write(self, slot: Slot, is_last: bool) -> None:
        """Append one slot: the last one of a chunk in full, others as passes of a shared body.

        The first slot of a chunk is in full too if it waits for weights.
        """
        self.is_first = self.rules.gather_overlap and slot.chunk not in self.entered_chunks
        self.entered_chunks.add(slot.chunk)
        defers = self._defers(slot)
        if is_last or self.is_first:
            self._write_out(slot, is_last, defers)
            return
        known = (slot.phase, slot.chunk, self.turns_around, defers)
        self._append_pass(known, slot.micro_batch, lambda: self._write_out(slot._replace(micro_batch=0), False, defers))

    def write_pair(self, slot: Slot, other: Slot) -> None:
        """Append two slots that are computed in turn. Neither is the first or the last one of its chunk."""
        behind = other.micro_batch - slot.micro_batch
        known = (slot.phase, slot.chunk, other.phase, other.chunk, behind)

        def write() -> None:
            own = []
            for each, micro in ((slot, 0), (other, behind)):
                self.ops = []
                self._write_out(each._replace(micro_batch=micro), False, defers_weights=False)
                own.append([op for op in self.ops if not isinstance(op, Pass)])
            self.ops = [*overlapped(*own)]

        self.is_first = False
        self._append_pass(known, slot.micro_batch, write)

    def _defers(self, slot: Slot) -> bool:
        """Return whether the gradients of weights of a micro-batch have a slot of their own."""
        return (slot.micro_batch, slot.chunk) in self.deferred

    def _append_pass(self, known: Hashable, micro_batch: int, write: Callable[[], None]) -> None:
        """Append a pass; `write` writes its body, with micro-batch numbers relative to that of the pass."""
        if known not in self.bodies:
            self.bodies[known] = self._body(write)
        body, reductions = self.bodies[known]
        self.ops.append(Pass(body, micro_batch))
        self.exchange.reductions += [key._replace(micro_batch=key.micro_batch + micro_batch) for key in reductions]

    def _body(self, write: Callable[[], None]) -> tuple[tuple[Op, ...], list[Key]]:
        """Return the operations of a pass, and the keys of its reductions of gradients."""
        outer = self.ops, self.exchange.reductions
        self.ops, self.exchange.reductions = [], []
        write()
        body = merged([op for op in self.ops if not isinstance(op, Pass)]), self.exchange.reductions
        self.ops, self.exchange.reductions = outer
        return body

    def _write_out(self, slot: Slot, is_last: bool, defers_weights: bool) -> None:
        number = self.route.position(self.stage, slot.chunk)
        part = self.parts[self.route.part(number)]
        self.activation_copies = ActivationCopies(part.kept, part.first, slot.micro_batch, self.turns_around)
        if slot.phase == FORWARD:
            self._forward(part, number, slot.micro_batch)
        elif slot.phase == BACKWARD:
            self._backward(part, number, slot.micro_batch, is_last or self.staleness is not None, defers_weights)
            if self.staleness is not None:
                self.to_update = self.exchange.all_reduce_micro_batch(self.ops, slot.micro_batch)
        elif slot.phase == UPDATE:
            self.ops += [Wait(key._replace(micro_batch=slot.micro_batch)) for key in self.to_update]
            seconds = self.update.seconds
            issue = update_issue(seconds, self.rules.host, self.grid.pipeline)
            self.ops.append(Compute(UPDATE, seconds, UPDATE, slot.micro_batch, issue=issue))
        else:
            self._weights(part, slot.micro_batch, is_last)

    def _forward(self, part: Part, number: int, micro: int) -> None:
        self._read(number, micro)
        self._receive(ACTIVATIONS, number, self.route.previous(number), micro)
        if None in (self.route.previous(number), self.route.next(number)):
            self._compute("mask", self.rules.mask_s, phase=FORWARD, micro=micro)
        self.ops += self.activation_copies.copy_out(0)
        for unit in self._units_with_weights(part, micro, FORWARD):
            self._layers_forward(part, unit, FORWARD, micro)
        self._send(ACTIVATIONS, number, self.route.next(number), micro)

    def _read(self, number: int, micro: int) -> None:
        """Read the samples of a pass: the first rank of a tensor parallel group reads and broadcasts them.

        That is how Megatron-LM does it (`broadcast_data` in megatron/core/tensor_parallel/data.py).
        """
        if self.route.previous(number) is not None or self.rules.sample_bytes is None:
            return
        key = Key(SAMPLES, micro, 0)
        self.ops.append(Read(key))
        if self.grid.tensor > 1:
            self.ops += [Call(key, "broadcast", "tensor", self.rules.sample_bytes), Wait(key)]

    def _layers_forward(self, part: Part, layers: Sequence[int], phase: str, micro: int) -> None:
        for is_ring, own in groupby(layers, lambda layer: in_ring(part.pieces[layer])):
            own_layers = list(own)
            if is_ring:
                self._ring(part, own_layers, phase, micro)
            for layer in own_layers:
                if not is_ring:
                    if self.is_first:
                        self.exchange.needs_weights(self.ops, part, layer)
                    self._layer_forward(part, layer, phase, micro)
                if phase == FORWARD:
                    self.ops += self.activation_copies.copy_out(layer + 1)

    def _layers_backward(
        self, part: Part, layers: Sequence[int], micro: int, is_last: bool, defers_weights: bool
    ) -> None:
        for is_ring, own in groupby(reversed(layers), lambda layer: in_ring(part.pieces[layer])):
            if is_ring:
                layers_of_ring = list(own)[::-1]
                self.ops += self.activation_copies.fetch(layers_of_ring[0])
                self._ring(part, layers_of_ring, BACKWARD, micro)
                continue
            for layer in own:
                self.ops += self.activation_copies.fetch(layer)
                self._layer_backward(part, layer, micro, defers_weights)
                if not defers_weights:
                    self._accumulate(part, layer, BACKWARD, micro)
                    self.exchange.gradient_complete(self.ops, part, layer, is_last)

    def _layer_forward(self, part: Part, layer: int, phase: str, micro: int) -> None:
        piece, time, place = part.pieces[layer], part.times[layer], part.first + layer
        if piece.num_ring_steps > 1:
            self.ops += overlapped_ops(piece, time, phase, micro, place, self.rules.micro_batch)
            return
        self._calls(piece.before_forward, "before", phase, micro, place)
        issue = issue_of_pass(time.forward_s, time.forward_issue)
        self._compute(time.layer.name, time.forward_s, phase, micro, issue)
        self._calls(piece.after_forward, "after", phase, micro, place)

    def _layer_backward(self, part: Part, layer: int, micro: int, defers_weights: bool) -> None:
        piece, time, place = part.pieces[layer], part.times[layer], part.first + layer
        if piece.num_ring_steps > 1:
            self.ops += overlapped_ops(piece, time, BACKWARD, micro, place, self.rules.micro_batch, defers_weights)
            return
        self._calls(piece.before_backward, "before", BACKWARD, micro, place)
        seconds = time.backward_data_s if defers_weights else time.backward_s
        issues = (time.backward_data_issue, time.backward_weights_issue)[: 1 if defers_weights else 2]
        self._compute(time.layer.name, seconds, BACKWARD, micro, issue_of_pass(seconds, *issues))
        self._calls(piece.after_backward, "after", BACKWARD, micro, place)

    def _ring(self, part: Part, layers: Sequence[int], phase: str, micro: int) -> None:
        """Compute an attention, whose layers are consecutive, with ring attention."""
        pieces, times = [part.pieces[layer] for layer in layers], [part.times[layer] for layer in layers]
        self.ops += ring_ops(pieces, times, phase, micro, part.first + layers[0], self.rules.micro_batch)

    def _backward(self, part: Part, number: int, micro: int, is_last: bool, defers_weights: bool) -> None:
        self.ops += self.activation_copies.prefetch()
        self._receive(GRADIENTS, number, self.route.next(number), micro)
        for unit in self._units_with_weights(part, micro, BACKWARD):
            if any(part.recomputes[layer] for layer in unit):
                self.ops += self.activation_copies.fetch(unit.start)
            self._layers_forward(part, [layer for layer in unit if part.recomputes[layer]], RECOMPUTE, micro)
            self._layers_backward(part, unit, micro, is_last, defers_weights)
            if not defers_weights:
                self._reduce_scatter_unit(part, unit, BACKWARD, micro, is_last)
        self.exchange.flush_bucket(self.ops, micro)
        self._send(GRADIENTS, number, self.route.previous(number), micro)

    def _weights(self, part: Part, micro: int, is_last: bool) -> None:
        for unit in reversed(part.unit_layers()):
            for layer in reversed(unit):
                time = part.times[layer]
                issue = issue_of_pass(time.backward_weights_s, time.backward_weights_issue)
                self._compute(time.layer.name, time.backward_weights_s, WEIGHTS, micro, issue)
                self._accumulate(part, layer, WEIGHTS, micro)
                self.exchange.gradient_complete(self.ops, part, layer, is_last)
            self._reduce_scatter_unit(part, unit, WEIGHTS, micro, is_last)
        self.exchange.flush_bucket(self.ops, micro)

    def _accumulate(self, part: Part, layer: int, phase: str, micro: int) -> None:
        """Add the gradients of a layer to those of other micro-batches, if separate kernels do so."""
        rules, own = self.rules, part.pieces[layer].layer
        moved_s = own.num_parameters * rules.kernels.of_micro_batch(rules.num_passes)
        each_s = rules.waits.of_micro_batch(rules.num_passes)
        waited_s = num_tensors(own) * each_s if each_s else 0.0
        if rules.sums_norms and own.op in WHOLE_FEATURES:
            self._all_reduce_norm(own, part.first + layer, micro)
        self._compute("sums of gradients", moved_s + waited_s, phase, micro)

    def _all_reduce_norm(self, norm: Layer, place: int, micro: int) -> None:
        """All-reduce the gradient of each parameter of a norm, of which every GPU of the group had some tokens."""
        tensors = num_tensors(norm)
        for number in range(tensors):
            key = Key(f"norm's gradient {number}", micro, place)
            num_bytes = norm.num_parameters / tensors * self.rules.weight_bytes
            self.ops += [Call(key, "all-reduce", "tensor", num_bytes), Wait(key)]

    def _reduce_scatter_unit(self, part: Part, unit: range, phase: str, micro: int, is_last: bool) -> None:
        """Copy the gradients of a unit into one buffer, if the code does so, and reduce-scatter them."""
        self._compute("gradients", part.num_parameters(unit) * self.rules.buffer_copies.reduced_s, phase, micro)
        self.exchange.reduce_scatter_unit(self.ops, part, unit, micro, is_last)

    def _units_with_weights(self, part: Part, micro: int, phase: str) -> Iterator[range]:
        """Yield the units of a part in order; if weights are sharded, gather those of the next unit during each.

        If communication does not overlap with compute, all are gathered first.
        """
        units = part.unit_layers()
        units = units if phase == FORWARD else units[::-1]
        is_gathered = self.rules.sharding == "zero-3" or (self.rules.gathers_each_pass and phase == FORWARD)
        if not is_gathered or self.grid.shard_group_size == 1:
            yield from units
            return
        if self.rules.blocking_buckets:
            calls = list(self._weight_gathers(part, range(len(part.pieces)), micro, phase))
            self.ops += [*calls, *(Wait(call.key) for call in calls)]
            yield from units
            return
        gathers = [list(self._weight_gathers(part, unit, micro, phase)) for unit in units]
        for number, unit in enumerate(units):
            for ahead in (number, number + 1) if not number else (number + 1,):
                if ahead < len(units):
                    self.ops += gathers[ahead]
            self.ops += [Wait(call.key) for call in gathers[number]]
            copied_s = part.num_parameters(unit) * self.rules.buffer_copies.gathered_s
            issue = issue_of_pass(copied_s, PassIssue(self.rules.host.unit_s, 1))
            self._compute("gathered weights", copied_s, phase, micro, issue)
            yield unit

    def _weight_gathers(self, part: Part, unit: range, micro: int, phase: str) -> Iterator[Call]:
        """Yield the all-gathers of a unit's weights; those of experts are among the GPUs with the same experts."""
        frozen = self.exchange.frozen_bytes(part, unit)
        for axis, whole in self.exchange.replicated(part, unit):
            what = f"weights of experts {phase}" if axis == EXPERT_REPLICAS else f"weights {phase}"
            num_bytes = whole * self.rules.weight_bytes + frozen.pop(axis, 0.0)
            if axis != EXPERT_REPLICAS:
                num_bytes -= self._narrow_parameters(part, unit) * (self.rules.weight_bytes - 1)
            yield Call(Key(what, micro, part.first + unit.start), "all-gather", axis, num_bytes)
        for axis, num_bytes in frozen.items():
            key = Key(f"frozen weights of experts {phase}", micro, part.first + unit.start)
            yield Call(key, "all-gather", axis, num_bytes)

    def _narrow_parameters(self, part: Part, unit: range) -> int:
        """Return the parameters of a unit that are gathered in 8 bits."""
        narrow = self.rules.narrow
        return sum(part.pieces[layer].layer.num_parameters for layer in unit if narrow and part.first + layer in narrow)

    def _compute(self, name: str, seconds: float, phase: str, micro: int, issue: IssueTimes = NO_ISSUE) -> None:
        if seconds or issue.host_s:
            self.ops.append(Compute(name, seconds, phase, micro, issue=issue))

    def _calls(self, calls: Sequence[GroupCall], when: str, phase: str, micro: int, layer: int) -> None:
        """Enter collectives of a tensor parallel group, and wait for each of them."""
        for number, call in enumerate(calls):
            key = Key(f"{call.op} {number} {when} {phase}", micro, layer)
            self._compute("collectives issued", self.rules.issued_s, phase, micro)
            size = call.bytes_per_sample * self.rules.micro_batch
            self.ops += [Call(key, call.op, call.axis, size, token_route=call.token_route), Wait(key)]

    def _send(self, what: str, number: int, to: int | None, micro: int) -> None:
        if to is not None and not self._is_here(to):
            size, rules = self._message_bytes(number, to) / self._shares, self.rules
            self.ops.append(Send(Key(what, micro, to), self.route.stage(to), size, rules.awaited, rules.paired))

    def _receive(self, what: str, number: int, source: int | None, micro: int) -> None:
        if source is None or self._is_here(source):
            return
        size, key = self._message_bytes(number, source), Key(what, micro, number)
        self.ops.append(Receive(key, self.route.stage(source), size / self._shares, self.rules.awaited))
        if self._shares > 1 and self.rules.sent_whole:
            joined = Key(f"{what} joined", micro, number)
            self.ops += [Call(joined, "all-gather", "tensor", size), Wait(joined)]

    def _is_here(self, number: int) -> bool:
        """Return whether a neighbouring position is on this stage too, where a micro-batch turns back."""
        return self.route.kind == "there-and-back" and self.route.stage(number) == self.stage

    def _message_bytes(self, number: int, other: int) -> float:
        """Return the bytes between two neighbouring positions: what the later one reads."""
        return self.parts[self.route.part(max(number, other))].entry_bytes

    @property
    def _shares(self) -> int:
        """Number of shares in which stages exchange activations: one per GPU of the group, or 1 if each sends all."""
        return self.grid.tensor if self.rules.in_shares else 1
