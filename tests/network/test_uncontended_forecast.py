"""The forecast of an uncontended collective equals its simulation, or there is no forecast."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import ALL_REDUCE, COLLECTIVES, Schedule, Step, Transfer
from clustersim.network import Network
from clustersim.network.paths import Costs, payload_rates
from clustersim.network.uncontended.forecast import (
    MessagesInFlight,
    RankPositions,
    UncontendedForecaster,
    UncontendedTimes,
)
from clustersim.network.uncontended.outline import outline
from clustersim.network.uncontended.step import UncontendedStep, UncontendedSteps
from clustersim.topology import Node, Topology, load_topology

from .clusters import line, star
from .random_work import CLUSTERS, random_graphs, random_schedules

ALGORITHMS = [(kind, name) for kind in COLLECTIVES for name in COLLECTIVES[kind]]


class Case(NamedTuple):
    """A collective between nodes of a cluster, and what messages cost there."""

    topology: Topology
    schedule: Schedule
    nodes: np.ndarray
    adds: bool = False
    overhead_s: float = 0.0
    delay_s: np.ndarray | None = None
    eager_bytes: float = 0.0

    def forecast(
        self, standing: RankPositions, awaited: list[tuple[int, int]] | None = None
    ) -> UncontendedTimes | None:
        forecaster = UncontendedForecaster(
            self.topology, Costs(self.overhead_s, eager_bytes=self.eager_bytes), self.adds
        )
        return forecaster.forecast(self.schedule, self.nodes, standing, self.delay_s, awaited or ())

    def network(self) -> Network:
        costs = {"overhead_s": self.overhead_s, "eager_bytes": self.eager_bytes}
        return Network(simpy.Environment(), self.topology, adds=self.adds, exact=True, **costs)


class Played(NamedTuple):
    """What the network makes of a case: when each rank comes to each step, and the bytes of each link."""

    reached_s: np.ndarray  # [num_ranks, num_steps + 1]
    link_bytes: np.ndarray


def places(nodes: np.ndarray) -> list[object]:
    return [Node(node) for node in nodes.tolist()]


def play(case: Case, enter_s: np.ndarray) -> Played:
    network = case.network()
    collective = network.begin(case.schedule, places(case.nodes), case.delay_s)
    reached_s = np.full((case.schedule.num_ranks, case.schedule.num_steps + 1), np.nan)

    def note(rank: int, step: int):
        def at(_: simpy.Event) -> None:
            reached_s[rank, step] = network.env.now

        return at

    for rank, step in np.ndindex(*reached_s.shape):
        collective.reached(rank, step).callbacks.append(note(rank, step))
    collective.enter_at(enter_s.tolist())
    network.after_acting()
    network.env.run()
    return Played(reached_s, network.link_bytes)


def carried(case: Case, times: UncontendedTimes) -> np.ndarray:
    link_bytes = np.zeros(len(case.topology.links))
    link_bytes[times.links] = times.carried_bytes
    return link_bytes


def assert_same(case: Case, enter_s: np.ndarray) -> bool:
    """Hold a forecast against playing it; return whether there was one."""
    steps = list(np.ndindex(case.schedule.num_ranks, case.schedule.num_steps + 1))
    times = case.forecast(RankPositions.entering(enter_s), steps)
    if times is None:
        return False
    played = play(case, enter_s)
    assert times.reached_s == pytest.approx(played.reached_s.ravel(), rel=1e-12, abs=1e-300)
    assert times.end_s == pytest.approx(played.reached_s[:, -1], rel=1e-12, abs=1e-300)
    assert carried(case, times) == pytest.approx(played.link_bytes, rel=1e-12)
    return True


def case_of(
    cluster: str, schedule: Schedule, adds: bool, in_hosts: bool, jitter: float, seed: int, eager_bytes=0.0
) -> Case:
    topology, rng = CLUSTERS[cluster], np.random.default_rng(seed)
    nodes = (topology.memory if in_hosts else topology.gpus)[: schedule.num_ranks]
    delay_s = rng.exponential(jitter, (schedule.num_ranks, schedule.num_steps)) if jitter else None
    return Case(topology, schedule, nodes, adds, 1e-6, delay_s, eager_bytes)


@pytest.mark.parametrize(("kind", "name"), ALGORITHMS)
@given(
    cluster=st.sampled_from(sorted(CLUSTERS)),
    num_ranks=st.integers(1, 9),
    num_bytes=st.sampled_from([0.0, 1e3, 9e6]),
    adds=st.booleans(),
    in_hosts=st.booleans(),
    jitter=st.sampled_from([0.0, 1e-6, 1e-3]),
    skew=st.sampled_from([0.0, 1e-6, 1e-2]),
    eager_bytes=st.sampled_from([0.0, 1e6, 1e9]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=8, deadline=None)
def test_a_collective_takes_the_time_of_playing_it(
    kind, name, cluster, num_ranks, num_bytes, adds, in_hosts, jitter, skew, eager_bytes, seed
):
    schedule = COLLECTIVES[kind][name](num_ranks, num_bytes)
    case = case_of(cluster, schedule, adds, in_hosts, jitter, seed, eager_bytes)
    has_one = assert_same(case, np.random.default_rng(seed + 1).exponential(skew, num_ranks) + 0.25)
    assert has_one or num_ranks > 2 or eager_bytes or kind == "all-to-all"


@given(
    name=st.sampled_from(["ring", "tree", "torus-ring", "hierarchical"]),
    cluster=st.sampled_from(sorted(CLUSTERS)),
    num_ranks=st.integers(2, 9),
    adds=st.booleans(),
    jitter=st.sampled_from([0.0, 1e-4]),
    skew=st.sampled_from([0.0, 1e-3, 1e-1]),
    when=st.floats(0, 1),
    eager_bytes=st.sampled_from([0.0, 1e6, 1e9]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=100, deadline=None)
def test_a_forecast_from_the_middle_ends_as_one_from_the_start(
    name, cluster, num_ranks, adds, jitter, skew, when, eager_bytes, seed
):
    case = case_of(cluster, ALL_REDUCE[name](num_ranks, 9e6), adds, adds, jitter, seed, eager_bytes)
    enter_s = np.random.default_rng(seed + 1).exponential(skew, num_ranks)
    played = play(case, enter_s)
    middle_s = when * float(played.reached_s.max())
    standing, link_bytes = stopped(case, enter_s, middle_s, played)
    ahead = [
        (rank, step)
        for rank, reached in enumerate(standing.reached_steps.tolist())
        for step in range(reached, case.schedule.num_steps + 1)
    ]
    times = case.forecast(standing, ahead)
    if eager_bytes and case.forecast(RankPositions.entering(enter_s)) is None:
        return
    assert times is not None
    assert times.end_s == pytest.approx(played.reached_s[:, -1], rel=1e-12)
    assert times.reached_s == pytest.approx([played.reached_s[both] for both in ahead], rel=1e-12)
    assert link_bytes + carried(case, times) == pytest.approx(played.link_bytes, rel=1e-12)


def stopped(case: Case, enter_s: np.ndarray, time_s: float, played: Played) -> tuple[RankPositions, np.ndarray]:
    """Return how a collective stands at a time, and the bytes that links have carried in messages that are off them."""
    network = case.network()
    collective = network.begin(case.schedule, places(case.nodes), case.delay_s)
    collective.enter_at(enter_s.tolist())
    network.after_acting()
    if time_s > 0:
        network.env.run(time_s)
    moving, ranks = {}, collective.ranks
    for time_s, flow in network.engine.loop.in_flight():
        step, is_added = ranks.place(flow)
        waits = not flow.bytes_per_s and flow.path.narrowest is not None
        wire_s = flow.num_bytes / flow.path.narrowest.bytes_per_s if waits else 0.0
        moving[step, flow.message] = (time_s + wire_s, is_added)
    reached_steps = np.maximum(ranks.reached_steps, 0)
    begun = []
    for number in range(min(reached_steps), case.schedule.num_steps):
        columns = case.schedule.step(number)
        for message, (src, dst) in enumerate(zip(columns.src, columns.dst, strict=True)):
            is_eager = case.eager_bytes > 0 and columns.num_bytes[message] <= case.eager_bytes and src != dst
            comes, is_there = (ranks.at_steps[rank] == number for rank in (src, dst))
            has_started = (comes or reached_steps[src] > number) if is_eager else comes and is_there
            if has_started and reached_steps[dst] <= number:
                begun.append((number, message, *moving.get((number, message), (-np.inf, is_there))))
    reached_s = played.reached_s[np.arange(len(reached_steps)), reached_steps]
    return RankPositions(reached_steps, reached_s, MessagesInFlight.of(begun)), network.engine.carried_bytes()


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_whatever_the_messages_a_forecast_is_right_or_not_given(data):
    topology = load_topology(data.draw(random_graphs()))
    num_ranks = data.draw(st.integers(1, 5))
    gpus = data.draw(st.lists(st.sampled_from(topology.gpus.tolist()), min_size=num_ranks, max_size=num_ranks))
    schedule = data.draw(random_schedules(num_ranks))
    times = st.sampled_from([0.0, 1e-4, 0.01])
    enter_s = np.array(data.draw(st.lists(times, min_size=num_ranks, max_size=num_ranks)))
    delay_s = None
    if data.draw(st.booleans()):
        seed = data.draw(st.integers(0, 100))
        delay_s = np.random.default_rng(seed).exponential(1e-3, (num_ranks, schedule.num_steps))
    eager_bytes = data.draw(st.sampled_from([0.0, 1e4, 1e6]))
    assert_same(Case(topology, schedule, np.array(gpus), data.draw(st.booleans()), 1e-6, delay_s, eager_bytes), enter_s)


def test_a_ring_in_lock_step_is_one_step_and_a_multiplication():
    """2 (n - 1) (latency + bytes / n / rate)."""
    case = Case(load_topology(star(256)), ALL_REDUCE["ring"](256, 1e8), np.arange(256))
    times = case.forecast(RankPositions.entering(np.full(256, 3.0)))
    assert times is not None
    assert times.num_steps == 509
    assert times.end_s == pytest.approx(3.0 + 510 * (2e-6 + 1e8 / 256 / 1e9), rel=1e-12)


def test_late_ranks_and_unequal_ways_still_come_to_be_multiplied():
    case = case_of("torus", Schedule.concatenate([ALL_REDUCE["ring"](12, 1.2e7)] * 12), False, False, 0.0, 0)
    enter_s = np.random.default_rng(0).exponential(1e-2, 12)
    times = case.forecast(RankPositions.entering(enter_s))
    assert times is not None
    assert times.num_steps > 22 * 12 / 2
    assert times.end_s == pytest.approx(play(case, enter_s).reached_s[:, -1], rel=1e-12)


def test_pauses_are_not_multiplied_away():
    case = case_of("star", ALL_REDUCE["ring"](8, 8e6), False, False, 1e-6, 0)
    times = case.forecast(RankPositions.entering(np.zeros(8)))
    assert times is not None
    assert times.num_steps == 0


def test_nothing_is_forecast_of_a_ring_whose_messages_share_links():
    topology = load_topology({"kind": "torus", "dims": [4, 4], "link": "7 GB/s", "hop": "1 us"})
    nodes = topology.gpus[np.random.default_rng(0).permutation(16)]
    schedule = ALL_REDUCE["ring"](16, 1e8)
    assert Case(topology, schedule, nodes).forecast(RankPositions.entering(np.zeros(16))) is None
    assert Case(topology, schedule, topology.gpus).forecast(RankPositions.entering(np.zeros(16))) is not None


def test_messages_may_meet_on_a_link_that_has_room_for_all():
    graph = line(4)
    schedule = Schedule.from_transfers([Transfer(0, 0, 2, 1e6), Transfer(0, 1, 3, 1e6)])
    assert not assert_same(Case(load_topology(graph), schedule, np.arange(4)), np.zeros(4))
    graph.edges["switch1", "switch2"]["bytes_per_s"] = 2e9
    assert assert_same(Case(load_topology(graph), schedule, np.arange(4)), np.zeros(4))


def test_messages_of_others_may_follow_one_another_on_a_link():
    """Ranks 0 and 1 both send to the far engine of a line: at once they meet, one after another they do not."""
    schedule = Schedule.from_transfers([Transfer(0, 0, 2, 1e6), Transfer(0, 1, 3, 1e6)])
    case = Case(load_topology(line(4)), schedule, np.arange(4))
    assert assert_same(case, np.array([0.0, 1.0, 0.0, 0.0]))
    assert assert_same(case, np.array([0.0, 1e-3, 0.0, 0.0]))  # in the instant in which the first has gone
    assert not assert_same(case, np.array([0.0, 0.999e-3, 0.0, 0.0]))


def test_nothing_is_forecast_over_a_link_that_stands_still():
    topology = CLUSTERS["star"]
    rates = topology.links.bytes_per_s.copy()
    rates[topology.route(0, 1)] = 0.0
    forecaster = UncontendedForecaster(topology, Costs(), adds=False, bytes_per_s=rates)
    assert forecaster.forecast(ALL_REDUCE["ring"](4, 1e6), np.arange(4), RankPositions.entering(np.zeros(4))) is None


def test_nothing_is_forecast_of_too_many_steps_that_differ(monkeypatch):
    monkeypatch.setattr("clustersim.network.uncontended.outline._MOST_MESSAGES", 9 * 8 - 1)
    schedule = COLLECTIVES["all-to-all"]["pairwise"](9, 1e6)
    assert Case(CLUSTERS["star"], schedule, np.arange(9)).forecast(RankPositions.entering(np.zeros(9))) is None


def test_what_is_known_of_schedules_stays_small(monkeypatch):
    monkeypatch.setattr("clustersim.network.uncontended.forecast._MOST_KEPT_MESSAGES", 20)
    forecaster = UncontendedForecaster(CLUSTERS["star"], Costs(), adds=False)
    schedules = [ALL_REDUCE["ring"](num, 1e6) for num in (4, 8, 4, 9)]
    for _ in range(2):
        for schedule in schedules:
            num = schedule.num_ranks
            times = forecaster.forecast(schedule, np.arange(num), RankPositions.entering(np.zeros(num)))
            assert times is not None
            assert times.end_s == pytest.approx(2 * (num - 1) * (2e-6 + 1e6 / num / 1e9))


def test_nobody_and_nothing_to_do_take_no_time():
    for schedule in (Schedule.idle(0), Schedule.idle(3)):
        case = Case(CLUSTERS["star"], schedule, np.arange(schedule.num_ranks))
        times = case.forecast(RankPositions.entering(np.full(schedule.num_ranks, 2.5)))
        assert times is not None
        assert times.end_s.tolist() == [2.5] * schedule.num_ranks
        assert not times.carried_bytes.any()


@pytest.mark.parametrize(("late_s", "is_forecast"), [(0.0, False), (1e-3, True), (0.5, True)])
def test_a_message_may_meet_one_of_a_step_that_its_ranks_have_left(late_s, is_forecast):
    """Ranks 1 and 3 have nothing to do in step 0, and are on the line while the message of step 0 is."""
    schedule = Schedule.from_transfers([Transfer(0, 0, 2, 1e6), Transfer(1, 1, 3, 1e6)])
    case = Case(load_topology(line(4)), schedule, np.arange(4))
    assert assert_same(case, np.array([0.0, late_s, 0.0, 0.0])) == is_forecast


@pytest.mark.parametrize(("late_s", "is_forecast"), [(5.5e-3, False), (9.9e-3, False), (11e-3, True)])
def test_a_message_may_meet_one_of_a_multiplied_step(late_s, is_forecast):
    steps = [Step.of([0], [2], 1e6)] * 10 + [Step.of([1], [3], 1e6)]
    case = Case(load_topology(line(4)), Schedule.from_steps(4, steps), np.arange(4))
    assert assert_same(case, np.array([0.0, late_s, 0.0, 0.0])) == is_forecast
    after = case.forecast(RankPositions.entering(np.array([0.0, 11e-3, 0.0, 0.0])))
    assert after is not None
    assert after.num_steps > 5


@pytest.mark.parametrize("num_steps", [1, 2, 3, 6, 7, 8, 20])
@pytest.mark.parametrize("order", [[1, 2, 3, 4, 5, 6, 0], [3, 4, 5, 6, 1, 0, 2]])
def test_many_steps_of_a_ring_at_once_are_those_steps_one_by_one(order, num_steps):
    step = ring_step(Step.of(np.arange(7), order, 1e6, reduce=True))
    one_by_one_s = entered_s = np.random.default_rng(3).random(7)
    for _ in range(num_steps):
        one_by_one_s = step.done_s(one_by_one_s, step.spans(one_by_one_s))
    assert step.ring.after(num_steps, entered_s) == pytest.approx(one_by_one_s, rel=1e-14)


def test_steps_whose_messages_differ_or_miss_a_rank_are_no_ring():
    order = [1, 2, 3, 4, 5, 6, 0]
    assert ring_step(Step.of(np.arange(7), order, [1e6] * 6 + [2e6])).ring is None
    assert ring_step(Step.of(np.arange(7), order, 1e6, reduce=[True] * 6 + [False])).ring is None
    assert ring_step(Step.of(np.arange(6), order[:6], 1e6)).ring is None
    assert ring_step(Step.of(np.arange(7), order, 1e6), Costs(eager_bytes=2e6)).ring is None


def ring_step(columns: Step, costs: Costs | None = None) -> UncontendedStep:
    cluster, costs = load_topology({"kind": "star", "num_hosts": 7, "gpu": "k80", "link": "1 GB/s"}), costs or Costs()
    maker = UncontendedSteps(cluster, costs, True, payload_rates(cluster, costs))
    return maker.step(columns, cluster.gpus, maker.message_routes(columns, cluster.gpus, relayed_s=None))


def test_networks_over_one_topology_share_what_is_known_of_a_schedule(monkeypatch):
    made = []
    monkeypatch.setattr(
        "clustersim.network.uncontended.forecast.outline", lambda *given: made.append(given[0]) or outline(*given)
    )
    cluster, schedule = load_topology(star(4)), ALL_REDUCE["ring"](4, 1e6)
    entering = RankPositions.entering(np.zeros(4))
    forecasters = [UncontendedForecaster(cluster, Costs(overhead_s), False) for overhead_s in (0.0, 1.0, 0.0)]
    ends_s = [each.forecast(schedule, cluster.gpus, entering).end_s for each in forecasters]
    assert made == [schedule, schedule]
    assert ends_s[0].tolist() == ends_s[2].tolist() != ends_s[1].tolist()
