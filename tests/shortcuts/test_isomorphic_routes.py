"""Isomorphic ranks: which ranks share links, and which links are the images of others."""

from __future__ import annotations

import numpy as np
import simpy

from clustersim.network import Network
from clustersim.shortcuts.isomorphic_routes import (
    RankRoutes,
    groups_sharing_links,
    isomorphic_links,
    links_of,
    routes_of,
)

PAIR = [(0, 2), (2, 0), (1, 3), (3, 1)]


def network(host: object) -> Network:
    """Two hosts with two GPUs each."""
    return Network(simpy.Environment(), {"kind": "star", "num_hosts": 2, "host": host, "link": "1 GB/s", "hop": "1 us"})


def host(nics: int) -> dict[str, object]:
    return {"template": "dgx-a100", "num_gpus": 2, "nics": nics}


def between(net: Network, pairs: list[tuple[int, int]]) -> RankRoutes:
    src, dst = np.array(pairs).T
    return routes_of(net, np.arange(4), (src, dst))


def test_routes_through_one_adapter_are_one_group_and_routes_through_two_are_two() -> None:
    for nics, expected in ((1, [[0, 1]]), (2, [[0], [1]])):
        routes = between(network(host(nics)), PAIR)
        assert groups_sharing_links(routes, routes.src % 2) == expected


def test_isomorphic_ranks_use_other_links_of_the_same_rates() -> None:
    net, gpus = network(host(2)), np.arange(4)
    routes = between(net, PAIR)
    isomorphic = isomorphic_links(net, gpus, routes, [0, 2], [[1, 3]])
    assert isomorphic.are_isomorphic.tolist() == [True]
    assert {*isomorphic.links.tolist(), *isomorphic.images[0].tolist()} == {
        *np.flatnonzero(links_of(net, routes)).tolist()
    }
    rates = net.topology.links.bytes_per_s
    assert np.array_equal(rates[isomorphic.links], rates[isomorphic.images[0]])


def test_ranks_are_isomorphic_to_themselves_on_their_own_links() -> None:
    net, gpus = network(host(2)), np.arange(4)
    isomorphic = isomorphic_links(net, gpus, between(net, PAIR), [0, 2], [[0, 2], [1, 3]])
    assert isomorphic.are_isomorphic.all()
    assert np.array_equal(isomorphic.links, isomorphic.images[0])


def test_ranks_with_longer_routes_are_not_isomorphic() -> None:
    net, gpus = network(host(2)), np.arange(4)
    routes = between(net, [(0, 1), (1, 0), (0, 2), (2, 0)])
    assert not isomorphic_links(net, gpus, routes, [0, 1], [[0, 2]]).are_isomorphic.any()


def test_ranks_with_other_routes_are_not_isomorphic() -> None:
    net, gpus = network(host(2)), np.arange(4)
    routes = between(net, PAIR[:3])
    assert not isomorphic_links(net, gpus, routes, [0, 2], [[1, 3]]).are_isomorphic.any()


def test_ranks_farther_from_a_shared_adapter_are_not_isomorphic() -> None:
    """The GPUs of a host share its one adapter, and the second GPU has a longer route to it."""
    net, gpus = network(host(1)), np.arange(4)
    routes = between(net, [(0, 2), (2, 0), (1, 3), (3, 1), (0, 3), (3, 0), (1, 2), (2, 1)])
    assert not isomorphic_links(net, gpus, routes, [0, 2], [[1, 2]]).are_isomorphic.any()
