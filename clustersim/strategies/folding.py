"""Copies of a model that do the same at the same time: one of them is played, and the others follow it.

That is so where nothing is random and every copy meets the same links. What GPUs that split a layer exchange takes a
time of its own where nobody else uses their links. Gradients are exchanged by all ranks as ever. A message between
stages is sent for one copy where it shares no link with the messages of others and with what GPUs that split a layer
exchange, and where it meets no exchange of gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.network import Network
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import REPLICAS, Grid
from clustersim.program.ops import Call, Program, Send, with_timed_calls
from clustersim.strategies.algorithm import schedule_collective, switches

Routes = Mapping[tuple[int, int], tuple[int, ...]]
"""Links of the way from one rank to another."""


@dataclass(frozen=True)
class Folding:
    """Programs in which known collectives are time; `sends_all` if every copy sends its own messages between stages.

    If they do not, `meets_exchange` says whether they share links with the exchange of gradients.
    """

    programs: tuple[Program, ...]
    sends_all: bool
    meets_exchange: bool
    shortcut: str


def folding(
    again: Callable[[], Network],
    gpus: np.ndarray,
    grid: Grid,
    programs: Sequence[Program],
    transport: str,
) -> Folding | None:
    """Return how the ranks of a stage can be played as one, or None where they do not all do the same.

    `again` makes a network on which nothing has happened: what is timed is played there.
    """
    network = again()
    each = grid.num_ranks // grid.pipeline
    between = _routes(network, gpus, _stage_pairs(grid, programs))
    inside = _routes(network, gpus, _group_pairs(grid, ("tensor",)))
    if each == 1 or not (_are_alike(network, between, each) and _are_alike(network, inside, each)):
        return None
    among = _routes(network, gpus, _group_pairs(grid, REPLICAS))
    if not (_are_alike(network, among, each) and _apart(inside, lambda rank: rank // grid.tensor)):
        return None
    links_between, links_inside, links_among = (_links(routes) for routes in (between, inside, among))
    known: dict[tuple[str, float], float] = {}
    if not links_inside & (links_between | links_among):
        group = gpus[list(grid.group(0, ("tensor",)))]
        known = {call: _seconds(again(), group, *call, transport) for call in sorted(_splitting_calls(programs))}
    return Folding(
        tuple(Program(program.stage, with_timed_calls(program.ops, known)) for program in programs),
        sends_all=bool(links_between & links_inside) or not _apart(between, lambda rank: rank % each),
        meets_exchange=bool(links_between & links_among),
        shortcut=f"ranks that do the same as another played as one: {grid.pipeline} of {grid.num_ranks} were played",
    )


def _links(routes: Routes) -> set[int]:
    return {link for route in routes.values() for link in route}


def _splitting_calls(programs: Sequence[Program]) -> set[tuple[str, float]]:
    """Return the collectives among GPUs that split layers, each by its operation and its bytes."""
    ops = (op for program in programs for op in program.ops)
    return {(op.op, op.num_bytes) for op in ops if isinstance(op, Call) and op.axis == "tensor"}


def _stage_pairs(grid: Grid, programs: Sequence[Program]) -> Iterator[tuple[int, int]]:
    """Go through the ranks that send to each other's stage, those in the same place of each stage after one another."""
    each = grid.num_ranks // grid.pipeline
    stages = sorted({(program.stage, op.stage) for program in programs for op in program.ops if isinstance(op, Send)})
    for place in range(each):
        for sender, receiver in stages:
            yield sender * each + place, receiver * each + place


def _group_pairs(grid: Grid, axes: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Go through the pairs of ranks that are in one group along some axes, both ways."""
    for rank in range(grid.num_ranks):
        for other in grid.group(rank, axes):
            if other != rank:
                yield rank, other


def _routes(network: Network, gpus: np.ndarray, pairs: Iterator[tuple[int, int]]) -> Routes:
    topology = network.topology
    nodes = topology.gpus[gpus]
    return {(rank, other): tuple(topology.route(int(nodes[rank]), int(nodes[other])).tolist()) for rank, other in pairs}


def _are_alike(network: Network, routes: Routes, each: int) -> bool:
    """Say whether ways are alike for the ranks of a stage: rates and latencies, link by link."""
    links = network.topology.links
    ways: dict[int, list[tuple[tuple[float, float], ...]]] = {}
    for (rank, _), route in routes.items():
        way = tuple((float(links.bytes_per_s[link]), float(links.latency_s[link])) for link in route)
        ways.setdefault(rank, []).append(way)
    stages: dict[int, list[tuple[tuple[float, float], ...]]] = {}
    return all(sorted(way) == stages.setdefault(rank // each, sorted(way)) for rank, way in ways.items())


def _apart(routes: Routes, owner_of: Callable[[int], int]) -> bool:
    """Say whether no two owners share a link, each having the ways of its ranks."""
    owners: dict[int, int] = {}
    for (rank, _), route in routes.items():
        own = owner_of(rank)
        if any(owners.setdefault(link, own) != own for link in route):
            return False
    return True


def _seconds(network: Network, gpus: np.ndarray, op: str, num_bytes: float, transport: str) -> float:
    """Return how long a collective takes among GPUs that nobody disturbs, all entering together."""
    _, schedule = schedule_collective(op, "auto", network.topology, gpus, num_bytes, transport)
    nodes = [*gpus.tolist(), *switches(schedule, network.topology, gpus)]
    played = network.play(schedule, nodes)
    network.env.run(played)
    times = played.value
    assert isinstance(times, PlayTimes)
    return float(times.end_s.max())
