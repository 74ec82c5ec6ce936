"""The result of a calibration, and its `clustersim.calibration/1` document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_gpu, load_transport
from clustersim.interchange.pci_names import gpu_named
from clustersim.reading.benchmark_logs import BenchmarkLog, read_benchmark
from clustersim.simulate.transport_fit.constants import Fit
from clustersim.simulate.transport_fit.fit import fit_transport
from clustersim.simulate.transport_fit.from_log import experiments
from clustersim.simulate.transport_fit.problem import OnProgress
from clustersim.topology import Topology, load_topology

CALIBRATION_SCHEMA = "clustersim.calibration/1"


@dataclass(frozen=True)
class Source:
    """A log or a case, its tool, and notes on how it was read."""

    file: str
    tool: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """A transport fitted to measurements on a cluster; `changes` are constants to change in its shipped sheet."""

    transport: str
    topology: str | None
    sources: tuple[Source, ...]
    fit: Fit
    changes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as JSON values, SI numbers."""
        return {
            "transport": self.transport,
            "topology": self.topology,
            "sources": [asdict(source) for source in self.sources],
            "constants": [asdict(constant) for constant in self.fit.constants],
            "changes": list(self.changes),
            "points": [
                {**asdict(point), "error": point.error, "error_before": point.error_before}
                for point in self.fit.residuals
            ],
            "summary": {
                "num_points": len(self.fit.residuals),
                "median_abs_error": self.fit.median_abs_error,
                "median_abs_error_before": self.fit.median_abs_error_before,
            },
        }


def calibration_document(calibrations: Sequence[Calibration]) -> dict[str, Any]:
    """Return the `clustersim.calibration/1` document."""
    fits = [calibration.to_dict() for calibration in calibrations]
    return {"schema": CALIBRATION_SCHEMA, "version": __version__, "fits": fits}


def calibrate(
    logs: Sequence[str | Path],
    topology: str,
    transport: str,
    num_gpus: int | None = None,
    on_progress: OnProgress = lambda share, what: None,
    collective: str | None = None,
) -> Calibration:
    """Fit a transport's constants to benchmark logs of one cluster.

    `topology` and `transport` are names or files; `num_gpus` is the number of ranks for logs that do not give it, and
    `collective` what tables of nccl-tests measure that do not name it. The mistakes in all logs are raised at once.
    """
    cluster, start = load_topology(topology), load_transport(transport)
    read: list[BenchmarkLog] = []
    points = []
    mistakes: list[Mistake] = []
    for log in dict.fromkeys(map(str, logs)):
        try:
            read.append(read_benchmark(log, collective))
            points += experiments(read[-1], cluster, num_gpus)
        except InputError as error:
            mistakes += error.mistakes
    if mistakes:
        raise InputError(dict.fromkeys(mistakes))
    fit = fit_transport(points, start, on_progress=on_progress)
    sources = (Source(log.file, log.tool, (*log.notes, *_of_another_gpu(log, cluster))) for log in read)
    return Calibration(transport, topology, tuple(sources), fit)


def _of_another_gpu(log: BenchmarkLog, cluster: Topology) -> Iterator[str]:
    """Yield that a log names GPUs that the cluster does not have; nothing where one of them is not known."""
    has = sorted({sheet for sheet in cluster.gpu_sheets if sheet})
    named = [gpu_named(name) for name in log.gpus]
    known = [name for name in named if name is not None]
    if not has or len(known) < len(named):
        return
    others = [log.gpus[place] for place, name in enumerate(known) if all(map(partial(_differ, name), has))]
    if others:
        yield (
            f"the log is of {', '.join(others)}, and the cluster has {', '.join(has)}: the constants may be those of "
            "another machine"
        )


def _differ(one: str, other: str) -> bool:
    """Return whether two sheets are of different GPUs, and not of two boards of one."""
    chips = load_gpu(one).architecture, load_gpu(other).architecture
    return one.partition("-")[0] != other.partition("-")[0] or chips[0] != chips[1]
