"""Simulates a measured copy on an idle cluster."""

from __future__ import annotations

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware.sheet import Transport
from clustersim.network import Environment
from clustersim.reading.benchmark_logs import HOST, CopyTime
from clustersim.simulate.build import build_network
from clustersim.simulate.transport_fit.experiment import Experiment
from clustersim.topology import Node, Topology

Leg = tuple[int, int]
"""The source and the destination node of a copy."""


def copy_experiment(each: CopyTime, file: str, cluster: Topology) -> Experiment:
    """Return a log's copy: between the ends that it names, or between two ranks, on two hosts if there are several.

    If the transport stages messages between GPUs, a message goes to the memory of its host, to that of the other host,
    and to the other GPU, one after the other.
    """
    if each.ends is not None:
        direct = staged = [_pair(each.ends, cluster)]
        what = " to ".join(f"GPU {end}" if isinstance(end, int) else end for end in each.ends)
    else:
        first, second = _ranks(each, cluster)
        own, memory = cluster.gpus[[first, second]].tolist(), cluster.memory[[first, second]].tolist()
        between = (memory[0], memory[1])
        direct = [(own[0], own[1])] if each.buffers == "gpu" else [between]
        staged = [(own[0], memory[0]), between, (memory[1], own[1])] if each.buffers == "gpu" else direct
        what = "message" if each.num_messages == 1 else f"{each.num_messages} messages"

    def seconds(transport: Transport) -> float:
        return sum(_sent_s(cluster, transport, leg, each) for leg in (staged if _stages(transport) else direct))

    num_gpus = 2 if each.ends is None else sum(end != HOST for end in each.ends)
    return Experiment(what, file, each.line, each.num_bytes, num_gpus, each.time_s, seconds)


def _stages(transport: Transport) -> bool:
    return transport.buffers == "host"


def _ranks(each: CopyTime, cluster: Topology) -> tuple[int, int]:
    """Return the GPU numbers of the two ranks of a run that does not name them."""
    if cluster.num_gpus < 2:
        message = f"a message needs two GPUs, and '{cluster.name}' has one"
        raise InputError(message, got="one GPU", allowed="two or more GPUs")
    others = np.flatnonzero(cluster.gpu_hosts != cluster.gpu_hosts[0])
    second = int(others[0]) if len(others) else 1
    if each.buffers == "host" and cluster.memory[0] == cluster.memory[second]:
        message = f"copies within the memory of one host are not simulated, and '{cluster.name}' has one host"
        raise InputError(message, got="one host", allowed="a cluster of two hosts or more")
    return 0, second


def _pair(ends: tuple[int | str, int | str], cluster: Topology) -> Leg:
    """Return the nodes of two ends in the first host; `HOST` is the memory nearest to the GPU at the other end."""
    gpus = [end for end in ends if isinstance(end, int)]
    on_host = int((cluster.gpu_hosts == cluster.gpu_hosts[0]).sum())
    if max(gpus) >= on_host:
        message = f"the run used GPU {max(gpus)} of its host, and a host of '{cluster.name}' has {on_host}"
        raise InputError(message, got=f"GPU {max(gpus)}", allowed=f"GPUs 0 to {on_host - 1}")
    src, dst = (int(cluster.gpus[end] if isinstance(end, int) else cluster.memory[gpus[0]]) for end in ends)
    return src, dst


def _sent_s(cluster: Topology, transport: Transport, leg: Leg, each: CopyTime) -> float:
    """Return when the last of the messages, which start together, has arrived."""
    env = Environment()
    src, dst = ([Node(node)] * each.num_messages for node in leg)
    env.run(build_network(env, cluster, transport, exact=False).transfers(src, dst, each.num_bytes))
    return float(env.now)
