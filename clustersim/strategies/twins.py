"""Ranks that stand to each other as others do, so that what one lot of them sends goes over links like the other's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

import numpy as np

from clustersim.network import Network
from clustersim.topology.routes import Routes as Found

Routes = Mapping[tuple[int, int], tuple[int, ...]]
"""Links of the way from one rank to another; of a rank to itself, the link that stands for adding in its memory."""


def routes_of(
    network: Network,
    gpus: np.ndarray,
    pairs: Iterable[tuple[int, int]],
    adds: bool = False,
    collectives: bool = False,
) -> Routes:
    """Return the ways between pairs of ranks on `gpus` [num_ranks]; with `adds`, also where each of them adds.

    With `collectives`, those that channels take come after them, on a cluster where they have others.
    """
    topology, known = network.topology, list(dict.fromkeys(pairs))
    ends = topology.gpus[gpus[np.array(known, dtype=np.int64).reshape(-1, 2)]]
    found = topology.routes(ends[:, 0], ends[:, 1])
    if collectives and topology.first_of_socket is not None:
        found = Found.join(len(known), [found, topology.channel_routes(ends[:, 0], ends[:, 1])])
    routes = {
        pair: tuple(found.links[first:end].tolist())
        for pair, first, end in zip(known, found.first[:-1].tolist(), found.first[1:].tolist(), strict=True)
    }
    for rank in dict.fromkeys(rank for rank, _ in known) if adds else ():
        adder = topology.adders.get(int(topology.gpus[gpus[rank]]))
        routes[rank, rank] = () if adder is None else (adder,)
    return routes


def links_of(routes: Routes) -> set[int]:
    """Return all links that some ways take."""
    return {link for route in routes.values() for link in route}


def lots(routes: Routes, owner_of: Callable[[int], int]) -> list[list[int]]:
    """Return which owners, each having the ways of its ranks, share links with each other, directly or not.

    >>> lots({(0, 9): (7, 8), (1, 9): (5,), (2, 9): (8,)}, lambda rank: rank)
    [[0, 2], [1]]
    """
    lot_of: dict[int, int] = {}  # the first known owner of a lot, by way of others
    first: dict[int, int] = {}  # the owner that was seen first on a link

    def lot(owner: int) -> int:
        while lot_of.setdefault(owner, owner) != owner:
            owner = lot_of[owner]
        return owner

    for (rank, _), route in routes.items():
        own = owner_of(rank)
        lot(own)
        for link in route:
            one, other = sorted((lot(own), lot(first.setdefault(link, own))))
            lot_of[other] = one
    found: dict[int, list[int]] = {}
    for owner in sorted(lot_of):
        found.setdefault(lot(owner), []).append(owner)
    return list(found.values())


def links_of_twins(
    network: Network, gpus: np.ndarray, routes: Routes, ranks: Sequence[int], twins: Sequence[int]
) -> np.ndarray | None:
    """Return the links that ranks use among themselves, and those that their twins use instead [2, num_links].

    None where the twins do not stand to each other as the ranks do: in hosts and in the order of GPUs alike, and link
    by link at the same rates and latencies.
    """
    links, known = network.topology.links, dict(zip(ranks, twins, strict=True))
    instead: dict[int, int] = {}
    if _stand(network, gpus[list(ranks)]) != _stand(network, gpus[list(twins)]):
        return None
    for ends in product(ranks, ranks):
        route, of_twins = routes.get(ends), routes.get((known[ends[0]], known[ends[1]]))
        if route is None and of_twins is None:
            continue
        if route is None or of_twins is None or len(of_twins) != len(route):
            return None
        if any(instead.setdefault(*pair) != pair[1] for pair in zip(route, of_twins, strict=True)):
            return None
    pairs = np.array(list(instead.items()), dtype=np.int64).reshape(-1, 2).T
    alike = all(np.array_equal(column[pairs[0]], column[pairs[1]]) for column in (links.bytes_per_s, links.latency_s))
    return pairs if alike and len(np.unique(pairs[1])) == pairs.shape[1] else None


def _stand(network: Network, gpus: np.ndarray) -> tuple[list[int], list[int]]:
    """Return which of some GPUs share a host, hosts numbered as they come, and the order of the GPUs' numbers."""
    seen: dict[int, int] = {}
    hosts = [seen.setdefault(host, len(seen)) for host in network.topology.gpu_hosts[gpus].tolist()]
    return hosts, np.argsort(gpus, kind="stable").tolist()
