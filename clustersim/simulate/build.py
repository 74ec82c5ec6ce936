"""Builds the network of a cluster, and the job of one replicate on it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import simpy

from clustersim.communicator.algorithm import as_seen
from clustersim.devices import InputStage
from clustersim.errors import InputError
from clustersim.execution.job import Job
from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Transport
from clustersim.kernels.faster import faster_gpu
from clustersim.kernels.kernel_constants import moved_s
from clustersim.network import Network
from clustersim.program import Iteration
from clustersim.scenario import link_table
from clustersim.simulate.setup import Setup
from clustersim.stragglers import Draws, LinkStraggler, Straggler, delayed, link_changes, link_paces, paces
from clustersim.topology import Topology
from clustersim.topology.adapters import through_adapters


def build_network(
    env: simpy.Environment,
    topology: Topology,
    transport: Transport,
    exact: bool,
    numba_from_messages: int | None = None,
) -> Network:
    """Return the network of a cluster as a message library uses it; `exact` turns its shortcuts off.

    From `numba_from_messages` on, messages are simulated by compiled kernels (see `Network`).
    """
    if transport.receiving_bytes_per_s is not None and topology.processes is None:
        raise InputError(
            f"the transport {transport.name} limits what the threads of a process carry: it is simulated in training "
            "with servers only",
            got=transport.name,
            allowed=transport.library,
            key="transport",
        )
    return Network(
        env,
        through_adapters(topology) if transport.in_host == "adapter" else as_seen(topology, transport.library),
        topology.sharing,
        overhead_s=transport.overhead_s,
        efficiency=transport.efficiency,
        adds=transport.adds,
        host_overhead_s=transport.host_overhead_s,
        add_s_per_byte=transport.add_s_per_byte,
        exact=exact,
        connection_bytes_per_s=transport.connection_bytes_per_s,
        numba_from_messages=numba_from_messages,
    )


def build_job(network: Network, setup: Setup, replicate: int, num_iterations: int, straggler_origin_s: float) -> Job:
    """Return the job of a replicate on its GPUs of a network's cluster, ready to start.

    Times given for stragglers in the scenario count from `straggler_origin_s` on.
    """
    point, seed, gpus = setup.point, setup.seed(replicate), setup.gpus(replicate)
    hosts = setup.topology.gpu_hosts[gpus]
    stragglers = delayed(point.stragglers, straggler_origin_s)
    draws, shares = Draws(stragglers, seed, hosts), setup.shares_of_slowest(replicate)
    each_share = shares.tolist()
    return Job(
        env=network.env,
        network=network,
        transport=setup.transport,
        gpus=gpus,
        plans=_plans(setup, gpus, draws),
        slowdown=lambda rank, iteration: draws.factor(rank, iteration) * each_share[rank],
        update_bytes_per_byte=point.optimizer.moved_bytes_per_parameter / setup.wire_bytes_per_parameter,
        bytes_per_number=setup.wire_bytes_per_parameter,
        gradient_bytes=point.gradient_bytes,
        moved_s_per_byte=_moved_s_per_byte(setup, gpus),
        num_iterations=num_iterations,
        seed=seed,
        paces=paces(stragglers, seed, hosts),
        slowest=np.array([setup.slowest_of(kind) for kind in setup.kinds(gpus)]) * shares,
        wire=setup.wire,
        input_stage=_input_stage(network, setup, hosts, seed),
    )


def disturb_links(network: Network, stragglers: Sequence[Straggler], seed: int, gpus: np.ndarray) -> None:
    """Start a process that slows links down and restores them as stragglers say, for a job on `gpus` [num_ranks].

    Disturbances that begin at the simulated time 0 apply before anything is sent.
    """
    if any(isinstance(straggler, LinkStraggler) for straggler in stragglers):
        network.env.process(_link_disturbances(network, stragglers, seed, gpus))


def _link_disturbances(
    network: Network, stragglers: Sequence[Straggler], seed: int, gpus: np.ndarray
) -> Generator[simpy.Event, Any, None]:
    rates = network.topology.links.bytes_per_s
    for time_s, link, speed in link_changes(link_paces(stragglers, seed, link_table(network.topology, gpus))):
        if time_s > network.env.now:
            yield network.env.timeout(time_s - network.env.now)
        network.set_rate(link, float(rates[link]) * speed)


def _moved_s_per_byte(setup: Setup, gpus: np.ndarray) -> np.ndarray:
    """Return the seconds per byte of kernels that only move memory on each GPU [num_ranks]."""
    kinds, factor, speeds = setup.kinds(gpus), setup.reference.kernel_factor, setup.point.speeds.of_gpu
    of_kind = {kind: faster_gpu(load_gpu(kind), *speeds) for kind in dict.fromkeys(kinds)}
    each = {kind: factor * setup.slowest_of(kind) * moved_s(1.0, gpu, 0) for kind, gpu in of_kind.items()}
    return np.array([each[kind] for kind in kinds])


def _input_stage(network: Network, setup: Setup, hosts: np.ndarray, seed: int) -> InputStage | None:
    """Return the loaders of a job's ranks [num_ranks] on `hosts`; None where the scenario has no input pipeline.

    If a copy of the model spans several GPUs, one of them has a loader: the first of those that split the layers of
    the first stage. It reads the samples of one micro-batch, or of one time chunk.
    """
    point, laid_out = setup.point, setup.laid_out
    if point.input is None:
        return None
    if laid_out is None:
        return InputStage(network.env, point.input, hosts, point.per_gpu_batch, seed)
    samples = point.micro_batch / point.parallelism.time_chunks
    return InputStage(network.env, point.input, hosts[laid_out.replicas()[0]], samples, seed)


def _plans(setup: Setup, gpus: np.ndarray, draws: Draws) -> Callable[[int, int], Iteration]:
    """Return a function that gives the plan of a rank in an iteration."""
    kinds = setup.kinds(gpus)
    if setup.laid_out is not None:
        first = setup.laid_out.plans[0].iteration
        return lambda rank, iteration: first
    shared = {kind: setup.plan_of(kind) for kind in dict.fromkeys(kinds)}
    if not draws.has_layers:
        return lambda rank, iteration: shared[kinds[rank]]

    def plan(rank: int, iteration: int) -> Iteration:
        work = setup.workload(kinds[rank])
        return setup.plan(work, draws.layers(rank, iteration, len(work.layers)))

    return plan
