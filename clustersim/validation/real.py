"""A run on real nodes against the simulator: the same jobs on the same cluster, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from clustersim import __version__
from clustersim.errors import ClustersimError
from clustersim.validation.pool import OnProgress
from clustersim.validation.real_cluster import Cluster, cluster_of
from clustersim.validation.real_file import RealRun, read_real_run
from clustersim.validation.real_jobs import Answered, Asker
from clustersim.validation.verdict import CaseVerdict, Skipped, Verdict


@dataclass(frozen=True)
class RealVerdict:
    """What came of a run file: the verdict, what figures are made of, and what is to be said of the simulation."""

    verdict: Verdict
    run: RealRun
    cluster: Cluster
    answered: tuple[Answered, ...]
    notes: tuple[str, ...]


def validate_real(path: str | Path, tell: OnProgress = lambda share, what: None) -> RealVerdict:
    """Simulate what a run file (`clustersim.real-run/1`) has measured, and compare.

    Compute times are those of the run's compute-only phase, and a link that nothing else tells of is fitted to its
    all-reduces: these calibrate. All else is predicted. What the file lacks, and what the simulator refuses, stands
    under `skipped`; the rest is compared all the same.
    """
    run = read_real_run(Path(path))
    name = Path(path).name.removesuffix(".json")
    skipped = [Skipped(name, reason) for reason in run.missing]
    answered: list[Answered] = []
    with TemporaryDirectory(prefix="clustersim-real-") as folder:
        cluster = cluster_of(run, Path(folder))
        asker = Asker(run, cluster, Path(folder))
        for number, phase in enumerate(run.phases):
            try:
                answered.append(asker.answer(phase))
            except ClustersimError as error:
                skipped.append(Skipped(name, f"{phase.name}: {error}"))
            tell((number + 1) / len(run.phases), phase.name)
    points = tuple(point for each in answered for point in each.points)
    case = CaseVerdict(name, cluster.title, points)
    notes = (*cluster.notes, *asker.warnings)
    return RealVerdict(Verdict(__version__, (case,), tuple(skipped)), run, cluster, tuple(answered), notes)
