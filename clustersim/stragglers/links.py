"""Links that are slower for a time, or carry nothing."""

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
from clustersim.stragglers.pace import Pace
from clustersim.stragglers.spells import Spells
from clustersim.stragglers.straggler import OfHosts, Straggler
from clustersim.stragglers.timeline import Timeline


class LinkTable(NamedTuple):
    """What trouble on links needs to know of a cluster: directed links in columns [num_links].

    `src_hosts` and `dst_hosts` are the cluster's host numbers, -1 for a switch; `job_hosts` are those of the
    job, in the order of their first rank.
    """

    src: Sequence[str]
    dst: Sequence[str]
    kinds: Sequence[str]
    src_hosts: np.ndarray
    dst_hosts: np.ndarray
    job_hosts: Sequence[int]


class LinksOfKind(Spec):
    """Every link of some kinds."""

    kinds: list[str] = Field(
        min_length=1, description="kinds of links as the report calls them, such as infiniband-fdr"
    )


class LinksNamed(Spec):
    """Single links."""

    links: list[str] = Field(
        min_length=1, description="links by their ends, such as 'leaf-0->spine-1'; the way back is meant as well"
    )


class LinkStraggler(Spells, Straggler):
    """A source that takes rate from links; both directions of a cable are in trouble together.

    Routes stay what they are: what meets an outage waits until it is over.
    """

    of: Literal["network", "all"] | LinksOfKind | OfHosts | LinksNamed = Field(
        default="network",
        description="which links: 'network' (those not inside a host), 'all', {kinds: [...]}, {hosts: [...]} (those "
        "between a host of the job and the network), or {links: [...]}",
    )

    @property
    @abstractmethod
    def speed(self) -> float:
        """What is left of a link's rate during a spell."""

    def chooses(self, table: LinkTable) -> np.ndarray:
        """Return [num_links] which links are meant, or raise an `InputError` where that is none."""
        chosen = self._chosen(table)
        if not chosen.any():
            raise InputError("this cluster has no such link; `clustersim topology show` tells its links", got="no link")
        return chosen

    def _chosen(self, table: LinkTable) -> np.ndarray:
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
    """Times in which links carry less: retransmissions, a degraded lane, somebody else's traffic."""

    kind: Literal["link-slow-downs"]
    factor: float = Field(gt=1, le=1e6, allow_inf_nan=False, description="messages take this many times as long then")

    @property
    def speed(self) -> float:
        return 1 / self.factor


class LinkOutages(LinkStraggler):
    """Times in which links carry nothing: a flapping port, a cable that is pulled and put back."""

    kind: Literal["link-outages"]

    @property
    def speed(self) -> float:
        return 0.0


def link_paces(specs: Sequence[Straggler], seed: int, table: LinkTable) -> dict[int, Pace]:
    """Return how fast links are as time passes, 1 being their own rate, for those that are ever in trouble.

    Each source has a random stream of its own for each cable, named after the cable's ends, so that other
    cables shift nobody's numbers.
    """
    troubled = [(name, spec, spec.chooses(table)) for name, spec in named(specs) if isinstance(spec, LinkStraggler)]
    if not troubled:
        return {}
    paces: dict[int, Pace] = {}
    by_cable: dict[tuple[str, str, int], Pace] = {}
    for link, cable in enumerate(_cables(table)):
        met = [(name, spec) for name, spec, chosen in troubled if chosen[link]]
        if not met:
            continue
        if cable not in by_cable:
            timelines: list[tuple[Timeline, float]] = [
                (spec.timeline(stream(seed, "stragglers", *name, *cable)), spec.speed) for name, spec in met
            ]
            by_cable[cable] = Pace(timelines)
        paces[link] = by_cable[cable]
    return paces


def link_changes(paces: Mapping[int, Pace]) -> Iterator[tuple[float, int, float]]:
    """Yield (time_s, link, speed) for every change of every link, in the order of time; it may go on for ever."""

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
    forth = [f"{src}->{dst}" for src, dst in zip(table.src, table.dst, strict=True)]
    back = [f"{dst}->{src}" for src, dst in zip(table.src, table.dst, strict=True)]
    known = set(forth)
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.3) or sorted(known)[:1]
            raise InputError(
                f"no link of this cluster is called '{name}'; the nearest is '{near[0]}'",
                got=name,
                allowed="two nodes with a link between them, as 'a->b'",
            )
    return np.isin(forth, wanted) | np.isin(back, wanted)


def _hosts(table: LinkTable, wanted: Sequence[int]) -> list[int]:
    """Return the cluster's numbers of hosts of the job."""
    num_hosts = len(table.job_hosts)
    beyond = [host for host in wanted if host >= num_hosts]
    if beyond:
        raise InputError(
            f"the job is on {num_hosts} hosts, numbered from 0 (got {beyond[0]})",
            got=str(beyond[0]),
            allowed=f"0 to {num_hosts - 1}",
        )
    return [table.job_hosts[host] for host in wanted]


def _cables(table: LinkTable) -> Iterator[tuple[str, str, int]]:
    """Yield each link's cable: its ends in alphabetical order, and how many alike lead the same way before it."""
    seen: Counter[tuple[str, str]] = Counter()
    for src, dst in zip(table.src, table.dst, strict=True):
        yield min(src, dst), max(src, dst), seen[src, dst]
        seen[src, dst] += 1
