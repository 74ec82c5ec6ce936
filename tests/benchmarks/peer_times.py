"""Makes the times that our network is held to: `python -m tests.benchmarks.peer_times`, where SimGrid is installed.

Everything is SimGrid's Full solver with the settings in `simgrid/programs.py`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from clustersim.topology import Topology, load_topology

from ..network.peer_cases import FLOWS, LONG_RINGS, RINGS, Cluster, FlowCase, RingCase, write_cases
from .simgrid.inputs import Message, write_flows, write_ring
from .simgrid.programs import SETTINGS, run_program, version, why_missing
from .work import RATE, STEP_LATENCY_S, equal_delay_torus, star, torus

TINY = [(5, 2), (2, 1), (1, 2), (7, 2), (1, 6), (2, 6), (5, 0), (6, 1)]
"""Eight messages of 10 MB on a star of eight, on which SimGrid 3.32's Lazy solver gives more than a link has."""

NUM_GRAPHS = 20
NUM_SEEDS = 3


def told_flows(case: FlowCase) -> FlowCase:
    """Return the case with the times that SimGrid tells."""
    with tempfile.TemporaryDirectory() as folder:
        messages = [Message(*message) for message in case.messages]
        inputs = write_flows(Path(folder), case.cluster.topology(), messages)
        return replace(case, end_s=run_program("flows", inputs).end_s)


def told_ring(case: RingCase) -> RingCase:
    """Return the case with the times that SimGrid tells."""
    with tempfile.TemporaryDirectory() as folder:
        topology = case.cluster.topology()
        inputs = write_ring(Path(folder), topology, case.nodes, case.chunk_bytes, case.num_steps, case.delay_s)
        return replace(case, end_s=run_program("ring", inputs).end_s)


def flow_cases() -> Iterator[FlowCase]:
    """Yield the eight messages, and random ones on a star, a torus, a fat tree and random graphs."""
    eight = star(8)
    yield flow_case("eight messages, star", eight, [Message(0.0, *pair, 10_000_000) for pair in TINY])
    tree = load_topology({"kind": "fat-tree", "k": 4, "link": "7 GB/s", "hop": "1 us"})
    for seed, (name, cluster) in enumerate({"star": star(16), "torus": torus(4, 3, 2), "fat tree": tree}.items()):
        yield flow_case(f"60 messages, {name}", cluster, random_messages(cluster, 60, seed))
    for seed in range(NUM_GRAPHS):
        cluster = random_graph(seed)
        yield flow_case(f"40 messages, random graph {seed}", cluster, random_messages(cluster, 40, seed))


def flow_case(name: str, cluster: Topology, messages: list[Message]) -> FlowCase:
    """Return a case without times."""
    pairs = dict.fromkeys((one.src, one.dst) for one in messages)
    return FlowCase(name, Cluster.of(cluster, pairs), [list(one) for one in messages], [])


def random_messages(cluster: Topology, num_messages: int, seed: int) -> list[Message]:
    """Return messages of 100 kB to 100 MB between GPUs, in the order of their starts; a third start at once."""
    rng = np.random.default_rng(seed)
    starts = np.sort(np.where(rng.random(num_messages) < 1 / 3, 0.0, rng.exponential(2e-3, num_messages)))
    sizes = np.exp(rng.uniform(np.log(1e5), np.log(1e8), num_messages))
    rows = []
    for start_s, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        src, dst = rng.choice(cluster.gpus, 2, replace=False).tolist()
        rows.append(Message(start_s, src, dst, int(size)))
    return rows


def random_graph(seed: int) -> Topology:
    """Return a connected graph of 6 to 16 hosts that forward for each other, no two links alike."""
    rng = np.random.default_rng(seed)
    num_nodes = int(rng.integers(6, 17))
    tree = [(node, int(rng.integers(node))) for node in range(1, num_nodes)]
    more = [tuple(rng.choice(num_nodes, 2, replace=False).tolist()) for _ in range(int(rng.integers(num_nodes)))]
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(num_nodes), kind="host")
    for one, other in [*tree, *more]:
        for ends in ((one, other), (other, one)):
            rate, latency_s = rng.uniform(0.5e9, 12.5e9), rng.uniform(0.2e-6, 20e-6)
            graph.add_edge(*ends, bytes_per_s=float(rate), latency_s=float(latency_s))
    return load_topology(graph)


def ring_cases() -> Iterator[RingCase]:
    """Yield rings of which no messages meet, and rings whose messages do."""
    for name, cluster in {"star of 8": star(8), "star of 16": star(16), "4x2x2 torus": torus(4, 2, 2)}.items():
        yield ring_case(f"ring on a {name}", cluster, seed=0)
    yield ring_case("16 steps, shuffled 4x2x2 torus", equal_delay_torus(4, 2, 2), seed=0, shuffled=True, num_steps=16)
    yield ring_case("whole ring, shuffled 4x4x2 torus", equal_delay_torus(4, 4, 2), seed=0, shuffled=True)


def long_ring_cases() -> Iterator[RingCase]:
    """Yield a ring that is chaotic before it ends, with other pauses each time: only means say much."""
    cluster = equal_delay_torus(8, 4, 4)
    for seed in range(NUM_SEEDS):
        yield ring_case(f"64 steps, shuffled 8x4x4 torus, seed {seed}", cluster, seed, shuffled=True, num_steps=64)


def ring_case(
    name: str, cluster: Topology, seed: int, shuffled: bool = False, num_steps: int | None = None
) -> RingCase:
    """Return the case of a ring all-reduce of 100 MB with pauses of 5 % of a step, in whole bytes a message."""
    num_ranks = cluster.num_gpus
    chunk = 100_000_000 // num_ranks
    order = np.random.default_rng(7).permutation(num_ranks) if shuffled else np.arange(num_ranks)
    nodes: list[int] = cluster.gpus[order].tolist()
    in_use = Cluster.of(cluster, zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    pause_ns = round(0.05 * (chunk / RATE + STEP_LATENCY_S) * 1e9)
    return RingCase(name, in_use, nodes, chunk, num_steps or 2 * (num_ranks - 1), pause_ns, seed, [])


def main() -> None:
    reason = why_missing()
    if reason:
        sys.exit(reason)
    how: dict[str, Any] = {
        "made_by": "python -m tests.benchmarks.peer_times",
        "simgrid": version(),
        "settings": [*SETTINGS, "network/optim:Full"],
    }
    write_cases(FLOWS, how, [told_flows(case) for case in flow_cases()])
    write_cases(RINGS, how, [told_ring(case) for case in ring_cases()])
    write_cases(LONG_RINGS, how, [told_ring(case) for case in long_ring_cases()])


if __name__ == "__main__":
    main()
