"""Replaces collectives among GPUs that split layers by the time that one takes alone, where they are uncontended."""

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
from clustersim.program.ops import Call, CollectiveOp, Copy, HostUpdate, Op, Program, Send
from clustersim.program.timed_calls import with_timed_calls
from clustersim.shortcuts.isomorphic_routes import (
    IsomorphicRoutes,
    RankRoutes,
    groups_sharing_links,
    isomorphic_links,
    links_of,
    routes_of,
)


class Timed(NamedTuple):
    """Programs in which some collectives are known times, and the bytes that these send in an iteration [num_links]."""

    programs: tuple[Program, ...]
    num_bytes: np.ndarray


def timed_programs(
    make_network: Callable[[], Network],
    gpus: np.ndarray,
    grid: Grid,
    programs: Sequence[Program],
    transport: Transport,
) -> Timed | None:
    """Return programs with known times of collectives, for ranks that are each simulated; None where it is no use.

    That is where no layer is split, or where the collectives of GPUs that split layers are not equivalent, or share
    links with each other or with other messages. That these GPUs end such a collective together is checked later, in
    the simulation. `gpus` is [num_ranks], and `make_network` makes an idle network.
    """
    ops = {op for program in programs for op in program.distinct()}
    uses_host_links = any(isinstance(op, Copy | HostUpdate) for op in ops)  # which are not examined here
    if grid.tensor == 1 or uses_host_links:
        return None
    network = make_network()
    inside = routes_of(network, gpus, group_pairs(grid, ("tensor",)), network.adds, collectives=True)
    if not (groups_have_own_links(inside, grid) and have_equivalent_links(network, inside, grid.num_ranks)):
        return None
    among = routes_of(network, gpus, group_pairs(grid, REPLICAS), network.adds, collectives=True)
    between = routes_of(network, gpus, stage_pairs(grid, programs))
    links_inside, links_between, links_among = (links_of(network, routes) for routes in (inside, between, among))
    if (links_inside & links_between).any() or not meet_only_own_ranks(inside, among, grid.tensor):
        return None
    meets_copies = bool((links_inside & links_among).any())
    timed = timed_calls(make_network, gpus, grid, programs, transport, inside, meets_copies, in_step=False)
    return timed if timed is not None and timed.num_bytes.any() else None


def timed_calls(
    make_network: Callable[[], Network],
    gpus: np.ndarray,
    grid: Grid,
    programs: Sequence[Program],
    transport: Transport,
    inside: RankRoutes,
    meets_copies: bool,
    in_step: bool = True,
) -> Timed | None:
    """Return programs with known times of the collectives among GPUs that split layers.

    Those of the first group are simulated alone. The bytes [num_links] are those of all groups; None where the links of
    other groups (`inside`) are not isomorphic. A collective stays as it is where the copies of the model use its links
    (`meets_copies`) and may do so meanwhile, where its GPUs end it at different times, and in some cases where ranks
    are not `in_step`.
    """
    network, stage_size = make_network(), grid.num_ranks // grid.pipeline
    isomorphic = isomorphic_groups(network, gpus, grid, inside)
    calls = dict.fromkeys(call for program in programs for call in _splitting_calls(program))
    simulated = {call: _simulate_alone(make_network(), gpus[: grid.tensor], call, transport.library) for call in calls}
    seconds = {call: float(ends_s.max()) for call, (ends_s, _) in simulated.items() if is_same_time(ends_s)}
    slowed = uses_sms(transport)
    timed = tuple(with_timed_calls(program, seconds, meets_copies, slowed, in_step) for program in programs)
    total = np.zeros(len(network.topology.links))
    for before, program in zip(programs, timed, strict=True):
        own = slice(program.stage * stage_size // grid.tensor, (program.stage + 1) * stage_size // grid.tensor)
        for call, count in (_splitting_calls(before) - _splitting_calls(program)).items():
            num_bytes = simulated[call][1]
            if not isomorphic.are_isomorphic[own].all() or np.delete(num_bytes, isomorphic.links).any():
                return None
            total[isomorphic.images[own]] += count * num_bytes[isomorphic.links]
    return Timed(timed, total)


def _splitting_calls(program: Program) -> Counter[CollectiveOp]:
    """Count the calls of a stage of simulated collectives along `tensor`, by what they do."""
    count: Counter[CollectiveOp] = Counter()
    for body, times in program.bodies():
        for op in body:
            if isinstance(op, Call) and op.axis == "tensor" and op.known_s is None:
                count[op.operation] += times
    return count


def _simulate_alone(
    network: Network, gpus: np.ndarray, call: CollectiveOp, transport: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return when GPUs that enter a collective at 0 end it [num_ranks], in seconds, and its bytes [num_links]."""
    assert call == CollectiveOp(call.op, call.num_bytes)  # no other is along `tensor`
    _, schedule = schedule_collective(call.op, "auto", network.topology, gpus, call.num_bytes, transport)
    done = network.play(schedule, [*gpus.tolist(), *extra_ranks(schedule, network.topology, gpus)])
    network.env.run(done)
    times = done.value
    assert isinstance(times, PlayTimes)
    return times.end_s[: len(gpus)], network.link_bytes


def has_a_root(op: Op) -> bool:
    """Say whether one rank of a group does other work than the others in an operation."""
    return isinstance(op, Call) and op.has_root


def is_same_time(times_s: np.ndarray) -> bool:
    """Say whether times [n] in seconds are all the same, except for rounding (1e-11 of the first)."""
    return bool(times_s.max() - times_s.min() <= 1e-11 * times_s[0])


def group_pairs(grid: Grid, axes: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of ranks [n], [n] that are in one group along some axes, in both directions."""
    groups = grid.groups(axes)
    src, dst = np.repeat(groups, groups.shape[1], axis=1).ravel(), np.tile(groups, groups.shape[1]).ravel()
    return src[src != dst], dst[src != dst]


def stage_pairs(grid: Grid, programs: Sequence[Program]) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of ranks [n], [n] that send from stage to stage: those in the same place of each stage."""
    stage_size = grid.num_ranks // grid.pipeline
    stages = {(program.stage, op.stage) for program in programs for op in program.distinct() if isinstance(op, Send)}
    ends = np.array(sorted(stages), dtype=np.int64).reshape(-1, 2) * stage_size
    src, dst = (np.arange(stage_size)[:, None] + column for column in ends.T)
    return src.ravel(), dst.ravel()


def isomorphic_groups(network: Network, gpus: np.ndarray, grid: Grid, inside: RankRoutes) -> IsomorphicRoutes:
    """Return which groups of ranks that split layers are isomorphic to the first one, and their links."""
    groups = grid.groups(("tensor",))
    return isomorphic_links(network, gpus, inside, groups[0].tolist(), groups.tolist())


def have_equivalent_links(network: Network, routes: RankRoutes, stage_size: int) -> bool:
    """Say whether all ranks of a stage have routes of the same rates and latencies, link by link.

    The routes of a rank are compared in any order. Stages have `stage_size` ranks each, and are not compared.
    """
    kinds = _route_kinds(network, routes)
    order = np.lexsort((kinds, routes.src))
    src, kinds = routes.src[order], kinds[order]
    for stage in np.unique(src // stage_size).tolist():
        own = src // stage_size == stage
        counts = np.bincount(src[own] - stage * stage_size)
        counts = counts[counts > 0]
        if (counts != counts[0]).any():
            return False
        rows = kinds[own].reshape(len(counts), -1)
        if (rows != rows[0]).any():
            return False
    return True


def _route_kinds(network: Network, routes: RankRoutes) -> np.ndarray:
    """Return a number for each route [n], the same for routes of the same rates and latencies, link by link."""
    links, (first, crossed), lengths = network.topology.links, routes.routes, routes.routes.lengths
    rates, latencies = (np.unique(column, return_inverse=True)[1] for column in (links.bytes_per_s, links.latency_s))
    link_kinds = 1 + np.unique(rates * len(links) + latencies, return_inverse=True)[1][crossed]
    kinds, num = np.zeros(len(lengths), dtype=np.int64), int(link_kinds.max(initial=0)) + 1
    for place in range(int(lengths.max(initial=0))):
        goes_on = np.flatnonzero(lengths > place)
        if kinds.max() > 2**62 // num:
            kinds = np.unique(kinds, return_inverse=True)[1]
        kinds *= num
        kinds[goes_on] += link_kinds[first[goes_on] + place]
    return kinds


def groups_have_own_links(inside: RankRoutes, grid: Grid) -> bool:
    """Say whether no two groups of ranks that split layers share a link."""
    owners = inside.src // grid.tensor
    return len(groups_sharing_links(inside, owners)) == len(np.unique(owners))


def meet_only_own_ranks(inside: RankRoutes, among: RankRoutes, group_size: int) -> bool:
    """Say whether groups of `group_size` GPUs share links only with exchanges (`among`) of their own GPUs.

    Such an exchange uses the links only while its GPU takes part in it, because nothing is sent before both ends have
    entered. No two of the groups may share links.
    """
    group = np.full(int(max(inside.links.max(initial=-1), among.links.max(initial=-1))) + 1, -1)
    group[inside.links] = inside.for_links(inside.src // group_size)
    met = group[among.links]
    is_own = (met == among.for_links(among.src // group_size)) | (met == among.for_links(among.dst // group_size))
    return bool((is_own | (met < 0)).all())
