"""Ranks that stand to each other as others do: which share links, and which links are each other's."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.network import Network
from clustersim.strategies.twins import Ways, links_of, links_of_twins, lots, ways_of

PAIR = [(0, 2), (2, 0), (1, 3), (3, 1)]


def network(host: object) -> Network:
    """Two hosts with two GPUs each."""
    return Network(simpy.Environment(), {"kind": "star", "num_hosts": 2, "host": host, "link": "1 GB/s", "hop": "1 us"})


def host(nics: int) -> dict[str, object]:
    return {"template": "dgx-a100", "num_gpus": 2, "nics": nics}


def between(wires: Network, pairs: list[tuple[int, int]]) -> Ways:
    src, dst = np.array(pairs).T
    return ways_of(wires, np.arange(4), (src, dst))


def test_ways_through_one_adapter_are_one_lot_and_ways_through_two_are_two() -> None:
    for nics, expected in ((1, [[0, 1]]), (2, [[0], [1]])):
        ways = between(network(host(nics)), PAIR)
        assert lots(ways, ways.src % 2) == expected


def test_twins_use_other_links_at_the_same_rates() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    ways = between(wires, PAIR)
    twins = links_of_twins(wires, gpus, ways, [0, 2], [[1, 3]])
    assert twins.are_twins.tolist() == [True]
    assert {*twins.links.tolist(), *twins.instead[0].tolist()} == {*np.flatnonzero(links_of(wires, ways)).tolist()}
    rates = wires.topology.links.bytes_per_s
    assert np.array_equal(rates[twins.links], rates[twins.instead[0]])


def test_ranks_are_their_own_twins_with_the_links_they_use() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    twins = links_of_twins(wires, gpus, between(wires, PAIR), [0, 2], [[0, 2], [1, 3]])
    assert twins.are_twins.all()
    assert np.array_equal(twins.links, twins.instead[0])


def test_ranks_whose_ways_are_longer_are_no_twins() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    ways = between(wires, [(0, 1), (1, 0), (0, 2), (2, 0)])
    assert not links_of_twins(wires, gpus, ways, [0, 1], [[0, 2]]).are_twins.any()


def test_ranks_that_ask_for_other_ways_are_no_twins() -> None:
    wires, gpus = network(host(2)), np.arange(4)
    ways = between(wires, PAIR[:3])
    assert not links_of_twins(wires, gpus, ways, [0, 2], [[1, 3]]).are_twins.any()


def test_ranks_are_no_twins_of_others_that_meet_on_a_link() -> None:
    """Two pairs of hosts with adapters of their own are none of two pairs that all go through one."""
    wires, gpus = network(host(1)), np.arange(4)
    ways = between(wires, [(0, 2), (2, 0), (1, 3), (3, 1), (0, 3), (3, 0), (1, 2), (2, 1)])
    assert not links_of_twins(wires, gpus, ways, [0, 2], [[1, 2]]).are_twins.any()
