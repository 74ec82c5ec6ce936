"""Moves a network from the Python engine to the Numba engine, with everything in flight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clustersim.network.collective import Collective
from clustersim.network.copy_queue import CopyQueue
from clustersim.network.flow import INFINITE, Flow, Link, Path
from clustersim.network.numba_engine.engine import NumbaEngine, NumbaRanks
from clustersim.network.numba_engine.tables import ADDING, IN_LATENCY, NEVER, NONE, ON_LINKS
from clustersim.network.python_engine.engine import PythonEngine
from clustersim.network.python_engine.ranks import PythonRanks
from clustersim.network.transfer import Sent, SentTogether


class Owner(NamedTuple):
    """The owner of a flow: group, number there or row of its message, step, and whether it is being added."""

    group: int
    message: int
    step: int = 0
    is_added: bool = False


def hand_over(python: PythonEngine, engine: NumbaEngine) -> None:
    """Let a Numba engine that has not begun go on from the state of a Python engine."""
    if python.is_stale:
        python.play(python.now_s, python.now_s)
    engine.notifications, engine.now_s = python.notifications, python.now_s
    engine.begin_with(python.counts, python.loop.after_share)
    links = {link: _take_link(engine, link) for link in dict.fromkeys(python.paths.links.values())}
    engine.kernels.links["carried_bytes"][: len(python.settled_bytes)] += python.settled_bytes
    ranks_of = {ranks: _take_ranks(engine, collective, ranks) for collective, ranks in python.ranks().items()}
    _take_pauses(engine, python, ranks_of)
    _take_flows(engine, python, links, ranks_of)


def _take_link(engine: NumbaEngine, link: Link) -> list[int]:
    """Return the rows of what is one link on the Python engine, the narrowest first."""
    rows = [number for number in sorted(link.rates, key=link.rates.__getitem__) if number >= 0]
    if not rows:
        rows = [engine.kernels.path_tables.private_link(link.bytes_per_s)]
    engine.kernels.links["bytes_per_s"][rows] = sorted(link.rates.values())
    engine.kernels.links["carried_bytes"][rows] = link.carried_bytes
    return rows


def _take_ranks(engine: NumbaEngine, collective: Collective, python: PythonRanks) -> NumbaRanks:
    ranks = engine.begin(collective)
    rows, (steps, reached_s, at_steps) = engine.kernels.rows_of(ranks.group), python.columns()
    rows["step"], rows["reached_s"], rows["at"] = steps, reached_s, at_steps
    rows["unfinished"] = python.unfinished
    num_steps = collective.schedule.num_steps
    awaited = np.array(python.awaited_steps)
    rows["awaited"] = np.where(awaited > num_steps, NEVER, awaited)
    engine.kernels.groups["num_left"][ranks.group] = np.count_nonzero(steps < num_steps)
    collective.ranks = ranks
    return ranks


def _take_pauses(engine: NumbaEngine, python: PythonEngine, ranks_of: dict[PythonRanks, NumbaRanks]) -> None:
    pauses = [
        (ranks_of[pausing], rank, time_s)
        for time_s, (pausing, rank) in python.loop.pauses.items()
        if isinstance(pausing, PythonRanks)
    ]
    if pauses:
        groups, numbers, times_s = (
            np.array(column) for column in zip(*((r.group, n, t) for r, n, t in pauses), strict=True)
        )
        engine.kernels.pause(groups, numbers, times_s)


def _take_flows(
    engine: NumbaEngine, python: PythonEngine, links: dict[Link, list[int]], ranks_of: dict[PythonRanks, NumbaRanks]
) -> None:
    due = {flow: time_s for time_s, flow in python.loop.in_flight()}
    flows = list(dict.fromkeys([*due, *python.on_links()]))
    bulks: dict[SentTogether, int] = {}
    paths: dict[Path, int] = {}
    for (node, adder), path in python.paths.in_memory().items():
        if path.links:  # an adder keeps its core
            paths[path] = engine.kernels.path_tables.adding(node, adder)
            own = engine.kernels.path_tables.links_of(paths[path]).tolist()
            links.update({link: [row] for link, row in zip(path.links, own, strict=True) if link not in links})

    for ends, link in python.paths.connections.items():
        links[link] = [engine.kernels.path_tables.connection(*ends)]

    def rows_of(link: Link) -> list[int]:
        if link not in links:  # a private one of this flow
            links[link] = _take_link(engine, link)
        return links[link]

    owners = []
    for flow in flows:
        owners.append(_take_owner(engine, flow, bulks, ranks_of))
        if flow.path not in paths:
            over = np.array([row for link in flow.path.links for row in rows_of(link)], dtype=np.int64)
            paths[flow.path] = engine.kernels.path_tables.path_over(over, flow.path.latency_s)
    slots = engine.kernels.take_flows(len(flows))
    rows = engine.kernels.flows
    for slot, flow, owner in zip(slots.tolist(), flows, owners, strict=True):
        is_waiting = not any(flow in link.flows for link in flow.path.links[:1])
        row = rows[slot]
        row["left_bytes"], row["num_bytes"], row["weight"] = flow.left_bytes, flow.num_bytes, flow.weight
        row["group"], row["message"], row["step"] = owner.group, owner.message, owner.step
        row["path"], row["mark"], row["behind"] = paths[flow.path], 0, NONE
        row["stage"] = IN_LATENCY if is_waiting else ADDING if owner.is_added else ON_LINKS
        if isinstance(flow.sender, Sent):
            flow.sender.carrier = (owner.group, slot)
    held = [NONE if flow.bottleneck is None else rows_of(flow.bottleneck)[0] for flow in flows]
    engine.kernels.adopt(
        slots,
        np.array([due.get(flow, INFINITE) for flow in flows]),
        np.array([flow.since_s for flow in flows]),
        np.array(held, dtype=np.int64),
        np.array([flow.bytes_per_s for flow in flows]),
    )


def _take_owner(
    engine: NumbaEngine, flow: Flow, bulks: dict[SentTogether, int], ranks_of: dict[PythonRanks, NumbaRanks]
) -> Owner:
    sender = flow.sender
    if isinstance(sender, Sent):
        group = engine.kernels.begin_messages(1)
        engine.listen_one(group, sender)
        return Owner(group, 0)
    if isinstance(sender, SentTogether):
        if sender not in bulks:
            bulks[sender] = engine.kernels.begin_messages(len(sender.end_s))
            engine.kernels.groups["num_left"][bulks[sender]] = sender.num_left
            engine.listen_bulk(bulks[sender], sender)
        return Owner(bulks[sender], flow.message)
    if isinstance(sender, CopyQueue):
        return Owner(engine.group_of(sender), flow.message)
    for python, ranks in ranks_of.items():
        place = python.place(flow)
        if place is not None:
            step, is_added = place
            return Owner(ranks.group, ranks.message_row(step, flow.message), step, is_added)
    raise AssertionError("a flow on its way has a sender")
