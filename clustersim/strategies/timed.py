"""Collectives among GPUs that split layers as the time that one takes alone, where they meet nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import REPLICAS, Grid
from clustersim.program.ops import Call, Copy, HostUpdate, Op, Program, Send, with_timed_calls
from clustersim.strategies.algorithm import schedule_collective
from clustersim.strategies.further_ranks import further_ranks
from clustersim.strategies.held import holds_any
from clustersim.strategies.twins import Routes, links_of, links_of_twins, lots, routes_of


class Timed(NamedTuple):
    """Programs in which known collectives are time, and the bytes [num_links] that an iteration sends in them."""

    programs: tuple[Program, ...]
    num_bytes: np.ndarray


def timed_apart(
    again: Callable[[], Network], gpus: np.ndarray, grid: Grid, programs: Sequence[Program], transport: Transport
) -> Timed | None:
    """Return programs whose ranks each play their own, in which known collectives are time.

    None where no layer is split, where the collectives of those who split them are not alike or meet one another or
    what others send, or nothing would be gained. That ranks are together when such a collective is over is looked at
    as it is played.
    """
    ops = {op for program in programs for op in program.distinct()}
    leaves_gpus = any(isinstance(op, Copy | HostUpdate) for op in ops)  # over links that nobody looks at here
    if grid.tensor == 1 or leaves_gpus:
        return None
    network = again()
    inside = routes_of(network, gpus, group_pairs(grid, ("tensor",)), network.adds, collectives=True)
    num_apart = len(lots(inside, lambda rank: rank // grid.tensor))
    if num_apart < grid.num_ranks // grid.tensor or not are_alike(network, inside, grid.num_ranks):
        return None
    among = routes_of(network, gpus, group_pairs(grid, REPLICAS), network.adds, collectives=True)
    between = routes_of(network, gpus, stage_pairs(grid, programs))
    if links_of(inside) & links_of(between) or not _meet_only_their_own(inside, among, grid.tensor):
        return None
    meets_copies = bool(links_of(inside) & links_of(among))
    timed = timed_calls(again, gpus, grid, programs, transport, inside, meets_copies, in_step=False)
    return timed if timed is not None and timed.num_bytes.any() else None


def timed_calls(
    again: Callable[[], Network],
    gpus: np.ndarray,
    grid: Grid,
    programs: Sequence[Program],
    transport: Transport,
    inside: Routes,
    meets_copies: bool,
    in_step: bool = True,
) -> Timed | None:
    """Return programs in which collectives among GPUs that split layers are time, and the bytes of an iteration's.

    One group's are played, [num_links] bytes being those of all; None where others' links are not like its own. Where
    the group `meets_copies` on its links, those that may meet what copies exchange stay as they are; so do those that
    not all GPUs end together, and some where ranks are not `in_step`.
    """
    network, each = again(), grid.num_ranks // grid.pipeline
    groups = [range(first, first + grid.tensor) for first in range(0, grid.num_ranks, grid.tensor)]
    links = [links_of_twins(network, gpus, inside, groups[0], group) for group in groups]
    calls = dict.fromkeys(call for program in programs for call in sorted(_splitting_calls(program)))
    played = {call: _alone(again(), gpus[: grid.tensor], call, transport.library) for call in calls}
    seconds = {call: float(ends_s.max()) for call, (ends_s, _) in played.items() if are_one(ends_s)}
    slowed = holds_any(transport)
    timed = tuple(with_timed_calls(program, seconds, meets_copies, slowed, in_step) for program in programs)
    total = np.zeros(len(network.topology.links))
    for before, program in zip(programs, timed, strict=True):
        own = links[program.stage * each // grid.tensor : (program.stage + 1) * each // grid.tensor]
        for call, count in (_splitting_calls(before) - _splitting_calls(program)).items():
            num_bytes = played[call][1]
            for pairs in own:
                if pairs is None or np.delete(num_bytes, pairs[0]).any():
                    return None
                total[pairs[1]] += count * num_bytes[pairs[0]]
    return Timed(timed, total)


def _splitting_calls(program: Program) -> Counter[tuple[str, float]]:
    """Return how often a stage begins each sent collective of GPUs that split layers, by its operation and bytes."""
    count: Counter[tuple[str, float]] = Counter()
    for body, times in program.bodies():
        for op in body:
            if isinstance(op, Call) and op.axis == "tensor" and op.known_s is None:
                count[op.op, op.num_bytes] += times
    return count


def has_a_root(op: Op) -> bool:
    """Say whether one rank of a group does something else than the others in an operation."""
    return isinstance(op, Call) and op.has_root


def group_pairs(grid: Grid, axes: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Go through the pairs of ranks that are in one group along some axes, both ways."""
    for rank in range(grid.num_ranks):
        for other in grid.group(rank, axes):
            if other != rank:
                yield rank, other


def are_alike(network: Network, routes: Routes, each: int) -> bool:
    """Say whether ways are alike for the ranks of a stage: rates and latencies, link by link."""
    links = network.topology.links
    _, kinds = np.unique(np.stack([links.bytes_per_s, links.latency_s]), axis=1, return_inverse=True)
    kind_of = kinds.ravel().tolist()
    ways: dict[int, list[list[int]]] = {}
    for (rank, _), route in routes.items():
        ways.setdefault(rank, []).append([kind_of[link] for link in route])
    stages: dict[int, list[list[int]]] = {}
    for rank, way in ways.items():
        way.sort()
        if stages.setdefault(rank // each, way) != way:
            return False
    return True


def stage_pairs(grid: Grid, programs: Sequence[Program]) -> Iterator[tuple[int, int]]:
    """Go through the ranks that send to each other's stage, those in the same place of each stage after one another."""
    each = grid.num_ranks // grid.pipeline
    stages = sorted(
        {(program.stage, op.stage) for program in programs for op in program.distinct() if isinstance(op, Send)}
    )
    for place in range(each):
        for sender, receiver in stages:
            yield sender * each + place, receiver * each + place


def are_one(instants_s: np.ndarray) -> bool:
    """Say whether instants are the same one, but for the last digits."""
    return bool(instants_s.max() - instants_s.min() <= 1e-11 * instants_s[0])


def _meet_only_their_own(inside: Routes, among: Routes, each: int) -> bool:
    """Say whether groups of `each` GPUs share links only with what is sent from or to a GPU of their own.

    That is on its way only while the GPU takes part in the exchange, as nothing is sent before both ends are there.
    """
    groups = {link: rank // each for (rank, _), route in inside.items() for link in route}
    return all(
        groups[link] in (src // each, dst // each)
        for (src, dst), route in among.items()
        for link in route
        if link in groups
    )


def _alone(
    network: Network, gpus: np.ndarray, call: tuple[str, float], transport: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return when GPUs that enter a collective at 0 end it [num_ranks], and its bytes [num_links]."""
    op, num_bytes = call
    _, schedule = schedule_collective(op, "auto", network.topology, gpus, num_bytes, transport)
    played = network.play(schedule, [*gpus.tolist(), *further_ranks(schedule, network.topology, gpus)])
    network.env.run(played)
    times = played.value
    assert isinstance(times, PlayTimes)
    return times.end_s[: len(gpus)], network.link_bytes
