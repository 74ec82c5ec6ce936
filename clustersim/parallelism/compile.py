"""From a model cut into parts to the programs of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from clustersim.parallelism.experts import OP
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.pieces import GroupCall, Piece
from clustersim.parallelism.ring import in_ring, ring_ops
from clustersim.parallelism.schedules import Slot
from clustersim.program import Bucket, Iteration, assign_buckets
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
    Ready,
    Receive,
    Send,
    Wait,
    merged,
)
from clustersim.workload import LayerTime

ACTIVATIONS, GRADIENTS, REPLICAS = "activations", "gradients", "replicas"


@dataclass(frozen=True)
class Part:
    """Layers that follow one another on one stage: pieces with their seconds for one micro-batch.

    `first` is the number of the first layer in the model, `again` [num_layers] says whose forward pass is repeated
    in backward, and `units` are where the parts of it begin whose weights are gathered together. `entry_bytes` is what
    a stage hands over to the part for one micro-batch.
    """

    first: int
    pieces: tuple[Piece, ...]
    times: tuple[LayerTime, ...]
    again: tuple[bool, ...]
    units: tuple[int, ...]
    entry_bytes: float

    def unit_layers(self) -> list[range]:
        """Return the layers of each unit."""
        ends = [*self.units[1:], len(self.pieces)]
        return [range(first, end) for first, end in zip(self.units, ends, strict=True)]


@dataclass(frozen=True)
class Rules:
    """How replicas exchange what they have: bucket caps, overlap, sharding, and bytes of a parameter's gradient.

    `weight_bytes` are those of a parameter as it is gathered; `sent_whole` says that the GPUs that split a layer have
    the whole of what a stage hands over, and each sends its share of it.
    """

    micro_batch: int
    caps: Sequence[float] | None
    overlap: bool
    sharding: str | None
    gradient_bytes: float
    weight_bytes: float
    sent_whole: bool


@dataclass(frozen=True)
class StagePlan:
    """The program of a stage, and the iteration that a strategy sees: buckets, and the update at its end."""

    program: Program
    iteration: Iteration


def compile_stage(
    stage: int, grid: Grid, parts: Sequence[Part], slots: Sequence[Slot], update_s: float, rules: Rules
) -> StagePlan:
    """Compile the program of a stage, whose slots say in which order micro-batches go through its chunks.

    `parts` are those of the whole model [stages x chunks]; part k lies on stage k mod p.
    """
    writer = _Writer(stage, grid, parts, rules, update_s)
    phases = {slot.phase for slot in slots}
    if UPDATE in phases:
        writer.staleness = -min(slot.micro_batch for slot in slots)
        last = {}
    else:
        last = {slot.chunk: number for number, slot in enumerate(slots) if slot.phase != FORWARD}
    for number, slot in enumerate(slots):
        writer.write(slot, is_last=last.get(slot.chunk) == number, puts_off=WEIGHTS in phases)
    return writer.plan()


@dataclass
class _Writer:
    """Writes the program of a stage down, operation by operation."""

    stage: int
    grid: Grid
    parts: Sequence[Part]
    rules: Rules
    update_s: float
    staleness: int | None = None  # of weights, where each micro-batch is an update of its own
    ops: list[Op | Pass] = field(default_factory=list)
    bodies: dict[tuple[str, int], tuple[tuple[Op, ...], list[Key]]] = field(default_factory=dict)
    grown: list[tuple[int, float, str]] = field(default_factory=list)  # operations before, parameters, layer
    reduced: list[Key] = field(default_factory=list)
    to_update: list[Key] = field(default_factory=list)  # collectives that the update of a micro-batch waits for

    def write(self, slot: Slot, is_last: bool, puts_off: bool) -> None:
        """Write one slot down: the last one of a chunk as it is, others as passes that are alike."""
        if is_last:
            self._write_out(slot, is_last, puts_off)
            return
        known = (slot.phase, slot.chunk)
        if known not in self.bodies:
            self.bodies[known] = self._body(slot, puts_off)
        body, reduced = self.bodies[known]
        self.ops.append(Pass(body, slot.micro_batch))
        self.reduced += [key._replace(micro_batch=slot.micro_batch) for key in reduced]

    def _body(self, slot: Slot, puts_off: bool) -> tuple[tuple[Op, ...], list[Key]]:
        """Return the operations of micro-batch 0, and the shares of gradients that they get."""
        around = self.ops, self.reduced
        self.ops, self.reduced = [], []
        self._write_out(slot._replace(micro_batch=0), is_last=False, puts_off=puts_off)
        body = merged([op for op in self.ops if not isinstance(op, Pass)]), self.reduced
        self.ops, self.reduced = around
        return body

    def _write_out(self, slot: Slot, is_last: bool, puts_off: bool) -> None:
        number = slot.chunk * self.grid.pipeline + self.stage
        part = self.parts[number]
        if slot.phase == FORWARD:
            self._forward(part, number, slot.micro_batch)
        elif slot.phase == BACKWARD:
            self._backward(part, number, slot.micro_batch, is_last or self.staleness is not None, puts_off)
            if self.staleness is not None:
                self._add_up(slot.micro_batch)
        elif slot.phase == UPDATE:
            self.ops += [Wait(key._replace(micro_batch=slot.micro_batch)) for key in self.to_update]
            self.ops.append(Compute(UPDATE, self.update_s, UPDATE, slot.micro_batch))
        else:
            self._weights(part, slot.micro_batch, is_last)

    def _add_up(self, micro: int) -> None:
        """Let replicas add up the gradients of one micro-batch, as they are complete; the update waits for that."""
        if self.grid.num_replicas > 1:
            buckets, ready = buckets_of(self.grown, len(self.ops), self.rules)
            for number in reversed(range(len(buckets))):
                key = Key("gradients of replicas", micro, number)
                self.ops.insert(ready[number], Call(key, "all-reduce", REPLICAS, buckets[number][1]))
                self.reduced.append(key)
        self.to_update, self.reduced, self.grown = self.reduced, [], []

    def plan(self) -> StagePlan:
        """Return the program, with buckets where their last gradients are complete, or what replicas share out."""
        if self.staleness is not None:
            program = Program(self.stage, _merged(self.ops), self.staleness)
            return StagePlan(program, iteration_of(program, [], 0.0))
        grown = self.grown if self.rules.sharding != "zero-3" else []
        buckets, ready = buckets_of(grown, len(self.ops), self.rules)
        if self.rules.sharding is not None:
            return self._sharded(buckets, ready)
        for number in reversed(range(len(buckets))):
            self.ops.insert(ready[number], Ready(number))
        self.ops += [Wait(key) for key in self.reduced]
        program = Program(self.stage, _merged(self.ops))
        return StagePlan(program, iteration_of(program, buckets, self.update_s))

    def _sharded(self, buckets: list[tuple[str, float]], ready: list[int]) -> StagePlan:
        """Let each replica get its share of the summed gradients, update that, and give its weights to the others."""
        rules, num = self.rules, self.grid.num_replicas
        if num > 1 and rules.sharding == "zero-1":
            for number in reversed(range(len(buckets))):
                key = Key("shares of gradients", 0, number)
                self.ops.insert(ready[number], Call(key, "reduce-scatter", REPLICAS, buckets[number][1]))
                self.reduced.append(key)
        self.ops += [Wait(key) for key in self.reduced]
        self.ops.append(Compute(UPDATE, self.update_s / num, UPDATE, 0))
        if rules.sharding != "zero-3" and num > 1:
            gathered = [Key("weights", 0, number) for number in range(len(buckets))]
            share = rules.weight_bytes / rules.gradient_bytes
            self.ops += [
                Call(key, "all-gather", REPLICAS, size * share)
                for key, (_, size) in zip(gathered, buckets, strict=True)
            ]
            self.ops += [Wait(key) for key in gathered]
        program = Program(self.stage, _merged(self.ops))
        return StagePlan(program, iteration_of(program, [], 0.0))

    def _forward(self, part: Part, number: int, micro: int) -> None:
        self._receive(ACTIVATIONS, part, number, number - 1, micro)
        for unit in self._gathered(part, micro, FORWARD):
            self._layers_forward(part, unit, FORWARD, micro)
        self._send(ACTIVATIONS, number, number + 1, micro)

    def _layers_forward(self, part: Part, layers: Sequence[int], phase: str, micro: int) -> None:
        for is_ring, own in groupby(layers, lambda layer: in_ring(part.pieces[layer])):
            if is_ring:
                self._ring(part, list(own), phase, micro)
                continue
            for layer in own:
                piece, time = part.pieces[layer], part.times[layer]
                self._calls(piece.before_forward, f"before {phase}", micro, part.first + layer)
                self._compute(time.layer.name, time.forward_s, phase, micro)
                self._calls(piece.after_forward, f"after {phase}", micro, part.first + layer)

    def _layers_backward(self, part: Part, layers: Sequence[int], micro: int, is_last: bool, puts_off: bool) -> None:
        for is_ring, own in groupby(reversed(layers), lambda layer: in_ring(part.pieces[layer])):
            if is_ring:
                self._ring(part, list(own)[::-1], BACKWARD, micro)
                continue
            for layer in own:
                piece, time = part.pieces[layer], part.times[layer]
                self._calls(piece.before_backward, f"before {BACKWARD}", micro, part.first + layer)
                seconds = time.backward_data_s if puts_off else time.backward_s
                self._compute(time.layer.name, seconds, BACKWARD, micro)
                self._calls(piece.after_backward, f"after {BACKWARD}", micro, part.first + layer)
                if not puts_off:
                    self._grow(part, layer, is_last)

    def _ring(self, part: Part, layers: Sequence[int], phase: str, micro: int) -> None:
        """Compute an attention, the layers of which follow one another, as blocks go round."""
        pieces, times = [part.pieces[layer] for layer in layers], [part.times[layer] for layer in layers]
        self.ops += ring_ops(pieces, times, phase, micro, part.first + layers[0], self.rules.micro_batch)

    def _backward(self, part: Part, number: int, micro: int, is_last: bool, puts_off: bool) -> None:
        self._receive(GRADIENTS, part, number, number + 1, micro)
        for unit in self._gathered(part, micro, BACKWARD):
            self._layers_forward(part, [layer for layer in unit if part.again[layer]], RECOMPUTE, micro)
            self._layers_backward(part, unit, micro, is_last, puts_off)
            if not puts_off:
                self._share_out(part, unit, micro)
        self._send(GRADIENTS, number, number - 1, micro)

    def _weights(self, part: Part, micro: int, is_last: bool) -> None:
        for unit in reversed(part.unit_layers()):
            for layer in reversed(unit):
                time = part.times[layer]
                self._compute(time.layer.name, time.backward_weights_s, WEIGHTS, micro)
                self._grow(part, layer, is_last)
            self._share_out(part, unit, micro)

    def _gathered(self, part: Part, micro: int, phase: str) -> Iterator[range]:
        """Go through the units of a part; where weights are shared out, gather those of the next one beside it."""
        units = part.unit_layers()
        units = units if phase == FORWARD else units[::-1]
        if self.rules.sharding != "zero-3" or self.grid.num_replicas == 1:
            yield from units
            return
        keys = [Key(f"weights {phase}", micro, part.first + unit.start) for unit in units]
        for number, unit in enumerate(units):
            for ahead in (number, number + 1) if not number else (number + 1,):
                if ahead < len(units):
                    size = _parameters(part, units[ahead]) * self.rules.weight_bytes
                    self.ops.append(Call(keys[ahead], "all-gather", REPLICAS, size))
            self.ops.append(Wait(keys[number]))
            yield unit

    def _share_out(self, part: Part, unit: range, micro: int) -> None:
        """Let each replica get its share of the summed gradients of a unit, where nobody keeps all of them.

        So it is for every micro-batch.
        """
        size = _parameters(part, unit) * self.rules.gradient_bytes
        if self.rules.sharding in ("zero-2", "zero-3") and self.grid.num_replicas > 1 and size:
            key = Key("shares of gradients", micro, part.first + unit.start)
            self.ops.append(Call(key, "reduce-scatter", REPLICAS, size))
            self.reduced.append(key)

    def _grow(self, part: Part, layer: int, is_last: bool) -> None:
        """Note that the gradients of a layer are complete, once those of the last micro-batch are."""
        piece = part.pieces[layer]
        if is_last and piece.layer.op == OP and self.grid.expert > 1:
            self._exchange_experts(piece.layer.num_parameters, part.first + layer)
        elif is_last and piece.layer.num_parameters:
            self.grown.append((len(self.ops), float(piece.layer.num_parameters), piece.layer.name))

    def _exchange_experts(self, num_parameters: int, layer: int) -> None:
        """Exchange the gradients of experts among the GPUs that have the same ones."""
        if self.grid.data * self.grid.context > 1:
            key = Key("gradients of experts", 0, layer)
            self.ops.append(Call(key, "all-reduce", "data", num_parameters * self.rules.gradient_bytes))
            self.reduced.append(key)

    def _compute(self, name: str, seconds: float, phase: str, micro: int) -> None:
        if seconds:
            self.ops.append(Compute(name, seconds, phase, micro))

    def _calls(self, calls: Sequence[GroupCall], when: str, micro: int, layer: int) -> None:
        """Take part in collectives of the GPUs that split a layer, which wait for each of them."""
        for number, call in enumerate(calls):
            key = Key(f"{call.op} {number} {when}", micro, layer)
            self.ops += [Call(key, call.op, call.axis, call.bytes_per_sample * self.rules.micro_batch), Wait(key)]

    def _send(self, what: str, number: int, to: int, micro: int) -> None:
        if 0 <= to < len(self.parts):
            size = self.parts[max(number, to)].entry_bytes / self._shares
            self.ops.append(Send(Key(what, micro, to), to % self.grid.pipeline, size))

    def _receive(self, what: str, part: Part, number: int, source: int, micro: int) -> None:
        if not 0 <= source < len(self.parts):
            return
        size, key = self.parts[max(number, source)].entry_bytes, Key(what, micro, number)
        self.ops.append(Receive(key, source % self.grid.pipeline, size / self._shares))
        if self._shares > 1 and self.rules.sent_whole:
            joined = Key(f"{what} joined", micro, number)
            self.ops += [Call(joined, "all-gather", "tensor", size), Wait(joined)]

    @property
    def _shares(self) -> int:
        """In how many shares something is handed over: each of the GPUs that split a layer sends one."""
        return self.grid.tensor


def buckets_of(
    grown: Sequence[tuple[int, float, str]], end: int, rules: Rules
) -> tuple[list[tuple[str, float]], list[int]]:
    """Return the name and the bytes of each bucket, and how many operations come before it is ready.

    `grown` has for each gradient, in the order in which they are complete, how many operations there are before that,
    its parameters and its layer; without overlap all are ready at the `end`.
    """
    buckets, ready = [], []
    sizes = [size * rules.gradient_bytes for _, size, _ in grown]
    for members in assign_buckets(sizes, rules.caps):
        first, last = grown[members[0]], grown[members[-1]]
        name = first[2] if first is last else f"{first[2]} to {last[2]}"
        buckets.append((name, sum(sizes[member] for member in members)))
        ready.append(last[0] if rules.overlap else end)
    return buckets, ready


def _parameters(part: Part, unit: range) -> float:
    return float(sum(part.pieces[layer].layer.num_parameters for layer in unit))


def _merged(ops: Sequence[Op | Pass]) -> tuple[Op | Pass, ...]:
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


def iteration_of(program: Program, buckets: Sequence[tuple[str, float]], update_s: float) -> Iteration:
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
    named = enumerate(buckets)
    told = tuple(Bucket(name, size, 0.0 if follows[number] else backward_s) for number, (name, size) in named)
    return Iteration(forward_s, backward_s, update_s, told)
