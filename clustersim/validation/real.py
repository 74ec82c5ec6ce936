"""Compares a run on real nodes with the simulator: the same jobs on the same cluster, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from clustersim import __version__
from clustersim.errors import ClustersimError
from clustersim.validation.pool import OnProgress
from clustersim.validation.real_cluster import RunCluster, cluster_of
from clustersim.validation.real_file import RealRun, read_real_run
from clustersim.validation.real_jobs import PhaseResult, PhaseSimulator
from clustersim.validation.verdict import CaseVerdict, Skipped, Verdict


@dataclass(frozen=True)
class RealVerdict:
    """The result for a run file: the verdict, the data for plots, and notes on the simulation."""

    verdict: Verdict
    run: RealRun
    cluster: RunCluster
    answered: tuple[PhaseResult, ...]
    notes: tuple[str, ...]


def validate_real(path: str | Path, on_progress: OnProgress = lambda share, what: None) -> RealVerdict:
    """Simulate the phases of a run file (`clustersim.real-run/1`), and compare.

    Compute times are those of the run's compute-only phase, and a link without a known rate is fitted to its
    all-reduces: these calibrate. All other figures are predicted. Phases that the file lacks or the simulator refuses
    are listed under `skipped`; the others are compared.
    """
    run = read_real_run(Path(path))
    name = Path(path).name.removesuffix(".json")
    skipped = [Skipped(name, reason) for reason in run.missing]
    answered: list[PhaseResult] = []
    with TemporaryDirectory(prefix="clustersim-real-") as folder:
        cluster = cluster_of(run, Path(folder))
        simulator = PhaseSimulator(run, cluster, Path(folder))
        for number, phase in enumerate(run.phases):
            try:
                answered.append(simulator.answer(phase))
            except ClustersimError as error:
                skipped.append(Skipped(name, f"{phase.name}: {error}"))
            on_progress((number + 1) / len(run.phases), phase.name)
    points = tuple(point for each in answered for point in each.points)
    case = CaseVerdict(name, cluster.title, points)
    notes = (*cluster.notes, *simulator.warnings)
    return RealVerdict(Verdict(__version__, (case,), tuple(skipped)), run, cluster, tuple(answered), notes)
