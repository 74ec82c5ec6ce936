"""Puts a job on the clock and lets it run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import simpy

from clustersim.hardware.sheet import Transport
from clustersim.network import Network
from clustersim.program import Iteration
from clustersim.results import Timesheet
from clustersim.simulate.setup import Setup
from clustersim.stragglers import are_steady, factors, has_layer_factors, layer_factors
from clustersim.strategies import Job
from clustersim.topology import Topology

Tell = Callable[[float], None]
"""Told which share of the work is done, 0 to 1."""

_STEADY_ITERATIONS = 2
_STEADY = "steady iterations multiplied: {played} of {num} were played, and the last two were the same to 1e-9"


@dataclass(frozen=True)
class Outcome:
    """What one replicate gave."""

    times: Timesheet
    gpus: np.ndarray
    link_bytes: np.ndarray
    algorithms: tuple[str, ...]
    shortcuts: tuple[str, ...]

    @property
    def iteration_s(self) -> float:
        """The mean time of one worker's cycle; in a synchronous job also the mean time between updates."""
        return float(np.mean(self.times.end_s - self.times.begin_s))


def play(setup: Setup, replicate: int, exact: bool, tell: Tell) -> Outcome:
    """Play the job of one replicate; a deterministic one only until its iterations repeat.

    One iteration comes before those that count: in it all ranks begin together, which they never do again.
    """
    num_iterations = setup.point.num_iterations
    if exact or not are_steady(setup.point.stragglers) or num_iterations <= _STEADY_ITERATIONS:
        return _play_all(setup, replicate, num_iterations, exact, tell)
    outcome = _play_all(setup, replicate, _STEADY_ITERATIONS, exact, tell)
    cycles_s = outcome.times.end_s - outcome.times.begin_s
    period_s = float(cycles_s[0, -1])
    if not np.allclose(cycles_s[:, -2:], period_s, rtol=1e-12, atol=0.0):
        return _play_all(setup, replicate, num_iterations, exact, tell)
    return replace(
        outcome,
        times=outcome.times.repeated(num_iterations, period_s),
        link_bytes=outcome.link_bytes * (num_iterations / _STEADY_ITERATIONS),
        shortcuts=(*outcome.shortcuts, _STEADY.format(played=_STEADY_ITERATIONS, num=num_iterations)),
    )


def _play_all(setup: Setup, replicate: int, num_iterations: int, exact: bool, tell: Tell) -> Outcome:
    point, transport = setup.point, setup.transport
    seed, gpus = setup.seed(replicate), setup.gpus(replicate)
    hosts = setup.topology.gpu_hosts[gpus]
    num_played = num_iterations + 1
    env = simpy.Environment()
    network = network_over(env, setup.topology, transport, exact)
    moved_per_parameter = 4 * (3 + point.optimizer.state_bytes_per_parameter / 2)
    job = Job(
        env=env,
        network=network,
        transport=transport,
        gpus=gpus,
        plans=_plans(setup, seed, gpus, num_played),
        slowdown=factors(point.stragglers, seed, hosts, num_played),
        update_bytes_per_byte=moved_per_parameter / setup.wire_bytes_per_parameter,
    )
    env.run(point.strategy.start(job, lambda iteration: tell((iteration + 1) / num_played)))
    carried = network.link_bytes * (num_iterations / num_played)
    return Outcome(job.times.after(1), gpus, carried, job.algorithms, network.shortcuts)


def network_over(env: simpy.Environment, topology: Topology, transport: Transport, exact: bool) -> Network:
    """Return the network of a cluster as a message library uses it; `exact` turns its shortcuts off."""
    return Network(
        env,
        topology,
        overhead_s=transport.overhead_s,
        efficiency=transport.efficiency,
        adds=transport.adds,
        host_overhead_s=transport.host_overhead_s,
        add_s_per_byte=transport.add_s_per_byte,
        exact=exact,
    )


def _plans(setup: Setup, seed: int, gpus: np.ndarray, num_iterations: int) -> Callable[[int, int], Iteration]:
    """Return what gives the plan of a rank and an iteration."""
    kinds, hosts = setup.kinds(gpus), setup.topology.gpu_hosts[gpus]
    shared = {kind: setup.plan(setup.workload(kind)) for kind in dict.fromkeys(kinds)}
    if not has_layer_factors(setup.point.stragglers):
        return lambda rank, iteration: shared[kinds[rank]]
    slowdowns: dict[int, np.ndarray] = {}

    def plan(rank: int, iteration: int) -> Iteration:
        work = setup.workload(kinds[rank])
        if rank not in slowdowns:
            drawn = layer_factors(setup.point.stragglers, seed, rank, hosts, num_iterations, len(work.layers))
            slowdowns[rank] = np.ones((num_iterations, len(work.layers))) if drawn is None else drawn
        return setup.plan(work, slowdowns[rank][iteration])

    return plan
