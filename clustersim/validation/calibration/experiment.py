"""What was measured of a transport, as something that the simulator can repeat with other constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware.sheet import Transport
from clustersim.interchange.benchmark_logs import HOST, BenchmarkLog, Collective, Copy
from clustersim.network import Environment
from clustersim.simulate.collective import play_collective
from clustersim.simulate.play import network_over
from clustersim.strategies.algorithm import schedule_collective
from clustersim.topology import Node, Topology, place
from clustersim.topology.placement import Block

Simulate = Callable[[Transport], float]
"""Gives the seconds that something takes with a transport's constants."""


@dataclass(frozen=True)
class Experiment:
    """One measured time, where it stands, and how to simulate it. `source` is a log's file or a case's name."""

    what: str
    source: str
    line: int
    num_bytes: float
    num_gpus: int
    measured_s: float
    simulate: Simulate


def experiments(log: BenchmarkLog, cluster: Topology, num_gpus: int | None = None) -> list[Experiment]:
    """Return every figure of a log as an experiment on a cluster.

    Ranks are the cluster's first GPUs, filling host after host; `num_gpus` is for logs that do not say how many took
    part. The two ranks of a run that does not say who they are stand on two hosts where the cluster has several.
    """
    return [_experiment(each, log, cluster, num_gpus) for each in log.measurements]


def _experiment(each: Collective | Copy, log: BenchmarkLog, cluster: Topology, num_gpus: int | None) -> Experiment:
    try:
        if isinstance(each, Collective):
            return _collective(each, log, cluster, num_gpus)
        return _copy(each, log, cluster)
    except InputError as error:
        told = (
            mistake if mistake.file else replace(mistake, file=log.file, line=each.line) for mistake in error.mistakes
        )
        raise InputError(told) from None


def _collective(each: Collective, log: BenchmarkLog, cluster: Topology, num_gpus: int | None) -> Experiment:
    size = each.num_ranks or num_gpus
    if size is None:
        raise InputError("the log does not say how many ranks took part; say it with --gpus N", allowed="--gpus N")
    num_bytes = each.num_bytes * (size if each.is_per_rank else 1)
    gpus = place(Block(), cluster, size, seed=0)
    hosts = len(np.unique(cluster.gpu_hosts[gpus]))
    if each.num_hosts is not None and each.num_hosts != hosts:
        message = (
            f"the run's {size} ranks were on {each.num_hosts} hosts; the first {size} GPUs of '{cluster.name}' are on"
        )
        raise InputError(f"{message} {hosts}: another cluster", got=f"{hosts} hosts", allowed=f"{each.num_hosts} hosts")
    run = collective_on(cluster, each.op, "auto", gpus, num_bytes, each.buffers)
    return Experiment(each.op, log.file, each.line, num_bytes, size, each.time_s, run)


def collective_on(
    cluster: Topology, op: str, algorithm: str, gpus: np.ndarray, num_bytes: float, buffers: str = "gpu"
) -> Simulate:
    """Return what times a collective among GPUs [num_ranks], on buffers in their memory (`gpu`) or the hosts'."""

    def seconds(transport: Transport) -> float:
        _, schedule = schedule_collective(op, algorithm, cluster, gpus, num_bytes, transport.library)
        if buffers == "gpu":
            return play_collective(cluster, gpus, schedule, num_bytes, transport)
        env = Environment()
        env.run(network_over(env, cluster, transport, exact=False).play(schedule, _nodes(cluster.memory[gpus])))
        return float(env.now)

    return seconds


def _copy(each: Copy, log: BenchmarkLog, cluster: Topology) -> Experiment:
    if each.ends is None:
        legs = list(_message(each, cluster))
        what = "message" if each.num_messages == 1 else f"{each.num_messages} messages"
        num_gpus = 2
    else:
        legs, what = [None, _pair(each.ends, cluster)], " to ".join(map(_end, each.ends))
        num_gpus = sum(end != HOST for end in each.ends)
    staged = [leg for leg in legs if leg is not None]
    direct = legs[1]

    def seconds(transport: Transport) -> float:
        stages = each.ends is None and each.buffers == "gpu" and transport.buffers == "host"
        return sum(
            _sent_s(cluster, transport, leg, each) for leg in (staged if stages else [direct]) if leg is not None
        )

    return Experiment(what, log.file, each.line, each.num_bytes, num_gpus, each.time_s, seconds)


Leg = tuple[int, int] | None
"""The nodes that a copy goes from and to; None where there is none."""


def _message(each: Copy, cluster: Topology) -> Iterator[Leg]:
    """Yield the way of a message between two ranks: out to the host's memory, between ranks, and in again."""
    if cluster.num_gpus < 2:
        raise InputError(
            f"a message goes from one GPU to another; '{cluster.name}' has one", allowed="two or more GPUs"
        )
    others = np.flatnonzero(cluster.gpu_hosts != cluster.gpu_hosts[0])
    second = int(others[0]) if len(others) else 1
    own, memory = cluster.gpus[[0, second]].tolist(), cluster.memory[[0, second]].tolist()
    if each.buffers == "host" and memory[0] == memory[1]:
        message = (
            f"the run copied within one host's memory, and nothing is simulated of that; '{cluster.name}' has one host"
        )
        raise InputError(message, got="one host", allowed="a cluster of two hosts or more")
    ends = own if each.buffers == "gpu" else memory
    yield (own[0], memory[0]) if each.buffers == "gpu" else None
    yield ends[0], ends[1]
    yield (memory[1], own[1]) if each.buffers == "gpu" else None


def _pair(ends: tuple[int | str, int | str], cluster: Topology) -> Leg:
    gpus = [end for end in ends if isinstance(end, int)]
    on_host = np.flatnonzero(cluster.gpu_hosts == cluster.gpu_hosts[0])
    if max(gpus) >= len(on_host):
        message = f"the run copied with GPU {max(gpus)} of its host; a host of '{cluster.name}' has {len(on_host)}"
        raise InputError(message, got=f"GPU {max(gpus)}", allowed=f"GPUs 0 to {len(on_host) - 1}")
    nodes = [int(cluster.gpus[end] if isinstance(end, int) else cluster.memory[gpus[0]]) for end in ends]
    return nodes[0], nodes[1]


def _end(end: int | str) -> str:
    return f"GPU {end}" if isinstance(end, int) else str(end)


def _sent_s(cluster: Topology, transport: Transport, leg: tuple[int, int], each: Copy) -> float:
    env = Environment()
    src, dst = (_nodes(np.full(each.num_messages, node)) for node in leg)
    env.run(network_over(env, cluster, transport, exact=False).transfers(src, dst, each.num_bytes))
    return float(env.now)


def _nodes(numbers: np.ndarray) -> list[Node]:
    return [Node(number) for number in numbers.tolist()]
