"""Collectives among GPUs that split layers as the time that one takes alone, where they meet nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.communicator.algorithm import schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.sm_share import uses_sms
from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.network.collective import PlayTimes
from clustersim.parallelism import REPLICAS, Grid
from clustersim.program.ops import Call, Copy, HostUpdate, Op, Program, Send, with_timed_calls
from clustersim.shortcuts.isomorphic_routes import (
    IsomorphicRoutes,
    RankRoutes,
    isomorphic_links,
    links_of,
    lots,
    routes_of,
)


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
    if not (are_apart(inside, grid) and are_alike(network, inside, grid.num_ranks)):
        return None
    among = routes_of(network, gpus, group_pairs(grid, REPLICAS), network.adds, collectives=True)
    between = routes_of(network, gpus, stage_pairs(grid, programs))
    links_inside, links_between, links_among = (links_of(network, ways) for ways in (inside, between, among))
    if (links_inside & links_between).any() or not meet_only_their_own(inside, among, grid.tensor):
        return None
    meets_copies = bool((links_inside & links_among).any())
    timed = timed_calls(again, gpus, grid, programs, transport, inside, meets_copies, in_step=False)
    return timed if timed is not None and timed.num_bytes.any() else None


def timed_calls(
    again: Callable[[], Network],
    gpus: np.ndarray,
    grid: Grid,
    programs: Sequence[Program],
    transport: Transport,
    inside: RankRoutes,
    meets_copies: bool,
    in_step: bool = True,
) -> Timed | None:
    """Return programs in which collectives among GPUs that split layers are time, and the bytes of an iteration's.

    One group's are played, [num_links] bytes being those of all; None where others' links are not like its own. Where
    the group `meets_copies` on its links, those that may meet what copies exchange stay as they are; so do those that
    not all GPUs end together, and some where ranks are not `in_step`.
    """
    network, each = again(), grid.num_ranks // grid.pipeline
    isomorphic = isomorphic_groups(network, gpus, grid, inside)
    calls = dict.fromkeys(call for program in programs for call in sorted(_splitting_calls(program)))
    played = {call: _alone(again(), gpus[: grid.tensor], call, transport.library) for call in calls}
    seconds = {call: float(ends_s.max()) for call, (ends_s, _) in played.items() if are_one(ends_s)}
    slowed = uses_sms(transport)
    timed = tuple(with_timed_calls(program, seconds, meets_copies, slowed, in_step) for program in programs)
    total = np.zeros(len(network.topology.links))
    for before, program in zip(programs, timed, strict=True):
        own = slice(program.stage * each // grid.tensor, (program.stage + 1) * each // grid.tensor)
        for call, count in (_splitting_calls(before) - _splitting_calls(program)).items():
            num_bytes = played[call][1]
            if not isomorphic.are_isomorphic[own].all() or np.delete(num_bytes, isomorphic.links).any():
                return None
            total[isomorphic.instead[own]] += count * num_bytes[isomorphic.links]
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


def group_pairs(grid: Grid, axes: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of ranks [n], [n] that are in one group along some axes, both ways."""
    groups = grid.groups(axes)
    src, dst = np.repeat(groups, groups.shape[1], axis=1).ravel(), np.tile(groups, groups.shape[1]).ravel()
    return src[src != dst], dst[src != dst]


def stage_pairs(grid: Grid, programs: Sequence[Program]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks [n], [n] that send to each other's stage, those in the same place of each stage."""
    each = grid.num_ranks // grid.pipeline
    stages = {(program.stage, op.stage) for program in programs for op in program.distinct() if isinstance(op, Send)}
    ends = np.array(sorted(stages), dtype=np.int64).reshape(-1, 2) * each
    src, dst = (np.arange(each)[:, None] + column for column in ends.T)
    return src.ravel(), dst.ravel()


def isomorphic_groups(network: Network, gpus: np.ndarray, grid: Grid, inside: RankRoutes) -> IsomorphicRoutes:
    """Return which groups of ranks that split layers stand to each other as those of the first do."""
    groups = grid.groups(("tensor",))
    return isomorphic_links(network, gpus, inside, groups[0].tolist(), groups.tolist())


def are_alike(network: Network, ways: RankRoutes, each: int) -> bool:
    """Say whether ways are alike for the ranks of a stage: rates and latencies, link by link."""
    links, (first, crossed), lengths = network.topology.links, ways.routes, ways.routes.lengths
    rates, waits = (np.unique(column, return_inverse=True)[1] for column in (links.bytes_per_s, links.latency_s))
    kinds = 1 + np.unique(rates * len(links) + waits, return_inverse=True)[1][crossed]
    alike, num = np.zeros(len(lengths), dtype=np.int64), int(kinds.max(initial=0)) + 1  # the same for ways that are
    for place in range(int(lengths.max(initial=0))):
        goes_on = np.flatnonzero(lengths > place)
        if alike.max() > 2**62 // num:
            alike = np.unique(alike, return_inverse=True)[1]
        alike *= num
        alike[goes_on] += kinds[first[goes_on] + place]
    order = np.lexsort((alike, ways.src))
    src, alike = ways.src[order], alike[order]
    for stage in np.unique(src // each).tolist():
        own = src // each == stage
        counts = np.bincount(src[own] - stage * each)
        counts = counts[counts > 0]
        if (counts != counts[0]).any():
            return False
        rows = alike[own].reshape(len(counts), -1)
        if (rows != rows[0]).any():
            return False
    return True


def are_apart(inside: RankRoutes, grid: Grid) -> bool:
    """Say whether groups of ranks that split layers have links of their own."""
    owners = inside.src // grid.tensor
    return len(lots(inside, owners)) == len(np.unique(owners))


def are_one(instants_s: np.ndarray) -> bool:
    """Say whether instants are the same one, but for the last digits."""
    return bool(instants_s.max() - instants_s.min() <= 1e-11 * instants_s[0])


def meet_only_their_own(inside: RankRoutes, among: RankRoutes, each: int) -> bool:
    """Say whether groups of `each` GPUs share links only with what is sent from or to a GPU of their own.

    That is on its way only while the GPU takes part in the exchange, as nothing is sent before both ends are there.
    No two of the groups share links.
    """
    group = np.full(int(max(inside.links.max(initial=-1), among.links.max(initial=-1))) + 1, -1)
    group[inside.links] = inside.for_links(inside.src // each)
    met = group[among.links]
    is_own = (met == among.for_links(among.src // each)) | (met == among.for_links(among.dst // each))
    return bool((is_own | (met < 0)).all())


def _alone(
    network: Network, gpus: np.ndarray, call: tuple[str, float], transport: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return when GPUs that enter a collective at 0 end it [num_ranks], and its bytes [num_links]."""
    op, num_bytes = call
    _, schedule = schedule_collective(op, "auto", network.topology, gpus, num_bytes, transport)
    played = network.play(schedule, [*gpus.tolist(), *extra_ranks(schedule, network.topology, gpus)])
    network.env.run(played)
    times = played.value
    assert isinstance(times, PlayTimes)
    return times.end_s[: len(gpus)], network.link_bytes
