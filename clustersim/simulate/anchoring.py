"""Anchors the forecasts of a scenario on its measured runs.

Each measured run is forecast at its own point, without its figure. One factor on the times of kernels makes the
forecast the measured figure; from two runs on, a fixed time of every iteration is found as well. All points then have
both. Logs of collectives fit the constants of the transport before that.

The factor multiplies every kernel of a GPU: those of layers, of the update, and those that sum, cast, copy and compress
gradients and weights. It also multiplies the time of the host to issue them, because a figure does not tell which of
the two is slower. Where the GPU waits for its host, kernels alone would need an absurd factor. The factor does not
multiply communication or the input.
The fixed time is compute at the beginning of an iteration, in which the host issues nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.model.layer import Anchoring
from clustersim.results import Anchor, MeasuredPoint, Run
from clustersim.results.checked import band_of_run
from clustersim.scenario import AnchorPoint, Point, Scenario
from clustersim.scenario.anchors import gpus_of
from clustersim.simulate.anchor_fit import Found, fit
from clustersim.simulate.forecast import Forecast, forecast
from clustersim.simulate.measured_network import NetworkFit, fit_network
from clustersim.simulate.setup import Workloads
from clustersim.units import format_duration

PLAUSIBLE = 0.5, 1.5
"""Factors outside are warned of: kernels are seldom that far off."""

_CONTRADICTS = 0.1
_MISSED = 1e-6

Options = Mapping[str, Any]
"""Arguments of `forecast`: `exact`, `workloads`, `numba_from_messages`."""


@dataclass(frozen=True)
class AnchorFit:
    """A factor and a fixed time, the measured runs that they are from, and what has to be said of them."""

    anchoring: Anchoring | None
    runs: tuple[AnchorPoint, ...]
    points: tuple[MeasuredPoint, ...]
    warnings: tuple[str, ...]
    network: NetworkFit | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether the factor is implausible or the runs contradict each other: they say little of others then."""
        factor = 1.0 if self.anchoring is None else self.anchoring.factor
        return (
            not PLAUSIBLE[0] <= factor <= PLAUSIBLE[1]
            or max(map(abs, _errors(self.points)), default=0.0) > _CONTRADICTS
        )

    def applied(self, point: Point) -> Point:
        """Return a point with the factor, the fixed time and the transport that were found."""
        return (point if self.network is None else self.network.applied(point)).anchored(self.anchoring)

    def sentences(self) -> Iterator[str]:
        """Yield the assumptions of every forecast that is anchored."""
        if self.anchoring is not None:
            factor, fixed_s = self.anchoring
            figures = "; ".join(_figure_text(each) for each in self.points)
            fixed = f", and every iteration has {format_duration(fixed_s)} more" if fixed_s else ""
            yield (
                f"Kernels, and the host that issues them, take {factor:.4g} times their time from other sources{fixed}"
                f", as measured runs say: {figures}."
            )
        if self.network is not None:
            fit = self.network.fit
            yield (
                f"The constants of transport {self.network.transport} are fitted to {len(fit.residuals)} measured "
                f"times of collectives ({', '.join(fit.sources)}), with a median error of {fit.median_abs_error:.1%} "
                f"({fit.median_abs_error_before:.1%} with its own constants)."
            )


def _figure_text(each: MeasuredPoint) -> str:
    if each.metric == "iteration_s":
        figure, without = (format_duration(value) for value in (each.measured, each.forecast_without))
        return f"an iteration of {each.num_gpus} GPUs takes {figure} ({without} without them)"
    return f"{each.num_gpus} GPUs train {each.measured:.4g} samples/s ({each.forecast_without:.4g} without them)"


def fit_scenario(
    loaded: Scenario,
    exact: bool = False,
    workloads: Workloads | None = None,
    on_progress: Callable[[str], None] = lambda what: None,
) -> AnchorFit | None:
    """Return what the measured runs of a scenario say; None if it has none."""
    if not loaded.anchors:
        return None
    try:
        return fit_anchors(loaded.anchors, {"exact": exact, "workloads": workloads}, on_progress)
    except InputError as error:
        raise loaded.located(error) from None


def fit_anchors(
    runs: Sequence[AnchorPoint],
    options: Options,
    on_progress: Callable[[str], None] = lambda what: None,
    leave_out: bool = True,
) -> AnchorFit:
    """Return the factor and the fixed time of measured runs, or raise an `InputError` with the key of the runs.

    With `leave_out`, each run is also forecast from the others.
    """
    network = fit_network(runs, on_progress)
    figures = [run for run in runs if run.measured.collectives is None]
    if not figures:
        return AnchorFit(None, (), (), (), network)
    known = _Forecasts(figures, network, options, on_progress)
    every = list(range(len(figures)))
    try:
        found = known.fit(every)
    except InputError as error:
        key = f"measured.{runs.index(figures[0])}" if len(figures) == 1 else "measured"
        raise InputError(replace(each, key=key) for each in error.mistakes) from None
    points = tuple(known.point(number, found.anchoring, every if leave_out else ()) for number in every)
    notes = [f"measured: {found.note}"] if found.note else []
    warnings = (*notes, *_fit_warnings(found.anchoring, points))
    return AnchorFit(found.anchoring, tuple(figures), points, warnings, network)


def forecast_anchored(
    point: Point, axes: Mapping[str, Any] | None, found: AnchorFit | None, **options: Any
) -> Forecast:
    """Return the forecast of a point with what measured runs say, and what it would be without them.

    `options` are those of `forecast`.
    """
    if found is None:
        return forecast(point, axes, **options)
    quiet = {key: value for key, value in options.items() if key not in ("on_progress", "learns")}
    without = forecast(point, axes, **{**quiet, "detail": False}).run
    made = forecast(found.applied(point), axes, **options)
    factor, fixed_s = found.anchoring or Anchoring()
    network = None if found.network is None else found.network.to_result()
    anchor = Anchor(factor, fixed_s, without.samples_per_s, without.iteration_s, found.points, network)
    run = _as_estimate(made.run) if found.is_doubtful else made.run
    return Forecast(
        replace(run, anchor=anchor, transport=run.transport if found.network is None else found.network.name_of(run)),
        (*found.sentences(), *made.assumptions),
        (*found.warnings, *_carried_warnings(point, found), *made.warnings),
        made.shortcuts,
    )


def _as_estimate(run: Run) -> Run:
    """Return a run with the band of a forecast that no measured run stands behind."""
    if run.features is None:
        return run
    estimate = replace(run, features=replace(run.features, origin="estimated"))
    return replace(estimate, band=band_of_run(estimate, () if run.band is None else run.band.assumed))


class _Forecasts:
    """The forecasts of measured runs on a network, each made once for a factor and a fixed time.

    Those without an anchor have the network as it was.
    """

    def __init__(
        self,
        runs: Sequence[AnchorPoint],
        network: NetworkFit | None,
        options: Options,
        on_progress: Callable[[str], None],
    ):
        self._runs, self._network = runs, network
        self._options, self._on_progress = options, on_progress
        self._known: dict[tuple[int, Anchoring | None], Run] = {}

    def run(self, number: int, anchoring: Anchoring | None) -> Run:
        """Return the forecast of a run."""
        key = number, None if anchoring == Anchoring() and self._network is None else anchoring
        if key not in self._known:
            self._on_progress(f"measured run {number + 1} of {len(self._runs)}")
            point = self._runs[number].point
            if anchoring is not None and self._network is not None:
                point = self._network.applied(point)
            self._known[key] = forecast(point.anchored(anchoring), **self._options, detail=False, compares=False).run
        return self._known[key]

    def figure(self, number: int, anchoring: Anchoring | None) -> float:
        """Return the forecast of a run's figure."""
        return float(getattr(self.run(number, anchoring), self._runs[number].measured.metric))

    def point(self, number: int, anchoring: Anchoring, every: Sequence[int]) -> MeasuredPoint:
        """Return a run with its forecasts; `every` run but this one gives the error from the others."""
        measured = self._runs[number].measured
        assert measured.num_gpus is not None
        others = [each for each in every if each != number]
        return MeasuredPoint(
            measured.num_gpus,
            measured.metric,
            measured.value,
            self.figure(number, None),
            self.figure(number, anchoring),
            self.error_from(others, number) if others else None,
            measured.set,
            measured.source,
        )

    def fit(self, numbers: Sequence[int]) -> Found:
        """Return what `fit` finds for some of the runs."""
        iterations_s = np.array([self.run(number, None).iteration_s for number in numbers])
        return fit(lambda anchoring: np.array([self._ratio(each, anchoring) for each in numbers]), iterations_s)

    def error_from(self, others: Sequence[int], number: int) -> float | None:
        """Return the error of a run's figure if only others are known; None if these allow no factor."""
        try:
            anchoring = self.fit(others).anchoring
        except InputError:
            return None
        return self.figure(number, anchoring) / self._runs[number].measured.value - 1.0

    def _ratio(self, number: int, anchoring: Anchoring) -> float:
        """Return the forecast time of a run divided by the measured one."""
        measured = self._runs[number].measured
        ratio = self.figure(number, anchoring) / measured.value
        return ratio if measured.metric == "iteration_s" else 1.0 / ratio


def _errors(points: Sequence[MeasuredPoint]) -> list[float]:
    return [each.forecast / each.measured - 1.0 for each in points]


def _fit_warnings(anchoring: Anchoring, points: Sequence[MeasuredPoint]) -> list[str]:
    warnings, errors = [], _errors(points)
    if not PLAUSIBLE[0] <= anchoring.factor <= PLAUSIBLE[1]:
        warnings.append(
            f"measured: kernels take {anchoring.factor:.3g} times their time from other sources, which is seldom more "
            f"than {PLAUSIBLE[0]:g} to {PLAUSIBLE[1]:g}; check the figure, and what differed in its run (`set`)"
        )
    worst = max(errors, key=abs)
    if len(points) > 1 and abs(worst) > _CONTRADICTS:
        each = ", ".join(f"{point.num_gpus} GPUs {error:+.0%}" for point, error in zip(points, errors, strict=True))
        warnings.append(f"measured: the runs contradict each other; with what fits them best they are off by {each}")
    if len(points) == 1 and abs(worst) > _MISSED:
        warnings.append(
            f"measured: the forecast of this run changes in steps, and is off by {worst:+.2g} with the nearest factor"
        )
    return warnings


def _carried_warnings(point: Point, found: AnchorFit) -> Iterator[str]:
    """Yield that a factor is of another GPU, model, precision or software, or a network of another transport."""
    own = _kernels_of(point)
    differs: dict[str, tuple[str, str]] = {}
    for _, other in found.runs:
        its = _kernels_of(other)
        differs |= {what: (its[what][1], own[what][1]) for what in own if own[what][0] != its[what][0]}
    if differs:
        what = " and ".join(f"{what} {theirs} (here {ours})" for what, (theirs, ours) in differs.items())
        yield f"measured: the factor was found with {what}, whose kernels may be off by another one"
    if found.network is not None and not found.network.fits(point):
        yield (
            f"measured: transport {point.transport} keeps its constants, since the logs of collectives are of "
            f"{found.network.transport}"
        )


def _kernels_of(point: Point) -> dict[str, tuple[object, str]]:
    """Return what decides which kernels run: a value to compare, and its name."""
    gpus = gpus_of(point)
    return {
        "GPU": ([load_gpu(each) for each in gpus], ", ".join(gpus)),
        "model": (point.model, point.model),
        "precision": (point.precision, point.precision),
        "software": (point.software.name, point.software.name or "no sheet"),
    }
