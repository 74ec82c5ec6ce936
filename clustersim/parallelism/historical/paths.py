"""Branches of a network on different GPUs (`paths`): branches of an Inception module, or two towers.

Between a split and a join of the network, its branches (`Layer.branch`) are assigned to the GPUs of a replica, the
longest first, each to the GPU with the least work in this segment. Everything else is on the first GPU. It sends the
common input of the branches once to each other GPU, and receives the output of each branch. In the backward pass the
gradients go the other way, and those of the common input are summed on each GPU before they are sent. Branches that
begin with a sample read it themselves. So a module in which GPU g has branches of t(g) seconds takes

    max over g of (message to g + t(g) + message back)

if messages of different GPUs do not contend. Parameters are stored with their branches only. Towers with one set of
weights (`Layer.weights_of`) each have them, and all-reduce their gradients before the replicas of the model do. Left
out: branches within branches, which run one after the other, and the sum of the gradients of the common input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clustersim.errors import InputError
from clustersim.model import Layer, LayerTime
from clustersim.parallelism.memory import MemoryRules, PartInMemory, stage_memory
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.plan import ACTIVATIONS, GRADIENTS, Part, Rules, StagePlan, buckets_of, iteration_of
from clustersim.program.issue import PassIssue, issue_times
from clustersim.program.ops import (
    BACKWARD,
    FORWARD,
    Call,
    Compute,
    Key,
    Op,
    Program,
    Ready,
    Receive,
    Send,
    Wait,
    merged,
)

REPLICA = "pipeline"
"""The axis of the GPUs of a replica."""


@dataclass(frozen=True)
class BranchPath:
    """Consecutive layers, by their index in the model, and the GPU of a replica that has them."""

    layers: tuple[int, ...]
    gpu: int


Segment = tuple[BranchPath, ...]
"""Parallel branches between a split and a join; a single path if there are no branches."""


def assign_paths(times: Sequence[LayerTime], num_gpus: int) -> list[Segment]:
    """Return the segments of a model with their branches assigned to GPUs; raise InputError for too many GPUs.

    >>> conv = Layer("conv", "convolution", 1.0, 1.0, 1.0, 1, 1.0, 1.0)
    >>> left, right = (Layer(name, "convolution", 1.0, 1.0, 1.0, 1, 1.0, 1.0, branch=name) for name in ("a", "b"))
    >>> times = [LayerTime(layer, 1.0, 1.0, 1.0, "measured") for layer in (conv, left, right)]
    >>> [[path.gpu for path in segment] for segment in assign_paths(times, 2)]
    [[0], [0, 1]]
    """
    layers = [time.layer for time in times]
    segments = [_assigned(each, times, num_gpus) for each in _segments(layers)]
    most = max(len(segment) for segment in segments)
    if num_gpus > most > 1:
        message = f"the model has at most {most} parallel branches, and a replica has {num_gpus} GPUs"
        raise InputError(message, key="data", got=f"{num_gpus} GPUs", allowed=f"replicas of at most {most} GPUs")
    if num_gpus > most:
        message = "the model has no parallel branches (no layer has a branch), so one GPU would have all of it"
        raise InputError(message, key="kind", got="paths", allowed="kind: grid, or a model that branches")
    for owner, gpus in _gpus_of_weights(segments, layers).items():
        if 1 < len(gpus) < num_gpus:
            message = f"the weights of '{owner}' are used on {len(gpus)} GPUs, and a replica has {num_gpus}"
            raise InputError(
                message, key="data", got=f"{num_gpus} GPUs", allowed=f"replicas of at most {len(gpus)} GPUs"
            )
    return segments


def _gpus_of_weights(segments: Sequence[Segment], layers: Sequence[Layer]) -> dict[str, set[int]]:
    """Return the GPUs of a replica that use each set of weights, by the layer that owns it."""
    gpus_of: dict[str, set[int]] = {}
    for segment in segments:
        for path in segment:
            for number in path.layers:
                gpus_of.setdefault(layers[number].weights_of or layers[number].name, set()).add(path.gpu)
    return gpus_of


def times_on(gpu: int, segments: Sequence[Segment], times: Sequence[LayerTime]) -> list[LayerTime]:
    """Return the layers of a model with the parameters that a GPU has: weights of several layers count in the first."""
    parameters = {time.layer.name: time.layer.num_parameters for time in times}
    found, known = list(times), set()
    own = (layer for segment in segments for path in segment if path.gpu == gpu for layer in path.layers)
    for number in sorted(own):
        layer = times[number].layer
        owner = layer.weights_of or layer.name
        if layer.weights_of and owner not in known:
            found[number] = replace(times[number], layer=replace(layer, num_parameters=parameters[owner]))
        known.add(owner)
    return found


def _segments(layers: Sequence[Layer]) -> list[list[list[int]]]:
    """Return the layers of each path of each segment; layers outside branches form segments of one path."""
    segments: list[dict[str, list[int]]] = []
    inside = None
    for number, layer in enumerate(layers):
        if bool(layer.branch) is not inside:
            segments.append({})
            inside = bool(layer.branch)
        segments[-1].setdefault(layer.branch, []).append(number)
    return [list(segment.values()) for segment in segments]


def _assigned(paths: Sequence[Sequence[int]], times: Sequence[LayerTime], num_gpus: int) -> Segment:
    """Assign paths to GPUs, the longest first, each to the first GPU among those with the least work."""
    seconds = [sum(times[layer].forward_s + times[layer].backward_s for layer in path) for path in paths]
    busy, gpus = [0.0] * num_gpus, [0] * len(paths)
    for number in sorted(range(len(paths)), key=lambda number: -seconds[number]):
        gpus[number] = busy.index(min(busy))
        busy[gpus[number]] += seconds[number]
    return tuple(BranchPath(tuple(path), gpu) for path, gpu in zip(paths, gpus, strict=True))


def path_parts(segments: Sequence[Segment], times: Sequence[LayerTime], num_gpus: int) -> tuple[Part, ...]:
    """Return the part of each GPU of a replica: its layers, in the order of the model."""
    parts = []
    for gpu in range(num_gpus):
        there = times_on(gpu, segments, times)
        own = [there[layer] for segment in segments for path in segment if path.gpu == gpu for layer in path.layers]
        pieces = tuple(Piece(time.layer, is_split=False) for time in own)
        parts.append(Part(0, pieces, tuple(own), (False,) * len(own), (0,), 0.0))
    return tuple(parts)


def path_memory(
    gpu: int, segments: Sequence[Segment], times: Sequence[LayerTime], rules: MemoryRules
) -> dict[str, float]:
    """Return the peak bytes of a GPU; GPUs other than the first also store the inputs that they receive."""
    runs = [[layer for path in segment if path.gpu == gpu for layer in path.layers] for segment in segments]
    runs = [[layer for run in runs for layer in run]] if gpu == 0 else [run for run in runs if run]
    there = times_on(gpu, segments, times)
    held = [
        PartInMemory([Piece(there[layer].layer, is_split=False) for layer in run], 1.0, (0,), [False] * len(run))
        for run in runs
    ]
    return stage_memory(held, rules)


def compile_paths(
    gpu: int, segments: Sequence[Segment], times: Sequence[LayerTime], update_s: float, rules: Rules, element: float
) -> StagePlan:
    """Compile the program of a GPU of a replica; `element` is the bytes of an element of all samples."""
    gpus_of = _gpus_of_weights(segments, [time.layer for time in times])
    tied = {owner for owner, gpus in gpus_of.items() if len(gpus) > 1}
    builder = _ProgramBuilder(gpu, times_on(gpu, segments, times), rules, element, tied)
    for segment in segments:
        builder.forward(segment)
    for segment in reversed(segments):
        builder.backward(segment)
    return builder.plan(update_s)


@dataclass
class _ProgramBuilder:
    """Builds the program of a GPU, operation by operation."""

    gpu: int
    times: Sequence[LayerTime]
    rules: Rules
    element: float  # bytes of an element of all samples
    tied: set[str]  # layers whose weights other GPUs of the replica use as well
    ops: list[Op] = field(default_factory=list)
    completed: list[tuple[int, float, str]] = field(default_factory=list)  # operations before, parameters, layer
    tied_sums: list[tuple[Call, Layer]] = field(default_factory=list)  # gradients that GPUs of the replica all-reduce

    def forward(self, segment: Segment) -> None:
        """Send the input of branches to other GPUs, compute the own branches, and receive the others' outputs."""
        first, read = self._read(segment)
        others = [path for path in segment if path.gpu]
        for gpu in self._others(segment) if read and not self.gpu else ():
            self.ops.append(Send(Key(ACTIVATIONS, 0, first), gpu, read))
        if self.gpu in self._others(segment) and read:
            self.ops.append(Receive(Key(ACTIVATIONS, 0, first), 0, read))
        for path in segment:
            if path.gpu == self.gpu:
                for layer in path.layers:
                    time = self.times[layer]
                    self._compute(time.layer.name, time.forward_s, FORWARD, time.forward_issue)
                if self.gpu:
                    self.ops.append(Send(self._written(ACTIVATIONS, path), 0, self._size(path)))
        for path in others if not self.gpu else ():
            self.ops.append(Receive(self._written(ACTIVATIONS, path), path.gpu, self._size(path)))

    def backward(self, segment: Segment) -> None:
        """Send gradients the same way back."""
        first, read = self._read(segment)
        needs_gradient = read and any(time.layer.num_parameters for time in self.times[:first])
        for path in segment if not self.gpu else ():
            if path.gpu:
                self.ops.append(Send(self._written(GRADIENTS, path), path.gpu, self._size(path)))
        for path in reversed(segment):
            if path.gpu == self.gpu:
                if self.gpu:
                    self.ops.append(Receive(self._written(GRADIENTS, path), 0, self._size(path)))
                for layer in reversed(path.layers):
                    self._backward(self.times[layer])
        if not needs_gradient:
            return
        if self.gpu in self._others(segment):
            self.ops.append(Send(self._gradient_of_input(first, self.gpu), 0, read))
        for gpu in self._others(segment) if not self.gpu else ():
            self.ops.append(Receive(self._gradient_of_input(first, gpu), gpu, read))

    def plan(self, update_s: float) -> StagePlan:
        """Return the program, with buckets where the last of their gradients are complete."""
        self.ops += [call for call, _ in self.tied_sums if not self.rules.overlap]
        for call, layer in self.tied_sums:
            self.ops.append(Wait(call.key))
            self.completed.append((len(self.ops), float(layer.num_parameters), layer.name))
        buckets, ready = buckets_of(self.completed, len(self.ops), self.rules)
        for number in reversed(range(len(buckets))):
            self.ops.insert(ready[number], Ready(number))
        program = Program(self.gpu, merged(self.ops))
        return StagePlan(program, iteration_of(program, buckets, update_s))

    def _backward(self, time: LayerTime) -> None:
        self._compute(time.layer.name, time.backward_s, BACKWARD, time.backward_issue)
        owner, size = time.layer.weights_of or time.layer.name, float(time.layer.num_parameters)
        if size and owner in self.tied:
            key = Key(f"{GRADIENTS} of towers", 0, len(self.tied_sums))
            self.tied_sums.append((Call(key, "all-reduce", REPLICA, size * self.rules.gradient_bytes), time.layer))
            self.ops += [self.tied_sums[-1][0]] if self.rules.overlap else []
        elif size:
            self.completed.append((len(self.ops), size, time.layer.name))

    def _compute(self, name: str, seconds: float, phase: str, issue: PassIssue) -> None:
        if seconds:
            self.ops.append(Compute(name, seconds, phase, 0, issue=issue_times([(seconds, issue)])))

    def _read(self, segment: Segment) -> tuple[int, float]:
        """Return the first layer of a segment, and the bytes that are sent to it; 0 for the samples themselves."""
        first = min(path.layers[0] for path in segment)
        read = max(self.times[path.layers[0]].layer.input_elements for path in segment)
        return first, read * self.element if first else 0.0

    def _others(self, segment: Segment) -> list[int]:
        """Return the GPUs other than the first that have branches of a segment."""
        return sorted({path.gpu for path in segment if path.gpu})

    def _size(self, path: BranchPath) -> float:
        return self.times[path.layers[-1]].layer.output_elements * self.element

    def _written(self, what: str, path: BranchPath) -> Key:
        return Key(f"{what} of {self.times[path.layers[-1]].layer.branch}", 0, path.layers[-1])

    def _gradient_of_input(self, first: int, gpu: int) -> Key:
        return Key(f"{GRADIENTS} from {gpu}", 0, first)
