"""Collects the checked forecasts that bands are made from: `clustersim validate --bands`.

Used are forecasts that nothing was fitted to: the register's, and those of cases whose settings were committed before
their first forecast. If nothing was chosen in such a case after its errors had been seen, the forecast of the present
version counts; otherwise the recorded first one. Estimates of several figures of one training give anchored forecasts
too: scaled so that the one with the fewest GPUs is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.hardware import GPUS, load_gpu
from clustersim.results.band import Checked
from clustersim.results.checked import CheckedForecasts, TableResiduals
from clustersim.results.features import ANCHORED, FEATURES, Features
from clustersim.validation.case import CHOSEN_AFTER
from clustersim.validation.first_forecasts import RecordedForecast, recorded_forecasts
from clustersim.validation.markdown import RESIDUALS_FILE
from clustersim.validation.metrics import SPEEDS, units_of
from clustersim.validation.register import RegisterScore, register_rows
from clustersim.validation.register.entry import SOURCE_FILE
from clustersim.validation.verdict import CaseVerdict, Compared, Verdict

DURATIONS = ("iteration_s", "update_s", "time_to_train_s")
"""Metrics whose ratio is the reverse of that of samples per second."""

_PERCENTS = re.compile(r"([\d.]+)%")


class _Figure(NamedTuple):
    """A checked forecast of one figure; `model` is empty where all figures of the case are of one."""

    source: str
    case: str
    published: str
    made: str
    record: str
    features: Features
    ratio: float
    model: str
    num_gpus: int


def checked_forecasts(verdict: Verdict, register: RegisterScore | None = None) -> CheckedForecasts:
    """Return the checked forecasts of all cases with recorded first forecasts, and of the register.

    The verdict must have these cases, and every figure with a recorded forecast.
    """
    figures = [*_case_figures(verdict), *(() if register is None else _register_figures(register))]
    forecasts = tuple(_grouped([*figures, *_anchored(figures)]))
    return CheckedForecasts(verdict.version, read_residuals(), forecasts, _seen_errors(verdict))


def _anchored(figures: Iterable[_Figure]) -> Iterator[_Figure]:
    """Yield estimated figures as forecast with an anchor: that of the same training with the fewest GPUs.

    The same training has the same case, model, GPU architecture, precision and program. All of a forecast is scaled,
    where an anchor of a scenario scales its kernels. The anchor itself is not checked.
    """
    trainings: dict[tuple[str, ...], list[_Figure]] = {}
    for each in figures:
        kind = each.features
        if kind.origin == "estimated":
            key = (each.case, each.model, kind.architecture, kind.precision, kind.program)
            trainings.setdefault(key, []).append(each)
    for same in trainings.values():
        anchor, *others = sorted(same, key=lambda each: each.num_gpus)
        for each in others:
            features = replace(each.features, origin=ANCHORED)
            yield each._replace(features=features, ratio=each.ratio / anchor.ratio)


def _seen_errors(verdict: Verdict) -> dict[str, tuple[float, ...]]:
    """Return the errors of the scored figures of each case that are of the speed of a whole training."""
    cases = sorted(verdict.cases, key=lambda case: case.name)
    found = {
        case.name: tuple(point.error for point in case.points if point.is_scored and point.metric in SPEEDS)
        for case in cases
    }
    return {name: errors for name, errors in found.items() if errors}


def ratio_of(metric: str, forecast: float, measured: float) -> float | None:
    """Return measured / forecast of samples per second; None for a metric that is not the time of a training.

    >>> ratio_of("iteration_s", 2.0, 1.0), ratio_of("samples_per_s", 2.0, 1.0), ratio_of("speedup", 2.0, 1.0)
    (2.0, 0.5, None)
    """
    if metric in DURATIONS:
        return forecast / measured
    return measured / forecast if metric == "samples_per_s" else None


def _case_figures(verdict: Verdict) -> Iterator[_Figure]:
    cases = {case.name: case for case in verdict.cases}
    for name, recorded in _by_case(recorded_forecasts()).items():
        if name not in cases:
            raise InputError(f"bands are made from all cases with first forecasts; this validation lacks {name}")
        is_replayed = not cases[name].is_chosen_after
        for each in recorded:
            point = _point_of(each, cases[name])
            present = point.simulated * units_of(point.metric)[point.unit]
            forecast, record = (present, "replay") if is_replayed else (each.forecast, "first")
            ratio = ratio_of(each.metric, forecast, each.measured)
            if ratio is not None:
                features, model = Features(**point.features), point.settings.get("model", "")
                yield _Figure(
                    each.source, name, each.published, each.made, record, features, ratio, model, each.num_gpus
                )


def _register_figures(register: RegisterScore) -> Iterator[_Figure]:
    """Yield the figures of the register; those whose features are not known are of an older document and left out."""
    sources = {score.entry.name: score.entry.folder / SOURCE_FILE for score in register.entries}
    for row in register_rows(register):
        is_replayed = row.present is not None and CHOSEN_AFTER not in sources[row.entry].read_text(encoding="utf-8")
        forecast = row.present if is_replayed and row.present is not None else row.first
        ratio = ratio_of(row.metric, forecast, row.measured)
        if ratio is not None and set(row.features) == FEATURES:
            record, features = "replay" if is_replayed else "first", Features(**row.features)
            model = next((text for text in row.question.overrides if text.startswith("model=")), "")
            published = (row.published or row.date)[:4]
            yield _Figure(row.source, row.entry, published, row.date, record, features, ratio, model, row.num_gpus)


def _by_case(recorded: Iterable[RecordedForecast]) -> Mapping[str, list[RecordedForecast]]:
    found: dict[str, list[RecordedForecast]] = {}
    for each in recorded:
        found.setdefault(each.case, []).append(each)
    return found


def _point_of(recorded: RecordedForecast, case: CaseVerdict) -> Compared:
    """Return the figure of a recorded forecast."""
    for point in case.points:
        if recorded.is_of(point.metric, point.num_gpus, point.measured * units_of(point.metric)[point.unit]):
            return point
    raise InputError(
        f"first_forecasts.csv: {case.name} has no {recorded.metric} {recorded.measured:g} on {recorded.num_gpus} GPUs; "
        "it was changed, or its simulation failed"
    )


def _grouped(figures: Iterable[_Figure]) -> Iterator[Checked]:
    """Yield the figures that are equal in all but their ratios as one record, in alphabetical order."""
    groups: dict[tuple[str, str, str, str, str, Features], list[float]] = {}
    for each in figures:
        key = each.source, each.case, each.published, each.made, each.record, each.features
        groups.setdefault(key, []).append(each.ratio)
    for key, ratios in sorted(groups.items(), key=lambda item: (item[0][1], repr(item[0]))):
        yield Checked(*key, tuple(ratios))


def read_residuals(text: str | None = None) -> TableResiduals:
    """Return the errors on rows that were not fitted, from `residuals.md` as `tools/residuals.py` wrote it.

    Of the tables of products of one architecture it is the median.
    """
    lines = (RESIDUALS_FILE.read_text(encoding="utf-8") if text is None else text).splitlines()
    tables: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        name = re.match(r"\| (\w+), \w+ [\d.rc]+, ", line)
        if name is not None:
            tables.setdefault(load_gpu(_sheet(name[1])).architecture, []).append(_pair(line, 0))
    products = {
        architecture: (median(pair[0] for pair in pairs), median(pair[1] for pair in pairs))
        for architecture, pairs in sorted(tables.items())
    }
    collectives = next(line for line in lines if line.startswith("| all | "))
    host = next(line for line in lines if line.startswith("| even rows, scored |"))
    return TableResiduals(products, _pair(collectives, 3), _pair(host, 0))


def _pair(line: str, first: int) -> tuple[float, float]:
    """Return the percentages of a line from the `first` on, the median and nine in ten, as shares."""
    found = [round(0.01 * float(number), 4) for number in _PERCENTS.findall(line)]
    return found[first], found[first + 1]


def _sheet(table: str) -> str:
    """Return the GPU sheet of a table of products.

    >>> _sheet("h100_sxm"), _sheet("rtx_pro_6000_server"), _sheet("gb200")
    ('h100', 'rtx-pro-6000', 'gb200')
    """
    words = table.split("_")
    while words and "-".join(words) not in GPUS:
        words.pop()
    return "-".join(words)
