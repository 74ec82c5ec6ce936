"""Adding in memory where ranks come late, the network changes sides, or its tables grow meanwhile."""

from __future__ import annotations

import pytest

from clustersim.collectives import ALL_REDUCE, Schedule, Transfer
from clustersim.network import Environment, Network
from clustersim.topology import load_topology

pytestmark = pytest.mark.usefixtures("engine")

STAR = {"kind": "star", "num_hosts": 6, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"}


def test_a_receiver_that_enters_late_adds_at_once_what_has_come_before_it():
    schedule = Schedule.from_transfers([Transfer(0, 0, 1, 1e8, reduce=True)])

    def end_s(is_announced: bool) -> float:
        network = Network(Environment(), load_topology(STAR), adds=True, eager_bytes=1e8)
        if is_announced:
            return float(network.env.run(network.play(schedule, [0, 1], enter_s=[0.0, 1.0])).end_s[1])
        collective = network.begin(schedule, [0, 1])
        collective.enter(0)
        network.transfer(2, 3, 2e9)
        network.env.run(1.0)
        collective.enter(1)
        return float(network.env.run(collective.finished).end_s[1])

    assert 1.0 < end_s(False) < 1.1
    assert end_s(False) == pytest.approx(end_s(True), rel=1e-12)


def test_a_rank_adds_on_one_core_before_and_after_a_handover(engine):
    schedule = Schedule.from_transfers([Transfer(0, 0, 1, 1e8, reduce=True), Transfer(0, 2, 1, 1.5e8, reduce=True)])
    costs = {"adds": True, "add_s_per_byte": 1e-8, "exact": True}
    network = Network(Environment(), load_topology(STAR), **costs)
    done = network.play(schedule, [0, 1, 2])
    if engine == "python":
        network.env.run(0.22)
        network._compile()
    assert network.env.run(done).end_s.tolist() == pytest.approx([2.15, 2.7, 2.7], rel=1e-9)


def test_calling_off_what_is_on_the_wire_frees_its_share_where_many_collectives_have_begun_meanwhile():
    network = Network(Environment(), load_topology(STAR), adds=True, add_s_per_byte=1e-10)
    first, _, third = (network.transfer(*ends, 1e9) for ends in [(0, 1), (0, 2), (3, 1)])
    network.env.run(0.25)
    for shift in range(12):
        network.begin(ALL_REDUCE["ring"](6, 6e6 * (shift + 1)), [(rank + shift) % 6 for rank in range(6)])
    for sent in (first, third):
        network.cancel(sent)
    later = [network.transfer(*message) for message in [(0, 1, 1e8), (4, 1, 2e8), (0, 5, 3e8)]]
    assert [network.env.run(sent).end_s for sent in later] == pytest.approx([0.55, 0.55, 0.95], rel=1e-9)
    assert first.value.num_bytes == pytest.approx(0.125e9)
