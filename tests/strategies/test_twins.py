"""Ranks that stand to each other as others do: which share links, and which links are each other's."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.network import Network
from clustersim.strategies.twins import links_of, links_of_twins, lots, routes_of

PAIR = [(0, 2), (2, 0), (1, 3), (3, 1)]


def network(host: object) -> Network:
    """Two hosts with two GPUs each."""
    return Network(simpy.Environment(), {"kind": "star", "num_hosts": 2, "host": host, "link": "1 GB/s", "hop": "1 us"})


def host(nics: int) -> dict[str, object]:
    return {"template": "dgx-a100", "num_gpus": 2, "nics": nics}


def test_ways_through_one_adapter_are_one_lot_and_ways_through_two_are_two() -> None:
    gpus = np.arange(4)
    for nics, expected in ((1, [[0, 1]]), (2, [[0], [1]])):
        routes = routes_of(network(host(nics)), gpus, PAIR)
        assert lots(routes, lambda rank: rank % 2) == expected


def test_twins_use_other_links_at_the_same_rates() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    routes = routes_of(wires, gpus, PAIR)
    pairs = links_of_twins(wires, gpus, routes, [0, 2], [1, 3])
    assert pairs is not None
    assert set(pairs.ravel().tolist()) == links_of(routes)
    rates = wires.topology.links.bytes_per_s[pairs]
    assert np.array_equal(rates[0], rates[1])


def test_ranks_whose_ways_are_longer_are_no_twins() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    routes = routes_of(wires, gpus, [(0, 1), (1, 0), (0, 2), (2, 0)])
    assert links_of_twins(wires, gpus, routes, [0, 1], [0, 2]) is None


def test_ranks_that_ask_for_other_ways_are_no_twins() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    routes = routes_of(wires, gpus, PAIR[:3])
    assert links_of_twins(wires, gpus, routes, [0, 2], [1, 3]) is None


def test_ranks_are_no_twins_of_others_that_meet_on_a_link() -> None:
    """Two pairs of hosts with adapters of their own are none of two pairs that all go through one."""
    wires, gpus = network(host(1)), np.arange(4)
    routes = routes_of(wires, gpus, [(0, 2), (2, 0), (1, 3), (3, 1), (0, 3), (3, 0), (1, 2), (2, 1)])
    assert links_of_twins(wires, gpus, routes, [0, 2], [1, 2]) is None
