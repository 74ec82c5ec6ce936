"""Replaces collectives among GPUs that split layers by compute operations of their known time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from clustersim.program.issue import NO_ISSUE, IssueTimes, issue_of_call
from clustersim.program.ops import (
    FORWARD,
    Call,
    CollectiveOp,
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

_EARLIER = Key("exchange begun before the pass", 0, 0)
"""Stands for exchanges that began before a pass, and that nothing in the pass waits for."""

_OUT_OF_SYNC = Key("ranks out of sync", 0, 0)
"""Says that ranks may be at different times, and that no collective along `tensor` has synchronised them since."""


def with_timed_calls(
    program: Program,
    seconds: Mapping[CollectiveOp, float],
    uncontended_only: bool = False,
    slowed: bool = False,
    in_step: bool = True,
) -> Program:
    """Return a program with collectives along `tensor` as known times that the rank waits.

    `seconds` are the times of collectives by what they do; a collective that is not among them stays as it is. Where
    only compute is between a collective and the wait for it, compute overlaps it. Otherwise, and after another one that
    may be in progress, it becomes a collective of known time (`Call.known_s`).

    An exchange among copies of the model may be in flight: a collective along another axis until the wait for it, or a
    bucket until the end of the iteration. With `uncontended_only`, collectives along `tensor` stay meanwhile. If the
    exchange only slows compute (`slowed`), they become collectives of known time. A pass does not wait for what began
    before it.

    Ranks that are not `in_step` may reach exchanges among copies, and messages of other stages, at different times. A
    collective along `tensor` synchronises them. So the first one after a wait for any of these stays, and so do all
    while an exchange may be in flight.
    """
    tracks_exchanges = uncontended_only or slowed or not in_step
    if tracks_exchanges and program.staleness is not None:  # exchanges may outlast an iteration
        return program
    rules = _Rules(seconds, tracks_exchanges, uncontended_only or not in_step, in_step, program.exchange_s)
    in_flight: set[Key] = set() if in_step else {_OUT_OF_SYNC}
    bodies: dict[tuple[int, bool, bool], tuple[tuple[Op, ...], set[Key]]] = {}  # of equal passes, and what these leave
    parts: list[Op | Pass] = []
    between: list[Op] = []  # operations since the last pass
    for part in program.parts:
        if not isinstance(part, Pass):
            between.append(part)
            continue
        parts += rules.timed(between, in_flight)
        between = []
        is_out_of_sync, has_earlier = _OUT_OF_SYNC in in_flight, bool(in_flight - {_OUT_OF_SYNC})
        key = id(part.body), is_out_of_sync, has_earlier
        if key not in bodies:
            left = {_OUT_OF_SYNC} & in_flight | ({_EARLIER} if has_earlier else set())
            bodies[key] = rules.timed(part.body, left), left - {_EARLIER}
        body, left = bodies[key]
        parts.append(Pass(body, part.micro_batch))
        in_flight -= {_OUT_OF_SYNC}
        in_flight |= {
            key if key == _OUT_OF_SYNC else key._replace(micro_batch=key.micro_batch + part.micro_batch) for key in left
        }
    return replace(program, parts=(*parts, *rules.timed(between, in_flight)))


@dataclass(frozen=True)
class _Rules:
    """The known times of collectives, and whether exchanges among copies matter.

    `keeps_contended` says that a collective stays as it is while an exchange may be in flight.
    """

    seconds: Mapping[CollectiveOp, float]
    tracks_exchanges: bool
    keeps_contended: bool
    in_step: bool
    exchange_s: float

    def timed(self, ops: Sequence[Op], in_flight: set[Key]) -> tuple[Op, ...]:
        """Return operations with known collectives as times; update the exchanges `in_flight`."""
        out: list[Op] = []
        in_progress: set[Key] = set()  # collectives along `tensor` that are still calls, until the wait for them
        number = 0
        while number < len(ops):
            op = ops[number]
            number += 1
            if not self._is_known(op):
                out.append(op)
                self._note(op, in_flight, in_progress)
                continue
            assert isinstance(op, Call)
            known_s = self.seconds[op.operation]
            overlapped = _computes_until_wait(op, ops[number:])
            if in_flight or in_progress or overlapped is None or any(each.issue.host_s for each in overlapped):
                may_contend = bool(in_flight) or (overlapped is None and self._begins_exchange(op, ops[number:]))
                out.append(op if may_contend and self.keeps_contended else replace(op, known_s=known_s))
                in_flight.discard(_OUT_OF_SYNC)
                in_progress.add(op.key)
                continue
            neighbours = (*out[:-4:-1], *ops[number:])
            if self.exchange_s:
                out.append(_waiting(op, 0.0, neighbours, issue_of_call(self.exchange_s)))
            number += len(overlapped)
            assert ops[number] == Wait(op.key)
            number += 1
            out += overlapped
            left_s = known_s - sum(each.seconds for each in overlapped)
            if left_s > 0:
                out.append(_waiting(op, left_s, (*out[:-4:-1], *ops[number:])))
        assert not in_progress
        return merged(out)

    def _is_known(self, op: Op) -> bool:
        return isinstance(op, Call) and op.axis == "tensor" and op.operation in self.seconds

    def _note(self, op: Op, in_flight: set[Key], in_progress: set[Key]) -> None:
        """Update what is under way after an operation that stays as it is."""
        if isinstance(op, Call) and op.axis == "tensor":
            in_progress.add(op.key)
        elif isinstance(op, Wait):
            in_progress.discard(op.key)
        leaves_sync = _waits_for_a_stage(op) or (self.tracks_exchanges and _note_exchange(op, in_flight))
        if leaves_sync and not self.in_step:
            in_flight.add(_OUT_OF_SYNC)

    def _begins_exchange(self, op: Call, after: Sequence[Op]) -> bool:
        """Say whether an exchange among copies begins between a collective and the wait for it."""
        until = takewhile(lambda each: each != Wait(op.key), after)
        return any(isinstance(each, Ready) or (isinstance(each, Call) and each.axis != "tensor") for each in until)


def _computes_until_wait(op: Call, after: Sequence[Op]) -> list[Compute] | None:
    """Return the compute between a collective and the wait for it, None where something else is there, too."""
    computes: list[Compute] = []
    for each in after:
        if not isinstance(each, Compute):
            return computes if each == Wait(op.key) else None
        computes.append(each)
    return None


def _waiting(op: Call, seconds: float, neighbours: Sequence[Op], issue: IssueTimes = NO_ISSUE) -> Compute:
    """Return a wait for a collective as compute, with the name and phase of the first compute among neighbours."""
    beside = next((each for each in neighbours if isinstance(each, Compute)), None)
    name, phase = (beside.name, beside.phase) if beside else (op.key.what, FORWARD)
    return Compute(name, seconds, phase, op.key.micro_batch, seconds, issue)


def _note_exchange(op: Op, in_flight: set[Key]) -> bool:
    """Update the exchanges in flight after an operation; return whether it was the wait for one."""
    match op:
        case Ready(bucket):
            in_flight.add(Key("bucket", 0, bucket))
        case Call(key, _, axis) if axis != "tensor":
            in_flight.add(key)
        case Wait(key) if key in in_flight:
            in_flight.discard(key)
            return True
    return False


def _waits_for_a_stage(op: Op) -> bool:
    """Say whether a rank waits for a rank of another stage."""
    return isinstance(op, Receive) or (isinstance(op, Send) and op.awaited)
