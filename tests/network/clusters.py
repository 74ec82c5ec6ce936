"""Small clusters and an oracle, for tests."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import simpy

from clustersim.collectives import Schedule
from clustersim.network import Environment, FlowRate, Network, max_min_rates
from clustersim.topology import Topology, load_topology


def star(num_gpus: int, bytes_per_s: float = 1e9, latency_s: float = 1e-6) -> nx.DiGraph:
    """Return GPUs around one switch, every link full duplex."""
    graph = nx.DiGraph()
    for number in range(num_gpus):
        graph.add_node(f"gpu{number}", kind="gpu")
    graph.add_node("switch", kind="switch")
    for number in range(num_gpus):
        for ends in ((f"gpu{number}", "switch"), ("switch", f"gpu{number}")):
            graph.add_edge(*ends, bytes_per_s=bytes_per_s, latency_s=latency_s)
    return graph


def line(num_gpus: int, bytes_per_s: float = 1e9, latency_s: float = 0.0) -> nx.DiGraph:
    """Return GPUs on a row of switches, so that far messages share links."""
    graph = nx.DiGraph()
    for number in range(num_gpus):
        graph.add_node(f"gpu{number}", kind="gpu")
    for number in range(num_gpus):
        graph.add_node(f"switch{number}", kind="switch")
        pairs = [(f"gpu{number}", f"switch{number}"), (f"switch{number}", f"gpu{number}")]
        if number:
            pairs += [(f"switch{number - 1}", f"switch{number}"), (f"switch{number}", f"switch{number - 1}")]
        for ends in pairs:
            graph.add_edge(*ends, bytes_per_s=bytes_per_s, latency_s=latency_s)
    return graph


def make_network(cluster: nx.DiGraph | Topology, env: simpy.Environment | None = None, **options: Any) -> Network:
    """Return a network over a cluster, on a clock of its own if none is given: the engine that tests are about."""
    topology = cluster if isinstance(cluster, Topology) else load_topology(cluster)
    return Network(env or Environment(), topology, **options)


def link_between(network: Network, src: str, dst: str) -> int:
    """Return the number of the link from one node to a neighbour."""
    (link,) = network.topology.route(network.topology.node(src), network.topology.node(dst)).tolist()
    return int(link)


def time_schedule(graph: nx.DiGraph | Topology, schedule: Schedule, **costs: Any) -> float:
    """Return the seconds that a collective takes when everybody enters together."""
    env = simpy.Environment()
    network = Network(env, graph if isinstance(graph, Topology) else load_topology(graph), **costs)
    return float(env.run(network.play(schedule, range(schedule.num_ranks))).end_s.max(initial=0.0))


def fair_rates(flows: list[FlowRate], bytes_per_s: np.ndarray, cap_bytes_per_s: float = np.inf) -> np.ndarray:
    """Return the max-min rates of flows, solved anew, given the rates of links [num_links] and of private ones."""
    numbers = sorted({link for flow in flows for link in flow.links})
    place = {number: index for index, number in enumerate(numbers)}
    longest = max((len(flow.links) for flow in flows), default=1)
    routes = [[place[link] for link in flow.links] + [len(place)] * (longest - len(flow.links)) for flow in flows]
    capacity = [cap_bytes_per_s if number < 0 else float(bytes_per_s[number]) for number in numbers]
    return max_min_rates(
        np.array(routes, dtype=np.int64).reshape(len(flows), longest),
        np.array([flow.weight for flow in flows]),
        np.array([*capacity, np.inf]),
    )


def filled(routes: list[list[int]], weights: list[float], capacity: list[float]) -> np.ndarray:
    """Return max-min rates by filling all flows slowly and together: an independent, plain oracle."""
    rates = np.zeros(len(routes))
    open_flows = set(range(len(routes)))
    left = list(capacity)
    while open_flows:
        level = {
            link: left[link] / sum(weights[f] for f in open_flows if link in routes[f])
            for link in range(len(capacity))
            if any(link in routes[f] for f in open_flows)
        }
        lowest = min(level.values())
        stuck = {f for f in open_flows if any(level[link] <= lowest * (1 + 1e-12) for link in routes[f])}
        for flow in open_flows:
            rates[flow] += weights[flow] * lowest
            for link in routes[flow]:
                left[link] -= weights[flow] * lowest
        open_flows -= stuck
    return rates
