"""The nodes and links of one host, its internal routes, and its copies in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from clustersim.errors import InputError
from clustersim.topology.wire import Cable


@dataclass
class HostPlan:
    """A host template's nodes and directed links, numbered from 0; every host of a group is a copy of it.

    `ports` are the nodes at the ends of network links (a NIC, or the GPU itself in a bare host). GPUs never forward
    traffic of others. A transfer to a GPU without peer access goes through the socket, even from behind the same PCIe
    switch, and through a staging link, whose rate is that of such transfers. Transfers between GPUs through a processor
    that forwards them more slowly than a slot could use a peer link of that rate. Without GPUDirect a GPU's messages to
    and from other hosts go through the host memory of its socket. `domain` is how many such hosts one layer of
    NVSwitches joins; a plan of several joined hosts is made by `nvlink_domain.joined`.
    """

    gpudirect: bool = True
    bare: bool = False
    cpu: str | None = None
    domain: int = 1
    num_hosts: int = 1
    host_of_node: list[int] = field(default_factory=list)  # [num_nodes] of joined hosts; -1 for their NVSwitch
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    src: list[int] = field(default_factory=list)
    dst: list[int] = field(default_factory=list)
    wires: list[Cable] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    gpu_sheets: list[str | None] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # [num_gpus] node in which a GPU's messages are staged
    ports: list[int] = field(default_factory=list)
    adders: dict[int, int] = field(default_factory=dict)
    staging_links: dict[int, list[int]] = field(default_factory=dict)  # of a GPU without peer access, the links to it
    shared_staging_links: dict[int, int] = field(
        default_factory=dict
    )  # of a switch or socket, the one of all GPUs there
    peer_links: dict[int, int] = field(
        default_factory=dict
    )  # of a link down from a socket, the one for traffic of GPUs

    def hosts_of(self, nodes: Sequence[int]) -> np.ndarray:
        """Return the number of each node's host within the plan [n]: 0 unless it is of joined hosts."""
        if not self.host_of_node:
            return np.zeros(len(nodes), dtype=np.int64)
        return np.array([self.host_of_node[node] for node in nodes], dtype=np.int64)

    def node(self, kind: str, number: int) -> int:
        """Add a node named by its kind and number, and return its number in the host."""
        return self.add(f"{kind}{number}", kind)

    def add(self, name: str, kind: str) -> int:
        """Add a node and return its number in the host."""
        self.names.append(name)
        self.kinds.append(kind)
        return len(self.names) - 1

    def cable(self, a: int, b: int, wire: Cable) -> None:
        """Connect two nodes in both directions."""
        self.src += [a, b]
        self.dst += [b, a]
        self.wires += [wire, wire]

    def adder(self, node: int, wire: Cable) -> None:
        """Add the link that reduction in a memory uses; no route ever uses it."""
        self.adders[node] = len(self.src)
        self.src.append(node)
        self.dst.append(node)
        self.wires.append(wire)

    def add_staging_link(self, gpu: int, wire: Cable) -> None:
        """Add a link of that rate to all routes to a GPU from other GPUs of the host."""
        self.staging_links[gpu] = [len(self.src)]
        self.src.append(gpu)
        self.dst.append(gpu)
        self.wires.append(wire)

    def add_shared_staging_link(self, gpu: int, point: int, wire: Cable) -> None:
        """Add another link to these routes, which is shared by all GPUs at that switch or socket."""
        if point not in self.shared_staging_links:
            self.shared_staging_links[point] = len(self.src)
            self.src.append(point)
            self.dst.append(point)
            self.wires.append(wire)
        self.staging_links[gpu].append(self.shared_staging_links[point])

    def limit_peers(self, share: float) -> None:
        """Limit transfers between GPUs through one socket, from slot to slot, to a fraction of the last slot's rate.

        All such transfers into a slot share one more link, which other transfers do not use; and again into a narrower
        slot behind a switch, since a switch forwards packets as they come.
        """
        for src in self.gpus:
            for dst in self.gpus:
                path = self.path(src, dst) or []
                at = self._past_socket(path)
                if at is None or dst in self.staging_links:
                    continue
                for place in range(at, len(path)):
                    rates = [self.wires[link].bytes_per_s for link in path[at : place + 1]]
                    if path[place] not in self.peer_links and (place == at or rates[-1] < min(rates[:-1])):
                        self._limit_peers_into(path[place], share)

    def _limit_peers_into(self, slot: int, share: float) -> None:
        """Limit transfers from other GPUs to a fraction of a link's rate."""
        self.peer_links[slot] = len(self.src)
        self.src.append(self.src[slot])
        self.dst.append(self.src[slot])
        self.wires.append(Cable(share * self.wires[slot].bytes_per_s, 0.0, "peer"))

    def route_inside(self, src: int, dst: int) -> list[int] | None:
        """Return the links of a message from node to node within the host; None if there is no route."""
        path = self.path(src, dst)
        if not path or src not in self._gpu_numbers or dst not in self._gpu_numbers:
            return path
        if dst in self.staging_links and not self._by_nvlink(path):
            return [*self._through_memory(src, dst, path), *self.staging_links[dst]]
        at = self._past_socket(path) if self.peer_links else None
        return path if at is None else [*path[:at], *self._with_peer_links(path[at:])]

    def _with_peer_links(self, path: list[int]) -> list[int]:
        """Return a path down from a socket with the peer links, each before its slot."""
        return [
            each for link in path for each in ([self.peer_links[link], link] if link in self.peer_links else [link])
        ]

    def _by_nvlink(self, path: list[int]) -> bool:
        """Return whether a path has GPUs and NVSwitches only, which have peer access to each other's memory."""
        return {self.kinds[self.dst[link]] for link in path} <= {"gpu", "nvswitch"}

    def _through_memory(self, src: int, dst: int, path: list[int]) -> list[int]:
        """Return the path through the socket and back, if the path turns at a PCIe switch."""
        between = {self.kinds[self.dst[link]] for link in path[:-1]}
        if between != {"plx"}:
            return path
        memory = self.memory[self._gpu_numbers[src]]
        return self._require_path(src, memory)[:-1] + self._require_path(memory, dst)[1:]

    def _past_socket(self, path: list[int]) -> int | None:
        """Return the index of the link by which a path leaves its only socket; None if it has none, or two."""
        places = [place for place, link in enumerate(path) if self.kinds[self.src[link]] == "socket"]
        return places[0] if len(places) == 1 else None

    def path(self, src: int, dst: int) -> list[int] | None:
        """Return the links of the path with the fewest hops, the widest of these; None if there is no path."""
        key = (src, dst)
        if key not in self._path_cache:
            self._path_cache[key] = self._trace_back(src, dst)
        return self._path_cache[key]

    def route_out(self, node: int, choice: int) -> tuple[int, list[int]]:
        """Return the port by which a node's messages to other hosts leave, and the links to it.

        Among equally near ports a GPU uses the one that its number selects, any other node the one that `choice`
        selects: number `choice` modulo `num_exits(node)`.
        """
        port = self._port(node, choice)
        staging_node = self._staging_node(node)
        return port, self._require_path(node, staging_node) + self._require_path(staging_node, self.ports[port])

    def route_in(self, node: int, choice: int) -> tuple[int, list[int]]:
        """Return the port by which messages from other hosts enter, and the links from it to the node."""
        port = self._port(node, choice)
        staging_node = self._staging_node(node)
        return port, self._require_path(self.ports[port], staging_node) + self._require_path(staging_node, node)

    def num_exits(self, node: int) -> int:
        """Return the number of ports among which a node's messages choose."""
        return len(self._ports(node))

    @cached_property
    def _gpu_numbers(self) -> dict[int, int]:
        return {node: number for number, node in enumerate(self.gpus)}

    @cached_property
    def _path_cache(self) -> dict[tuple[int, int], list[int] | None]:
        return {}

    @cached_property
    def _arrival_cache(self) -> dict[int, dict[int, int]]:
        return {}

    @cached_property
    def _port_cache(self) -> dict[int, list[int]]:
        return {}

    @cached_property
    def _out_links(self) -> list[list[int]]:
        out: list[list[int]] = [[] for _ in self.names]
        for link, (src, dst) in enumerate(zip(self.src, self.dst, strict=True)):
            if src != dst:
                out[src].append(link)
        return out

    def _trace_back(self, src: int, dst: int) -> list[int] | None:
        links: list[int] = []
        while dst != src:
            link = self._arrivals(src).get(dst)
            if link is None:
                return None
            links.append(link)
            dst = self.src[link]
        return links[::-1]

    def _arrivals(self, src: int) -> dict[int, int]:
        """Return the last link of the best path from `src` to every node that it reaches."""
        if src not in self._arrival_cache:
            self._arrival_cache[src] = self._search(src)
        return self._arrival_cache[src]

    def _search(self, src: int) -> dict[int, int]:
        width = {src: np.inf}
        arrivals: dict[int, int] = {}
        frontier = [src]
        while frontier:
            found: dict[int, tuple[float, int]] = {}
            for node in frontier:
                for link in self._out_links[node]:
                    nearer = min(width[node], self.wires[link].bytes_per_s)
                    if self.dst[link] not in width and nearer > found.get(self.dst[link], (0.0, 0))[0]:
                        found[self.dst[link]] = (nearer, link)
            for node, (widest, link) in found.items():
                width[node], arrivals[node] = widest, link
            frontier = [node for node in found if self.kinds[node] != "gpu"]
        return arrivals

    def _staging_node(self, node: int) -> int:
        """Return the node in whose memory a message of `node` is staged; the node itself if it is not staged."""
        if self.gpudirect or node not in self._gpu_numbers:
            return node
        return self.memory[self._gpu_numbers[node]]

    def _port(self, node: int, choice: int) -> int:
        ports = self._ports(node)
        return ports[choice % len(ports)]

    def _ports(self, node: int) -> list[int]:
        """Return the nearest ports of a node; of a GPU only the one that its number selects."""
        if node not in self._port_cache:
            paths = [self.path(node, port) for port in self.ports]
            hops = [len(path) if path is not None else len(self.src) for path in paths]
            nearest = [port for port, length in enumerate(hops) if length == min(hops)]
            number = self._gpu_numbers.get(node)
            self._port_cache[node] = nearest if number is None else [nearest[number % len(nearest)]]
        return self._port_cache[node]

    def _require_path(self, src: int, dst: int) -> list[int]:
        path = self.path(src, dst)
        if path is None:
            raise InputError(f"within a host only a GPU connects {self.names[src]} with {self.names[dst]}")
        return path


@dataclass(frozen=True)
class HostRange:
    """`num_copies` copies of one plan, of a host or of joined ones, and the first of their numbers."""

    plan: HostPlan
    num_copies: int
    host: int
    node: int
    link: int
    gpu: int
    port: int

    @property
    def next_node(self) -> int:
        return self.node + self.num_copies * len(self.plan.names)

    @property
    def num_hosts(self) -> int:
        return self.num_copies * self.plan.num_hosts

    def hosts_of_nodes(self, local: Sequence[int]) -> np.ndarray:
        """Return the host of each of these nodes of the plan in every copy [num_copies, n]; -1 for none."""
        own, first = self.plan.hosts_of(local), self.first_hosts()[:, None]
        return np.where(own < 0, -1, own + first)

    def first_hosts(self) -> np.ndarray:
        """Return the first host of every copy [num_copies]."""
        return self.host + self.plan.num_hosts * np.arange(self.num_copies)


def number_hosts(groups: Sequence[tuple[HostPlan, int]]) -> list[HostRange]:
    """Number hosts, nodes, links, GPUs and ports of the groups, one group after another."""
    ranges: list[HostRange] = []
    host = node = link = gpu = port = 0
    for plan, count in groups:
        ranges.append(HostRange(plan, count, host, node, link, gpu, port))
        host += count * plan.num_hosts
        node += count * len(plan.names)
        link += count * len(plan.src)
        gpu += count * len(plan.gpus)
        port += count * len(plan.ports)
    return ranges
