"""The level above iterations: a long training with failures, checkpoints and restarts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import simpy

from clustersim.failures import (
    DEFAULT_LENGTH_S,
    Failures,
    Recovery,
    best_interval,
    daly_s,
    expected_s,
    failure_times,
    job_mtbf_s,
    recover,
    young_s,
)
from clustersim.failures.lifetimes import Kinds
from clustersim.parallelism.checkpoint import checkpoint_bytes
from clustersim.results import FailureTimes
from clustersim.seeding import stream
from clustersim.simulate.build import build_network
from clustersim.simulate.outcome import Outcome
from clustersim.simulate.setup import Setup
from clustersim.simulate.tokens import tokens_per_sample
from clustersim.topology import Node

_MOST_DOWNTIMES = 1000


@dataclass(frozen=True)
class LongRun:
    """The part of a long training that is the same for all replicates.

    Checkpoints are written after whole updates of `step_s` each. `rows` are the intervals that were compared to find
    the best one. `kinds` are the lifetimes of what can fail.
    """

    failures: Failures
    kinds: Kinds
    step_s: float
    work_s: float
    write_s: float
    best_s: float
    rows: Sequence[tuple[float, float]]

    @property
    def mtbf_s(self) -> float:
        return job_mtbf_s(self.kinds)

    @property
    def down_s(self) -> float:
        """The time from a failure until training goes on: detection, restart, and reading the checkpoint."""
        return self.failures.detection + self.failures.restart + self.write_s

    @property
    def interval_s(self) -> float:
        """The useful time between checkpoints that the scenario sets, in whole updates."""
        every = self.failures.checkpoint.every
        named = {"young": young_s(self.write_s, self.mtbf_s), "daly": daly_s(self.write_s, self.mtbf_s)}
        wanted_s = self.best_s if every == "best" else named[every] if isinstance(every, str) else every
        return max(1, round(wanted_s / self.step_s)) * self.step_s

    def simulate(self, seed: int) -> Recovery:
        """Return the training of one replicate, with its own failures."""
        failures = failure_times(self.kinds, lambda what, number: stream(seed, "failures", what, number))
        return recover(self.work_s, self.interval_s, self.write_s, self.down_s, failures)

    def figures(self, recoveries: Sequence[Recovery]) -> FailureTimes:
        """Return the figures of all replicates."""

        def mean(column: str) -> float:
            return float(np.mean([getattr(recovery, column) for recovery in recoveries]))

        memoryless = all(lifetime.shape == 1 for _, lifetime, _ in self.kinds)
        expected = [
            expected_s(self.work_s, each, self.write_s, self.down_s, self.mtbf_s) if memoryless else None
            for each, _ in self.rows
        ]
        return FailureTimes(
            useful_s=mean("useful_s"),
            checkpoint_s=mean("checkpoint_s"),
            lost_s=mean("lost_s"),
            restart_s=mean("restart_s"),
            num_failures=mean("num_failures"),
            num_checkpoints=mean("num_checkpoints"),
            mtbf_s=self.mtbf_s,
            write_s=self.write_s,
            down_s=self.down_s,
            interval_s=self.interval_s,
            young_s=young_s(self.write_s, self.mtbf_s),
            daly_s=daly_s(self.write_s, self.mtbf_s),
            best_s=self.best_s,
            intervals=tuple((*row, other) for row, other in zip(self.rows, expected, strict=True)),
            downtimes=tuple(
                (*each.failure, each.lost_s, each.until_s) for each in recoveries[0].downtimes[:_MOST_DOWNTIMES]
            ),
        )


def with_failures(setup: Setup, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], FailureTimes | None]:
    """Return outcomes with the share of recovery from failures in the long run, and the figures of failures.

    There are two levels. The long training consists of iterations of the mean simulated time: between two checkpoints
    there are so many that their spread averages out.
    """
    failures = setup.point.failures
    if failures is None:
        return list(outcomes), None
    long_run = _long_run(setup, failures, outcomes)
    recoveries = [long_run.simulate(setup.seed(replicate)) for replicate in range(len(outcomes))]
    shares = [recovery.total_s / recovery.useful_s - 1 for recovery in recoveries]
    slowed = [replace(each, recovery_share=share) for each, share in zip(outcomes, shares, strict=True)]
    return slowed, long_run.figures(recoveries)


def recovery_of(setup: Setup, found: FailureTimes, replicate: int, work_s: float) -> Recovery:
    """Return the first `work_s` seconds of useful time of the long training of a replicate, as a training of its own.

    `found` are the figures of the long training: its checkpoints are as far apart, and its failures the same.
    """
    assert setup.point.failures is not None
    seed = setup.seed(replicate)
    failures = failure_times(_kinds(setup), lambda what, number: stream(seed, "failures", what, number))
    return recover(work_s, found.interval_s, found.write_s, found.down_s, failures)


def _kinds(setup: Setup) -> Kinds:
    """Return the kinds of components of the job that can fail."""
    gpus, failures = setup.gpus(0), setup.point.failures
    return [] if failures is None else failures.lifetimes(len(gpus), len(np.unique(setup.topology.gpu_hosts[gpus])))


def _long_run(setup: Setup, failures: Failures, outcomes: Sequence[Outcome]) -> LongRun:
    point, gpus = setup.point, setup.gpus(0)
    kinds = _kinds(setup)
    step_s = float(np.mean([outcome.update_s for outcome in outcomes]))
    write_s = checkpoint_s(setup, failures, gpus)
    work_s = failures.length or DEFAULT_LENGTH_S
    num_samples = point.num_samples(tokens_per_sample(setup))
    if failures.length is None and num_samples is not None:
        batch_s = float(np.mean([outcome.iteration_s / outcome.applied_share for outcome in outcomes]))
        work_s = num_samples / point.global_batch * batch_s
    work_s = max(1, math.ceil(work_s / step_s * (1 - 1e-12))) * step_s
    down_s = failures.detection + failures.restart + write_s
    best_s, rows = best_interval(
        work_s, step_s, write_s, down_s, kinds, lambda run: stream(point.seed, "failures", "interval", run)
    )
    return LongRun(failures, kinds, step_s, work_s, write_s, best_s, rows)


def checkpoint_s(setup: Setup, failures: Failures, gpus: np.ndarray) -> float:
    """Return how long writing a checkpoint takes: as given, or the time to send weights and optimizer state.

    To storage with a rate, the bytes first go to the memory of the writers' hosts and then out at that rate. To a
    host's memory they go over the network, from all writers at once. The state of an offloaded optimizer is in host
    memory already, with the weights that it updates.
    """
    target, topology = failures.checkpoint, setup.topology
    if target.write is not None:
        return target.write
    num_bytes = written_bytes(setup, failures)
    is_in_hosts = setup.point.parallelism.offloads("optimizer")
    env = simpy.Environment()
    as_files = replace(setup.transport, in_host=None, connection_bytes_per_s=None, receiving_bytes_per_s=None)
    network = build_network(env, topology, as_files, exact=False, numba_from_messages=setup.numba_from_messages)
    sent = []
    for rank in np.flatnonzero(num_bytes).tolist():
        gpu = int(gpus[rank])
        to = gpu if target.host is None else int(np.flatnonzero(topology.gpu_hosts == target.host)[0])
        source = topology.memory[gpu] if is_in_hosts else topology.gpus[gpu]
        sent.append(network.transfer(Node(source), Node(topology.memory[to]), float(num_bytes[rank])))
    env.run(simpy.AllOf(env, sent))
    return float(env.now) + (0.0 if target.rate is None else float(num_bytes.sum()) / target.rate)


def written_bytes(setup: Setup, failures: Failures) -> np.ndarray:
    """Return how many bytes of a checkpoint each rank writes [num_ranks]."""
    point, by_all = setup.point, failures.checkpoint.writers == "all"
    if setup.laid_out is not None:
        return checkpoint_bytes(setup.laid_out, point.parallelism, setup.reference, point.optimizer, by_all)
    memory = setup.reference.memory_bytes
    num_writers, num_bytes = point.num_gpus if by_all else 1, np.zeros(point.num_gpus)
    num_bytes[:num_writers] = (memory["weights"] + memory["optimizer"]) / num_writers
    return num_bytes
