"""Isomorphic ranks: two sets of ranks whose messages take equivalent links in the same pattern."""

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
        """The links of all routes, one route after another [num_links]."""
        return self.routes.links

    def for_links(self, column: np.ndarray) -> np.ndarray:
        """Return for each link of the routes the value of its route in a column [n]."""
        found: np.ndarray = np.repeat(column, self.routes.lengths)
        return found

    def with_others(self, others: RankRoutes) -> RankRoutes:
        """Return these routes, followed by others."""
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
    """Return the routes between pairs of ranks [n], [n] on `gpus` [num_ranks].

    With `adds`, the links on which the sources add are included. With `collectives`, the routes of collective channels
    are appended to each route, on a cluster where they differ.
    """
    topology, (src, dst) = network.topology, pairs
    ends = topology.gpus[gpus[src]], topology.gpus[gpus[dst]]
    found = topology.routes(*ends)
    if collectives and topology.first_of_socket is not None:
        found = Routes.join(len(src), [found, topology.channel_routes(*ends)])
    routes = RankRoutes(src, dst, found)
    if not adds:
        return routes
    ranks = np.unique(src)
    adders = [topology.adders.get(node) for node in topology.gpus[gpus[ranks]].tolist()]
    own = Routes.one_by_one([[] if adder is None else [adder] for adder in adders])
    return routes.with_others(RankRoutes(ranks, ranks, own))


def links_of(network: Network, routes: RankRoutes) -> np.ndarray:
    """Return for each link whether a route takes it [num_links]."""
    taken = np.zeros(len(network.topology.links), dtype=bool)
    taken[routes.links] = True
    return taken


def groups_sharing_links(routes: RankRoutes, owners: np.ndarray) -> list[list[int]]:
    """Return the owners of routes [n] in groups that share links, directly or by way of others.

    >>> routes = RankRoutes(np.arange(3), np.full(3, 9), Routes.one_by_one([[7, 8], [5], [8]]))
    >>> groups_sharing_links(routes, routes.src)
    [[0, 2], [1]]
    """
    parent = {owner: owner for owner in np.unique(owners).tolist()}  # union-find; the root is the group's first owner

    def root(owner: int) -> int:
        while parent[owner] != owner:
            owner = parent[owner]
        return owner

    each, last = routes.for_links(owners), np.zeros(int(routes.links.max(initial=-1)) + 1, dtype=np.int64)
    last[routes.links] = each
    shared = np.flatnonzero(last[routes.links] != each)
    for pair in np.unique(np.stack([each[shared], last[routes.links[shared]]]), axis=1).T.tolist():
        one, other = sorted(map(root, pair))
        parent[other] = one
    groups: dict[int, list[int]] = {}
    for owner in parent:
        groups.setdefault(root(owner), []).append(owner)
    return list(groups.values())


class IsomorphicRoutes(NamedTuple):
    """The links that ranks use among themselves [num_links], and their images in others [num_others, num_links].

    `are_isomorphic` [num_others] says which sets of other ranks are isomorphic to the ranks. The images of the rest
    mean nothing.
    """

    links: np.ndarray
    images: np.ndarray
    are_isomorphic: np.ndarray


def isomorphic_links(
    network: Network, gpus: np.ndarray, routes: RankRoutes, ranks: Sequence[int], others: Sequence[Sequence[int]]
) -> IsomorphicRoutes:
    """Return the links that `ranks` use among themselves, and the links that each set of `others` uses instead.

    Others are isomorphic to the ranks where they share hosts and NVLink domains in the same pattern, their GPUs are in
    the same order, and their routes take links of the same rates and latencies, one for one. No rank is in two sets of
    the others.
    """
    links, num_ranks = network.topology.links, len(gpus)
    own, sets = np.array(ranks, dtype=np.int64), np.array(others, dtype=np.int64).reshape(len(others), len(ranks))
    place, set_of = np.full(num_ranks, -1), np.full(num_ranks, -1)
    place[own], set_of[sets] = np.arange(len(own)), np.arange(len(sets))[:, None]
    among = np.flatnonzero((place[routes.src] >= 0) & (place[routes.dst] >= 0))
    is_inside = set_of[routes.src] == set_of[routes.dst]
    num_among = np.bincount(set_of[routes.src][is_inside] + 1, minlength=len(sets) + 1)[1:]
    pairs = routes.src * num_ranks + routes.dst
    order = np.argsort(pairs, kind="stable")
    wanted = sets[:, place[routes.src[among]]] * num_ranks + sets[:, place[routes.dst[among]]]
    found = order[np.searchsorted(pairs[order], wanted).clip(max=max(len(order) - 1, 0))]
    lengths = routes.routes.lengths
    alike = (pairs[found] == wanted).all(axis=1) & (lengths[found] == lengths[among]).all(axis=1)
    alike &= num_among == len(among)
    for places in (network.topology.gpu_hosts[gpus], network.topology.gpu_domains[gpus]):
        alike &= _images(places[own], places[sets])[2]
    alike &= (np.argsort(gpus[sets], axis=1) == np.argsort(gpus[own])).all(axis=1)
    crossed = routes.routes.take(among).links
    instead = np.tile(crossed, (len(sets), 1))
    instead[alike] = routes.routes.take(found[alike].ravel()).links.reshape(instead[alike].shape)
    used, images, is_one_to_one = _images(crossed, instead)
    for column in (links.bytes_per_s, links.latency_s):
        alike &= (column[images] == column[used]).all(axis=1)
    return IsomorphicRoutes(used, images, alike & is_one_to_one)


def _images(numbers: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct numbers [num_distinct], and their images in rows of others [num_rows, num_distinct].

    The third array [num_rows] says in which rows the mapping is one to one. `others` is [num_rows, num_numbers].
    """
    used, which = np.unique(numbers, return_inverse=True)
    images = np.empty((len(others), len(used)), dtype=np.int64)
    images[:, which] = others
    is_function = (images[:, which] == others).all(axis=1)
    return used, images, is_function & (np.diff(np.sort(images, axis=1), axis=1) > 0).all(axis=1)
