"""Links that are slower for a time, or down."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from clustersim.errors import InputError, unknown_name
from clustersim.seeding import stream
from clustersim.spec import Spec
from clustersim.stragglers.factors import named
from clustersim.stragglers.intervals import SlowIntervals
from clustersim.stragglers.pace import Pace
from clustersim.stragglers.straggler import OfHosts, Straggler
from clustersim.stragglers.timed import TimedSlowdown


class LinkTable(NamedTuple):
    """The directed links of a cluster in columns [num_links], for link stragglers.

    `src_hosts` and `dst_hosts` are the cluster's host numbers, -1 for a switch; `job_hosts` are the hosts of
    the job, in the order of their first rank.
    """

    src: Sequence[str]
    dst: Sequence[str]
    kinds: Sequence[str]
    src_hosts: np.ndarray
    dst_hosts: np.ndarray
    job_hosts: Sequence[int]


class LinksOfKind(Spec):
    """All links of some kinds."""

    kinds: list[str] = Field(min_length=1, description="kinds of links as named in the report, such as infiniband-fdr")


class LinksNamed(Spec):
    """Single links."""

    links: list[str] = Field(
        min_length=1, description="links by their ends, such as 'leaf-0->spine-1'; the opposite direction is included"
    )


class LinkStraggler(TimedSlowdown, Straggler):
    """A straggler that lowers the rate of links, of both directions of a cable at the same time.

    Routes do not change: a flow over a link that is down waits until the link is up again.
    """

    of: Literal["network", "all"] | LinksOfKind | OfHosts | LinksNamed = Field(
        default="network",
        description="which links: 'network' (those outside hosts), 'all', {kinds: [...]}, {hosts: [...]} (those "
        "between hosts of the job and the network), or {links: [...]}",
    )

    @property
    @abstractmethod
    def speed(self) -> float:
        """Share of a link's rate that is left during an interval."""

    def selects(self, table: LinkTable) -> np.ndarray:
        """Return [num_links] which links it affects, or raise an `InputError` if there are none."""
        selected = self._selected(table)
        if not selected.any():
            raise InputError("the cluster has no such link; `clustersim topology show` lists its links", got="no link")
        return selected

    def _selected(self, table: LinkTable) -> np.ndarray:
        of, src, dst = self.of, table.src_hosts, table.dst_hosts
        if isinstance(of, LinksOfKind):
            return _of_kinds(table, of.kinds)
        if isinstance(of, LinksNamed):
            return _with_names(table, of.links)
        if isinstance(of, OfHosts):
            hosts = _hosts(table, of.hosts)
            return np.asarray((src != dst) & (np.isin(src, hosts) | np.isin(dst, hosts)))
        return np.asarray((src != dst) | (src < 0) | (of == "all"))


class LinkSlowDowns(LinkStraggler):
    """Intervals in which links are slower: retransmissions, a degraded lane, other traffic."""

    kind: Literal["link-slow-downs"]
    factor: float = Field(
        gt=1, le=1e6, allow_inf_nan=False, description="factor on the time of messages in an interval"
    )

    @property
    def speed(self) -> float:
        return 1 / self.factor


class LinkOutages(LinkStraggler):
    """Intervals in which links are down: a flapping port, a cable that is unplugged and plugged in again."""

    kind: Literal["link-outages"]

    @property
    def speed(self) -> float:
        return 0.0


def link_paces(specs: Sequence[Straggler], seed: int, table: LinkTable) -> dict[int, Pace]:
    """Return the speeds of the affected links over time; a speed of 1 is a link's full rate.

    Each straggler has its own random stream for each cable, named after the cable's ends. Other cables do not
    change its numbers.
    """
    slowed = [(name, spec, spec.selects(table)) for name, spec in named(specs) if isinstance(spec, LinkStraggler)]
    if not slowed:
        return {}
    paces: dict[int, Pace] = {}
    by_cable: dict[tuple[str, str, int], Pace] = {}
    for link, cable in enumerate(_cables(table)):
        found = [(name, spec) for name, spec, selected in slowed if selected[link]]
        if not found:
            continue
        if cable not in by_cable:
            intervals: list[tuple[SlowIntervals, float]] = [
                (spec.intervals(stream(seed, "stragglers", *name, *cable)), spec.speed) for name, spec in found
            ]
            by_cable[cable] = Pace(intervals)
        paces[link] = by_cable[cable]
    return paces


def link_changes(paces: Mapping[int, Pace]) -> Iterator[tuple[float, int, float]]:
    """Yield (time_s, link, speed) for every change of every link, in order of time; it may be infinite."""

    def of_link(link: int, pace: Pace) -> Iterator[tuple[float, int, float]]:
        for time_s, speed in pace.changes():
            yield time_s, link, speed

    return heapq.merge(*(of_link(link, pace) for link, pace in paces.items()))


def _of_kinds(table: LinkTable, kinds: Sequence[str]) -> np.ndarray:
    known = set(table.kinds)
    for kind in kinds:
        if kind not in known:
            raise unknown_name("kind of link in this cluster", kind, known)
    return np.isin(np.asarray(table.kinds), kinds)


def _with_names(table: LinkTable, wanted: Sequence[str]) -> np.ndarray:
    forward = [f"{src}->{dst}" for src, dst in zip(table.src, table.dst, strict=True)]
    backward = [f"{dst}->{src}" for src, dst in zip(table.src, table.dst, strict=True)]
    known = set(forward)
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.3) or sorted(known)[:1]
            raise InputError(
                f"no link of this cluster is called '{name}'; did you mean '{near[0]}'?",
                got=name,
                allowed="two nodes with a link between them, as 'a->b'",
            )
    return np.isin(forward, wanted) | np.isin(backward, wanted)


def _hosts(table: LinkTable, wanted: Sequence[int]) -> list[int]:
    """Return the cluster's numbers of some hosts of the job."""
    num_hosts = len(table.job_hosts)
    beyond = [host for host in wanted if host >= num_hosts]
    if beyond:
        raise InputError(
            f"the job is on {num_hosts} hosts, numbered 0 to {num_hosts - 1} (got {beyond[0]})",
            got=str(beyond[0]),
            allowed=f"0 to {num_hosts - 1}",
        )
    return [table.job_hosts[host] for host in wanted]


def _cables(table: LinkTable) -> Iterator[tuple[str, str, int]]:
    """Yield the cable of each link: its ends in alphabetical order, and its number among parallel links."""
    seen: Counter[tuple[str, str]] = Counter()
    for src, dst in zip(table.src, table.dst, strict=True):
        yield min(src, dst), max(src, dst), seen[src, dst]
        seen[src, dst] += 1
