"""What is due comes in order of time, and what has been put off does not come early."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clustersim.network.flow import Flow, Path
from clustersim.network.python_engine.event_queue import EventQueue, FlowEndings

times = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 7.0])


class NoSender:
    def ended(self, flow: Flow) -> None:
        """Care for nothing."""


def new_flow() -> Flow:
    return Flow(Path((), 0.0), 1.0, 1.0, NoSender())


@given(st.lists(times, min_size=1))
def test_items_come_in_order_of_time_and_first_come_first_served(given_times):
    agenda: EventQueue[tuple[float, int]] = EventQueue()
    for number, time_s in enumerate(given_times):
        agenda.add(time_s, (time_s, number))
    taken = []
    while agenda.times:
        taken += agenda.take(agenda.times[0])
    assert taken == sorted((time_s, number) for number, time_s in enumerate(given_times))


def test_all_that_is_due_comes_at_once_and_nothing_else():
    agenda: EventQueue[str] = EventQueue()
    for time_s, item in [(3.0, "late"), (1.0, "first"), (2.0, "second")]:
        agenda.add(time_s, item)
    assert agenda.take(2.0) == ["first", "second"]
    assert agenda.times == [3.0]


@given(st.lists(st.tuples(st.integers(0, 5), times), min_size=1, max_size=400))
def test_a_flow_ends_once_at_the_time_that_was_noted_last(notes):
    endings, flows = FlowEndings(), [new_flow() for _ in range(6)]
    expected: dict[int, float] = {}
    for number, time_s in notes:
        endings.expect(flows[number], time_s)
        expected[number] = time_s
    assert endings.next_s() == min(expected.values())
    ended: dict[int, float] = {}
    while (time_s := endings.next_s()) < float("inf"):
        for flow in endings.take(time_s):
            assert flows.index(flow) not in ended
            ended[flows.index(flow)] = time_s
    assert ended == expected


def test_a_flow_that_is_put_off_for_ever_leaves_no_pile_of_outdated_endings():
    endings, flow = FlowEndings(), new_flow()
    for number in range(10_000):
        endings.expect(flow, float(number))
    assert len(endings.times) < 1000
    assert endings.next_s() == 9999.0
    assert endings.take(9999.0) == [flow]
    assert endings.next_s() == float("inf")
