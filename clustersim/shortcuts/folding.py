"""Copies of a model that do the same at the same time: one of them is played, and the others follow it.

That is so where nothing is random and every copy meets the same links. What GPUs that split a layer exchange takes a
time of its own where nobody else uses their links. Of messages between stages, those are sent that share links, and
gradients are exchanged by all ranks whose links meet: others have links of their own, on which the same happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.parallelism import REPLICAS, Grid
from clustersim.program.ops import BACKWARD, Copy, HostUpdate, Program, Send
from clustersim.shortcuts.isomorphic_routes import RankRoutes, isomorphic_links, links_of, lots, routes_of
from clustersim.shortcuts.timed_collectives import (
    are_alike,
    are_apart,
    group_pairs,
    has_a_root,
    isomorphic_groups,
    meet_only_their_own,
    stage_pairs,
    timed_calls,
)


@dataclass(frozen=True)
class Columns:
    """The ranks at each place along `tensor`: `played` are the places whose ranks exchange, for all the others.

    `stands_in` [tensor] is the place that does so for each, and `links` have [2, num_links] the links of those that are
    played and those that others use instead.
    """

    played: tuple[int, ...]
    stands_in: tuple[int, ...]
    links: tuple[np.ndarray, ...] = ()

    @classmethod
    def each(cls, num: int) -> Columns:
        """Return columns that are all played."""
        return cls(tuple(range(num)), tuple(range(num)))

    @property
    def told(self) -> str:
        """What is to be added about them, in words."""
        num, most = len(self.played), len(self.stands_in)
        return f", and gradients were exchanged at {num} of {most} places in a layer" if num < most else ""


@dataclass(frozen=True)
class Folding:
    """Programs in which known collectives are time, and which ranks send what.

    `beside` are the places in a stage whose messages to another one are sent with those of its first rank. Where these
    share links with the exchange of gradients (`meets_exchange`), those of all places that are `exchanging` are sent
    while gradients may be on their way: messages of the last `num_late` micro-batches may still be when that begins.
    `timed_bytes` [num_links] are those that the known collectives of an iteration send. Groups that split layers
    `are_isomorphic` where they stand to each other as the GPUs of any other one do.
    """

    programs: tuple[Program, ...]
    columns: Columns
    beside: tuple[int, ...]
    exchanging: tuple[int, ...]
    meets_exchange: bool
    num_late: int
    timed_bytes: np.ndarray
    are_isomorphic: bool
    shortcut: str


def folding(
    again: Callable[[], Network],
    gpus: np.ndarray,
    grid: Grid,
    programs: Sequence[Program],
    transport: Transport,
) -> Folding | None:
    """Return how the ranks of a stage can be played as one, or None where they do not all do the same.

    `again` makes a network on which nothing has happened: what is timed is played there.
    """
    if any(has_a_root(op) or isinstance(op, Copy | HostUpdate) for program in programs for op in program.distinct()):
        return None
    network = again()
    each = grid.num_ranks // grid.pipeline
    between = routes_of(network, gpus, stage_pairs(grid, programs))
    inside = routes_of(network, gpus, group_pairs(grid, ("tensor",)), network.adds, collectives=True)
    if each == 1 or not (are_alike(network, between, each) and are_alike(network, inside, each)):
        return None
    among = routes_of(network, gpus, group_pairs(grid, REPLICAS), network.adds, collectives=True)
    if not (are_alike(network, among, each) and are_apart(inside, grid)):
        return None
    links_between, links_inside, links_among = (links_of(network, ways) for ways in (between, inside, among))
    meets_exchange = bool((links_between & links_among).any())
    in_every_pass = grid.context * grid.expert > 1 or programs[0].staleness is not None
    meets_between = bool((links_between & links_inside).any())
    shares_always = meets_between or (in_every_pass and meets_exchange)
    meets_copies = bool((links_inside & links_among).any())
    is_undisturbed = not meets_between and (not meets_copies or meet_only_their_own(inside, among, each))
    timed = timed_calls(again, gpus, grid, programs, transport, inside, meets_copies) if is_undisturbed else None
    columns = Columns.each(grid.tensor)
    if not links_inside.any() or (timed and not meets_copies):
        columns = _columns(network, gpus, grid, between.with_others(among))
    played, timed_bytes = timed or (tuple(programs), np.zeros(len(network.topology.links)))
    exchanging = [place for place in range(each) if place % grid.tensor in columns.played]
    beside = range(each) if shares_always else _beside(network, gpus, grid, between)
    return Folding(
        played,
        columns,
        beside=tuple(place for place in exchanging if place in beside),
        exchanging=tuple(exchanging),
        meets_exchange=meets_exchange,
        num_late=_num_late(network, programs, links_between),
        timed_bytes=timed_bytes,
        are_isomorphic=bool(isomorphic_groups(network, gpus, grid, inside).are_isomorphic.all()),
        shortcut=f"ranks that do the same as another played as one: {grid.pipeline} of {grid.num_ranks} were played"
        + columns.told,
    )


def _num_late(network: Network, programs: Sequence[Program], links: np.ndarray) -> int:
    """Return of how many micro-batches messages may be on their way while a stage does its last pass backward.

    They take `links` [num_links]; a message is given four times as long as it takes alone.
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


def _columns(network: Network, gpus: np.ndarray, grid: Grid, ways: RankRoutes) -> Columns:
    """Return the places along `tensor` whose ranks exchange for others, who have links of their own that are alike."""
    everybody = Columns.each(grid.tensor)
    if grid.tensor == 1:
        return everybody
    first, *others = lots(ways, ways.src % grid.tensor) or [[]]
    if not others or any(len(lot) != len(first) for lot in others):
        return everybody
    begins = range(0, grid.num_ranks, grid.tensor)
    ranks, *of_others = ([begin + place for begin in begins for place in lot] for lot in (first, *others))
    isomorphic = isomorphic_links(network, gpus, ways, ranks, of_others)
    if not isomorphic.are_isomorphic.all():
        return everybody
    stands_in = list(everybody.stands_in)
    for lot in others:
        for place, twin in zip(first, lot, strict=True):
            stands_in[twin] = place
    return Columns(
        tuple(first), tuple(stands_in), tuple(np.stack([isomorphic.links, own]) for own in isomorphic.instead)
    )


def _beside(network: Network, gpus: np.ndarray, grid: Grid, between: RankRoutes) -> Sequence[int]:
    """Return the places in a stage that share links for what they send to another one with the first, directly or not.

    All of them, where others do not share links in the same way.
    """
    each = grid.num_ranks // grid.pipeline
    first, *others = lots(between, between.src % each) or [[0]]
    if any(len(lot) != len(first) for lot in others):
        return range(each)
    ranks, *of_others = (
        [begin + place for begin in range(0, grid.num_ranks, each) for place in lot] for lot in (first, *others)
    )
    return first if isomorphic_links(network, gpus, between, ranks, of_others).are_isomorphic.all() else range(each)
