"""Collectives as known times: which are replaced, which stay, and that no time is lost."""

from __future__ import annotations

import pytest

from clustersim.program.ops import (
    BACKWARD,
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
)
from clustersim.program.timed_calls import with_timed_calls

KNOWN = {CollectiveOp("all-reduce", 8.0): 0.5}
SUM, GRADIENTS = Key("sum", 0, 0), Key("gradients", 0, 0)
BODY: tuple[Op, ...] = (
    Compute("first", 1.0, FORWARD, 0),
    Call(SUM, "all-reduce", "tensor", 8.0),
    Wait(SUM),
    Compute("second", 2.0, FORWARD, 0),
)
EXCHANGE = Call(GRADIENTS, "reduce-scatter", "replicas", 64.0)


def num_calls(program: Program) -> int:
    """Return how many collectives among GPUs that split layers are left."""
    return sum(isinstance(op, Call) and op.axis == "tensor" for op in program.ops())


def test_a_known_collective_becomes_time_that_the_rank_waits() -> None:
    (op,) = with_timed_calls(Program(0, (Pass(BODY, 3),)), KNOWN).ops()
    assert isinstance(op, Compute)
    assert (op.seconds, op.called_s, op.micro_batch) == (3.5, 0.5, 3)


def test_compute_that_overlaps_it_is_not_counted_twice() -> None:
    beside = (Call(SUM, "all-reduce", "tensor", 8.0), Compute("beside", 0.2, BACKWARD, 0), Wait(SUM))
    (op,) = with_timed_calls(Program(0, beside), KNOWN).ops()
    assert isinstance(op, Compute)
    assert (op.seconds, op.called_s) == (0.5, pytest.approx(0.3))


def test_a_collective_of_other_bytes_stays() -> None:
    program = Program(0, (Call(SUM, "all-reduce", "tensor", 9.0), Wait(SUM)))
    assert with_timed_calls(program, KNOWN) == program


@pytest.mark.parametrize(("begin", "end", "num_left"), [(EXCHANGE, Wait(GRADIENTS), 1), (Ready(0), Wait(GRADIENTS), 2)])
def test_collectives_before_an_exchange_and_after_the_wait_for_it_are_uncontended(
    begin: Op, end: Op, num_left: int
) -> None:
    """A bucket is in flight until the end of the iteration."""
    program = Program(0, (Pass(BODY, 0), begin, Pass(BODY, 1), end, Pass(BODY, 2)))
    assert num_calls(with_timed_calls(program, KNOWN, uncontended_only=True)) == num_left
    assert num_calls(with_timed_calls(program, KNOWN)) == 0


def test_exchanges_inside_a_pass_are_tracked_operation_by_operation() -> None:
    program = Program(0, (Pass((*BODY, EXCHANGE, *BODY, Wait(GRADIENTS), *BODY), 0),))
    assert num_calls(with_timed_calls(program, KNOWN, uncontended_only=True)) == 1


def test_an_exchange_that_a_pass_begins_affects_later_passes_until_the_wait_for_it() -> None:
    passes = (Pass((*BODY, EXCHANGE), 0), Pass(BODY, 1))
    waited = Wait(GRADIENTS), Pass(BODY, 2)
    assert num_calls(with_timed_calls(Program(0, (*passes, *waited)), KNOWN, uncontended_only=True)) == 1
    others = Wait(GRADIENTS._replace(micro_batch=1)), Pass(BODY, 2)
    assert num_calls(with_timed_calls(Program(0, (*passes, *others)), KNOWN, uncontended_only=True)) == 2


def test_while_an_exchange_slows_compute_a_collective_keeps_its_own_time() -> None:
    program = Program(0, (Pass(BODY, 0), EXCHANGE, Pass(BODY, 1), Wait(GRADIENTS), Pass(BODY, 2)))
    slowed = list(with_timed_calls(program, KNOWN, slowed=True).ops())
    assert [op.known_s for op in slowed if isinstance(op, Call) and op.axis == "tensor"] == [0.5]
    assert [op.called_s for op in slowed if isinstance(op, Compute)] == [0.5, 0.0, 0.0, 0.5]
    assert num_calls(with_timed_calls(program, KNOWN, uncontended_only=True, slowed=True)) == 1


def test_no_collective_is_uncontended_where_iterations_flow_into_one_another() -> None:
    program = Program(0, (Pass(BODY, 0),), staleness=1)
    assert with_timed_calls(program, KNOWN, uncontended_only=True) == program


@pytest.mark.parametrize(("uncontended_only", "num_beside"), [(False, 1), (True, 1)])
def test_ranks_out_of_sync_are_synchronised_by_the_next_collective(uncontended_only: bool, num_beside: int) -> None:
    """It stays, as do those during exchanges among copies; all after it are times, in equal passes, too."""
    begins = Program(0, (*BODY, *BODY, Pass(BODY, 1), Pass(BODY, 2)))
    assert num_calls(with_timed_calls(begins, KNOWN, uncontended_only, in_step=False)) == 1
    program = Program(0, (*BODY, EXCHANGE, *BODY, Wait(GRADIENTS), Pass(BODY, 1), Pass(BODY, 2), Pass(BODY, 3)))
    left = [
        (op.name, op.micro_batch) for op in with_timed_calls(program, KNOWN, uncontended_only, in_step=False).ops()
        if isinstance(op, Compute) and op.called_s
    ]  # fmt: skip
    assert num_calls(with_timed_calls(program, KNOWN, uncontended_only, in_step=False)) == 2 + num_beside
    assert {micro for _, micro in left} == {2, 3}


@pytest.mark.parametrize(
    ("op", "num_left"),
    [
        (Receive(SUM, 1, 8.0), 2),
        (Receive(SUM, 1, 8.0, awaited=True), 2),
        (Send(SUM, 1, 8.0, awaited=True), 2),
        (Send(SUM, 1, 8.0), 1),  # no rank waits for it to arrive
    ],
)
def test_ranks_are_out_of_sync_after_a_wait_for_another_stage(op: Op, num_left: int) -> None:
    program = Program(0, (Pass((*BODY, *BODY), 0), op, Pass((*BODY, *BODY), 1)))
    assert num_calls(with_timed_calls(program, KNOWN, in_step=False)) == num_left
    assert num_calls(with_timed_calls(program, KNOWN)) == 0


def test_a_pass_can_leave_ranks_out_of_sync() -> None:
    waits = Pass((EXCHANGE, Wait(GRADIENTS)), 0)
    program = Program(0, (*BODY, waits, Pass(BODY, 1), Pass(BODY, 2)))
    assert num_calls(with_timed_calls(program, KNOWN, in_step=False)) == 2


FIRST, OTHER = Key("sum", 0, 0), Key("sum", 1, 0)


def both(*between: Op) -> tuple[Op, ...]:
    """Return the operations of two passes in turn: each goes on while the other one waits."""
    begin = Call(FIRST, "all-reduce", "tensor", 8.0), Call(OTHER, "all-reduce", "tensor", 8.0)
    return (begin[0], *between, begin[1], Wait(FIRST), Compute("beside", 1.0, FORWARD, 0), Wait(OTHER))


def test_nothing_of_another_pass_is_lost() -> None:
    """A call stays one of known time where anything but compute, or another call in progress, is before its wait."""
    receive = Receive(Key("activations", 0, 1), 1, 8.0)
    ops = tuple(with_timed_calls(Program(0, both(receive)), KNOWN).ops())
    assert [type(op) for op in ops] == [Call, Receive, Call, Wait, Compute, Wait]
    assert [op.known_s for op in ops if isinstance(op, Call)] == [0.5, 0.5]


def test_a_collective_after_another_in_progress_is_no_time() -> None:
    """It begins only when that one is done."""
    first, other = (Call(key, "all-reduce", "tensor", 8.0) for key in (FIRST, OTHER))
    program = Program(0, (first, Receive(Key("activations", 0, 1), 1, 8.0), other, Wait(OTHER), Wait(FIRST)))
    assert num_calls(with_timed_calls(program, KNOWN)) == 2


@pytest.mark.parametrize("begin", [EXCHANGE, Ready(0)])
def test_a_collective_stays_if_an_exchange_begins_before_its_end(begin: Op) -> None:
    ops = tuple(with_timed_calls(Program(0, both(begin)), KNOWN, uncontended_only=True).ops())
    assert [op.known_s for op in ops if isinstance(op, Call) and op.axis == "tensor"] == [None, None]
    ops = tuple(with_timed_calls(Program(0, both(begin)), KNOWN, slowed=True).ops())
    assert [op.known_s for op in ops if isinstance(op, Call) and op.axis == "tensor"] == [0.5, 0.5]
