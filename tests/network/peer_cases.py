"""Work whose times SimGrid has computed, as plain data: links and routes in use, messages, and their ends.

A case brings its own routes, so that it stays the same when a builder learns to route another way.
`python -m tests.benchmarks.peer_times` makes the files in `peer/`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import networkx as nx
import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.network import Network
from clustersim.topology import Topology, load_topology

PEER = Path(__file__).resolve().parent / "peer"


@dataclass(frozen=True)
class Cluster:
    """Nodes by number, links (src, dst, bytes_per_s, latency_s), and routes (src, dst, and the links by number)."""

    num_nodes: int
    links: list[list[Any]]
    routes: list[list[int]]

    @classmethod
    def of(cls, topology: Topology, pairs: Iterable[tuple[int, int]]) -> Cluster:
        """Return what of a cluster is in use when these pairs of nodes send; links are numbered anew."""
        routes = {pair: topology.route(*pair).tolist() for pair in pairs}
        used = sorted({link for route in routes.values() for link in route})
        number = {link: new for new, link in enumerate(used)}
        columns = topology.links
        return cls(
            num_nodes=len(topology.node_names),
            links=[
                [int(columns.src[i]), int(columns.dst[i]), float(columns.bytes_per_s[i]), float(columns.latency_s[i])]
                for i in used
            ],
            routes=[[*pair, *(number[link] for link in route)] for pair, route in routes.items()],
        )

    def topology(self) -> Topology:
        """Return the cluster as a topology that knows these routes and no others. Every node counts as a GPU."""
        graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        graph.add_nodes_from(range(self.num_nodes), kind="gpu")
        columns = [np.array(column) for column in zip(*self.links, strict=True)]
        built = load_topology(graph)
        src, dst, bytes_per_s, latency_s = columns
        links = replace(
            built.links,
            src=src.astype(np.int64),
            dst=dst.astype(np.int64),
            bytes_per_s=bytes_per_s,
            latency_s=latency_s,
            kind=["link"] * len(self.links),
        )
        known = self.links_between()
        return replace(built, links=links, router=lambda src, dst: known[src, dst])

    def links_between(self) -> dict[tuple[int, int], list[int]]:
        """Return the links of each route, by its ends."""
        return {(src, dst): links for src, dst, *links in self.routes}

    def latency_s(self) -> dict[tuple[int, int], float]:
        """Return the latency of each route, by its ends."""
        return {pair: sum(self.links[link][3] for link in route) for pair, route in self.links_between().items()}


@dataclass(frozen=True)
class FlowCase:
    """Messages (start_s, src, dst, num_bytes), each of the weight 1 / latency of its route."""

    name: str
    cluster: Cluster
    messages: list[list[Any]]
    end_s: list[float]

    def play(self, **options: Any) -> np.ndarray:
        """Return when each message ends on our network [num_messages]; a process sends each."""
        env = simpy.Environment()
        network = Network(env, self.cluster.topology(), **options)
        latency_s = self.cluster.latency_s()
        end_s = np.full(len(self.messages), np.nan)

        def send(number: int, start_s: float, src: int, dst: int, num_bytes: int) -> Generator[simpy.Event, Any, None]:
            yield env.timeout(start_s)
            times = yield network.transfer(src, dst, num_bytes, weight=1 / latency_s[src, dst])
            end_s[number] = times.end_s

        for number, message in enumerate(self.messages):
            env.process(send(number, *message))
        env.run()
        return end_s


@dataclass(frozen=True)
class RingCase:
    """Ranks at `nodes`, each of which sends `chunk_bytes` to the next in every step, after a pause of its own.

    Pauses are lognormal (sigma 0.5) with the mean `pause_ns`. They are drawn from `seed` by what Python promises
    to keep in every version, and whole nanoseconds, so that they need not be stored.
    """

    name: str
    cluster: Cluster
    nodes: list[int]
    chunk_bytes: int
    num_steps: int
    pause_ns: float
    seed: int
    end_s: list[float]

    @cached_property
    def delay_s(self) -> np.ndarray:
        """[ranks, steps] how long each rank pauses before each step."""
        uniform = Random(self.seed).random
        shape = (len(self.nodes), self.num_steps)
        one, other = np.array([(1 - uniform(), uniform()) for _ in range(math.prod(shape))]).T
        normal = np.sqrt(-2 * np.log(one)) * np.cos(2 * np.pi * other)  # Box and Muller, 1958
        delay_ns = np.rint(self.pause_ns * np.exp(0.5 * normal - 0.125))
        return np.asarray(delay_ns.reshape(shape) * 1e-9)

    def play(self, **options: Any) -> np.ndarray:
        """Return when each rank ends on our network [ranks]."""
        env = simpy.Environment()
        network = Network(env, self.cluster.topology(), **options)
        rank = np.arange(len(self.nodes))
        schedule = Schedule.repeat(
            num_steps=self.num_steps,
            src=rank,
            dst=(rank + 1) % len(rank),
            num_bytes=float(self.chunk_bytes),
            chunk=lambda step: (rank - step) % len(rank),
            reduce=lambda step: False,
        )
        times = env.run(network.play(schedule, self.nodes, delay_s=self.delay_s))
        assert times is not None
        return np.array(times.end_s)

    def recurrence(self) -> np.ndarray:
        """Return when each rank ends [ranks] where no two messages share a link.

        A message starts when sender and receiver have both reached the step, and takes latency + bytes /
        rate; a rank has done a step when what it sends and what it receives has ended.
        """
        following = [*self.nodes[1:], self.nodes[0]]
        routes = self.cluster.links_between()
        ways = [[self.cluster.links[link] for link in routes[pair]] for pair in zip(self.nodes, following, strict=True)]
        latency_s = np.array([sum(link[3] for link in way) for way in ways])
        taken_s = latency_s + self.chunk_bytes / np.array([min(link[2] for link in way) for way in ways])
        now_s = np.zeros(len(self.nodes))
        for pause_s in self.delay_s.T:
            ready_s = now_s + pause_s
            sent_s = np.maximum(ready_s, np.roll(ready_s, -1)) + taken_s
            now_s = np.maximum(sent_s, np.roll(sent_s, 1))
        return now_s


FLOWS = PEER / "flows.json"
RINGS = PEER / "rings.json"
LONG_RINGS = PEER / "long_rings.json"


def read_flow_cases(path: Path = FLOWS) -> list[FlowCase]:
    """Return the stored cases of messages that start at given times."""
    return [FlowCase(**{**case, "cluster": Cluster(**case["cluster"])}) for case in _read(path)]


def read_ring_cases(path: Path = RINGS) -> list[RingCase]:
    """Return the stored cases of rings."""
    return [RingCase(**{**case, "cluster": Cluster(**case["cluster"])}) for case in _read(path)]


def write_cases(path: Path, how: dict[str, Any], cases: Sequence[FlowCase | RingCase]) -> None:
    """Write cases under what says how they were made, a line for each row of each list."""
    document = {**how, "cases": [asdict(case) for case in cases]}
    text = json.dumps(document, indent=1)
    text = re.sub(r"\[[^][{}]*\]", lambda row: re.sub(r"\s+", " ", row[0]).replace("[ ", "[").replace(" ]", "]"), text)
    path.write_text(text + "\n", encoding="utf-8")


def _read(path: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return cases
