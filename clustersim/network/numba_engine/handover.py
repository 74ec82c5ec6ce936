"""From the plain side to the compiled one, with everything that is on its way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clustersim.network.collective import Collective
from clustersim.network.copy_queue import CopyQueue
from clustersim.network.flow import INFINITE, Flow, Link, Path
from clustersim.network.numba_engine.engine import NumbaEngine, NumbaRanks
from clustersim.network.numba_engine.tables import ADDING, MOVING, NEVER, NONE, ON_THE_WAY
from clustersim.network.python_engine.engine import PythonEngine
from clustersim.network.python_engine.ranks import PythonRanks
from clustersim.network.transfer import Sent, SentTogether


class Owner(NamedTuple):
    """Whose a flow is: its group, its number there or its message's row, its step, and whether it is being added."""

    group: int
    message: int
    step: int = 0
    is_added: bool = False


def hand_over(plain: PythonEngine, side: NumbaEngine) -> None:
    """Let a compiled side that has not begun go on from where a plain one stands."""
    if plain.is_stale:
        plain.play(plain.now_s, plain.now_s)
    side.told, side.now_s = plain.told, plain.now_s
    side.begin_with(plain.counts, plain.engine.after_share)
    links = {link: _take_link(side, link) for link in dict.fromkeys(plain.paths.links.values())}
    side.engine.links["carried_bytes"][: len(plain.settled_bytes)] += plain.settled_bytes
    ranks_of = {ranks: _take_ranks(side, collective, ranks) for collective, ranks in plain.ranks().items()}
    _take_pauses(side, plain, ranks_of)
    _take_flows(side, plain, links, ranks_of)


def _take_link(side: NumbaEngine, link: Link) -> list[int]:
    """Return the rows of what is one link on the plain side, the narrowest first."""
    rows = [number for number in sorted(link.rates, key=link.rates.__getitem__) if number >= 0]
    if not rows:
        rows = [side.engine.wiring.private_link(link.bytes_per_s)]
    side.engine.links["bytes_per_s"][rows] = sorted(link.rates.values())
    side.engine.links["carried_bytes"][rows] = link.carried_bytes
    return rows


def _take_ranks(side: NumbaEngine, collective: Collective, plain: PythonRanks) -> NumbaRanks:
    ranks = side.begin(collective)
    rows, (steps, reached_s, at_steps) = side.engine.rows_of(ranks.group), plain.columns()
    rows["step"], rows["reached_s"], rows["at"] = steps, reached_s, at_steps
    rows["unfinished"] = plain.unfinished
    num_steps = collective.schedule.num_steps
    awaited = np.array(plain.awaited_steps)
    rows["awaited"] = np.where(awaited > num_steps, NEVER, awaited)
    side.engine.groups["num_left"][ranks.group] = np.count_nonzero(steps < num_steps)
    collective.ranks = ranks
    return ranks


def _take_pauses(side: NumbaEngine, plain: PythonEngine, ranks_of: dict[PythonRanks, NumbaRanks]) -> None:
    pauses = [
        (ranks_of[who], rank, time_s)
        for time_s, (who, rank) in plain.engine.pauses.items()
        if isinstance(who, PythonRanks)
    ]
    if pauses:
        groups, numbers, times_s = (
            np.array(column) for column in zip(*((r.group, n, t) for r, n, t in pauses), strict=True)
        )
        side.engine.pause(groups, numbers, times_s)


def _take_flows(
    side: NumbaEngine, plain: PythonEngine, links: dict[Link, list[int]], ranks_of: dict[PythonRanks, NumbaRanks]
) -> None:
    due = {flow: time_s for time_s, flow in plain.engine.on_the_way()}
    flows = list(dict.fromkeys([*due, *plain.on_links()]))
    bulks: dict[SentTogether, int] = {}
    paths: dict[Path, int] = {}
    for (node, who), path in plain.paths.in_memory().items():
        if path.links:  # whoever adds there again has the same core
            paths[path] = side.engine.wiring.adding(node, who)
            own = side.engine.wiring.links_of(paths[path]).tolist()
            links.update({link: [row] for link, row in zip(path.links, own, strict=True) if link not in links})

    for ends, link in plain.paths.connections.items():
        links[link] = [side.engine.wiring.connection(*ends)]

    def rows_of(link: Link) -> list[int]:
        if link not in links:  # one that only this flow has
            links[link] = _take_link(side, link)
        return links[link]

    owners = []
    for flow in flows:
        owners.append(_take_owner(side, flow, bulks, ranks_of))
        if flow.path not in paths:
            over = np.array([row for link in flow.path.links for row in rows_of(link)], dtype=np.int64)
            paths[flow.path] = side.engine.wiring.path_over(over, flow.path.latency_s)
    slots = side.engine.take_flows(len(flows))
    rows = side.engine.flows
    for slot, flow, owner in zip(slots.tolist(), flows, owners, strict=True):
        is_waiting = not any(flow in link.flows for link in flow.path.links[:1])
        row = rows[slot]
        row["left_bytes"], row["num_bytes"], row["weight"] = flow.left_bytes, flow.num_bytes, flow.weight
        row["group"], row["message"], row["step"] = owner.group, owner.message, owner.step
        row["path"], row["mark"], row["behind"] = paths[flow.path], 0, NONE
        row["stage"] = ON_THE_WAY if is_waiting else ADDING if owner.is_added else MOVING
        if isinstance(flow.sender, Sent):
            flow.sender.carrier = (owner.group, slot)
    held = [NONE if flow.bottleneck is None else rows_of(flow.bottleneck)[0] for flow in flows]
    side.engine.adopt(
        slots,
        np.array([due.get(flow, INFINITE) for flow in flows]),
        np.array([flow.since_s for flow in flows]),
        np.array(held, dtype=np.int64),
        np.array([flow.bytes_per_s for flow in flows]),
    )


def _take_owner(
    side: NumbaEngine, flow: Flow, bulks: dict[SentTogether, int], ranks_of: dict[PythonRanks, NumbaRanks]
) -> Owner:
    sender = flow.sender
    if isinstance(sender, Sent):
        group = side.engine.begin_messages(1)
        side.listen_one(group, sender)
        return Owner(group, 0)
    if isinstance(sender, SentTogether):
        if sender not in bulks:
            bulks[sender] = side.engine.begin_messages(len(sender.end_s))
            side.engine.groups["num_left"][bulks[sender]] = sender.num_left
            side.listen_together(bulks[sender], sender)
        return Owner(bulks[sender], flow.message)
    if isinstance(sender, CopyQueue):
        return Owner(side.group_of(sender), flow.message)
    for plain, ranks in ranks_of.items():
        place = plain.place(flow)
        if place is not None:
            step, is_added = place
            return Owner(ranks.group, ranks.message_row(step, flow.message), step, is_added)
    raise AssertionError("a flow on its way has a sender")
