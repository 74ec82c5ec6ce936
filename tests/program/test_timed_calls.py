"""Collectives of known duration as time: what is timed, what stays, and that no second of it is lost."""

from __future__ import annotations

import pytest

from clustersim.program.ops import (
    BACKWARD,
    FORWARD,
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
    with_timed_calls,
)

KNOWN = {("all-reduce", 8.0): 0.5}
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


def test_a_known_collective_is_time_that_is_waited_for() -> None:
    (op,) = with_timed_calls(Program(0, (Pass(BODY, 3),)), KNOWN).ops()
    assert isinstance(op, Compute)
    assert (op.seconds, op.called_s, op.micro_batch) == (3.5, 0.5, 3)


def test_what_is_computed_beside_it_is_not_waited_for() -> None:
    beside = (Call(SUM, "all-reduce", "tensor", 8.0), Compute("beside", 0.2, BACKWARD, 0), Wait(SUM))
    (op,) = with_timed_calls(Program(0, beside), KNOWN).ops()
    assert isinstance(op, Compute)
    assert (op.seconds, op.called_s) == (0.5, pytest.approx(0.3))


def test_a_collective_of_other_bytes_stays() -> None:
    program = Program(0, (Call(SUM, "all-reduce", "tensor", 9.0), Wait(SUM)))
    assert with_timed_calls(program, KNOWN) == program


@pytest.mark.parametrize(("begin", "end", "num_left"), [(EXCHANGE, Wait(GRADIENTS), 1), (Ready(0), Wait(GRADIENTS), 2)])
def test_alone_is_who_comes_before_what_copies_exchange_or_after_the_wait_for_it(
    begin: Op, end: Op, num_left: int
) -> None:
    """A bucket is on its way until the end of the iteration."""
    program = Program(0, (Pass(BODY, 0), begin, Pass(BODY, 1), end, Pass(BODY, 2)))
    assert num_calls(with_timed_calls(program, KNOWN, alone_only=True)) == num_left
    assert num_calls(with_timed_calls(program, KNOWN)) == 0


def test_what_copies_exchange_within_a_pass_is_looked_at_operation_by_operation() -> None:
    program = Program(0, (Pass((*BODY, EXCHANGE, *BODY, Wait(GRADIENTS), *BODY), 0),))
    assert num_calls(with_timed_calls(program, KNOWN, alone_only=True)) == 1


def test_what_a_pass_leaves_under_way_meets_those_after_it_until_its_own_is_waited_for() -> None:
    passes = (Pass((*BODY, EXCHANGE), 0), Pass(BODY, 1))
    waited = Wait(GRADIENTS), Pass(BODY, 2)
    assert num_calls(with_timed_calls(Program(0, (*passes, *waited)), KNOWN, alone_only=True)) == 1
    others = Wait(GRADIENTS._replace(micro_batch=1)), Pass(BODY, 2)
    assert num_calls(with_timed_calls(Program(0, (*passes, *others)), KNOWN, alone_only=True)) == 2


def test_beside_what_slows_compute_a_collective_keeps_its_own_time() -> None:
    program = Program(0, (Pass(BODY, 0), EXCHANGE, Pass(BODY, 1), Wait(GRADIENTS), Pass(BODY, 2)))
    slowed = list(with_timed_calls(program, KNOWN, slowed=True).ops())
    assert [op.known_s for op in slowed if isinstance(op, Call) and op.axis == "tensor"] == [0.5]
    assert [op.called_s for op in slowed if isinstance(op, Compute)] == [0.5, 0.0, 0.0, 0.5]
    assert num_calls(with_timed_calls(program, KNOWN, alone_only=True, slowed=True)) == 1


def test_nothing_is_known_to_be_alone_where_iterations_flow_into_one_another() -> None:
    program = Program(0, (Pass(BODY, 0),), staleness=1)
    assert with_timed_calls(program, KNOWN, alone_only=True) == program


@pytest.mark.parametrize(("alone_only", "num_beside"), [(False, 1), (True, 1)])
def test_ranks_that_came_apart_are_brought_together_by_the_next_collective(alone_only: bool, num_beside: int) -> None:
    """It stays, as do those beside which copies exchange something; all after it are time, in passes alike too."""
    begins = Program(0, (*BODY, *BODY, Pass(BODY, 1), Pass(BODY, 2)))
    assert num_calls(with_timed_calls(begins, KNOWN, alone_only, in_step=False)) == 1
    program = Program(0, (*BODY, EXCHANGE, *BODY, Wait(GRADIENTS), Pass(BODY, 1), Pass(BODY, 2), Pass(BODY, 3)))
    left = [
        (op.name, op.micro_batch) for op in with_timed_calls(program, KNOWN, alone_only, in_step=False).ops()
        if isinstance(op, Compute) and op.called_s
    ]  # fmt: skip
    assert num_calls(with_timed_calls(program, KNOWN, alone_only, in_step=False)) == 2 + num_beside
    assert {micro for _, micro in left} == {2, 3}


@pytest.mark.parametrize(
    ("op", "num_left"),
    [
        (Receive(SUM, 1, 8.0), 2),
        (Receive(SUM, 1, 8.0, awaited=True), 2),
        (Send(SUM, 1, 8.0, awaited=True), 2),
        (Send(SUM, 1, 8.0), 1),  # nobody waits for it to arrive
    ],
)
def test_ranks_come_apart_where_they_wait_for_one_of_another_stage(op: Op, num_left: int) -> None:
    program = Program(0, (Pass((*BODY, *BODY), 0), op, Pass((*BODY, *BODY), 1)))
    assert num_calls(with_timed_calls(program, KNOWN, in_step=False)) == num_left
    assert num_calls(with_timed_calls(program, KNOWN)) == 0


def test_a_pass_in_which_ranks_come_apart_leaves_them_so() -> None:
    waits = Pass((EXCHANGE, Wait(GRADIENTS)), 0)
    program = Program(0, (*BODY, waits, Pass(BODY, 1), Pass(BODY, 2)))
    assert num_calls(with_timed_calls(program, KNOWN, in_step=False)) == 2
