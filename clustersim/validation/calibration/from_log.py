"""Every figure of a benchmark's log as an experiment on a cluster."""

from __future__ import annotations

from dataclasses import replace

from clustersim.errors import InputError
from clustersim.interchange.benchmark_logs import BenchmarkLog, Collective, Copy
from clustersim.topology import Topology
from clustersim.validation.calibration.collectives import collective_experiment
from clustersim.validation.calibration.copies import copy_experiment
from clustersim.validation.calibration.experiment import Experiment


def experiments(log: BenchmarkLog, cluster: Topology, num_gpus: int | None = None) -> list[Experiment]:
    """Return every figure of a log as an experiment on a cluster; what does not fit it is told with the log's line.

    Ranks are the cluster's first GPUs, filling host after host; `num_gpus` is for logs that do not say how many took
    part.
    """
    return [_experiment(each, log.file, cluster, num_gpus) for each in log.measurements]


def _experiment(each: Collective | Copy, file: str, cluster: Topology, num_gpus: int | None) -> Experiment:
    try:
        if isinstance(each, Collective):
            return collective_experiment(each, file, cluster, num_gpus)
        return copy_experiment(each, file, cluster)
    except InputError as error:
        placed = (wrong if wrong.file else replace(wrong, file=file, line=each.line) for wrong in error.mistakes)
        raise InputError(placed) from None
