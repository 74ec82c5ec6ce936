"""Ranks that stand to each other as others do, so that what one lot of them sends goes over links like the other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clustersim.network import Network
from clustersim.topology.routes import Routes


class RankRoutes(NamedTuple):
    """Routes from ranks `src` [n] to ranks `dst` [n]. A rank's route to itself is the link on which it adds."""

    src: np.ndarray
    dst: np.ndarray
    routes: Routes

    @property
    def links(self) -> np.ndarray:
        """The links of all ways, one way after another [num_links]."""
        return self.routes.links

    def for_links(self, column: np.ndarray) -> np.ndarray:
        """Return for each link of the ways what a column [n] has for its way."""
        found: np.ndarray = np.repeat(column, self.routes.lengths)
        return found

    def with_others(self, others: RankRoutes) -> RankRoutes:
        """Return these ways and others."""
        lengths = np.concatenate([self.routes.lengths, others.routes.lengths])
        routes = Routes.of_lengths(lengths, np.concatenate([self.links, others.links]))
        return RankRoutes(np.concatenate([self.src, others.src]), np.concatenate([self.dst, others.dst]), routes)


def routes_of(
    network: Network,
    gpus: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
    adds: bool = False,
    collectives: bool = False,
) -> RankRoutes:
    """Return the ways between pairs of ranks [n], [n] on `gpus` [num_ranks]; with `adds`, also where each of them adds.

    With `collectives`, those that channels take come after them, on a cluster where they have others.
    """
    topology, (src, dst) = network.topology, pairs
    ends = topology.gpus[gpus[src]], topology.gpus[gpus[dst]]
    found = topology.routes(*ends)
    if collectives and topology.first_of_socket is not None:
        found = Routes.join(len(src), [found, topology.channel_routes(*ends)])
    ways = RankRoutes(src, dst, found)
    if not adds:
        return ways
    ranks = np.unique(src)
    adders = [topology.adders.get(node) for node in topology.gpus[gpus[ranks]].tolist()]
    own = Routes.one_by_one([[] if adder is None else [adder] for adder in adders])
    return ways.with_others(RankRoutes(ranks, ranks, own))


def links_of(network: Network, ways: RankRoutes) -> np.ndarray:
    """Return which links some ways take [num_links]."""
    taken = np.zeros(len(network.topology.links), dtype=bool)
    taken[ways.links] = True
    return taken


def lots(ways: RankRoutes, owners: np.ndarray) -> list[list[int]]:
    """Return which owners, who each have some of the ways [n], share links with each other, directly or not.

    >>> ways = RankRoutes(np.arange(3), np.full(3, 9), Routes.one_by_one([[7, 8], [5], [8]]))
    >>> lots(ways, ways.src)
    [[0, 2], [1]]
    """
    lot_of = {owner: owner for owner in np.unique(owners).tolist()}  # the first known owner of a lot, by way of others

    def lot(owner: int) -> int:
        while lot_of[owner] != owner:
            owner = lot_of[owner]
        return owner

    each, own = ways.for_links(owners), np.zeros(int(ways.links.max(initial=-1)) + 1, dtype=np.int64)
    own[ways.links] = each
    meet = np.flatnonzero(own[ways.links] != each)
    for pair in np.unique(np.stack([each[meet], own[ways.links[meet]]]), axis=1).T.tolist():
        one, other = sorted(map(lot, pair))
        lot_of[other] = one
    found: dict[int, list[int]] = {}
    for owner in lot_of:
        found.setdefault(lot(owner), []).append(owner)
    return list(found.values())


class IsomorphicRoutes(NamedTuple):
    """The links that ranks use among themselves [num_links], and those that others use instead [num_lots, num_links].

    `are_isomorphic` [num_lots] says which of the others are the image of the ranks. The links of the rest mean nothing.
    """

    links: np.ndarray
    instead: np.ndarray
    are_isomorphic: np.ndarray


def isomorphic_links(
    network: Network, gpus: np.ndarray, ways: RankRoutes, ranks: Sequence[int], others: Sequence[Sequence[int]]
) -> IsomorphicRoutes:
    """Return the links that ranks use among themselves, and those that their isomorphic use instead, lot by lot.

    Ranks stand to each other as the ranks do: in hosts and in the order of GPUs alike, and link by link at the same
    rates and latencies. No rank is in two lots of the others.
    """
    links, num_ranks = network.topology.links, len(gpus)
    own, lots_of = np.array(ranks, dtype=np.int64), np.array(others, dtype=np.int64).reshape(len(others), len(ranks))
    place, lot = np.full(num_ranks, -1), np.full(num_ranks, -1)
    place[own], lot[lots_of] = np.arange(len(own)), np.arange(len(lots_of))[:, None]
    among = np.flatnonzero((place[ways.src] >= 0) & (place[ways.dst] >= 0))
    num_among = np.bincount(lot[ways.src][lot[ways.src] == lot[ways.dst]] + 1, minlength=len(lots_of) + 1)[1:]
    asked = ways.src * num_ranks + ways.dst
    order = np.argsort(asked, kind="stable")
    wanted = lots_of[:, place[ways.src[among]]] * num_ranks + lots_of[:, place[ways.dst[among]]]
    found = order[np.searchsorted(asked[order], wanted).clip(max=max(len(order) - 1, 0))]
    lengths = ways.routes.lengths
    alike = (asked[found] == wanted).all(axis=1) & (lengths[found] == lengths[among]).all(axis=1)
    alike &= num_among == len(among)
    hosts = network.topology.gpu_hosts[gpus]
    alike &= _stand_for(hosts[own], hosts[lots_of])[2]
    alike &= (np.argsort(gpus[lots_of], axis=1) == np.argsort(gpus[own])).all(axis=1)
    crossed = ways.routes.take(among).links
    instead = np.tile(crossed, (len(lots_of), 1))
    instead[alike] = ways.routes.take(found[alike].ravel()).links.reshape(instead[alike].shape)
    used, images, is_one_to_one = _stand_for(crossed, instead)
    for column in (links.bytes_per_s, links.latency_s):
        alike &= (column[images] == column[used]).all(axis=1)
    return IsomorphicRoutes(used, images, alike & is_one_to_one)


def _stand_for(numbers: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which numbers there are, and which stand for them in rows of others [num_rows, num_numbers].

    Third come the rows [num_rows] where one stands for each wherever it is, and for no other one.
    """
    used, which = np.unique(numbers, return_inverse=True)
    images = np.empty((len(others), len(used)), dtype=np.int64)
    images[:, which] = others
    is_one = (images[:, which] == others).all(axis=1)
    return used, images, is_one & (np.diff(np.sort(images, axis=1), axis=1) > 0).all(axis=1)
