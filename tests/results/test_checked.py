"""The checked forecasts that are shipped, and whether the bands that they make hold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from clustersim.results import Run, checked
from clustersim.results.band import CLASSES, Bands, Checked
from clustersim.results.checked import CheckedForecasts, TableResiduals, band_of_run, shipped_forecasts
from clustersim.results.features import Features
from clustersim.validation.coverage import by_feature, coverage, leave_one_out, older_for_newer
from tests.report.synthetic import make_run

RESIDUALS = TableResiduals({"ampere": (0.08, 0.25), "ada": (0.1, 0.4)}, (0.05, 0.15), (0.06, 0.16))


def test_a_document_says_the_same_again() -> None:
    shipped = shipped_forecasts()
    assert CheckedForecasts.from_dict(shipped.to_dict()) == shipped
    assert len({each.source for each in shipped.forecasts}) >= 17


def test_forecasts_with_the_features_of_another_version_are_left_out() -> None:
    document = shipped_forecasts().to_dict()
    first, *others = document["forecasts"]
    changed = {**first, "features": {**first["features"], "colour": "red"}}
    found = CheckedForecasts.from_dict({**document, "forecasts": [changed, *others]})
    assert found.forecasts == shipped_forecasts().forecasts[1:]


@pytest.mark.parametrize(("level", "least", "most"), [(0.9, 0.85, 0.95), (0.5, 0.4, 0.6)])
def test_the_bands_hold_leaving_a_source_out(level: float, least: float, most: float) -> None:
    outcomes = leave_one_out(shipped_forecasts().of_anchored(False), level)
    assert least <= coverage(outcomes, level).held <= most


def test_no_class_of_ten_sources_is_held_less_often_than_its_interval_allows() -> None:
    found = by_feature(leave_one_out(shipped_forecasts().of_anchored(False), 0.9), 0.9)
    assert len(found) >= 5
    for name, each in found.items():
        assert each.interval[1] >= 0.85, name


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_classes_are_better_than_one_band_for_all(level: float) -> None:
    """Narrower, and better in the interval score, which counts both width and misses."""
    forecasts = shipped_forecasts().of_anchored(False)
    classes, one = (coverage(leave_one_out(forecasts, level, which), level) for which in (CLASSES, CLASSES[-1:]))
    assert classes.width < one.width
    assert classes.score < one.score


def test_bands_of_older_sources_are_tried_on_newer_ones_only() -> None:
    forecasts = shipped_forecasts().of_anchored(False)
    first: dict[str, str] = {}
    for each in forecasts:
        first[each.source] = min(first.get(each.source, each.published), each.published)
    for outcome in older_for_newer(forecasts, 0.9):
        assert sum(year < first[outcome.forecast.source] for year in first.values()) >= 10


def test_residuals_count_with_the_share_of_their_part() -> None:
    run = make_run(32)
    parts = {name: run.breakdown_s[name] / run.iteration_s for name in ("compute", "communication_exposed")}
    share = parts["compute"] * run.provenance["estimated"]
    most, half = RESIDUALS.floors(run, "ampere")
    assert most == pytest.approx(share * math.log(1.25) + parts["communication_exposed"] * math.log(1.15))
    assert half == pytest.approx(share * math.log(1.08) + parts["communication_exposed"] * math.log(1.05))
    assert RESIDUALS.floors(run, "kepler") == pytest.approx(RESIDUALS.floors(run, "ada"))


def anchored_run(monkeypatch: pytest.MonkeyPatch, num_sources: int) -> tuple[Run, CheckedForecasts]:
    """Return an anchored run, and checked forecasts: wide ones without, and narrow ones of so many sources with one."""
    features = Features("ampere", "tf32", "compiled", "all-reduce", "copies", "anchored", "one", "products")
    wide = replace(features, origin="estimated")
    forecasts = [Checked(f"s{n}", "case", "2023", "2026", "first", wide, (math.exp(0.1 * n - 1),)) for n in range(20)]
    forecasts += [
        Checked(f"s{n}", "case", "2023", "2026", "first", features, (1 + 0.001 * n,)) for n in range(num_sources)
    ]
    made = CheckedForecasts("0", TableResiduals({"ampere": (0.0, 0.0)}, (0.0, 0.0), (0.0, 0.0)), tuple(forecasts), {})
    monkeypatch.setattr(checked, "shipped_forecasts", lambda: made)
    checked._shipped_bands.cache_clear()
    monkeypatch.setattr(checked, "_shipped_bands", checked._shipped_bands.__wrapped__)
    return replace(make_run(8), features=features), made


@pytest.mark.parametrize(("num_sources", "sources", "is_narrow"), [(12, 12, True), (9, 20, False)])
def test_an_anchored_forecast_has_a_band_of_its_own_from_ten_sources_on(
    monkeypatch: pytest.MonkeyPatch, num_sources: int, sources: int, is_narrow: bool
) -> None:
    run, made = anchored_run(monkeypatch, num_sources)
    found = band_of_run(run)
    assert found is not None
    assert (found.sources, found.unchecked) == (sources, ())
    low, high = found.samples_per_s
    assert (high / low < 1.05) == is_narrow
    assert len(made.of_anchored(True)) == num_sources


def test_anchored_forecasts_widen_or_narrow_no_other_band(monkeypatch: pytest.MonkeyPatch) -> None:
    run, made = anchored_run(monkeypatch, 12)
    assert run.features is not None
    estimated = replace(run, features=replace(run.features, origin="estimated"))
    found = band_of_run(estimated)
    assert found is not None
    assert found.samples_per_s[1] == pytest.approx(
        run.samples_per_s * math.exp(Bands(made.of_anchored(False)).widest(0.9).high)
    )


def test_a_run_without_features_has_no_band() -> None:
    assert band_of_run(make_run(8)) is None
