"""Loops of programs: the cycles that repeat, and the operations after them with fewer cycles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.parallelism.schedules import SCHEDULES, Slot
from clustersim.program.loop import Loop, after_cycles, early_cycles, loop_of
from clustersim.program.ops import BACKWARD, Call, Compute, Key, Op, Pass, Program, Send, Wait


def program_of(slots: list[Slot]) -> Program:
    """Return the program of a stage that only computes; its last pass is written out, as in compiled programs."""
    bodies: dict[tuple[str, int], tuple[Op, ...]] = {}
    parts: list[Op | Pass] = []
    for slot in slots[:-1]:
        body = bodies.setdefault((slot.phase, slot.chunk), (Compute("layer", 1.0, slot.phase, 0),))
        parts.append(Pass(body, slot.micro_batch))
    return Program(0, (*parts, Compute("layer", 1.0, slots[-1].phase, slots[-1].micro_batch)))


@given(
    st.sampled_from(["1f1b", "interleaved", "zero-bubble"]),
    st.sampled_from([1, 2, 4]),
    st.integers(4, 12),
    st.integers(0, 3),
)
def test_a_cycle_has_as_many_micro_batches_as_the_schedule_takes_at_a_time(
    schedule: str, num_stages: int, rounds: int, stage: int
) -> None:
    num_chunks = 2 if schedule == "interleaved" else 1
    num_micro = rounds * num_stages
    stages = [
        program_of(SCHEDULES[schedule](min(stage, num_stages - 1), num_stages, num_micro, num_chunks))
        for stage in range(num_stages)
    ]
    loops = [loop_of(program) for program in stages]
    step = num_stages if schedule == "interleaved" else 1
    for program, loop in zip(stages, loops, strict=True):
        assert loop is not None
        for cycle in range(1, loop.num_cycles):
            for before, after in zip(loop.cycle(cycle - 1), loop.cycle(cycle), strict=True):
                one, other = program.parts[before], program.parts[after]
                assert isinstance(one, Pass)
                assert isinstance(other, Pass)
                assert (one.body, one.micro_batch + loop.step) == (other.body, other.micro_batch)
    if rounds >= 8:
        assert {loop.step for loop in loops if loop} == {step}
        assert min(loop.num_cycles for loop in loops if loop) >= rounds - (4 if step > 1 else 2 * num_stages)


@given(st.sampled_from([1, 2, 4]), st.integers(0, 3), st.integers(12, 20), st.integers(0, 4))
def test_fewer_cycles_are_the_program_of_fewer_micro_batches(
    num_stages: int, stage: int, num_micro: int, num_skipped: int
) -> None:
    def ops_of(num_micro: int) -> Program:
        return program_of(SCHEDULES["1f1b"](min(stage, num_stages - 1), num_stages, num_micro, 1))

    whole, fewer = ops_of(num_micro), ops_of(num_micro - num_skipped)
    loop = loop_of(whole)
    assert loop is not None
    before = [op for part in whole.parts[: loop.end - num_skipped * loop.num_parts] for op in part.ops()]  # type: ignore[union-attr]
    assert [*before, *after_cycles(whole, loop, num_skipped)] == list(fewer.ops())


def test_without_repeated_passes_there_are_no_cycles() -> None:
    assert loop_of(Program(0, (Compute("layer", 1.0, BACKWARD, 0),))) is None
    body = (Compute("layer", 1.0, BACKWARD, 0),)
    assert loop_of(Program(0, (Pass(body, 0), Pass((Compute("other", 1.0, BACKWARD, 0),), 0)))) is None
    backwards = tuple(Pass(body, number) for number in reversed(range(9)))
    assert loop_of(Program(0, backwards)) is None
    assert loop_of(Program(0, backwards[::-1], staleness=1)) is None


@pytest.mark.parametrize(("first_late", "num_cycles"), [(9, 8), (8, 8), (5, 5), (0, 0)])
def test_cycles_that_send_late_messages_are_dropped(first_late: int, num_cycles: int) -> None:
    body: tuple[Op, ...] = (Compute("layer", 1.0, BACKWARD, 0), Send(Key("activations", 0, 1), 1, 8.0))
    program = Program(0, tuple(Pass(body, number) for number in range(8)))
    assert early_cycles(program, Loop(0, 1, 8, 1), first_late).num_cycles == num_cycles


def test_waits_at_the_end_for_skipped_micro_batches_are_dropped() -> None:
    """Operations of the whole iteration have number 0; the last micro-batch has operations of its own."""
    calls = [Key("shares", number, 0) for number in range(8)]
    body: tuple[Op, ...] = (Call(calls[0], "reduce-scatter", "replicas", 8.0),)
    last, weights = Key("sums", 7, 0), Key("weights", 0, 0)
    rest = (
        Call(calls[7], "reduce-scatter", "replicas", 8.0),
        Call(last, "all-reduce", "replicas", 8.0, after=calls[7]),
        *(Wait(key) for key in [*calls[:7], last]),
        Call(weights, "all-gather", "replicas", 8.0),
        Wait(weights),
    )
    program = Program(0, (*(Pass(body, number) for number in range(7)), *rest))
    loop = loop_of(program)
    assert loop == Loop(0, 1, 7, 1)
    seventh = Key("shares", 4, 0)
    assert list(after_cycles(program, loop, 3)) == [
        Call(seventh, "reduce-scatter", "replicas", 8.0),
        Call(Key("sums", 4, 0), "all-reduce", "replicas", 8.0, after=seventh),
        *(Wait(key) for key in [*calls[:4], Key("sums", 4, 0)]),
        Call(weights, "all-gather", "replicas", 8.0),
        Wait(weights),
    ]
