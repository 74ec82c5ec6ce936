"""Converts the figures of a benchmark log to experiments on a cluster."""

from __future__ import annotations

from dataclasses import replace

from clustersim.errors import InputError
from clustersim.reading.benchmark_logs import BenchmarkLog, CollectiveTime, CopyTime
from clustersim.simulate.transport_fit.collectives import collective_experiment
from clustersim.simulate.transport_fit.copies import copy_experiment
from clustersim.simulate.transport_fit.experiment import Experiment
from clustersim.topology import Topology


def experiments(log: BenchmarkLog, cluster: Topology, num_gpus: int | None = None) -> list[Experiment]:
    """Return every figure of a log as an experiment on a cluster; one that does not fit raises its line in the log.

    Ranks are the cluster's first GPUs, host by host; `num_gpus` is the number of ranks for logs that do not give it.
    """
    return [_experiment(each, log.file, cluster, num_gpus) for each in log.measurements]


def _experiment(each: CollectiveTime | CopyTime, file: str, cluster: Topology, num_gpus: int | None) -> Experiment:
    try:
        if isinstance(each, CollectiveTime):
            return collective_experiment(each, file, cluster, num_gpus)
        return copy_experiment(each, file, cluster)
    except InputError as error:
        placed = (wrong if wrong.file else replace(wrong, file=file, line=each.line) for wrong in error.mistakes)
        raise InputError(placed) from None
