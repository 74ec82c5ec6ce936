"""Our network ends every message when SimGrid's max-min solver does.

SimGrid's times are stored and compared everywhere; where SimGrid is installed, it runs again.
"""

from __future__ import annotations

import numpy as np
import pytest

from ..benchmarks.peer_times import flow_case, random_graph, random_messages, ring_case, told_flows, told_ring
from ..benchmarks.simgrid.programs import run_program, why_missing
from ..benchmarks.work import equal_delay_torus, star
from .peer_cases import LONG_RINGS, FlowCase, RingCase, read_flow_cases, read_ring_cases

pytestmark = pytest.mark.usefixtures("engine")

FLOW_CASES = read_flow_cases()
RING_CASES = read_ring_cases()
UNCONTENDED = RING_CASES[:3]
needs_simgrid = pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))


def by_name(case: FlowCase | RingCase) -> str:
    return case.name


def test_the_stored_cases_are_those_that_are_asked_for():
    names = [case.name for case in FLOW_CASES]
    assert names[:4] == ["eight messages, star", "60 messages, star", "60 messages, torus", "60 messages, fat tree"]
    assert sum("random graph" in name for name in names) == 20
    assert [len(case.nodes) for case in UNCONTENDED] == [8, 16, 16]


@pytest.mark.parametrize("case", FLOW_CASES, ids=by_name)
def test_every_message_ends_when_simgrid_says(case):
    assert case.play() == pytest.approx(np.array(case.end_s), rel=1e-6, abs=0)


def test_messages_of_the_cases_share_links_so_that_the_times_say_something_about_sharing():
    for case in FLOW_CASES:
        ways = case.cluster.links_between()
        uncontended_s = [
            start_s
            + sum(case.cluster.links[link][3] for link in ways[src, dst])
            + num_bytes / min(case.cluster.links[link][2] for link in ways[src, dst])
            for start_s, src, dst, num_bytes in case.messages
        ]
        slowed = np.array(case.end_s) > np.array(uncontended_s) * (1 + 1e-3)
        assert slowed.mean() > 0.4, case.name


def test_no_link_of_the_eight_messages_carries_more_than_it_can():
    """1->6 and 2->6 share a link of 7 GB/s evenly and alone: 2 us + 10 MB / 3.5 GB/s = 2.859 ms, not 2.145 ms."""
    end_s = FLOW_CASES[0].play()
    assert end_s[[4, 5]] == pytest.approx(2e-6 + 10e6 / 3.5e9, rel=1e-9)


@pytest.mark.parametrize("case", UNCONTENDED, ids=by_name)
def test_every_rank_of_a_ring_with_jitter_ends_when_simgrid_and_ten_lines_say(case):
    end_s = case.play()
    assert end_s == pytest.approx(np.array(case.end_s), rel=1e-9, abs=0)
    assert end_s == pytest.approx(case.recurrence(), rel=1e-9, abs=0)


@pytest.mark.parametrize("case", RING_CASES[3:], ids=by_name)
def test_every_rank_of_a_ring_that_stands_in_its_own_way_ends_when_simgrid_says(case):
    end_s = case.play()
    assert end_s == pytest.approx(np.array(case.end_s), rel=1e-6, abs=0)
    assert end_s.max() > 1.3 * case.recurrence().max()


def test_long_contended_rings_agree_in_the_mean_where_they_are_chaotic():
    """A rounding error grows to a hundredth of one rank's time within 64 steps; of the mean, hardly anything stays."""
    for case in read_ring_cases(LONG_RINGS):
        assert case.play().mean() == pytest.approx(np.mean(case.end_s), rel=1e-3)


@needs_simgrid
@pytest.mark.parametrize("case", [FLOW_CASES[0], FLOW_CASES[3], FLOW_CASES[-1]], ids=by_name)
def test_simgrid_still_says_what_is_stored_of_messages(case):
    assert told_flows(case).end_s == pytest.approx(case.end_s, rel=1e-9)


@needs_simgrid
@pytest.mark.parametrize("case", [RING_CASES[0], RING_CASES[3]], ids=by_name)
def test_simgrid_still_says_what_is_stored_of_rings(case):
    assert told_ring(case).end_s == pytest.approx(case.end_s, rel=1e-9)


@needs_simgrid
@pytest.mark.parametrize("seed", [1001, 1002, 1003])
def test_simgrid_is_asked_about_graphs_that_nobody_has_stored(seed):
    cluster = random_graph(seed)
    case = told_flows(flow_case("unseen", cluster, random_messages(cluster, 150, seed)))
    assert case.play() == pytest.approx(np.array(case.end_s), rel=1e-6, abs=0)


@needs_simgrid
def test_simgrid_is_asked_about_rings_that_nobody_has_stored():
    for case in (
        ring_case("star of 12", star(12), seed=5),
        ring_case("16 steps, shuffled 3x3x2 torus", equal_delay_torus(3, 3, 2), seed=5, shuffled=True, num_steps=16),
    ):
        assert case.play() == pytest.approx(np.array(told_ring(case).end_s), rel=1e-6, abs=0)


@needs_simgrid
def test_a_program_that_fails_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="nowhere"):
        run_program("flows", [str(tmp_path / "nowhere.xml"), str(tmp_path / "flows.txt")])
