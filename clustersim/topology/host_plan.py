"""The inside of one host: its nodes, its links, and which way bytes go in it and out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from clustersim.errors import InputError
from clustersim.topology.wire import Wire


@dataclass
class HostPlan:
    """A host template's nodes and directed links, numbered from 0; every host of a group is a copy of it.

    `ports` are the nodes that the network's links end at (a NIC, or the GPU itself in a bare host).
    GPUs never forward the traffic of others. What goes to a GPU whose memory no other can reach goes by the socket,
    also from behind the same PCIe switch, and takes one more link, of the rate that this leaves. So does what GPUs send
    each other through a processor that passes it on more slowly than a slot could. Without GPUDirect what a GPU sends
    to another host, or gets from one, passes through the host memory of the GPU's socket.
    """

    gpudirect: bool = True
    bare: bool = False
    cpu: str | None = None
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    src: list[int] = field(default_factory=list)
    dst: list[int] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    gpu_sheets: list[str | None] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # [num_gpus] node where a GPU's messages are staged
    ports: list[int] = field(default_factory=list)
    adders: dict[int, int] = field(default_factory=dict)
    stagers: dict[int, list[int]] = field(default_factory=dict)  # of a GPU whose memory no other reaches, links to it
    stagers_at: dict[int, int] = field(default_factory=dict)  # of a switch or socket, that of all GPUs there
    peers: dict[int, int] = field(default_factory=dict)  # of a link down from a socket, that of what comes from GPUs

    def node(self, kind: str, number: int) -> int:
        """Add a node and return its number."""
        self.names.append(f"{kind}{number}")
        self.kinds.append(kind)
        return len(self.names) - 1

    def cable(self, a: int, b: int, wire: Wire) -> None:
        """Connect two nodes in both directions."""
        self.src += [a, b]
        self.dst += [b, a]
        self.wires += [wire, wire]

    def adder(self, node: int, wire: Wire) -> None:
        """Give a memory the link on which adding takes its time; no route ever uses it."""
        self.adders[node] = len(self.src)
        self.src.append(node)
        self.dst.append(node)
        self.wires.append(wire)

    def stager(self, gpu: int, wire: Wire) -> None:
        """Let all that other GPUs of the host send to one take a link of that rate as well."""
        self.stagers[gpu] = [len(self.src)]
        self.src.append(gpu)
        self.dst.append(gpu)
        self.wires.append(wire)

    def stager_of_all(self, gpu: int, point: int, wire: Wire) -> None:
        """Let it take a link more, which all that is sent to any of the GPUs at that point takes."""
        if point not in self.stagers_at:
            self.stagers_at[point] = len(self.src)
            self.src.append(point)
            self.dst.append(point)
            self.wires.append(wire)
        self.stagers[gpu].append(self.stagers_at[point])

    def limit_peers(self, share: float) -> None:
        """Leave what GPUs send each other through one socket, from slot to slot, a share of the rate of the last one.

        All that comes into a slot in this way shares one link more, which others do not take; and again into a slot
        behind a switch that is narrower, as a switch passes packets on as they come.
        """
        for src in self.gpus:
            for dst in self.gpus:
                path = self.path(src, dst) or []
                at = self._past_socket(path)
                if at is None or dst in self.stagers:
                    continue
                for place in range(at, len(path)):
                    rates = [self.wires[link].bytes_per_s for link in path[at : place + 1]]
                    if path[place] not in self.peers and (place == at or rates[-1] < min(rates[:-1])):
                        self._limit_peers_into(path[place], share)

    def _limit_peers_into(self, slot: int, share: float) -> None:
        """Leave what comes from other GPUs a share of a link's rate."""
        self.peers[slot] = len(self.src)
        self.src.append(self.src[slot])
        self.dst.append(self.src[slot])
        self.wires.append(Wire(share * self.wires[slot].bytes_per_s, 0.0, "peer"))

    def way_inside(self, src: int, dst: int) -> list[int] | None:
        """Return the links that a message takes from node to node inside the host; None if there is no way."""
        path = self.path(src, dst)
        if not path or src not in self._gpu_numbers or dst not in self._gpu_numbers:
            return path
        if dst in self.stagers and not self._by_nvlink(path):
            return [*self._through_memory(src, dst, path), *self.stagers[dst]]
        at = self._past_socket(path) if self.peers else None
        return path if at is None else [*path[:at], *self._with_peers(path[at:])]

    def _with_peers(self, path: list[int]) -> list[int]:
        """Return a way down from a socket with the links that only what comes from GPUs takes, each before its slot."""
        return [each for link in path for each in ([self.peers[link], link] if link in self.peers else [link])]

    def _by_nvlink(self, path: list[int]) -> bool:
        """Return whether a way leads over GPUs and NVSwitches alone, which reach each other's memory."""
        return {self.kinds[self.dst[link]] for link in path} <= {"gpu", "nvswitch"}

    def _through_memory(self, src: int, dst: int, path: list[int]) -> list[int]:
        """Return the way by the socket, up from the PCIe switch and down again, where the path turns at the switch."""
        between = {self.kinds[self.dst[link]] for link in path[:-1]}
        if between != {"plx"}:
            return path
        memory = self.memory[self._gpu_numbers[src]]
        return self._known(src, memory)[:-1] + self._known(memory, dst)[1:]

    def _past_socket(self, path: list[int]) -> int | None:
        """Return the place of the link by which a path leaves the one socket that it crosses; None if none, or two."""
        places = [place for place, link in enumerate(path) if self.kinds[self.src[link]] == "socket"]
        return places[0] if len(places) == 1 else None

    def path(self, src: int, dst: int) -> list[int] | None:
        """Return the links of the path with the fewest hops, the widest of these; None if there is no way."""
        key = (src, dst)
        if key not in self._path_cache:
            self._path_cache[key] = self._trace_back(src, dst)
        return self._path_cache[key]

    def way_out(self, node: int, choice: int) -> tuple[int, list[int]]:
        """Return the port that a node's messages to other hosts leave by, and the links to it.

        Among equally near ports a GPU takes the one of its turn, any other node the one `choice` picks:
        number `choice` modulo `num_ways(node)`.
        """
        port = self._port(node, choice)
        stage = self._stage(node)
        return port, self._known(node, stage) + self._known(stage, self.ports[port])

    def way_in(self, node: int, choice: int) -> tuple[int, list[int]]:
        """Return the port that messages from other hosts come in by, and the links from it to the node."""
        port = self._port(node, choice)
        stage = self._stage(node)
        return port, self._known(self.ports[port], stage) + self._known(stage, node)

    def num_ways(self, node: int) -> int:
        """Return among how many ways out of the host, and into it, a node's messages choose."""
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
        """Return the last link of the best path from `src` to every node it reaches."""
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

    def _stage(self, node: int) -> int:
        """Return the node whose memory a message of `node` is staged in; the node itself where it is not staged."""
        if self.gpudirect or node not in self._gpu_numbers:
            return node
        return self.memory[self._gpu_numbers[node]]

    def _port(self, node: int, choice: int) -> int:
        ports = self._ports(node)
        return ports[choice % len(ports)]

    def _ports(self, node: int) -> list[int]:
        """Return the nearest ports of a node; of a GPU only the one that is its turn."""
        if node not in self._port_cache:
            paths = [self.path(node, port) for port in self.ports]
            hops = [len(path) if path is not None else len(self.src) for path in paths]
            nearest = [port for port, length in enumerate(hops) if length == min(hops)]
            turn = self._gpu_numbers.get(node)
            self._port_cache[node] = nearest if turn is None else [nearest[turn % len(nearest)]]
        return self._port_cache[node]

    def _known(self, src: int, dst: int) -> list[int]:
        path = self.path(src, dst)
        if path is None:
            raise InputError(f"inside a host nothing but a GPU connects {self.names[src]} with {self.names[dst]}")
        return path
