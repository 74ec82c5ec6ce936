"""Ranks that stand to each other as others do: which share links, and which links are each other's."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.network import Network
from clustersim.shortcuts.isomorphic_routes import RankRoutes, isomorphic_links, links_of, lots, routes_of

PAIR = [(0, 2), (2, 0), (1, 3), (3, 1)]


def network(host: object) -> Network:
    """Two hosts with two GPUs each."""
    return Network(simpy.Environment(), {"kind": "star", "num_hosts": 2, "host": host, "link": "1 GB/s", "hop": "1 us"})


def host(nics: int) -> dict[str, object]:
    return {"template": "dgx-a100", "num_gpus": 2, "nics": nics}


def between(wires: Network, pairs: list[tuple[int, int]]) -> RankRoutes:
    src, dst = np.array(pairs).T
    return routes_of(wires, np.arange(4), (src, dst))


def test_ways_through_one_adapter_are_one_lot_and_ways_through_two_are_two() -> None:
    for nics, expected in ((1, [[0, 1]]), (2, [[0], [1]])):
        ways = between(network(host(nics)), PAIR)
        assert lots(ways, ways.src % 2) == expected


def test_isomorphic_use_other_links_at_the_same_rates() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    ways = between(wires, PAIR)
    isomorphic = isomorphic_links(wires, gpus, ways, [0, 2], [[1, 3]])
    assert isomorphic.are_isomorphic.tolist() == [True]
    assert {*isomorphic.links.tolist(), *isomorphic.instead[0].tolist()} == {
        *np.flatnonzero(links_of(wires, ways)).tolist()
    }
    rates = wires.topology.links.bytes_per_s
    assert np.array_equal(rates[isomorphic.links], rates[isomorphic.instead[0]])


def test_ranks_are_their_own_isomorphic_with_the_links_they_use() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    isomorphic = isomorphic_links(wires, gpus, between(wires, PAIR), [0, 2], [[0, 2], [1, 3]])
    assert isomorphic.are_isomorphic.all()
    assert np.array_equal(isomorphic.links, isomorphic.instead[0])


def test_ranks_whose_ways_are_longer_are_no_isomorphic() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    ways = between(wires, [(0, 1), (1, 0), (0, 2), (2, 0)])
    assert not isomorphic_links(wires, gpus, ways, [0, 1], [[0, 2]]).are_isomorphic.any()


def test_ranks_that_ask_for_other_ways_are_no_isomorphic() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    ways = between(wires, PAIR[:3])
    assert not isomorphic_links(wires, gpus, ways, [0, 2], [[1, 3]]).are_isomorphic.any()


def test_ranks_are_no_isomorphic_of_others_that_meet_on_a_link() -> None:
    """Two pairs of hosts with adapters of their own are none of two pairs that all go through one."""
    wires, gpus = network(host(1)), np.arange(4)
    ways = between(wires, [(0, 2), (2, 0), (1, 3), (3, 1), (0, 3), (3, 0), (1, 2), (2, 1)])
    assert not isomorphic_links(wires, gpus, ways, [0, 2], [[1, 2]]).are_isomorphic.any()
