"""Copies of a model that do the same at the same time: one of them is played, and the others follow it.

That is so where nothing is random and every copy meets the same links. What GPUs that split a layer exchange takes a
time of its own where nobody else uses their links. Gradients are exchanged by all ranks as ever. A message between
stages is sent for one copy where it shares no link with the messages of others and with what GPUs that split a layer
exchange, and where it meets no exchange of gradients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.network import Network
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import REPLICAS, Grid
from clustersim.program.ops import BACKWARD, Call, Op, Program, Send, with_timed_calls
from clustersim.strategies.algorithm import schedule_collective, switches

Routes = Mapping[tuple[int, int], tuple[int, ...]]
"""Links of the way from one rank to another."""


@dataclass(frozen=True)
class Folding:
    """Programs in which known collectives are time; `sends_all` if every copy sends its own messages between stages.

    If they do not, `meets_exchange` says whether they share links with the exchange of gradients: then those of the
    last `num_late` micro-batches may still be on their way when it begins. `timed_bytes` [num_links] are those that the
    known collectives of an iteration send.
    """

    programs: tuple[Program, ...]
    sends_all: bool
    meets_exchange: bool
    num_late: int
    timed_bytes: np.ndarray
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
    if any(_has_a_root(op) for program in programs for op in program.distinct()):
        return None
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
    meets_exchange = bool(links_between & links_among)
    in_every_pass = grid.context * grid.expert > 1 or programs[0].staleness is not None
    shares_always = bool(links_between & links_inside) or (in_every_pass and meets_exchange)
    known: dict[tuple[str, float], float] = {}
    timed_bytes = np.zeros(len(network.topology.links))
    in_passes_only = bool(links_inside & links_among)
    is_undisturbed = not links_inside & links_between
    if in_passes_only:
        is_undisturbed &= _exchange_last(programs) and _apart_by_stage(inside, among, each)
    for program in programs if is_undisturbed else ():
        for call, count in sorted(_splitting_calls(program, in_passes_only).items()):
            known[call], link_bytes = _alone(again(), gpus, grid, program.stage, call, transport)
            timed_bytes += count * link_bytes
    return Folding(
        tuple(with_timed_calls(program, known, in_passes_only) for program in programs),
        sends_all=shares_always or not _apart(between, lambda rank: rank % each),
        meets_exchange=meets_exchange,
        num_late=_num_late(network, programs, links_between),
        timed_bytes=timed_bytes,
        shortcut=f"ranks that do the same as another played as one: {grid.pipeline} of {grid.num_ranks} were played",
    )


def _has_a_root(op: Op) -> bool:
    """Say whether one rank of a group does something else than the others, who need not be done when it is."""
    return isinstance(op, Call) and op.op in ("broadcast", "reduce")


def _num_late(network: Network, programs: Sequence[Program], links: set[int]) -> int:
    """Return of how many micro-batches messages may be on their way while a stage does its last pass backward.

    A message is given four times as long as it takes alone.
    """
    num_micro = max(program.num_micro_batches for program in programs)
    sizes = [op.num_bytes for program in programs for op in program.distinct() if isinstance(op, Send)]
    if not sizes or not links:
        return num_micro
    shortest_s = min(
        (program.phase_s().get(BACKWARD, 0.0) / program.num_micro_batches for program in programs), default=0.0
    )
    message_s = 4 * max(sizes) / float(network.topology.links.bytes_per_s[list(links)].min())
    return min(num_micro, 2 + int(message_s / shortest_s)) if shortest_s > 0 else num_micro


def _links(routes: Routes) -> set[int]:
    return {link for route in routes.values() for link in route}


def _splitting_calls(program: Program, in_passes_only: bool) -> Counter[tuple[str, float]]:
    """Return how often a stage begins each collective among GPUs that split layers, by its operation and its bytes."""
    count: Counter[tuple[str, float]] = Counter()
    *passes, rest = program.bodies()
    for body, times in passes if in_passes_only else (*passes, rest):
        for op in body:
            if isinstance(op, Call) and op.axis == "tensor":
                count[op.op, op.num_bytes] += times
    return count


def _exchange_last(programs: Sequence[Program]) -> bool:
    """Say whether copies exchange nothing before each stage's last pass, which is none of those that are alike."""
    bodies = (body for program in programs for body, _ in program.bodies()[:-1])
    return not any(isinstance(op, Call) and op.axis != "tensor" for body in bodies for op in body)


def _apart_by_stage(inside: Routes, among: Routes, each: int) -> bool:
    """Say whether GPUs that split layers share links only with exchanges of gradients of their own stage."""
    stages: dict[int, set[int]] = {}
    for (rank, _), route in among.items():
        for link in route:
            stages.setdefault(link, set()).add(rank // each)
    return all(stages.get(link, set()) <= {rank // each} for (rank, _), route in inside.items() for link in route)


def _stage_pairs(grid: Grid, programs: Sequence[Program]) -> Iterator[tuple[int, int]]:
    """Go through the ranks that send to each other's stage, those in the same place of each stage after one another."""
    each = grid.num_ranks // grid.pipeline
    stages = sorted(
        {(program.stage, op.stage) for program in programs for op in program.distinct() if isinstance(op, Send)}
    )
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


def _alone(
    network: Network, gpus: np.ndarray, grid: Grid, stage: int, call: tuple[str, float], transport: str
) -> tuple[float, np.ndarray]:
    """Return how long a collective takes that all groups of a stage enter together, and its bytes [num_links]."""
    op, num_bytes = call
    each, topology, played = grid.num_ranks // grid.pipeline, network.topology, []
    for first in range(stage * each, (stage + 1) * each, grid.tensor):
        group = gpus[first : first + grid.tensor]
        _, schedule = schedule_collective(op, "auto", topology, group, num_bytes, transport)
        played.append(network.play(schedule, [*group.tolist(), *switches(schedule, topology, group)]))
    network.env.run(network.env.all_of(played))
    times = played[0].value
    assert isinstance(times, PlayTimes)
    return float(times.end_s.max()), network.link_bytes
