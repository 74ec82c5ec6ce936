"""Several clusters side by side: the best layout of one training on each, with rates, memory and dollars."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError, Mistake
from clustersim.planner.clusters import OWN, ClusterOption, cluster_settings, read_clusters
from clustersim.planner.plan import Plan, Progress, plan
from clustersim.planner.totals import Totals, as_run, totals
from clustersim.scenario import Point, Scenario, load_scenario

COMPARISON_SCHEMA = "clustersim.plan-comparison/1"

_LEAST_S = 0.1
"""Time for the clusters that are left once the limit is over: each gets its first layouts."""

NOT_REACHED = "the search was stopped before this cluster"

_MISTAKE = ("file", "line", "column", "key", "got", "allowed", "message")

Source = Scenario | str | Path | Mapping[str, Any]


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster and the plan for it; `mistakes` says why it has none. `settings` make the scenario one for it."""

    option: ClusterOption
    settings: tuple[str, ...]
    plan: Plan | None
    mistakes: tuple[Mistake, ...] = ()

    @property
    def label(self) -> str:
        """The cluster in few words, by its GPUs where it is the scenario's own."""
        if self.option.name == OWN and self.plan is not None:
            return replace(self.option, name=self.plan.gpu).label
        return self.option.label

    @property
    def reason(self) -> str:
        """Why the cluster has no plan; empty if it has one."""
        return "; ".join(mistake.message for mistake in self.mistakes)

    @property
    def totals(self) -> Totals | None:
        """Rates and dollars of the best layout, as run where that is known; None without a plan."""
        return None if self.plan is None else totals(self.plan, as_run(self.plan.best[0]))

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster's entry in `clustersim.plan-comparison/1`."""
        found = self.totals
        return {
            "cluster": self.label,
            "name": self.option.name,
            "num_gpus": self.option.num_gpus,
            "settings": list(self.settings),
            "totals": found and found.to_dict(),
            "plan": self.plan and self.plan.to_dict(),
            "errors": [{key: getattr(mistake, key) for key in _MISTAKE} for mistake in self.mistakes],
        }


@dataclass(frozen=True)
class ClusterComparison:
    """Plans of one training for several clusters, in the order in which they were given; at least one has a plan."""

    name: str
    objective: str
    clusters: tuple[ClusterPlan, ...]

    @property
    def planned(self) -> tuple[ClusterPlan, ...]:
        """The clusters that have a plan."""
        return tuple(each for each in self.clusters if each.plan is not None)

    @property
    def is_interrupted(self) -> bool:
        """Whether the search was interrupted, on any cluster."""
        return any(each.plan is not None and each.plan.ended == "interrupted" for each in self.clusters) or any(
            each.reason == NOT_REACHED for each in self.clusters
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the `clustersim.plan-comparison/1` document."""
        return {
            "schema": COMPARISON_SCHEMA,
            "version": __version__,
            "scenario": self.name,
            "objective": self.objective,
            "clusters": [each.to_dict() for each in self.clusters],
        }


def compare_clusters(
    scenario: Source,
    clusters: Sequence[str | ClusterOption],
    num_gpus: Sequence[int] = (),
    *,
    objective: str = "samples_per_s",
    top: int = 10,
    batches: Sequence[int] = (),
    overrides: Sequence[str] = (),
    across_hosts: bool = False,
    also: Sequence[str] = (),
    workers: int = 0,
    resume: str | Path | None = None,
    time_limit_s: float | None = None,
    progress: Progress = lambda share, what: None,
) -> ClusterComparison:
    """Return a plan of a scenario for each cluster; the arguments that `plan` has too mean the same.

    A text is read by `read_clusters`, and `num_gpus` are the numbers of GPUs of those that give none. A cluster without
    a layout has the reason instead of a plan; InputError is raised if all are so. The time limit is for all clusters
    together: each gets an equal share of what the ones before it leave. The simulated layouts of each cluster are
    saved in a file of its own, `resume` with the cluster in its name.
    """
    options = _options(clusters, num_gpus)
    point = _base(scenario, overrides)
    search = _Comparing(
        scenario,
        tuple(overrides),
        {
            "objective": objective,
            "top": top,
            "batches": batches,
            "across_hosts": across_hosts,
            "also": also,
            "workers": workers,
        },
        resume,
        time_limit_s,
        progress,
    )
    found = tuple(search.plans([(option, tuple(cluster_settings(option, point))) for option in options]))
    if not any(each.plan for each in found):
        raise _none(found)
    name = next(each.plan.name for each in found if each.plan is not None)
    return ClusterComparison(name, objective, found)


def _options(clusters: Sequence[str | ClusterOption], num_gpus: Sequence[int]) -> list[ClusterOption]:
    """Return the clusters; raise InputError if there is none, or one twice."""
    options: list[ClusterOption] = []
    for each in clusters:
        options += [each] if isinstance(each, ClusterOption) else read_clusters(each, num_gpus)
    if not options:
        raise InputError("a comparison needs a cluster (got none)", got="none", allowed="1 or more")
    labels = [option.label for option in options]
    for label in labels:
        if labels.count(label) > 1:
            message = f"the cluster {label} is given twice; give each once, with one price"
            raise InputError(message, got=label, allowed="each cluster once", key="--cluster")
    return options


def _base(scenario: Source, overrides: Sequence[str]) -> Point:
    """Return the scenario's training on one GPU, for what its cluster is."""
    loaded = load_scenario(scenario, [*overrides, "memory_check=false", "num_gpus=1", "parallelism={}"])
    return loaded.points()[0].point


@dataclass(frozen=True)
class _Comparing:
    """What the searches of all clusters have in common."""

    scenario: Source
    overrides: tuple[str, ...]
    arguments: Mapping[str, Any]
    resume: str | Path | None
    time_limit_s: float | None
    progress: Progress

    def plans(self, asked: Sequence[tuple[ClusterOption, tuple[str, ...]]]) -> Iterator[ClusterPlan]:
        """Yield the plan of each cluster; after an interruption the clusters that have none."""
        begin_s, is_stopped, has_plan = time.monotonic(), False, False
        for number, (option, settings) in enumerate(asked):
            if is_stopped:
                yield ClusterPlan(option, settings, None, (Mistake(NOT_REACHED),))
                continue
            try:
                made = self._plan(option, settings, number, len(asked), begin_s)
            except KeyboardInterrupt:
                if not has_plan:
                    raise
                made = ClusterPlan(option, settings, None, (Mistake(NOT_REACHED),))
            is_stopped = made.reason == NOT_REACHED or (made.plan is not None and made.plan.ended == "interrupted")
            has_plan = has_plan or made.plan is not None
            yield made

    def _plan(
        self, option: ClusterOption, settings: tuple[str, ...], number: int, total: int, begin_s: float
    ) -> ClusterPlan:
        """Return the plan of one cluster, or why it has none."""

        def tell(share: float, what: str) -> None:
            self.progress((number + share) / total, f"{option.label}, {number + 1} of {total}: {what}")

        left_s = None
        if self.time_limit_s is not None:
            left_s = max(self.time_limit_s - (time.monotonic() - begin_s), _LEAST_S) / (total - number)
        path = None if self.resume is None else path_for(self.resume, option)
        try:
            found = plan(
                self.scenario,
                [option.num_gpus],
                overrides=[*self.overrides, *settings],
                resume=path,
                progress=tell,
                time_limit_s=left_s,
                **self.arguments,
            )
        except InputError as error:
            if path is not None and any(str(path) in (mistake.got, mistake.file) for mistake in error.mistakes):
                raise  # the file of earlier results is wrong, not the cluster
            return ClusterPlan(option, settings, None, error.mistakes)
        return ClusterPlan(option, settings, found)


def path_for(path: str | Path, option: ClusterOption) -> Path:
    """Return the file of one of several clusters: the path with the cluster in its name.

    >>> path_for("best.yaml", ClusterOption("h100", 512)).name
    'best-512-h100.yaml'
    """
    path = Path(path)
    words = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in option.label)
    return path.with_name(f"{path.stem}-{'-'.join(filter(None, words.split('-')))}{path.suffix}")


def _none(found: Sequence[ClusterPlan]) -> InputError:
    """Return the error that no cluster has a plan: once if it is the same for all."""
    if len({each.mistakes for each in found}) == 1:
        return InputError(found[0].mistakes)
    return InputError(
        replace(mistake, message=f"{each.option.label}: {mistake.message}")
        for each in found
        for mistake in each.mistakes
    )
