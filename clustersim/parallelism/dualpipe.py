"""DualPipe and DualPipeV: pipelines in which micro-batches enter at both ends, and overlapped pairs of passes.

A forward and a backward pass of different micro-batches are computed in turn, so that each one computes while the other
one waits for its all-to-alls (DeepSeek-V3, arXiv:2412.19437, section 3.2.1). The order of passes is that of the code
(`DualPipe.step` in dualpipe/dualpipe.py, deepseek-ai/DualPipe, commit bb214e82).

DualPipe on p stages: half of the micro-batches begin at stage 0, the others at stage p - 1, so each rank has two parts
of the model, its own and that of the stage opposite. DualPipeV on p stages: the model is cut into 2 p parts; a
micro-batch goes forward to the last stage and comes back ("cut in half" of DualPipe on 2 p stages, by Sea AI Lab). A
rank of it does what one of DualPipe does on twice the stages with twice the micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from clustersim.errors import InputError
from clustersim.parallelism.slot import Slot
from clustersim.program.ops import BACKWARD, FORWARD, WEIGHTS, Compute, Op, Receive, Send, Wait


def dualpipe(stage: int, num_stages: int, num_micro: int, num_chunks: int) -> list[Slot]:
    """Send half of the micro-batches through the stages in each direction (DeepSeek-AI, arXiv:2412.19437).

    The idle time of a stage is (p / 2 - 1) (overlapped pair + backward - 3 weights) if passes take the same time on
    every stage. Each stage has two parts of the model, and activations of p + 1 passes at most.
    """
    if num_chunks > 1:
        raise InputError(
            f"dualpipe has one part of the model on each stage for each direction (got {num_chunks} chunks); "
            "dualpipe-v has two parts of one model",
            key="chunks",
            got=str(num_chunks),
            allowed="1, or schedule: dualpipe-v",
        )
    if num_stages % 2:
        raise InputError(
            f"dualpipe needs an even number of stages, since each has the part of the one opposite (got {num_stages})",
            key="pipeline",
            got=str(num_stages),
            allowed=f"an even number, such as {num_stages + 1}",
        )
    if num_micro % 2 or num_micro < 2 * num_stages:
        _refuse("dualpipe", num_micro, 2 * num_stages, "an even number of micro-batches")
    return _slots(min(stage, num_stages - 1 - stage), num_stages // 2, num_micro // 2)


def dualpipe_v(stage: int, num_stages: int, num_micro: int, num_chunks: int) -> list[Slot]:
    """Send micro-batches forward through the stages and back, through two chunks of the model on each (DualPipeV).

    The idle time of a stage is (p - 1) (overlapped pair + backward - 3 weights), with passes of a chunk.
    """
    if num_chunks != 2:
        raise InputError(
            f"dualpipe-v has two chunks of the model on each stage, one for each way (got {num_chunks})",
            key="chunks",
            got=str(num_chunks),
            allowed="2",
        )
    if num_micro < 2 * num_stages:
        _refuse("dualpipe-v", num_micro, 2 * num_stages, "micro-batches")
    return _slots(stage, num_stages, num_micro)


def _refuse(schedule: str, num_micro: int, least: int, what: str) -> None:
    """Raise InputError for a number of micro-batches."""
    near = max(least, num_micro + num_micro % 2)
    raise InputError(
        f"{schedule} needs {what}, at least twice the stages (got {num_micro}); the nearest number that works is "
        f"{near}",
        key="micro_batches",
        got=str(num_micro),
        allowed=f"{what}, {least} or more",
    )


def _slots(place: int, half: int, num: int) -> list[Slot]:
    """Return the passes of the rank that is `place` from the nearer end of a pipeline of 2 x `half` stages.

    `num` micro-batches enter at each end. Chunk 0 has those of the nearer end, and chunk 1 those of the other one.
    """
    order, is_middle = _Order(), place == half - 1
    ahead = half - place - 1
    for _ in range(2 * ahead):
        order.forward(0)
    for _ in range(place + 1):
        order.forward(0)
        order.forward(1)
    for _ in range(ahead):
        order.backward(1, defers=True)
        order.weights()
        order.forward(1)
    for number in range(num - 2 * half + place + 1):
        order.pair(0, 1, overlaps=number > 0 or not is_middle)
        order.pair(1, 0)
    for _ in range(ahead):
        order.backward(1)
        order.pair(1, 0)
    _cool_down(order, place + 1)
    for _ in range(ahead):
        order.weights()
        order.backward(0, defers=True)
    while order.deferred:
        order.weights()
    return order.slots


def _cool_down(order: _Order, num: int) -> None:
    """Append `num` backward passes of each chunk in turn, of which those of the second half defer their weights."""
    for number in range(2 * num):
        order.backward(1 - number % 2, defers=number >= num)


class _Order:
    """The passes of a rank so far."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.deferred: list[Slot] = []  # backward passes whose gradients of weights are still to come, first in first
        self._next = {(phase, chunk): 0 for phase in (FORWARD, BACKWARD) for chunk in (0, 1)}

    def forward(self, chunk: int, overlaps: bool = False) -> None:
        self._add(Slot(FORWARD, self._next[FORWARD, chunk], chunk, overlaps))

    def backward(self, chunk: int, defers: bool = False) -> None:
        self._add(Slot(BACKWARD, self._next[BACKWARD, chunk], chunk))
        if defers:
            self.deferred.append(self.slots[-1])

    def pair(self, forward_chunk: int, backward_chunk: int, overlaps: bool = True) -> None:
        self.forward(forward_chunk, overlaps)
        self.backward(backward_chunk)

    def weights(self) -> None:
        self.slots.append(self.deferred.pop(0)._replace(phase=WEIGHTS))

    def _add(self, slot: Slot) -> None:
        self._next[slot.phase, slot.chunk] += 1
        self.slots.append(slot)


def overlapped(first: Sequence[Op], second: Sequence[Op]) -> list[Op]:
    """Return the operations of two passes in turn: where one would wait, the other one goes on.

    The pass with fewer waits is divided between layers into as many parts as the other one has. Messages to both are
    awaited before, and those of both are sent after them, as the code does.

    >>> from clustersim.program.ops import Key
    >>> call = [Compute("a", 1.0, FORWARD, 0), Wait(Key("x", 0, 0)), Compute("b", 1.0, FORWARD, 0)]
    >>> other = [Compute("c", 1.0, BACKWARD, 0), Compute("d", 1.0, BACKWARD, 0)]
    >>> [op.name for op in overlapped(call, other) if isinstance(op, Compute)]
    ['a', 'c', 'b', 'd']
    """
    begin, middle, end = zip(_apart(first), _apart(second), strict=True)
    runs = [list(_runs(ops)) for ops in middle]
    most = max(len(own) for own in runs)
    divided = [_divided(own, most) for own in runs]
    in_turn = [own[number] for number in range(most) for own in divided if number < len(own)]
    return [op for part in (*begin, *in_turn, *end) for op in part]


def _divided(runs: list[list[Op]], num: int) -> list[list[Op]]:
    """Return `num` runs if there are enough layers: the longest one is divided as often as needed."""
    while len(runs) < num:
        number = max(range(len(runs)), key=lambda each: _divisible_s(runs[each]), default=None)
        if number is None or not _divisible_s(runs[number]):
            return runs
        cut = _middle(runs[number])
        runs = [*runs[:number], runs[number][:cut], runs[number][cut:], *runs[number + 1 :]]
    return runs


def _divisible_s(run: Sequence[Op]) -> float:
    """Return the seconds of a run of several compute operations, 0 for one."""
    seconds = [op.seconds for op in run if isinstance(op, Compute)]
    return sum(seconds) if len(seconds) > 1 else 0.0


def _middle(run: Sequence[Op]) -> int:
    """Return after how many operations about half of the compute of a run is done, and some is left."""
    done_s = list(accumulate(op.seconds if isinstance(op, Compute) else 0.0 for op in run))
    computes = [number for number, op in enumerate(run) if isinstance(op, Compute)]
    return 1 + min(computes[:-1], key=lambda number: abs(done_s[number] - done_s[-1] / 2))


def _apart(ops: Sequence[Op]) -> tuple[list[Op], list[Op], list[Op]]:
    """Return the operations of a pass up to its first compute, those after it, and the messages sent at its end."""
    first = next((number for number, op in enumerate(ops) if isinstance(op, Compute)), len(ops))
    end = len(ops)
    while end > first and isinstance(ops[end - 1], Send):
        end -= 1
    return list(ops[:first]), list(ops[first:end]), list(ops[end:])


def _runs(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """Yield runs of operations that begin where the rank waits."""
    run: list[Op] = []
    for op in ops:
        if isinstance(op, Wait | Receive) and run and not isinstance(run[-1], Wait | Receive):
            yield run
            run = []
        run.append(op)
    if run:
        yield run
