"""Max-min fair sharing kept up to date: flows come and go, and only rates that can change are solved again.

A flow's level is its rate per weight. A link is full at the level of the flows that it holds back. Flows that
have started, and flows held back by a link that lost a flow, *rise*; every other flow *stands*. Links that a
rising flow crosses are visited in order of the level at which they are full, as in progressive filling
(Bertsekas and Gallager, Data Networks, 1992, section 6.5.2). The rising flows on the lowest link are fixed there,
and so are standing flows above its level, which become slower. Where a flow has become slower, the flows that
its other links held back rise as well. The order of levels makes one pass enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from clustersim.network.flow import INFINITE, Flow, Link

FEW = 8  # flows on a link that are checked one by one
SAME = 1e-13  # levels closer than this, relatively, are one level
FULL = 1e-12  # part of its capacity by which rounding may overload a link


class MaxMin:
    """Fair rates of the flows on links. `num_solves` and `num_levels` count the work done."""

    def __init__(self) -> None:
        self.num_solves = 0
        self.num_levels = 0
        self._now_s = 0.0
        self._rising = 0  # the mark of flows that rise in this solve; one more is the mark of fixed ones
        self._num_rising = 0
        self._sees_standing = False  # whether a link has been queued that standing flows cross
        self._floor = 0.0  # level that this solve has reached
        self._queue: list[tuple[float, int, Link]] = []
        self._num_queued = 0
        self._changed: list[Flow] = []

    def share(
        self, now_s: float, started: Iterable[Flow], left: Iterable[Link], rerated: Iterable[Link] = ()
    ) -> list[Flow]:
        """Let flows start, after others have left links and links have new rates; return the flows whose rates are new.

        Started flows are on their links already, and others have left them. A flow that is alone on its path gets the
        rate of its narrowest link, without a solve. A link with a new rate releases the flows that it held back. One
        that has become too slow for its flows takes part in the solve.
        """
        self._now_s, self._changed = now_s, []
        self._rising += 2
        rising: list[Flow] = []
        for link in left:
            self._release(link, rising)
        for link in rerated:
            self._release(link, rising)
        for flow in started:
            narrowest = flow.path.links[0]
            for link in flow.path.links:
                if len(link.flows) > 1:
                    flow.mark = self._rising
                    rising.append(flow)
                    break
                if link.bytes_per_s < narrowest.bytes_per_s:
                    narrowest = link
            else:
                self._give_all(flow, narrowest)
        if rerated or (rising and not self._fix_at_once(rising)):
            self._solve(rising, rerated)
        return self._changed

    def _fix_at_once(self, rising: list[Flow]) -> bool:
        """Fix rising flows if that is simple; return whether it is.

        No link is full below its rate over the weight of all on it. Take for each rising flow the link where that is
        lowest. If all flows on these links may have that level, and it changes no other flow, these are their rates.
        """
        held: dict[Flow, float] = {}
        links: dict[Link, float] = {}
        for flow in rising:
            if flow in held:
                continue
            link, level = self._lowest(flow)
            if not level or len(link.flows) > FEW:
                return False
            links[link] = level
            for other in link.flows:
                if other in held:
                    return False
                held[other] = level
        for flow, level in held.items():
            if not self._finds_room(flow, level, held, links):
                return False
        self.num_solves += 1
        self.num_levels += len(links)
        for link, level in links.items():
            self._fix(link, level)
        return True

    def _lowest(self, flow: Flow) -> tuple[Link, float]:
        """Return the link of a flow with the lowest rate over the weight of all on it, and that level."""
        lowest, level = flow.path.links[0], INFINITE
        for link in flow.path.links:
            weight = 0.0
            for other in link.flows:
                weight += other.weight
            if link.bytes_per_s / weight < level:
                lowest, level = link, link.bytes_per_s / weight
        return lowest, level

    def _finds_room(self, flow: Flow, level: float, held: dict[Flow, float], links: dict[Link, float]) -> bool:
        """Return whether a flow may have the level of one of these links without changing flows on its other links."""
        if flow.mark != self._rising and flow.level < level * (1 - SAME):
            return False
        gets_slower = flow.level > level * (1 + SAME)
        for link in flow.path.links:
            if link in links:
                continue
            room = link.bytes_per_s * (1 + FULL)
            for other in link.flows:
                other_level = held.get(other)
                if other_level is not None:
                    room -= other.weight * other_level
                elif gets_slower and other.bottleneck is link:
                    return False
                else:
                    room -= other.bytes_per_s
            if room < 0:
                return False
        return True

    def _give_all(self, flow: Flow, narrowest: Link) -> None:
        """Give a flow the whole rate of its narrowest link."""
        self._update_left(flow)
        flow.bottleneck = narrowest
        flow.bytes_per_s = narrowest.bytes_per_s
        flow.level = narrowest.bytes_per_s / flow.weight
        self._changed.append(flow)

    def _release(self, link: Link, rising: list[Flow]) -> None:
        """Let the standing flows rise that a link has held back."""
        mark = self._rising
        for flow in link.flows:
            if flow.bottleneck is link and flow.mark < mark:
                flow.mark = mark
                rising.append(flow)

    def _solve(self, rising: list[Flow], rerated: Iterable[Link]) -> None:
        self.num_solves += 1
        self._floor, self._num_rising, self._sees_standing = 0.0, len(rising), False
        queue = self._queue
        self._queue_all(dict.fromkeys(link for link in rerated if link.flows))
        self._queue_links_of(rising)
        while queue and (self._num_rising or self._sees_standing):
            level, entry, link = heappop(queue)
            if entry != link.queued:
                continue
            now = self._level(link)  # flows fixed since it was queued have left more for the others
            if now == INFINITE:
                continue
            if now > level * (1 + SAME) and now > self._lowest_queued():
                self._push(link, now)
                continue
            self._floor = max(self._floor, now)
            released = self._fix(link, now)
            if released:
                rising += released
                self._num_rising += len(released)
                self._queue_links_of(released)
        queue.clear()
        for flow in rising:
            if flow.mark == self._rising:  # only links without a limit
                self._give_all(flow, flow.path.links[0])

    def _lowest_queued(self) -> float:
        """Return the lowest level at which a link is queued, or infinity."""
        queue = self._queue
        while queue:
            level, entry, link = queue[0]
            if entry == link.queued:
                return level
            heappop(queue)
        return INFINITE

    def _queue_links_of(self, flows: list[Flow]) -> None:
        """Queue the links that rising flows share, and the narrowest of those that a flow has alone."""
        links: dict[Link, None] = {}
        for flow in flows:
            narrowest: Link | None = None
            for link in flow.path.links:
                if len(link.flows) > 1:
                    links[link] = None
                elif narrowest is None or link.bytes_per_s < narrowest.bytes_per_s:
                    narrowest = link
            if narrowest is not None:
                links[narrowest] = None
        self._queue_all(links)

    def _queue_all(self, links: Iterable[Link]) -> None:
        for link in links:
            level = self._level(link)
            if level < INFINITE:
                self._push(link, level)

    def _push(self, link: Link, level: float) -> None:
        self._num_queued += 1
        link.queued = self._num_queued
        heappush(self._queue, (level, self._num_queued, link))

    def _level(self, link: Link) -> float:
        """Return the level at which a link is full, or infinity where it has room for all.

        Rising flows share what fixed and standing ones leave. Standing ones above that level share as well: including
        them raises the level, until no more of them are above it.
        """
        self.num_levels += 1
        rising = self._rising
        room, weight, highest = link.bytes_per_s, 0.0, 0.0
        for flow in link.flows:
            mark = flow.mark
            if mark == rising:
                weight += flow.weight
            else:
                room -= flow.bytes_per_s
                if mark < rising and flow.level > highest:
                    highest = flow.level
        if highest:
            self._sees_standing = True
        level = self._floor
        if weight:
            level = max(room / weight, level)
        elif room >= -FULL * link.bytes_per_s:
            return INFINITE
        if highest > level * (1 + SAME):
            level = self._level_with_those_above(link, level)
        return level

    def _level_with_those_above(self, link: Link, level: float) -> float:
        rising = self._rising
        while True:
            room, weight, above = link.bytes_per_s, 0.0, level * (1 + SAME)
            for flow in link.flows:
                mark = flow.mark
                if mark == rising or (mark < rising and flow.level > above):
                    weight += flow.weight
                else:
                    room -= flow.bytes_per_s
            if not weight or not room / weight > above:
                return level
            level = room / weight

    def _fix(self, link: Link, level: float) -> list[Flow]:
        """Fix at a level all flows on a link that rise or stand above it; return the flows that this releases."""
        rising = self._rising
        above = level * (1 + SAME)
        released: list[Flow] = []
        for flow in link.flows:
            mark, old = flow.mark, flow.level
            if mark != rising and (mark > rising or old <= above):
                continue
            self._num_rising -= mark == rising
            flow.mark = rising + 1
            flow.bottleneck = link
            if abs(old - level) <= SAME * level:
                continue
            self._give(flow, level)
            if level < old:
                for other in flow.path.links:
                    if other is not link:
                        self._release(other, released)
        return released

    def _give(self, flow: Flow, level: float) -> None:
        """Give a flow a new rate."""
        self._update_left(flow)
        flow.level = level
        flow.bytes_per_s = level * flow.weight
        self._changed.append(flow)

    def _update_left(self, flow: Flow) -> None:
        """Subtract what a flow has moved at its rate until now."""
        left_bytes = flow.left_bytes - flow.bytes_per_s * (self._now_s - flow.since_s)
        flow.left_bytes = left_bytes if left_bytes > 0 else 0.0  # rounding may go below
        flow.since_s = self._now_s
