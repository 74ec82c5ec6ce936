"""The statistics of a timer, with a clock controlled by the test."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.profiling.timer import GRAPH_BELOW_S, SAMPLE_S, Call, RoundRobin, Timer, interquartile_range, num_copies


class FakeTimer(Timer):
    """A device on which each call takes so long; launching one adds a gap, which a graph saves."""

    def __init__(self, budget_s: float = 0.05, gap_s: float = 0.0, can_graph: bool = False):
        super().__init__(budget_s)
        self.now_s, self.gap_s, self.can_graph, self.num_calls = 0.0, gap_s, can_graph, 0
        self.replaying = False

    def clock(self) -> float:
        return self.now_s

    def once(self, play: Call) -> float:
        start = self.now_s
        play()
        return self.now_s - start

    def graph(self, play: Call) -> Call | None:
        def replay() -> None:
            self.replaying = True
            play()
            self.replaying = False

        return replay if self.can_graph else None

    def call(self, seconds: Sequence[float]) -> Call:
        def work() -> None:
            self.now_s += seconds[self.num_calls % len(seconds)] + (0.0 if self.replaying else self.gap_s)
            self.num_calls += 1

        return work


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 1e-2, 1.0])
def test_a_steady_call_takes_what_it_takes(seconds: float) -> None:
    timer = FakeTimer()
    timing = timer.time([timer.call([seconds])])
    assert timing.median_s == pytest.approx(seconds)
    assert timing.spread_s == pytest.approx(0.0, abs=1e-12)


def test_short_calls_are_repeated_until_a_sample_is_long_enough() -> None:
    timer = FakeTimer()
    timing = timer.time([timer.call([1e-6])])
    assert timer.now_s >= timing.num_samples * SAMPLE_S


def test_a_slow_call_is_made_a_few_times_only() -> None:
    timer = FakeTimer(budget_s=0.05)
    assert timer.time([timer.call([10.0])]).num_samples == 3
    assert timer.num_calls == 5


def test_one_pause_does_not_move_the_median() -> None:
    timer = FakeTimer()
    timing = timer.time([timer.call([0.01] * 6 + [1.0])])
    assert timing.median_s == pytest.approx(0.01)


def test_a_graph_takes_launching_out_of_short_calls() -> None:
    timer = FakeTimer(gap_s=1e-5, can_graph=True)
    timing = timer.time([timer.call([2e-6])])
    assert (timing.method, timing.median_s) == ("graph", pytest.approx(2e-6))


def test_a_call_that_cannot_be_captured_is_timed_as_it_is() -> None:
    timer = FakeTimer(gap_s=1e-5, can_graph=False)
    timing = timer.time([timer.call([2e-6])])
    assert (timing.method, timing.median_s) == ("loop", pytest.approx(1.2e-5))


def test_a_long_call_needs_no_graph() -> None:
    timer = FakeTimer(can_graph=True)
    assert timer.time([timer.call([2 * GRAPH_BELOW_S])]).method == "loop"


@given(num_calls=st.integers(1, 7), rounds=st.integers(1, 5))
def test_copies_take_turns_and_each_keeps_its_last_result(num_calls: int, rounds: int) -> None:
    made: list[int] = []

    def call(number: int) -> Call:
        def work() -> int:
            made.append(number)
            return len(made)

        return work

    turns = RoundRobin([call(number) for number in range(num_calls)])
    turns.play(rounds * num_calls)
    assert made == [*range(num_calls)] * rounds
    assert turns.kept == [(rounds - 1) * num_calls + number + 1 for number in range(num_calls)]


@given(num_bytes=st.integers(1, 10**10), cache_bytes=st.integers(1, 10**9))
def test_copies_fill_the_cache_twice_unless_there_would_be_too_many(num_bytes: int, cache_bytes: int) -> None:
    copies = num_copies(num_bytes, cache_bytes)
    assert 1 <= copies <= 16
    assert copies == 16 or copies * num_bytes >= 2 * cache_bytes
    assert copies == 1 or (copies - 2) * num_bytes <= 2 * cache_bytes


@given(st.lists(st.floats(0, 1e3), min_size=1))
def test_the_spread_lies_within_the_samples(samples: list[float]) -> None:
    assert 0 <= interquartile_range(samples) <= max(samples) - min(samples)


@pytest.mark.torch
@pytest.mark.parametrize("can_capture", [True, False])
def test_what_cuda_cannot_capture_is_no_graph(monkeypatch: pytest.MonkeyPatch, can_capture: bool) -> None:
    import torch

    from clustersim.profiling.cuda_timer import CudaTimer

    log: list[str] = []

    class Graph:
        def capture_begin(self) -> None:
            log.append("begin")

        def capture_end(self) -> None:
            log.append("end")

        def replay(self) -> None:
            log.append("replay")

    def play() -> None:
        if not can_capture:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    replay = CudaTimer(0.1, stream=None).graph(play)
    assert log == ["begin", "end"]
    assert (replay is not None) == can_capture
    if replay is not None:
        replay()
        assert log[-1] == "replay"


@pytest.mark.torch
def test_laps_of_whole_iterations_leave_no_gap_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from clustersim.profiling import whole

    now_ms = [0.0]

    class Event:
        def __init__(self, enable_timing: bool):
            self.at_ms = 0.0

        def record(self) -> None:
            self.at_ms = now_ms[0]

        def elapsed_time(self, other: Event) -> float:
            return other.at_ms - self.at_ms

    class Iteration:
        def run(self, mark: Call) -> None:
            for duration_ms in (3.0, 5.0, 1.0):
                mark()
                now_ms[0] += duration_ms
            mark()
            now_ms[0] += 0.5  # what the device waits for the next iteration

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    durations = whole._cuda_durations(Iteration(), 0.0)
    assert len(durations) == 5
    assert all(parts == pytest.approx((3e-3, 5e-3, 1.5e-3)) for parts in durations)
