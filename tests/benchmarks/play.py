"""Plays one work on our side, or writes it down for SimGrid: `python -m tests.benchmarks.play`.

Every measurement is a process of its own, started by `python -m tests.benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Generator
from functools import singledispatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import simpy

from clustersim.collectives import ALL_REDUCE, Schedule
from clustersim.network import Network
from clustersim.topology import Topology, load_topology

from .simgrid.inputs import Message, write_flows, write_ring
from .table import WORKS, Curve, Flows, Learning, Ring, Spec, Training, Updates
from .work import NUM_BYTES, equal_delay_torus, jitter, star, torus

FORWARD_S, BACKWARD_S, NUM_BUCKETS, BUCKET_BYTES = 30e-3, 6e-3, 10, 10.2e6


class Played(NamedTuple):
    """When each rank or message ended, in simulated seconds, and how many messages that took."""

    end_s: np.ndarray
    num_messages: int


Play = Callable[[], Played]


class RingParts(NamedTuple):
    """What a ring is made of. Messages are of whole bytes, since SimGrid counts so."""

    cluster: Topology
    gpus: list[int]
    chunk_bytes: int
    schedule: Schedule
    delay_s: np.ndarray | None


@singledispatch
def prepare(spec: Spec) -> Play:
    """Build cluster and schedule; return what is timed: from handing the work to the network to its end."""
    raise TypeError(f"nobody knows how to play {spec}")


@singledispatch
def write_inputs(spec: Spec, folder: Path) -> tuple[str, list[str]]:
    """Write what SimGrid needs to play the same; return its program and arguments."""
    raise TypeError(f"SimGrid has no program for {spec}")


def ring_parts(spec: Ring) -> RingParts:
    """Return cluster, ranks, messages and pauses of a ring."""
    build_torus = equal_delay_torus if spec.shuffled else torus
    cluster = star(spec.dims[0]) if len(spec.dims) == 1 else build_torus(*spec.dims)
    num_ranks = cluster.num_gpus
    order = np.random.default_rng(7).permutation(num_ranks) if spec.shuffled else np.arange(num_ranks)
    chunk = int(NUM_BYTES) // num_ranks
    num_steps = spec.num_steps or 2 * (num_ranks - 1)
    delay_s = jitter(num_ranks, num_steps, chunk, seed=num_ranks) if spec.jitter else None
    return RingParts(cluster, order.tolist(), chunk, ring(num_ranks, chunk, num_steps), delay_s)


def ring(num_ranks: int, chunk_bytes: int, num_steps: int) -> Schedule:
    """Return the first steps of a ring all-reduce with messages of `chunk_bytes`."""
    whole = ALL_REDUCE["ring"](num_ranks, float(chunk_bytes) * num_ranks)
    return Schedule(num_ranks, num_steps, whole.step, whole.granularity, whole.pattern)


@prepare.register
def _(spec: Ring) -> Play:
    parts = ring_parts(spec)

    def play() -> Played:
        env = simpy.Environment()
        network = Network(env, parts.cluster, exact=spec.exact)
        times = env.run(network.play(parts.schedule, parts.gpus, delay_s=parts.delay_s))
        assert times is not None
        return Played(times.end_s, len(parts.gpus) * parts.schedule.num_steps)

    return play


@write_inputs.register
def _(spec: Ring, folder: Path) -> tuple[str, list[str]]:
    parts = ring_parts(spec)
    return "ring", _write_ring(folder, parts)


def _write_ring(folder: Path, parts: RingParts, bucket_s: list[float] | None = None) -> list[str]:
    nodes = parts.cluster.gpus[parts.gpus].tolist()
    steps = parts.schedule.num_steps
    return write_ring(folder, parts.cluster, nodes, parts.chunk_bytes, steps, parts.delay_s, bucket_s)


def training_parts(spec: Training) -> RingParts:
    """Return cluster, ranks and messages of the all-reduce of one bucket."""
    cluster = star(spec.num_ranks, hop="500 ns")
    chunk = int(BUCKET_BYTES) // spec.num_ranks
    schedule = ring(spec.num_ranks, chunk, 2 * (spec.num_ranks - 1))
    return RingParts(cluster, list(range(spec.num_ranks)), chunk, schedule, None)


def bucket_times_s() -> list[float]:
    """Return when each bucket is ready."""
    return [FORWARD_S + BACKWARD_S * (number + 1) for number in range(NUM_BUCKETS)]


@prepare.register
def _(spec: Training) -> Play:
    parts = training_parts(spec)

    def play() -> Played:
        env = simpy.Environment()
        network = Network(env, parts.cluster, exact=spec.exact)

        def iterate() -> Generator[simpy.Event, Any, np.ndarray]:
            times = None
            for ready_s in bucket_times_s():
                yield env.timeout(max(0.0, ready_s - env.now))
                times = yield network.play(parts.schedule, parts.gpus)
            assert times is not None
            return np.asarray(times.end_s)

        end_s = env.run(env.process(iterate()))
        assert end_s is not None
        return Played(end_s, NUM_BUCKETS * spec.num_ranks * parts.schedule.num_steps)

    return play


@write_inputs.register
def _(spec: Training, folder: Path) -> tuple[str, list[str]]:
    parts = training_parts(spec)
    return "ring", _write_ring(folder, parts, bucket_times_s())


def flow_parts(spec: Flows) -> tuple[Topology, list[Message]]:
    """Return the cluster and its messages between GPUs by number, in the order of their starts."""
    shape = {"num_leaves": spec.num_leaves, "hosts_per_leaf": 32, "spines": 32}
    cluster = load_topology({"kind": "leaf-spine", **shape, "link": "7 GB/s", "hop": "1 us"})
    rng = np.random.default_rng(1)
    count = spec.num_flows
    starts = np.cumsum(rng.exponential(20e-6, count)) if spec.arrival == "poisson" else np.zeros(count)
    sizes = np.full(count, 10_000_000) if spec.arrival == "equal" else rng.integers(1_000_000, 100_000_000, count)
    src = rng.integers(0, cluster.num_gpus, count)
    dst = (src + rng.integers(1, cluster.num_gpus, count)) % cluster.num_gpus
    columns = (column.tolist() for column in (starts, src, dst, sizes))
    return cluster, [Message(*row) for row in zip(*columns, strict=True)]


@prepare.register
def _(spec: Flows) -> Play:
    cluster, messages = flow_parts(spec)
    routes = [cluster.route(cluster.node(one.src), cluster.node(one.dst)) for one in messages]
    weight = 1 / np.array([cluster.links.latency_s[route].sum() for route in routes])
    play = _play_each if spec.each else _play_together
    return lambda: play(cluster, messages, weight)


def _play_together(cluster: Topology, messages: list[Message], weight: np.ndarray) -> Played:
    env = simpy.Environment()
    start_s, src, dst, num_bytes = (np.array(column) for column in zip(*messages, strict=True))
    network = Network(env, cluster)
    times = env.run(network.transfers(src, dst, num_bytes, weight, start_s))
    assert times is not None
    return Played(times.end_s, len(messages))


def _play_each(cluster: Topology, messages: list[Message], weight: np.ndarray) -> Played:
    env = simpy.Environment()
    network = Network(env, cluster)
    end_s = np.full(len(messages), np.nan)

    def send(number: int, message: Message, share: float) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(message.start_s)
        times = yield network.transfer(message.src, message.dst, message.num_bytes, share)
        end_s[number] = times.end_s

    for number, (message, share) in enumerate(zip(messages, weight.tolist(), strict=True)):
        env.process(send(number, message, share))
    env.run()
    return Played(end_s, len(messages))


@write_inputs.register
def _(spec: Flows, folder: Path) -> tuple[str, list[str]]:
    cluster, messages = flow_parts(spec)
    nodes = [one._replace(src=cluster.node(one.src), dst=cluster.node(one.dst)) for one in messages]
    return "flows", write_flows(folder, cluster, nodes)


@prepare.register
def _(spec: Curve) -> Play:
    import clustersim

    scenario = clustersim.load_scenario(
        {
            "name": "curve",
            "model": "resnet50",
            "num_gpus": list(spec.num_gpus),
            "batch": {"per_gpu": 32},
            "topology": {"kind": "star", "num_hosts": 1024, "host": {"gpu": "v100"}, "link": "infiniband-edr"},
            "software": "plain",
            "transport": "nccl",
            "strategy": {"kind": "all-reduce", "algorithm": "ring", "buckets": "pytorch"},
            "stragglers": [{"kind": "lognormal", "cv": spec.cv}] if spec.cv else [],
            "replicates": spec.replicates,
        }
    )

    def play() -> Played:
        runs = clustersim.sweep(scenario).runs
        return Played(np.array([run.iteration_s for run in runs]), 0)

    return play


@prepare.register
def _(spec: Updates) -> Play:
    import clustersim

    scenario = clustersim.load_scenario(
        {
            "name": "updates",
            "model": "resnet50",
            "num_gpus": spec.num_workers,
            "batch": {"per_gpu": 32},
            "topology": {
                "kind": "star",
                "num_hosts": spec.num_workers + 1,
                "host": {"gpu": "v100"},
                "link": "infiniband-fdr",
            },
            "software": "plain",
            "transport": "nccl",
            "strategy": {"kind": "async", "servers": {"on": "own-hosts"}},
            "stragglers": [{"kind": "lognormal", "cv": 0.1}],
            "num_iterations": spec.num_updates,
        }
    )

    def play() -> Played:
        (run,) = clustersim.sweep(scenario).runs
        return Played(np.array(run.updates.time_s), 0)

    return play


@prepare.register
def _(spec: Learning) -> Play:
    from clustersim.learning import LearningSpec, train
    from tests.learning.training.orders import random_asynchronous

    learning = LearningSpec(task="digits", batch=16)
    trainee = learning.task.trainee(1)
    order = random_asynchronous(spec.num_workers, spec.num_updates)

    def play() -> Played:
        run = train(order, learning, trainee, seed=1)
        return Played(np.array([point.seconds for point in run.curve]), 0)

    return play


def timed(play: Play) -> tuple[Played, float]:
    """Return what was played, and the CPU seconds it took."""
    start = time.process_time()
    played = play()
    return played, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.play", description=__doc__)
    parser.add_argument("name", choices=WORKS)
    parser.add_argument("--small", action="store_true", help="the small form of the work")
    parser.add_argument("--warm", action="store_true", help="play it once before it is timed")
    parser.add_argument("--ends", type=Path, help="file for the time at which each rank or message ended")
    parser.add_argument("--inputs", type=Path, help="folder for SimGrid's inputs; nothing is played")
    given = parser.parse_args()
    spec = WORKS[given.name].spec.small() if given.small else WORKS[given.name].spec
    if given.inputs:
        program, inputs = write_inputs(spec, given.inputs)
        print(json.dumps({"program": program, "inputs": inputs}))
        return
    imports_cpu_s = time.process_time()
    play = prepare(spec)
    setup_cpu_s = time.process_time() - imports_cpu_s
    if given.warm:
        play()
    played, run_cpu_s = timed(play)
    if given.ends:
        given.ends.write_text("".join(f"{time_s!r}\n" for time_s in played.end_s.tolist()))
    told = {"imports_cpu_s": imports_cpu_s, "setup_cpu_s": setup_cpu_s, "run_cpu_s": run_cpu_s}
    print(json.dumps({**told, "num_messages": played.num_messages}))


if __name__ == "__main__":
    main()
