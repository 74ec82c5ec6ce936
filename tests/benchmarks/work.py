"""Work for the network that says something about its speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import simpy

from clustersim.collectives import ALL_REDUCE
from clustersim.network import Network
from clustersim.topology import Topology, load_topology

NUM_BYTES = 1e8
RATE = 7e9  # 56 Gbit/s
STEP_LATENCY_S = 2e-6


def star(num_gpus: int, hop: str = "1 us") -> Topology:
    return load_topology({"kind": "star", "num_hosts": num_gpus, "link": "7 GB/s", "hop": hop})


def torus(*dims: int) -> Topology:
    return load_topology({"kind": "torus", "dims": list(dims), "link": "7 GB/s", "hop": "1 us"})


def equal_delay_torus(*dims: int) -> Topology:
    """Return a torus on which every route takes the same delay, that of the link into it: 2 us.

    SimGrid gives a message the weight 1 / latency where it shares a link; so all have the same weight there
    too, as the messages of a collective have here.
    """
    built = torus(*dims)
    latency_s = np.where(np.isin(built.links.src, built.gpus), STEP_LATENCY_S, 0.0)
    return replace(built, links=replace(built.links, latency_s=latency_s))


def jitter(num_ranks: int, num_steps: int, chunk_bytes: float, seed: int) -> np.ndarray:
    """Return pauses [num_ranks, num_steps]: lognormal, sigma 0.5, with a mean of 5 % of a step on the star."""
    mean_s = 0.05 * (chunk_bytes / RATE + STEP_LATENCY_S)
    return np.random.default_rng(seed).lognormal(np.log(mean_s) - 0.125, 0.5, (num_ranks, num_steps))


def play_ring(
    cluster: Topology, num_ranks: int, jitter: bool = False, shuffled: bool = False, exact: bool = True
) -> Network:
    """Play a ring all-reduce of 100 MB; return the network it was played on.

    With `jitter`, every rank pauses before every step, lognormally (sigma 0.5) with a mean of 5 % of the
    step. `shuffled` ranks share links of a torus. Not `exact`: steps that repeat may be multiplied.
    """
    rng = np.random.default_rng(num_ranks)
    schedule = ALL_REDUCE["ring"](num_ranks, NUM_BYTES)
    mean_s = 0.05 * (NUM_BYTES / num_ranks / RATE + STEP_LATENCY_S)
    shape = (num_ranks, schedule.num_steps)
    delay_s = rng.lognormal(np.log(mean_s) - 0.125, 0.5, shape) if jitter else None
    ranks = rng.permutation(num_ranks).tolist() if shuffled else range(num_ranks)
    network = Network(simpy.Environment(), cluster, exact=exact)
    network.env.run(network.play(schedule, ranks, delay_s=delay_s))
    return network


def play_flows(cluster: Topology, num_flows: int, mean_gap_s: float, most_bytes: float = 1e8) -> Network:
    """Send messages of 1 MB to `most_bytes` between random pairs, a process each; mean gap 0: all at once."""
    rng = np.random.default_rng(num_flows)
    network = Network(simpy.Environment(), cluster)
    starts = np.cumsum(rng.exponential(mean_gap_s, num_flows)) if mean_gap_s else np.zeros(num_flows)
    sizes = rng.uniform(1e6, most_bytes, num_flows)
    src = rng.integers(0, cluster.num_gpus, num_flows)
    dst = (src + rng.integers(1, cluster.num_gpus, num_flows)) % cluster.num_gpus

    def send(start_s: float, *message: float):
        yield network.env.timeout(start_s)
        yield network.transfer(int(message[0]), int(message[1]), message[2])

    for start_s, *message in zip(starts, src, dst, sizes, strict=True):
        network.env.process(send(float(start_s), *message))
    network.env.run()
    return network
