"""Rates kept up to date, flow by flow, are those of solving everything anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.network import max_min_rates
from clustersim.network.flow import Flow, Link, Path
from clustersim.network.python_engine.max_min import MaxMin


class NoSender:
    def ended(self, flow: Flow) -> None:
        """Care for nothing."""


class Cable:
    """Links with flows on them, shared after every change."""

    def __init__(self, capacity: list[float]):
        self.links = [Link({number: bytes_per_s}) for number, bytes_per_s in enumerate(capacity)]
        self.sharing = MaxMin()
        self.flows: list[Flow] = []

    def change(
        self, leaving: list[Flow], routes: list[list[int]], weights: list[float], time_s: float = 0.0
    ) -> list[Flow]:
        """Let flows leave and others start; return those whose rate is new."""
        left: dict[Link, None] = {}
        for flow in leaving:
            self.flows.remove(flow)
            for link in flow.path.links:
                del link.flows[flow]
                left[link] = None
        started = []
        for route, weight in zip(routes, weights, strict=True):
            flow = Flow(Path(tuple(self.links[number] for number in route), 0.0), 1e9, weight, NoSender())
            for link in flow.path.links:
                link.flows[flow] = None
            started.append(flow)
        self.flows += started
        return self.sharing.share(time_s, started, left)

    def solved_anew(self) -> np.ndarray:
        routes = [[link.number for link in flow.path.links] for flow in self.flows]
        padded = np.array([route + [len(self.links)] * (len(self.links) - len(route)) for route in routes])
        capacity = np.array([*(link.bytes_per_s for link in self.links), np.inf])
        return max_min_rates(padded, np.array([flow.weight for flow in self.flows]), capacity)


@given(num_links=st.integers(1, 20), seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.0, 1.5, 6.0]))
@settings(max_examples=60, deadline=None)
def test_rates_after_every_change_are_those_of_solving_all_flows_anew(num_links, seed, spread):
    rng = np.random.default_rng(seed)
    cable = Cable(rng.lognormal(0, spread, num_links).tolist())
    for _ in range(25):
        leaving = [flow for flow in cable.flows if rng.random() < 0.2]
        lengths = rng.integers(1, min(num_links, 6) + 1, rng.integers(0, 5))
        routes = [rng.permutation(num_links)[:length].tolist() for length in lengths]
        cable.change(leaving, routes, rng.choice([1.0, 1.0, 0.5, 3.0], len(routes)).tolist())
        if cable.flows:
            assert [flow.bytes_per_s for flow in cable.flows] == pytest.approx(cable.solved_anew(), rel=1e-9)


def test_a_flow_alone_gets_its_narrowest_link_without_a_solve():
    cable = Cable([3.0, 2.0, 5.0])
    (flow,) = cable.change([], [[0, 1, 2]], [0.5])
    assert flow.bytes_per_s == 2.0
    assert cable.sharing.num_solves == 0


def test_a_flow_that_shared_nothing_leaves_without_a_solve():
    cable = Cable([1.0, 1.0])
    cable.change([], [[0], [1]], [1.0, 1.0])
    assert cable.change(cable.flows[:1], [], []) == []
    assert cable.sharing.num_solves == 0


def test_only_rates_that_change_are_told():
    cable = Cable([1.0, 10.0])
    cable.change([], [[1], [0, 1]], [1.0, 1.0])
    far, near = cable.flows
    assert (near.bytes_per_s, far.bytes_per_s) == pytest.approx((1.0, 9.0))
    changed = cable.change([], [[0]], [1.0])
    assert {flow.bytes_per_s for flow in changed} == {0.5, 9.5}
    assert near not in cable.change([], [[1]], [1e-3])  # held back by the narrow link, it does not notice


def test_what_gives_way_lets_others_rise():
    """A slow newcomer on link 0 takes from the first flow, so the second, which shared link 1 with it, gets more."""
    cable = Cable([2.0, 2.0])
    cable.change([], [[0, 1], [1]], [1.0, 1.0])
    first, second = cable.flows
    assert (first.bytes_per_s, second.bytes_per_s) == (1.0, 1.0)
    cable.change([], [[0], [0], [0]], [1.0, 1.0, 1.0])
    assert (first.bytes_per_s, second.bytes_per_s) == pytest.approx((0.5, 1.5))


def test_a_crowded_link_pulls_down_flows_that_did_not_start():
    """Freed on its narrow link, a flow rises until the next link is full, on which others stand above it."""
    cable = Cable([10.0, 6.0])
    cable.change([], [[0], [0, 1], [1]], [99.0, 1.0, 1.0])
    blocker, riser, stander = cable.flows
    assert (riser.bytes_per_s, stander.bytes_per_s) == pytest.approx((0.1, 5.9))
    cable.change([blocker], [], [])
    assert (riser.bytes_per_s, stander.bytes_per_s) == pytest.approx((3.0, 3.0))


def test_two_halves_with_half_the_weight_change_nothing_for_others():
    def other_rate(routes: list[list[int]], weights: list[float]) -> float:
        cable = Cable([4.0, 3.0, 7.0])
        cable.change([], [[0, 1], *routes], [1.0, *weights])
        return cable.flows[0].bytes_per_s

    assert other_rate([[1, 2], [1, 2]], [0.5, 0.5]) == pytest.approx(other_rate([[1, 2]], [1.0]), rel=1e-12)
    assert other_rate([[1, 2]], [1.0]) == pytest.approx(1.5)
