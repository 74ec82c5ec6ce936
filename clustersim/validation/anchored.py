"""Forecasts that are anchored on the smallest measured configuration of a case, and scored on the others.

Figures of one case with the same model, GPU, precision and program are a group. Its anchor is the figure of a speed
with the fewest GPUs; of these the one with the smallest global batch, then the first in the table. One factor on
kernels makes its forecast the measured figure. All other figures of the group are predicted with it, and scored as
without an anchor; the anchor's own point is not scored. A group whose kernels follow from a measured rate or from
measured times already is listed apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError
from clustersim.garbage_collection import rare_collections
from clustersim.results import Run
from clustersim.scenario import AnchorPoint, Point
from clustersim.scenario.anchors import gpus_of
from clustersim.scenario.parts import MeasuredRun
from clustersim.simulate import fit_anchors, forecast
from clustersim.spec import Spec
from clustersim.sweep.pool import ProcessPool
from clustersim.validation.case import Case, load_cases
from clustersim.validation.measured import Measured
from clustersim.validation.metrics import SPEEDS, simulated, units_of
from clustersim.validation.pool import OnProgress
from clustersim.validation.question import Question, forecast_options, is_collective, training_point
from clustersim.validation.score import Summary, summarise
from clustersim.validation.verdict import Skipped

ANCHORED_SCHEMA = "clustersim.anchored/1"

_ABSOLUTE = ("samples_per_s", "iteration_s", "time_to_train_s")
"""Metrics that can be an anchor, in the order of preference."""


@dataclass(frozen=True)
class AnchoredFigure:
    """A predicted figure; `error` is that of the anchored forecast, `error_without` that without the anchor.

    `like_anchor` says whether its layout and its strategy are those of the anchor.
    """

    metric: str
    num_gpus: int
    measured: float
    simulated: float
    unit: str
    error: float
    error_without: float
    label: str
    line: int
    like_anchor: bool


@dataclass(frozen=True)
class AnchoredGroup:
    """The figures of a case with one model, GPU, precision and program, and the anchor among them."""

    case: str
    model: str
    gpu: str
    precision: str
    is_calibrated: bool
    num_gpus: int
    global_batch: int
    metric: str
    measured: float
    unit: str
    line: int
    factor: float
    figures: tuple[AnchoredFigure, ...]

    @property
    def has_several_sizes(self) -> bool:
        """Whether a figure is of another number of GPUs than the anchor."""
        return any(each.num_gpus != self.num_gpus for each in self.figures)

    def errors(self, anchored: bool = True, like_anchor: bool | None = None) -> list[float]:
        """Return the errors of the figures with or without the anchor; of those like it or not, by default of all."""
        figures = [each for each in self.figures if like_anchor in (None, each.like_anchor)]
        return [each.error if anchored else each.error_without for each in figures]


@dataclass(frozen=True)
class AnchoredVerdict:
    """All groups, by case in alphabetical order, and what has no anchor."""

    version: str
    groups: tuple[AnchoredGroup, ...]
    skipped: tuple[Skipped, ...] = ()

    def summary(
        self,
        is_calibrated: bool = False,
        anchored: bool = True,
        like_anchor: bool | None = None,
        several_sizes: bool = False,
    ) -> Summary:
        """Return the summary of the groups that nothing else calibrates, or of the others; cases have equal weight.

        With `several_sizes`, only of groups with figures of other numbers of GPUs than the anchor's.
        """
        by_case: dict[str, list[float]] = {}
        for group in self.groups:
            if group.is_calibrated == is_calibrated and (group.has_several_sizes or not several_sizes):
                by_case.setdefault(group.case, []).extend(group.errors(anchored, like_anchor))
        return summarise(list(by_case.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return the `clustersim.anchored/1` document; figures are in their own units."""
        return {
            "schema": ANCHORED_SCHEMA,
            "version": self.version,
            "groups": [asdict(group) for group in self.groups],
            "summary": asdict(self.summary()),
            "summary_without_anchor": asdict(self.summary(anchored=False)),
            "summary_several_sizes": asdict(self.summary(several_sizes=True)),
            "summary_several_sizes_without_anchor": asdict(self.summary(several_sizes=True, anchored=False)),
            "summary_like_anchor": asdict(self.summary(like_anchor=True)),
            "summary_unlike_anchor": asdict(self.summary(like_anchor=False)),
            "summary_calibrated": asdict(self.summary(is_calibrated=True)),
            "summary_calibrated_without_anchor": asdict(self.summary(is_calibrated=True, anchored=False)),
            "skipped": [asdict(each) for each in self.skipped],
        }


def validate_anchored(
    names: Sequence[str] = (), on_progress: OnProgress = lambda share, what: None, workers: int = 0
) -> AnchoredVerdict:
    """Score the cases of these names or folders, by default all shipped ones, each anchored on its smallest figures."""
    cases = load_cases(names)

    def finished(number: int, num_done: int) -> None:
        on_progress(num_done / len(cases), cases[number].name)

    with ProcessPool(workers) as pool:
        order = sorted(range(len(cases)), key=lambda number: -len(cases[number].rows))
        found = pool.map(anchor_case, cases, finished, order)
    groups = sorted((group for groups, _ in found for group in groups), key=lambda group: (group.case, group.line))
    return AnchoredVerdict(__version__, tuple(groups), tuple(each for _, skipped in found for each in skipped))


@rare_collections()
def anchor_case(case: Case) -> tuple[list[AnchoredGroup], list[Skipped]]:
    """Return the groups of a case that have an anchor and other figures, and what could not be anchored."""
    rows: dict[str, list[tuple[Measured, Point]]] = {}
    skipped: list[Skipped] = []
    for question, own in _by_question(case).items():
        try:
            if not is_collective(question):
                point = training_point(question)[1]
                rows.setdefault(_group_of(point), []).extend((row, point) for row in own)
        except InputError as error:
            skipped.append(Skipped(case.name, str(error)))
    groups: list[AnchoredGroup] = []
    for members in rows.values():
        try:
            groups += _anchored_group(case, members)
        except InputError as error:
            skipped.append(Skipped(case.name, "; ".join(each.message for each in error.mistakes)))
        except Exception as error:  # reported under `skipped`; all other groups are still scored
            skipped.append(Skipped(case.name, f"{type(error).__name__}: {error}"))
    return groups, skipped


def _by_question(case: Case) -> dict[Question, list[Measured]]:
    """Return the rows that may be an anchor or are scored, by the point of the scenario that they ask for."""
    found: dict[Question, list[Measured]] = {}
    for row in case.rows:
        if row.provenance == "read" and row.metric in SPEEDS:
            found.setdefault(case.question(row), []).append(row)
    return found


def _group_of(point: Point) -> str:
    """Return a text that is equal for points with the same model, GPU, precision and program."""
    own = {"single_gpu", "profile", "variability"}
    program = {name: getattr(point, name, None) for name in ("compute", "software", "gradient_precision")}
    plain = {
        name: value.model_dump(mode="json", exclude=own) if isinstance(value, Spec) else value
        for name, value in program.items()
    }
    return json.dumps([point.model, gpus_of(point), point.precision, plain], sort_keys=True, default=str)


def _anchored_group(case: Case, members: Sequence[tuple[Measured, Point]]) -> Iterator[AnchoredGroup]:
    """Yield the group of some rows of a case with their points, if it has an anchor and another figure to score."""
    able = [member for member in members if member[0].metric in _ABSOLUTE]
    if not able:
        return
    row, point = min(able, key=lambda each: (*_size(each[1]), _ABSOLUTE.index(each[0].metric), each[0].line))
    others = [each for each in members if case.question(each[0]) != case.question(row) and each[0].role == "prediction"]
    if not others:
        return
    options = forecast_options()
    without = forecast(point, detail=False, **options).run
    run = AnchorPoint(MeasuredRun(num_gpus=point.num_gpus, samples_per_s=_samples_per_s(row, without)), point)
    found = fit_anchors([run], options, leave_out=False).anchoring
    assert found is not None
    known: dict[Question, tuple[Run, Run]] = {}
    figures = []
    for other, its_point in others:
        question = case.question(other)
        if question not in known:
            plain, anchored = (
                forecast(its_point.anchored(each), detail=False, **options).run for each in (None, found)
            )
            known[question] = plain, anchored
        figures.append(_figure(other, its_point, point, *known[question]))
    yield AnchoredGroup(
        case=case.name,
        model=point.model,
        gpu=", ".join(gpus_of(point)),
        precision=point.precision,
        is_calibrated=_is_calibrated(without, [each for _, each in members]),
        num_gpus=point.num_gpus,
        global_batch=point.global_batch,
        metric=row.metric,
        measured=row.value,
        unit=row.unit,
        line=row.line,
        factor=found.factor,
        figures=tuple(figures),
    )


def _size(point: Point) -> tuple[int, int]:
    return point.num_gpus, point.global_batch


def _samples_per_s(row: Measured, without: Run) -> float:
    """Return a figure as samples per second; `without` is the forecast of its point, which knows the training."""
    value = row.value * units_of(row.metric)[row.unit]
    if row.metric == "samples_per_s":
        return value
    forecast_s = getattr(without, row.metric)
    return float(without.samples_per_s * forecast_s / value)


def _is_calibrated(without: Run, points: Sequence[Point]) -> bool:
    """Return whether kernels of a group follow from a measured rate or times; `without` is the anchor's forecast."""
    given = any(each.compute.single_gpu is not None or each.compute.profile is not None for each in points)
    measured = without.provenance.get("measured", 0.0) if without.kernels == "law" else 0.0
    return given or without.provenance.get("published", 0.0) + measured > 0.5


def _figure(row: Measured, point: Point, anchor: Point, plain: Run, anchored: Run) -> AnchoredFigure:
    without, value = (simulated(run.to_dict(detail=False), row.metric, row.unit) for run in (plain, anchored))
    return AnchoredFigure(
        metric=row.metric,
        num_gpus=point.num_gpus,
        measured=row.value,
        simulated=value,
        unit=row.unit,
        error=value / row.value - 1.0,
        error_without=without / row.value - 1.0,
        label=row.label,
        line=row.line,
        like_anchor=_layout_of(point) == _layout_of(anchor),
    )


def _layout_of(point: Point) -> str:
    """Return how the GPUs of a point work together: its strategy, and what of a model a GPU has."""
    split = {name: getattr(point.grid, name) for name in ("tensor", "context", "expert", "pipeline")}
    return json.dumps([point.strategy.model_dump(mode="json"), point.parallelism.sharding, split], sort_keys=True)
