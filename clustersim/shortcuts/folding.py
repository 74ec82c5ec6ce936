"""Folding: ranks of a stage that do the same at the same time are simulated as one rank.

They do so where nothing is random and every copy of the model uses equivalent links. Collectives of GPUs that split
layers take a known time, where their links are uncontended. Messages between stages are simulated for all ranks that
share links, and the gradient exchange for all ranks whose links meet. Other ranks use links of their own, on which the
same happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.parallelism import REPLICAS, Grid
from clustersim.program.ops import BACKWARD, Copy, HostUpdate, Program, Send
from clustersim.shortcuts.isomorphic_routes import (
    RankRoutes,
    groups_sharing_links,
    isomorphic_links,
    links_of,
    routes_of,
)
from clustersim.shortcuts.timed_collectives import (
    group_pairs,
    groups_have_own_links,
    has_a_root,
    have_equivalent_links,
    isomorphic_groups,
    meet_only_own_ranks,
    stage_pairs,
    timed_calls,
)


@dataclass(frozen=True)
class TensorPlaces:
    """The places along `tensor`: the gradient exchange of the ranks at the `simulated` ones stands for all others.

    `representative` [tensor] is the simulated place that stands for each place. Each of `links` [2, num_links] has the
    links of the simulated places and, below them, the links that other places use instead.
    """

    simulated: tuple[int, ...]
    representative: tuple[int, ...]
    links: tuple[np.ndarray, ...] = ()

    @classmethod
    def all_simulated(cls, num: int) -> TensorPlaces:
        """Return `num` places that are all simulated."""
        return cls(tuple(range(num)), tuple(range(num)))

    @property
    def shortcut(self) -> str:
        """What a result says about them in addition; empty where all are simulated."""
        num, most = len(self.simulated), len(self.representative)
        return f", and gradients exchanged at {num} of {most} places in a layer" if num < most else ""


@dataclass(frozen=True)
class Folding:
    """Programs in which some collectives are known times, and the ranks whose messages are simulated.

    `senders` are the places in a stage whose messages to another stage are simulated together with those of its first
    rank. Where messages share links with the gradient exchange (`meets_exchange`), those of all `exchanging` places are
    simulated while gradients may be in flight. Messages of the last `num_late` micro-batches may still be in flight
    when the exchange begins. `timed_bytes` [num_links] are sent by the collectives of known time in an iteration.
    `are_isomorphic` says that the groups that split layers are all isomorphic. `shortcut` is what a result says.
    """

    programs: tuple[Program, ...]
    tensor_places: TensorPlaces
    senders: tuple[int, ...]
    exchanging: tuple[int, ...]
    meets_exchange: bool
    num_late: int
    timed_bytes: np.ndarray
    are_isomorphic: bool
    shortcut: str


def folding(
    make_network: Callable[[], Network],
    gpus: np.ndarray,
    grid: Grid,
    programs: Sequence[Program],
    transport: Transport,
) -> Folding | None:
    """Return how the ranks of each stage, on `gpus` [num_ranks], can be simulated as one; None where they cannot.

    `make_network` makes an idle network, on which single collectives are timed.
    """
    if any(has_a_root(op) or isinstance(op, Copy | HostUpdate) for program in programs for op in program.distinct()):
        return None
    network = make_network()
    stage_size = grid.num_ranks // grid.pipeline
    between = routes_of(network, gpus, stage_pairs(grid, programs))
    inside = routes_of(network, gpus, group_pairs(grid, ("tensor",)), network.adds, collectives=True)
    if stage_size == 1 or not all(have_equivalent_links(network, routes, stage_size) for routes in (between, inside)):
        return None
    among = routes_of(network, gpus, group_pairs(grid, REPLICAS), network.adds, collectives=True)
    if not (have_equivalent_links(network, among, stage_size) and groups_have_own_links(inside, grid)):
        return None
    links_between, links_inside, links_among = (links_of(network, routes) for routes in (between, inside, among))
    meets_exchange = bool((links_between & links_among).any())
    meets_between = bool((links_between & links_inside).any())
    meets_copies = bool((links_inside & links_among).any())
    is_uncontended = not meets_between and (not meets_copies or meet_only_own_ranks(inside, among, stage_size))
    timed = timed_calls(make_network, gpus, grid, programs, transport, inside, meets_copies) if is_uncontended else None
    places = TensorPlaces.all_simulated(grid.tensor)
    if not links_inside.any() or (timed and not meets_copies):
        places = _tensor_places(network, gpus, grid, between.with_others(among))
    exchanges_in_every_pass = grid.context * grid.expert > 1 or programs[0].staleness is not None
    always_shares = meets_between or (exchanges_in_every_pass and meets_exchange)
    senders = range(stage_size) if always_shares else _senders(network, gpus, grid, between)
    folded_programs, timed_bytes = timed or (tuple(programs), np.zeros(len(network.topology.links)))
    exchanging = [place for place in range(stage_size) if place % grid.tensor in places.simulated]
    return Folding(
        folded_programs,
        places,
        senders=tuple(place for place in exchanging if place in senders),
        exchanging=tuple(exchanging),
        meets_exchange=meets_exchange,
        num_late=_num_late(network, programs, links_between),
        timed_bytes=timed_bytes,
        are_isomorphic=bool(isomorphic_groups(network, gpus, grid, inside).are_isomorphic.all()),
        shortcut=f"identical ranks simulated as one: {grid.pipeline} of {grid.num_ranks} were simulated"
        + places.shortcut,
    )


def _num_late(network: Network, programs: Sequence[Program], links: np.ndarray) -> int:
    """Return how many micro-batches may have messages in flight while a stage runs its last backward pass.

    Messages take `links` [num_links]; each is given four times the time that it takes uncontended.
    """
    num_micro = max(program.num_micro_batches for program in programs)
    sizes = [op.num_bytes for program in programs for op in program.distinct() if isinstance(op, Send)]
    if not sizes or not links.any():
        return num_micro
    shortest_s = min(
        (program.phase_s().get(BACKWARD, 0.0) / program.num_micro_batches for program in programs), default=0.0
    )
    message_s = 4 * max(sizes) / float(network.topology.links.bytes_per_s[links].min())
    return min(num_micro, 2 + int(message_s / shortest_s)) if shortest_s > 0 else num_micro


def _tensor_places(network: Network, gpus: np.ndarray, grid: Grid, routes: RankRoutes) -> TensorPlaces:
    """Return the places along `tensor` that can stand for others, which have equivalent links of their own."""
    all_places = TensorPlaces.all_simulated(grid.tensor)
    if grid.tensor == 1:
        return all_places
    first, *others = groups_sharing_links(routes, routes.src % grid.tensor) or [[]]
    if not others or any(len(group) != len(first) for group in others):
        return all_places
    begins = range(0, grid.num_ranks, grid.tensor)
    ranks, *of_others = ([begin + place for begin in begins for place in group] for group in (first, *others))
    isomorphic = isomorphic_links(network, gpus, routes, ranks, of_others)
    if not isomorphic.are_isomorphic.all():
        return all_places
    representative = list(all_places.representative)
    for group in others:
        for place, image in zip(first, group, strict=True):
            representative[image] = place
    return TensorPlaces(
        tuple(first), tuple(representative), tuple(np.stack([isomorphic.links, own]) for own in isomorphic.images)
    )


def _senders(network: Network, gpus: np.ndarray, grid: Grid, between: RankRoutes) -> Sequence[int]:
    """Return the places in a stage whose messages to other stages share links with those of the first place.

    Places that share links only by way of other places are included. All places, where the others do not share links in
    the same way.
    """
    stage_size = grid.num_ranks // grid.pipeline
    first, *others = groups_sharing_links(between, between.src % stage_size) or [[0]]
    if any(len(group) != len(first) for group in others):
        return range(stage_size)
    begins = range(0, grid.num_ranks, stage_size)
    ranks, *of_others = ([begin + place for begin in begins for place in group] for group in (first, *others))
    are_isomorphic = isomorphic_links(network, gpus, between, ranks, of_others).are_isomorphic
    return first if are_isomorphic.all() else range(stage_size)
