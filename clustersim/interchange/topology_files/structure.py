"""Recognises a star, leaf-spine network, fat tree or torus in hosts, switches and cables, if it is exactly one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

from clustersim.interchange.topology_files.fabric_shape import FabricShape, delay_text, natural, rate_text
from clustersim.interchange.topology_files.torus_structure import torus_places


@dataclass(frozen=True)
class Regular:
    """The keys of a regular network without its hosts, and its hosts in the order of its ports."""

    mapping: dict[str, Any]
    hosts: tuple[str, ...]


def regular_structure(shape: FabricShape) -> Regular | None:
    """Return the star, leaf-spine network, fat tree or torus that a shape is; None if it is none of them."""
    graph = _Graph(shape)
    if not graph.has_equal_hosts:
        return None
    return _star(graph) or _leaf_spine(graph) or _fat_tree(graph) or _torus(graph)


class _Graph:
    """Cables of each host, and links between switches with the sum of their rates and their delays."""

    def __init__(self, shape: FabricShape):
        self.shape = shape
        hosts = set(shape.hosts)
        self.ports: dict[str, list[str]] = {host: [] for host in shape.hosts}  # switch of each card
        self.access: set[tuple[str | None, float | None, float]] = set()
        self.access_numbers: set[tuple[float, float]] = set()
        self.rates: dict[frozenset[str], float] = defaultdict(float)
        self.delays: set[float] = set()
        self.has_host_cables = False
        for cable in shape.cables:
            ends = [end for end in (cable.a, cable.b) if end in hosts]
            if len(ends) == 2 or cable.a == cable.b:
                self.has_host_cables = True
            elif ends:
                self.ports[ends[0]].append(cable.b if cable.a == ends[0] else cable.a)
                self.access.add((cable.link, cable.hop_s, cable.times))
                self.access_numbers.add(cable.numbers)
            else:
                rate, delay = cable.numbers
                self.rates[frozenset((cable.a, cable.b))] += rate
                self.delays.add(delay)

    @property
    def has_equal_hosts(self) -> bool:
        """Whether every host has the same number of equal cables, all to switches, and every link the same delay."""
        counts = {len(switches) for switches in self.ports.values()}
        alike = len(self.access) == 1 and len(counts) == 1 and 0 not in counts
        return alike and not self.has_host_cables and self.delays <= {delay for _, delay in self.access_numbers}

    @property
    def host_rate(self) -> float:
        return next(iter(self.access_numbers))[0]

    @cached_property
    def neighbours(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {switch: set() for switch in self.shape.switches}
        for one, other in map(tuple, self.rates):
            found[one].add(other)
            found[other].add(one)
        return found

    @cached_property
    def edges(self) -> list[str]:
        """The switches with hosts."""
        with_hosts = {switch for switches in self.ports.values() for switch in switches}
        return [switch for switch in self.shape.switches if switch in with_hosts]

    def rate_between(self, one: str, other: str) -> float:
        return self.rates.get(frozenset((one, other)), 0.0)

    def keys(self, kind: str, num_hosts: int) -> dict[str, Any]:
        """Return the keys that all kinds share."""
        link, hop_s, times = next(iter(self.access))
        assert times == 1.0  # of a host's cable
        return {
            "kind": kind,
            "num_hosts": num_hosts,
            "link": link,
            **({} if hop_s is None else {"hop": delay_text(hop_s)}),
        }


def _star(graph: _Graph) -> Regular | None:
    if len(graph.shape.switches) != 1 or graph.rates:
        return None
    hosts = tuple(sorted(graph.ports, key=natural))
    return Regular(graph.keys("star", len(hosts)), hosts)


def _leaf_spine(graph: _Graph) -> Regular | None:
    leaves = graph.edges
    spines = [switch for switch in graph.shape.switches if switch not in set(leaves)]
    rates = {graph.rate_between(leaf, spine) for leaf in leaves for spine in spines}
    if not spines or len(rates) != 1 or 0.0 in rates or len(graph.rates) != len(leaves) * len(spines):
        return None
    num_cards = len(next(iter(graph.ports.values())))
    groups = _groups(graph.ports)
    rails = num_cards > 1 and all(len(set(switches)) == num_cards for switches in groups)
    if not rails and any(len(set(switches)) > 1 for switches in groups):
        return None
    used = [switch for switches in groups for switch in dict.fromkeys(switches)]
    if len(set(used)) != len(used) or len(used) != len(leaves):
        return None
    filled = _filled(groups.values())
    if filled is None:
        return None
    ports = len(filled[0]) * (1 if rails else num_cards)
    oversubscription = ports * graph.host_rate / (len(spines) * rates.pop())
    hosts = tuple(host for group in filled for host in group)
    mapping = {
        **graph.keys("leaf-spine", len(hosts)),
        "num_leaves": len(leaves),
        "hosts_per_leaf": len(filled[0]),
        "spines": len(spines),
        "oversubscription": float(f"{oversubscription:.12g}"),
        **({"rails": True} if rails else {}),
    }
    return Regular(mapping, hosts)


def _groups(ports: dict[str, list[str]]) -> dict[tuple[str, ...], list[str]]:
    """Return the hosts on the same switches, in the natural order of names."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host in sorted(ports, key=natural):
        groups[tuple(ports[host])].append(host)
    return groups


def _filled(groups: Iterable[list[str]]) -> list[list[str]] | None:
    """Return groups of the same size, one smaller last if there is one; None for other sizes."""
    ordered = list(groups)
    most = max(len(group) for group in ordered)
    partly = [group for group in ordered if len(group) < most]
    return None if len(partly) > 1 else [group for group in ordered if len(group) == most] + partly


def _fat_tree(graph: _Graph) -> Regular | None:
    """Return the fat tree of k pods with k / 2 edge and k / 2 aggregation switches, and (k / 2)**2 cores."""
    edges, switches = set(graph.edges), graph.shape.switches
    groups = _groups(graph.ports)
    half = round((len(switches) / 5) ** 0.5)  # there are 5 k**2 / 4 switches
    wrong_rate = any(rate != graph.host_rate for rate in graph.rates.values())
    if half < 1 or len(switches) != 5 * half * half or wrong_rate or any(len(set(each)) > 1 for each in groups):
        return None
    aggregations = {other for edge in edges for other in graph.neighbours[edge]} - edges
    cores = set(switches) - edges - aggregations
    if (len(edges), len(aggregations), len(cores)) != (2 * half * half, 2 * half * half, half * half):
        return None
    pods = _pods(graph, [switch for switch in switches if switch in edges], half)
    if pods is None or not _has_cores(graph, [above for _, above in pods], cores, half):
        return None
    filled = _in_pods(graph, groups, [below for below, _ in pods], half)
    if filled is None:
        return None
    return Regular({**graph.keys("fat-tree", len(filled)), "k": 2 * half}, filled)


def _pods(graph: _Graph, edges: Sequence[str], half: int) -> list[tuple[list[str], set[str]]] | None:
    """Return the edge and aggregation switches of each pod; every edge leads to every aggregation switch there."""
    pods: dict[frozenset[str], list[str]] = defaultdict(list)
    for edge in edges:
        pods[frozenset(graph.neighbours[edge])].append(edge)
    whole = all(len(above) == len(below) == half for above, below in pods.items())
    apart = not any(one & other for one, other in combinations(pods, 2))
    return [(below, set(above)) for above, below in pods.items()] if whole and apart else None


def _has_cores(graph: _Graph, pods: Sequence[set[str]], cores: set[str], half: int) -> bool:
    """Return whether aggregation switches of all pods share their cores in the same groups of k / 2."""
    wanted: set[frozenset[str]] | None = None
    for above in pods:
        groups = [frozenset(graph.neighbours[switch] & cores) for switch in above]
        is_whole = all(len(group) == half for group in groups) and frozenset().union(*groups) == cores
        if not is_whole or (wanted is not None and set(groups) != wanted):
            return False
        wanted = set(groups)
    return len(graph.rates) == 4 * half**3


def _in_pods(
    graph: _Graph, groups: dict[tuple[str, ...], list[str]], pods: Sequence[list[str]], half: int
) -> tuple[str, ...] | None:
    """Return the hosts edge by edge, if their cards fill every edge switch but the last."""
    by_edge = {switches[0]: hosts for switches, hosts in groups.items()}
    num_cards = len(next(iter(graph.ports.values())))
    partly = [edge for edge, hosts in by_edge.items() if len(hosts) * num_cards < half]
    if len(partly) > 1 or any(len(hosts) * num_cards > half for hosts in by_edge.values()):
        return None
    first = {edge: number for number, edge in enumerate(by_edge)}
    ordered = sorted(pods, key=lambda pod: (any(edge in partly for edge in pod), min(first[edge] for edge in pod)))
    edges = [edge for pod in ordered for edge in sorted(pod, key=lambda edge: (edge in partly, first[edge]))]
    return tuple(host for edge in edges for host in by_edge[edge])


def _torus(graph: _Graph) -> Regular | None:
    """Return the torus of switches with as many hosts each, whose links are equal along each dimension."""
    groups = _groups(graph.ports)
    by_switch = {switches[0]: hosts for switches, hosts in groups.items() if len(set(switches)) == 1}
    sizes = {len(hosts) for hosts in by_switch.values()}
    if len(by_switch) != len(groups) or len(sizes) != 1 or set(by_switch) != set(graph.shape.switches):
        return None
    found = torus_places(graph.neighbours)
    if found is None:
        return None
    dims, places = found
    rates = [_rates_along(graph, places, axis) for axis in range(len(dims))]
    if any(len(rates_of_axis) != 1 for rates_of_axis in rates):
        return None
    ordered = sorted(by_switch, key=places.__getitem__)
    hosts = tuple(host for switch in ordered for host in by_switch[switch])
    shared = graph.keys("torus", len(hosts))
    names = [shared["link"] if rate == graph.host_rate else rate_text(rate) for (rate,) in map(tuple, rates)]
    delay_s = next(iter(graph.access_numbers))[1]
    mapping = {
        **shared,
        "dims": list(dims),
        "hosts_per_router": sizes.pop(),
        "link": names[0] if len(set(names)) == 1 else names,
        "injection": shared["link"],
        **({} if set(names) == {shared["link"]} else {"hop": delay_text(delay_s)}),
    }
    return Regular(mapping, hosts)


def _rates_along(graph: _Graph, places: dict[str, tuple[int, ...]], axis: int) -> set[float]:
    """Return the rates of the links between switches that differ in one dimension only."""
    return {
        rate
        for (one, other), rate in ((tuple(pair), rate) for pair, rate in graph.rates.items())
        if places[one][axis] != places[other][axis]
    }
