"""A measured collective on an idle cluster."""

from __future__ import annotations

import numpy as np

from clustersim.communicator.algorithm import schedule_collective
from clustersim.errors import InputError
from clustersim.hardware.sheet import Transport
from clustersim.network import Environment
from clustersim.reading.benchmark_logs import CollectiveTime
from clustersim.simulate.build import build_network
from clustersim.simulate.collective import simulate_schedule
from clustersim.simulate.transport_fit.experiment import Experiment, Simulate
from clustersim.topology import Node, Topology, place
from clustersim.topology.placement import Block


def collective_experiment(each: CollectiveTime, file: str, cluster: Topology, num_gpus: int | None) -> Experiment:
    """Return a log's collective on the first GPUs of a cluster; `num_gpus` is for logs without their number."""
    size = each.num_ranks or num_gpus
    if size is None:
        raise InputError("the log does not give the number of ranks; give it with --gpus N", allowed="--gpus N")
    num_bytes = each.num_bytes * (size if each.is_per_rank else 1)
    gpus = place(Block(), cluster, size, seed=0)
    hosts = len(np.unique(cluster.gpu_hosts[gpus]))
    if each.num_hosts is not None and each.num_hosts != hosts:
        here = f"the first {size} GPUs of '{cluster.name}' are on {hosts}"
        message = f"the run's {size} ranks were on {each.num_hosts} hosts, and {here}; give the cluster of the run"
        raise InputError(message, got=f"{hosts} hosts", allowed=f"{each.num_hosts} hosts")
    run = collective_on(cluster, each.op, "auto", gpus, num_bytes, each.buffers)
    return Experiment(each.op, file, each.line, num_bytes, size, each.time_s, run)


def collective_on(
    cluster: Topology, op: str, algorithm: str, gpus: np.ndarray, num_bytes: float, buffers: str = "gpu"
) -> Simulate:
    """Return a function for the time of a collective on GPUs [num_ranks], with buffers on them (`gpu`) or on hosts."""

    def seconds(transport: Transport) -> float:
        _, schedule = schedule_collective(op, algorithm, cluster, gpus, num_bytes, transport.library)
        if buffers == "gpu":
            return simulate_schedule(cluster, gpus, schedule, num_bytes, transport)
        env = Environment()
        nodes = [Node(node) for node in cluster.memory[gpus].tolist()]
        env.run(build_network(env, cluster, transport, exact=False).play(schedule, nodes))
        return float(env.now)

    return seconds
