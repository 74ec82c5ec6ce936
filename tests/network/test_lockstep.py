"""Collectives in lockstep are extrapolated, and the times are those of a full simulation."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.collectives import ALL_REDUCE
from clustersim.network import Network
from clustersim.topology import Topology, load_topology

from .clusters import make_network, star

NUM_RANKS = 24
NUM_STEPS = 2 * (NUM_RANKS - 1)
HOSTS = {"kind": "star", "num_hosts": NUM_RANKS, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "1 us"}
MESSAGES_S = (0.0312, 0.0652)  # when another message is sent


def three_rings(cluster: Topology, **options: Any) -> tuple[Network, list[float]]:
    """Reduce over three rings on the same links, one of which begins later; return the times of all notifications."""
    network = make_network(cluster, **options)
    network._player.take_no_shortcut()
    env, told_s = network.env, []

    def tell(*_: object) -> None:
        told_s.append(float(env.now))

    def reduce(start_s: float, awaited: int):
        yield env.timeout(start_s)
        collective = network.begin(ALL_REDUCE["ring"](NUM_RANKS, 24e6), range(NUM_RANKS))
        collective.enter(*range(NUM_RANKS))
        for rank, step in ((0, awaited), (5, awaited + 6), (9, NUM_STEPS)):
            collective.reached(rank, step).callbacks.append(tell)

    def send(start_s: float):
        yield env.timeout(start_s)
        yield network.transfer(0, NUM_RANKS // 2, 1e5)
        tell()

    for start_s, awaited in ((0, 7), (0, 31), (0.0203, 19)):
        env.process(reduce(start_s, awaited))
    for start_s in MESSAGES_S:
        env.process(send(start_s))
    env.run()
    return network, told_s


@pytest.mark.parametrize("costs", [{}, {"adds": True, "add_s_per_byte": 1e-10}])
@pytest.mark.parametrize("cluster", [load_topology(star(NUM_RANKS)), load_topology(HOSTS)], ids=["star", "hosts"])
@pytest.mark.parametrize("engine", ["python", "numba"])
def test_rings_that_share_links_end_as_if_each_step_were_played(engine, cluster, costs):
    """An exact run plays every step, as the Python engine does; it has fewer links."""
    skipped, told_s = three_rings(cluster, engine="numba", **costs)
    played, also_told_s = three_rings(cluster, engine=engine, exact=True, **costs)
    assert skipped.shortcuts
    assert not played.shortcuts
    assert told_s == pytest.approx(also_told_s, rel=1e-12)
    assert skipped.link_bytes == pytest.approx(played.link_bytes, rel=1e-12)
    assert skipped.counts._replace(levels=0) == played.counts._replace(levels=0)


def times_in_unison(num_ranks: int) -> int:
    """Return how often ranks were found in lockstep in a ring that the shortcut does not compute."""
    network = make_network(star(num_ranks), engine="numba")
    network._player.take_no_shortcut()
    network.env.run(network.play(ALL_REDUCE["ring"](num_ranks, 1e6), range(num_ranks)))
    return int(network.engine.kernels.clock["num_locksteps"])


def test_no_more_steps_are_played_where_there_are_more():
    assert 0 < times_in_unison(8) == times_in_unison(32)


def test_who_watches_sees_every_step():
    network, shares = make_network(star(8), engine="numba"), []
    network.watch(lambda time_s, flows: shares.append(len(flows)))
    network.env.run(network.play(ALL_REDUCE["ring"](8, 1e6), range(8)))
    assert shares.count(8) == 14
    assert not network.shortcuts
