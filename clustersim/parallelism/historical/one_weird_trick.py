"""Convolutions data parallel, fully connected layers tensor parallel, over the same GPUs.

Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (arXiv:1404.5997): K GPUs have all layers
up to the first fully connected one, each for b samples of its own, and 1/K of that layer and of the layers after it,
for all samples. So the many weights of the latter are never exchanged. Their inputs are, by one of three schemes:

- `gathered`: the activations of all GPUs are all-gathered, and one pass has K b samples; nothing computes meanwhile.
- `one-by-one`: in each of K passes one GPU's b samples are broadcast, during the pass before.
- `in-shares`: in each of K passes b / K samples of each GPU are all-gathered, during the pass before.

Gradients of the activations go back in the same way and are reduced, since each GPU has those of its columns only. In
each scheme (K - 1) K b E bytes are sent in each direction, E being the bytes of a sample's activations; `one-by-one`
sends them from one GPU at a time, by the broadcast that the library chooses. Fully connected layers are split by
columns and rows in turn, as in `clustersim.parallelism.split`; in the paper each one is split by columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from clustersim.errors import InputError
from clustersim.model import Layer, LayerTime, Model
from clustersim.parallelism.memory import MemoryRules, PartInMemory, stage_memory
from clustersim.parallelism.pieces import GroupCall, Piece
from clustersim.parallelism.plan import Part, Rules, StagePlan, buckets_of, iteration_of
from clustersim.parallelism.split import split_model
from clustersim.program.issue import PassIssue, issue_times
from clustersim.program.ops import BACKWARD, FORWARD, Call, Compute, Key, Op, Program, Ready, Wait, merged

FULLY_CONNECTED = "fully-connected"
NOT_BEHIND = frozenset({"matmul", "embedding", "router", "experts"})
"""Layers without weights that read neighbours, or that come with other layers."""

ACTIVATIONS, GRADIENTS = "activations", "gradients of activations"
MOVED_ALONG, SPLIT_ALONG = "replicas", "data"
"""Two axis names of the group of all GPUs, whose collectives run in parallel: of samples, and of partial sums."""

MOVES = {
    "gathered": ("all-gather", "reduce-scatter"),
    "one-by-one": ("broadcast", "reduce"),
    "in-shares": ("all-gather", "reduce-scatter"),
}
"""Collectives of the activations in each scheme, and of their gradients."""


@dataclass(frozen=True)
class Trick:
    """K GPUs with `batch` samples each, and how these pass through the fully connected layers."""

    num_gpus: int
    batch: int
    scheme: str
    update_every_pass: bool

    @property
    def num_passes(self) -> int:
        return 1 if self.scheme == "gathered" else self.num_gpus

    @property
    def fc_batch(self) -> int:
        """Samples of one pass through the fully connected layers."""
        return self.batch * self.num_gpus // self.num_passes

    def root(self, number: int) -> int:
        """Return the GPU whose samples a pass has, if they are those of one GPU."""
        return number if self.scheme == "one-by-one" else 0


def trick_pieces(model: Model, trick: Trick, activation_bytes: float) -> tuple[tuple[Piece, ...], int]:
    """Return a GPU's piece of each layer, and the index of the first fully connected one."""
    first = _first_fully_connected(model)
    shares = trick.scheme == "in-shares" and trick.num_gpus > 1
    if shares and trick.batch % trick.num_gpus:
        below = trick.batch // trick.num_gpus * trick.num_gpus
        near = f"{below} or {below + trick.num_gpus}" if below else f"{trick.num_gpus}"
        raise InputError(
            f"the {trick.batch} samples of a GPU do not divide into {trick.num_gpus} equal shares; the nearest "
            f"batch per GPU that does is {near}",
            key="scheme",
            got="in-shares",
            allowed=f"a batch per GPU of {near}, or scheme: one-by-one or gathered",
        )
    conv = tuple(Piece(layer, is_split=False) for layer in model.layers[:first])
    try:
        split = split_model(replace(model, layers=model.layers[first:]), trick.num_gpus, activation_bytes)
    except InputError as error:
        raise InputError([replace(mistake, key="kind") for mistake in error.mistakes]) from None
    entered = replace(split[0], after_backward=())  # `MOVES` reduces the gradient of its input
    return (*conv, entered, *split[1:]), first


def _first_fully_connected(model: Model) -> int:
    """Return the index of the first fully connected layer; raise InputError if other layers follow."""
    layers = model.layers
    numbers = [number for number, layer in enumerate(layers) if layer.op == FULLY_CONNECTED and layer.num_parameters]
    if not numbers:
        raise _mistake(f"{model.name} has no fully connected layer to split over the GPUs")
    first = numbers[0]
    if not any(layer.num_parameters for layer in layers[:first]):
        raise _mistake(f"{model.name} begins with its fully connected layer '{layers[first].name}'")
    other = next((layer for layer in layers[first:] if _is_other(layer)), None)
    if other is not None:
        raise _mistake(f"after the fully connected layer '{layers[first].name}' of {model.name} comes '{other.name}'")
    return first


def _is_other(layer: Layer) -> bool:
    has_filters = layer.flop > 0 and layer.num_parameters > 0 and layer.op != FULLY_CONNECTED
    return has_filters or layer.op in NOT_BEHIND


def _mistake(why: str) -> InputError:
    message = f"{why}; one-weird-trick is for convolutions followed by fully connected layers"
    return InputError(message, key="kind", got="one-weird-trick", allowed="kind: grid, such as {data: ...}")


def trick_parts(
    trick: Trick, pieces: Sequence[Piece], times: Sequence[LayerTime], first: int, activation_bytes: float
) -> tuple[Part, ...]:
    """Return the convolutional part, for a GPU's own batch, and the fully connected one, for that of a pass.

    A single GPU has one part with all layers. `entry_bytes` are those of a pass.
    """
    cuts = [0, first, len(pieces)] if trick.num_gpus > 1 else [0, len(pieces)]
    parts = []
    for start, end in pairwise(cuts):
        entry = pieces[start].layer.input_elements * activation_bytes * trick.fc_batch if start else 0.0
        recomputes = (False,) * (end - start)
        parts.append(Part(start, tuple(pieces[start:end]), tuple(times[start:end]), recomputes, (0,), entry))
    return tuple(parts)


def trick_memory(trick: Trick, parts: Sequence[Part], rules: MemoryRules) -> dict[str, float]:
    """Return the bytes that a GPU stores at its peak, by purpose.

    Beside its layers these are the gradient of a pass's input while it is sent back, and with several passes the
    activations of the next one while they are sent here.
    """
    samples = [1.0, trick.fc_batch / trick.batch]
    held = [
        PartInMemory(part.pieces, times, part.units, part.recomputes)
        for part, times in zip(parts, samples, strict=False)
    ]
    total = stage_memory(held, rules)
    if trick.num_gpus > 1:
        total["activations on their way"] = parts[1].entry_bytes * (1 if trick.num_passes == 1 else 2)
    return total


def compile_trick(trick: Trick, parts: Sequence[Part], update_s: Sequence[float], rules: Rules) -> StagePlan:
    """Compile the program of all GPUs; `update_s` [num_parts] are the optimizer's seconds for each part."""
    builder = _ProgramBuilder(trick, rules)
    conv, fc = parts[0], parts[1] if len(parts) > 1 else None
    builder.forward(conv, 0, 1)
    if fc is not None:
        builder.passes(fc, update_s[1])
    builder.backward(conv, 0, 1, is_exchanged=True)
    at_the_end = update_s[:1] if trick.update_every_pass else update_s
    return builder.plan(sum(at_the_end))


@dataclass
class _ProgramBuilder:
    """Builds the program, operation by operation."""

    trick: Trick
    rules: Rules
    ops: list[Op] = field(default_factory=list)
    completed: list[tuple[int, float, str]] = field(default_factory=list)  # operations before, parameters, layer

    def passes(self, fc: Part, update_s: float) -> None:
        """Pass all samples forward and backward through the fully connected part, and send the next ones meanwhile."""
        trick = self.trick
        self._move(ACTIVATIONS, 0, fc)
        self.ops.append(Wait(Key(ACTIVATIONS, 0, fc.first)))
        for number in range(trick.num_passes):
            if number + 1 < trick.num_passes:
                self._move(ACTIVATIONS, number + 1, fc)
            self.forward(fc, number, trick.fc_batch)
            self.backward(fc, number, trick.fc_batch, is_exchanged=False)
            self._move(GRADIENTS, number, fc)
            if trick.update_every_pass and update_s:
                self.ops.append(Compute("update", update_s, "update", number))
            if number + 1 < trick.num_passes:
                self.ops.append(Wait(Key(ACTIVATIONS, number + 1, fc.first)))
        self.ops += [Wait(Key(GRADIENTS, number, fc.first)) for number in range(trick.num_passes)]

    def forward(self, part: Part, number: int, samples: int) -> None:
        """Append the forward pass of a part with the samples of a pass."""
        for layer, (piece, time) in enumerate(zip(part.pieces, part.times, strict=True)):
            self._calls(piece.before_forward, f"before {FORWARD}", number, part.first + layer, samples)
            self._compute(time.layer.name, time.forward_s, FORWARD, number, time.forward_issue)
            self._calls(piece.after_forward, f"after {FORWARD}", number, part.first + layer, samples)

    def backward(self, part: Part, number: int, samples: int, is_exchanged: bool) -> None:
        """Append the backward pass of a part, and record when gradients that GPUs exchange are complete."""
        for layer in reversed(range(len(part.pieces))):
            piece, time = part.pieces[layer], part.times[layer]
            self._calls(piece.before_backward, f"before {BACKWARD}", number, part.first + layer, samples)
            self._compute(time.layer.name, time.backward_s, BACKWARD, number, time.backward_issue)
            self._calls(piece.after_backward, f"after {BACKWARD}", number, part.first + layer, samples)
            if is_exchanged and piece.layer.num_parameters:
                self.completed.append((len(self.ops), float(piece.layer.num_parameters), piece.layer.name))

    def plan(self, update_s: float) -> StagePlan:
        """Return the program, with buckets where the last of their gradients are complete."""
        buckets, ready = buckets_of(self.completed, len(self.ops), self.rules)
        for number in reversed(range(len(buckets))):
            self.ops.insert(ready[number], Ready(number))
        program = Program(0, merged(self.ops))
        return StagePlan(program, iteration_of(program, buckets, update_s))

    def _move(self, what: str, number: int, fc: Part) -> None:
        """Begin to send the samples of a pass to all GPUs, or their gradients back."""
        op = MOVES[self.trick.scheme][what == GRADIENTS]
        self.ops.append(
            Call(Key(what, number, fc.first), op, MOVED_ALONG, fc.entry_bytes, root=self.trick.root(number))
        )

    def _calls(self, calls: Sequence[GroupCall], when: str, number: int, layer: int, samples: int) -> None:
        for place, call in enumerate(calls):
            key = Key(f"{call.op} {place} {when}", number, layer)
            self.ops += [Call(key, call.op, SPLIT_ALONG, call.bytes_per_sample * samples), Wait(key)]

    def _compute(self, name: str, seconds: float, phase: str, number: int, issue: PassIssue) -> None:
        if seconds:
            self.ops.append(Compute(name, seconds, phase, number, issue=issue_times([(seconds, issue)])))
