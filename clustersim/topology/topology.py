"""The topology that every builder returns: nodes, directed links, GPUs in number order, and routing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware import load_cpu
from clustersim.hardware.speeds import AS_SHEETS, HOST_MEMORY, LATENCY, Speeds
from clustersim.topology.routes import RouteCache, Routes

if TYPE_CHECKING:
    import networkx as nx

    from clustersim.topology.processes import Processes


class Router(Protocol):
    """Returns the links from one node to another, in order; nodes and links by number."""

    def __call__(self, src: int, dst: int, /) -> Sequence[int]: ...


@runtime_checkable
class ManyRouter(Protocol):
    """A router that also finds the routes of many pairs of nodes [n] at once."""

    def routes(self, src: np.ndarray, dst: np.ndarray) -> Routes: ...


class Node(int):
    """A node by its number, where a plain integer would mean a GPU."""


@dataclass(frozen=True)
class Links:
    """Directed links in columns. Full duplex is two links.

    `kind` is the link's sheet or dimension (`pcie-2-x16`, `gemini-y`), so that a report can name the class of links
    that was the bottleneck and those that were unused.
    """

    src: np.ndarray  # [num_links] node numbers
    dst: np.ndarray  # [num_links]
    bytes_per_s: np.ndarray  # [num_links]
    latency_s: np.ndarray  # [num_links]
    kind: Sequence[str]  # [num_links]

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, eq=False)
class Topology:
    """A cluster as the network sees it.

    Nodes, links, GPUs and hosts are numbered from 0. `memory[gpu]` is the node of the host memory in which that GPU's
    messages are staged (the GPU itself if a host has no memory node), and `adders[node]` is the link that represents
    reduction in that node's memory: adding b bytes moves 3 b over it (two reads, one write). A memory is a link, so the
    network needs no devices.
    """

    name: str
    node_names: Sequence[Hashable]
    node_kinds: Sequence[str]  # gpu, socket, memory, plx, nic, nvswitch, switch, router, host ...
    node_hosts: np.ndarray  # [num_nodes] host number, -1 for nodes outside hosts
    links: Links
    gpus: np.ndarray  # [num_gpus] node numbers
    gpu_sheets: Sequence[str | None]  # [num_gpus] name of each GPU's sheet
    memory: np.ndarray  # [num_gpus] node numbers
    adders: dict[int, int]
    router: Router = field(repr=False)
    torus_dims: tuple[int, ...] | None = None  # routers along each dimension, if it is a torus
    host_order: np.ndarray | None = None  # [num_hosts] the batch system's order of hosts, if not by number
    host_sheets: Sequence[str | None] = ()  # [num_hosts] name of each host's CPU sheet
    domains: np.ndarray | None = None  # [num_nodes] first host of its NVLink domain, if any has several hosts
    sharing: str = "max-min"  # how flows share a link
    looped: frozenset[int] = frozenset()  # nodes with routes to themselves over links (`through_adapters`)
    processes: Processes | None = None  # nodes of processes (`with_processes`)
    first_of_socket: np.ndarray | None = None  # [num_nodes] the GPU whose adapter channels use, if it is not
    # each GPU's own (`one_adapter_per_socket`)
    speeds: Speeds = AS_SHEETS  # of memories whose rates are no links (`core_bytes_per_s`)
    before: Topology | None = field(default=None, repr=False)  # itself before `at_speeds`

    @property
    def num_gpus(self) -> int:
        return len(self.gpus)

    def at_speeds(self, speeds: Speeds) -> Topology:
        """Return the same cluster with links and memories as fast as `speeds` say.

        Its routes are the same, and both share those that are found. It knows itself before, by whose rates a library
        chose its channels.
        """
        names, kinds = self.link_kinds
        rates = np.array([speeds.of_link(name) for name in names])[kinds]
        delay = 1 / speeds.factor(LATENCY)
        links = replace(self.links, bytes_per_s=self.links.bytes_per_s * rates, latency_s=self.links.latency_s * delay)
        made = replace(self, links=links, speeds=speeds, before=self)
        found = ("_routes", "_route_cache", "link_kinds", "gpu_hosts", "gpu_domains")
        vars(made).update({name: getattr(self, name) for name in found})
        return made

    @cached_property
    def num_hosts(self) -> int:
        return int(self.node_hosts.max(initial=-1)) + 1

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self.node_names)}

    @cached_property
    def _named_by_numbers(self) -> bool:
        """Whether a node may have an integer as its name; the names of a built cluster are texts."""
        return isinstance(self.node_names, list | tuple) and any(not isinstance(name, str) for name in self.node_names)

    @cached_property
    def _routes(self) -> dict[tuple[int, int], np.ndarray]:
        return {}

    @cached_property
    def _route_cache(self) -> RouteCache | None:
        return RouteCache(self.router.routes) if isinstance(self.router, ManyRouter) else None

    @cached_property
    def adder_links(self) -> frozenset[int]:
        """The links that represent the memory rate for reduction."""
        return frozenset(self.adders.values())

    @cached_property
    def gpu_hosts(self) -> np.ndarray:
        """[num_gpus] the host of each GPU."""
        hosts: np.ndarray = self.node_hosts[self.gpus]
        return hosts

    @property
    def node_domains(self) -> np.ndarray:
        """[num_nodes] a number of each node's NVLink domain: that of its first host; -1 for nodes outside hosts.

        A host whose NVSwitches join no other is its own domain, and this is `node_hosts`.
        """
        return self.node_hosts if self.domains is None else self.domains

    @cached_property
    def gpu_domains(self) -> np.ndarray:
        """[num_gpus] the NVLink domain of each GPU: one host for a library such as NCCL."""
        domains: np.ndarray = self.node_domains[self.gpus]
        return domains

    @cached_property
    def _on_nvlink(self) -> np.ndarray:
        """[num_nodes] whether it is a GPU or an NVSwitch."""
        return np.isin(np.asarray(self.node_kinds), ("gpu", "nvswitch"))

    def are_together(self, src: np.ndarray | int, dst: np.ndarray | int) -> np.ndarray:
        """Return whether messages between nodes [n] stay in one host, or on the NVLinks of one domain."""
        hosts = self.node_hosts
        together: np.ndarray = (hosts[src] == hosts[dst]) & (hosts[src] >= 0)
        if self.domains is not None:
            together = together | (
                (self.domains[src] == self.domains[dst])
                & (self.domains[src] >= 0)
                & self._on_nvlink[src]
                & self._on_nvlink[dst]
            )
        return together

    def first_memory(self, gpu: int) -> int:
        """Return the node of the first host memory of a GPU's host: that of the host's first GPU."""
        own = int(self.memory[gpu])
        if own in self.gpus or self.gpu_hosts[gpu] < 0:
            return own
        return int(self.memory[np.argmax(self.gpu_hosts == self.gpu_hosts[gpu])])

    def node(self, where: Hashable) -> int:
        """Return the number of a node, given its name or, as an integer, a GPU's number.

        A name takes precedence over a GPU's number if a graph's nodes are themselves named 0, 1, 2, ...; a `Node`
        is itself.
        """
        if isinstance(where, Node):
            return where
        number = int(where) if isinstance(where, int | np.integer) and not isinstance(where, bool) else None
        if (number is None or self._named_by_numbers) and isinstance(where, Hashable) and where in self._numbers:
            return self._numbers[where]
        if number is not None and 0 <= number < self.num_gpus:
            return int(self.gpus[number])
        raise InputError(
            f"the topology '{self.name}' has no node called {where!r} (it has {self.num_gpus} GPUs "
            f"and nodes such as {self.node_names[0]!r})",
            got=repr(where),
        )

    def route(self, src: int, dst: int) -> np.ndarray:
        """Return the numbers of the links from node `src` to node `dst`, in order."""
        key = (src, dst)
        links = self._routes.get(key)
        if links is None:
            links = self._routes[key] = np.asarray(self._way(src, dst), dtype=np.int64)
        return links

    def _way(self, src: int, dst: int) -> Sequence[int]:
        return [] if src == dst and src not in self.looped else self.router(src, dst)

    def routes(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes from nodes `src` [n] to nodes `dst` [n]: the `route` of each pair.

        Much faster than one by one in clusters that were built from hosts and a network.
        """
        if self._route_cache is not None:
            return self._route_cache.get(np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64))
        pairs = zip(src.tolist(), dst.tolist(), strict=True)
        return Routes.one_by_one([self.route(*pair) for pair in pairs])

    def channel_routes(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes from nodes `src` [n] to nodes `dst` [n] for messages of a library's channels."""
        return self.routes(*self._ends_of_channels(np.asarray(src), np.asarray(dst)))

    def channel_route(self, src: int, dst: int) -> np.ndarray:
        """Return the numbers of the links from node `src` to node `dst` for messages of a library's channels."""
        return self.route(*(int(end) for end in self._ends_of_channels(np.asarray(src), np.asarray(dst))))

    def _ends_of_channels(self, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.first_of_socket is None:
            return src, dst
        apart = self.node_domains[src] != self.node_domains[dst]
        return np.where(apart, self.first_of_socket[src], src), np.where(apart, self.first_of_socket[dst], dst)

    def link_name(self, link: int) -> str:
        return f"{self.node_names[self.links.src[link]]}->{self.node_names[self.links.dst[link]]}"

    def core_bytes_per_s(self, node: int) -> float | None:
        """Return the rate of one core in a host's memory, the limit of one adder; None for other nodes."""
        host = int(self.node_hosts[node])
        sheet = self.host_sheets[host] if 0 <= host < len(self.host_sheets) else None
        if sheet is None or self.node_kinds[node] not in ("memory", "process"):
            return None
        return load_cpu(sheet).core_bytes_per_s * self.speeds.factor(HOST_MEMORY)

    @cached_property
    def link_kinds(self) -> tuple[list[str], np.ndarray]:
        """The kinds of links, in alphabetical order, and the number of each link's kind [num_links]."""
        names = sorted(set(self.links.kind))
        numbers = {name: number for number, name in enumerate(names)}
        return names, np.fromiter(map(numbers.__getitem__, self.links.kind), dtype=np.int64, count=len(self.links))

    @cached_property
    def is_nvlink(self) -> np.ndarray:
        """[num_links] whether a link is NVLink or the like: between GPUs of a host or domain, or to an NVSwitch."""
        on_nvlink = np.isin(np.asarray(self.node_kinds), ("gpu", "nvswitch"))
        src, dst, hosts = self.links.src, self.links.dst, self.node_domains
        found: np.ndarray = (
            on_nvlink[src] & on_nvlink[dst] & (src != dst) & (hosts[src] == hosts[dst]) & (hosts[src] >= 0)
        )
        return found

    def describe_link(self, link: int) -> tuple[str, str, str]:
        """Return the names of a link's ends, and its kind."""
        src, dst = self.links.src[link], self.links.dst[link]
        return str(self.node_names[src]), str(self.node_names[dst]), self.links.kind[link]

    @cached_property
    def graph(self) -> nx.MultiDiGraph[Any]:
        """The same cluster as a networkx graph, for reading, drawing and export."""
        import networkx as nx

        graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph(name=self.name)
        for name, kind, host in zip(self.node_names, self.node_kinds, self.node_hosts, strict=True):
            graph.add_node(name, kind=kind, host=int(host))
        for gpu, sheet in zip(self.gpus, self.gpu_sheets, strict=True):
            if sheet is not None:
                graph.nodes[self.node_names[gpu]]["gpu"] = sheet
        for src, dst, rate, latency, kind in zip(
            self.links.src, self.links.dst, self.links.bytes_per_s, self.links.latency_s, self.links.kind, strict=True
        ):
            graph.add_edge(
                self.node_names[src], self.node_names[dst], bytes_per_s=float(rate), latency_s=float(latency), kind=kind
            )
        return graph
