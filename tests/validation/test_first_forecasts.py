"""First forecasts are kept: the record, the list in the README, and what bands are made from agree."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from clustersim.cli import main
from clustersim.data import data_folder
from clustersim.errors import InputError
from clustersim.results.checked import CheckedForecasts, shipped_forecasts
from clustersim.validation import load_case, shipped_cases
from clustersim.validation.band_data import checked_forecasts, ratio_of, read_residuals
from clustersim.validation.coverage import coverage, leave_one_out
from clustersim.validation.coverage_page import coverage_page
from clustersim.validation.first_forecasts import FIRST_FORECASTS_FILE, median_first_error, recorded_forecasts
from clustersim.validation.metrics import units_of
from clustersim.validation.register import RegisterScore
from clustersim.validation.verdict import CaseVerdict, Compared, Verdict

README = (data_folder("validate") / "README.md").read_text("utf-8")
SPLIT = {"deepspeed-autotuning": ("deepspeed-autotuning", "deepspeed-autotuning-engine")}
"""Cases that were one when they were first forecast."""

NUM_BYTES = 47040
SHA256 = "0a89249c9bf13e79d837921a25b6cddb78cbe3c3f85fc1f95b17ee0fae667f2d"


def listed() -> list[tuple[str, int, str]]:
    """Return the case, the number of figures and the median error of each row of the README's list."""
    text = README.partition("## First forecasts")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[([\w.-]+)\]\(.*?\)[^|]* \| (\d+)[^|]* \| ([\d.]+) % \|", text, re.MULTILINE)
    return [(name, int(number), error) for name, number, error in rows]


def test_the_record_was_never_rewritten() -> None:
    """Rows may be added at the end; then the number of bytes and the hash below become those of the longer file."""
    data = (data_folder("validate") / FIRST_FORECASTS_FILE).read_bytes()
    assert hashlib.sha256(data[:NUM_BYTES]).hexdigest() == SHA256


def test_the_readme_lists_the_recorded_errors() -> None:
    found = listed()
    assert len(found) == 22
    for name, number, error in found:
        cases = SPLIT.get(name, (name,))
        assert sum(each.case in cases for each in recorded_forecasts()) == number
        assert f"{100 * median_first_error(cases):.1f}" == error, name
    names = {case for name, _, _ in found for case in SPLIT.get(name, (name,))}
    assert names == {each.case for each in recorded_forecasts()}


def test_the_readme_has_the_median_of_the_medians() -> None:
    middle = median(median_first_error(SPLIT.get(name, (name,))) for name, _, _ in listed())
    assert f"the median error was {100 * middle:.1f} %" in " ".join(README.split())


def test_every_recorded_forecast_is_of_one_figure_of_its_case() -> None:
    cases = {name: load_case(shipped_cases()[name]) for name in {each.case for each in recorded_forecasts()}}
    for each in recorded_forecasts():
        rows = [
            row
            for row in cases[each.case].rows
            if row.metric == each.metric
            and each.is_of(row.metric, each.num_gpus, row.value * units_of(row.metric)[row.unit])
        ]
        by_size = [row for row in rows if dict(row.settings).get("num_gpus", str(each.num_gpus)) == str(each.num_gpus)]
        assert len(by_size) == 1, each
        assert (by_size[0].role, by_size[0].provenance) == ("prediction", "read")


def test_a_source_is_named_for_every_case() -> None:
    sources: dict[str, set[str]] = {}
    for each in recorded_forecasts():
        sources.setdefault(each.case, set()).add(each.source)
    assert all(len(names) == 1 for names in sources.values())
    assert len(set().union(*sources.values())) == 17


def test_marked_cases_count_with_their_first_forecasts() -> None:
    marked = {name for name in shipped_cases() if load_case(shipped_cases()[name]).is_chosen_after}
    recorded = recorded_forecasts()
    shipped = [each for each in shipped_forecasts().of_anchored(False) if each.case in shipped_cases()]
    assert {each.case for each in shipped} == {each.case for each in recorded}
    for name in {each.case for each in shipped}:
        assert {each.record for each in shipped if each.case == name} == {"first" if name in marked else "replay"}
    for name in marked & {each.case for each in recorded}:
        first = [ratio_of(each.metric, each.forecast, each.measured) for each in recorded if each.case == name]
        ratios = [ratio for each in shipped if each.case == name for ratio in each.ratios]
        assert sorted(ratios) == pytest.approx(sorted(ratio for ratio in first if ratio is not None), abs=1e-4)


def test_the_page_of_the_study_is_current() -> None:
    """`make coverage` writes it again."""
    assert (data_folder("docs") / "coverage.md").read_text("utf-8") == coverage_page(shipped_forecasts())


def test_the_readme_says_how_often_bands_hold() -> None:
    forecasts = shipped_forecasts().of_anchored(False)
    found = coverage(leave_one_out(forecasts, 0.9), 0.9)
    readme = " ".join((data_folder("docs").parent / "README.md").read_text("utf-8").split())
    assert f"({found.num_sources} sources, {found.num_figures} figures), {found.held:.0%}".replace("%", " %") in readme


def test_the_shipped_residuals_are_those_of_the_page() -> None:
    assert read_residuals() == shipped_forecasts().residuals


def test_residuals_are_medians_over_the_tables_of_an_architecture() -> None:
    text = """
| h100_sxm, sglang 0.5.14, the other half | 5.0%, 17% | 5.9%, 20% |
| h200_sxm, vllm 0.24.0, all shapes, by h100_sxm's constants | 7.0%, 21% | 5.5%, 13% |
| all | 360 | 5.5% | 15.8% | -0.5% | 1536 | 4.6% | 14.6% | -0.8% |
| even rows, scored | 360 | 5.4% | 16.0% | +0.3% |
"""
    found = read_residuals(text)
    assert found.products == {"hopper": pytest.approx((0.06, 0.19))}
    assert (found.collectives, found.host) == (pytest.approx((0.046, 0.146)), pytest.approx((0.054, 0.16)))


def made_up_verdict(is_chosen_after: bool) -> Verdict:
    """Return a verdict over every recorded case in which each present forecast is 10 % above the measurement."""
    features = {"architecture": "ampere", "precision": "tf32", "program": "compiled", "strategy": "all-reduce"}
    features |= {"layout": "copies", "origin": "published", "hosts": "one", "work": "products"}
    cases: dict[str, list[Compared]] = {}
    for each in recorded_forecasts():
        unit = {"samples_per_s": each.unit, "iteration_s": "s"}[each.metric]
        cases.setdefault(each.case, []).append(
            Compared(
                each.metric, each.num_gpus, "prediction", 1.1 * each.measured, each.measured, unit, 0.1, "read", "", "",
                "", "scenario", {}, 2, features,
            )
        )  # fmt: skip
    verdicts = [CaseVerdict(name, name, tuple(points), is_chosen_after) for name, points in cases.items()]
    return Verdict("0", tuple(verdicts))


def test_forecasts_of_the_present_version_count_where_nothing_was_chosen_after_errors() -> None:
    present = checked_forecasts(made_up_verdict(is_chosen_after=False)).of_anchored(False)
    assert {each.record for each in present} == {"replay"}
    ratios = {round(ratio, 6) for each in present for ratio in each.ratios}
    assert ratios == {round(1 / 1.1, 6), 1.1}  # rates and times
    first = checked_forecasts(made_up_verdict(is_chosen_after=True)).of_anchored(False)
    assert {each.record for each in first} == {"first"}
    assert sum(len(each.ratios) for each in first) == len(recorded_forecasts())


def test_estimates_are_anchored_on_the_fewest_gpus() -> None:
    verdict = made_up_verdict(is_chosen_after=True)
    estimated = []
    for case in verdict.cases:
        points = [replace(each, features={**each.features, "origin": "estimated"}) for each in case.points]
        estimated.append(replace(case, points=tuple(points)))
    found = {each.case: each for each in checked_forecasts(replace(verdict, cases=tuple(estimated))).of_anchored(True)}
    own = sorted((each for each in recorded_forecasts() if each.case == "nemo-vit"), key=lambda each: each.num_gpus)
    ratios = [each.measured / each.forecast for each in own]
    assert found["nemo-vit"].ratios == pytest.approx(tuple(ratio / ratios[0] for ratio in ratios[1:]))
    assert checked_forecasts(verdict).of_anchored(True) == ()


@pytest.mark.parametrize("option", ["--bands", "--coverage"])
def test_bands_are_made_from_all_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["validate", "firecaffe", option, str(tmp_path / "file"), "--quiet"]) == 2
    assert "need all cases" in capsys.readouterr().err


def test_the_study_is_written_without_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clustersim.validation.validate", None)
    assert main(["validate", "--coverage", str(tmp_path / "coverage.md")]) == 0
    assert (tmp_path / "coverage.md").read_text("utf-8") == coverage_page(shipped_forecasts())


def test_the_command_collects_cases_and_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = made_up_verdict(is_chosen_after=True)
    monkeypatch.setattr("clustersim.validation.validate", lambda *arguments: verdict)
    monkeypatch.setattr("clustersim.validation.register.score_register", lambda **options: RegisterScore("0", ()))
    files = [str(tmp_path / name) for name in ("bands.json", "coverage.md")]
    assert main(["validate", "--bands", files[0], "--coverage", files[1], "--quiet"]) == 0
    document = json.loads((tmp_path / "bands.json").read_text("utf-8"))
    made = CheckedForecasts.from_dict(document)
    assert made.of_anchored(False) == CheckedForecasts.from_dict(checked_forecasts(verdict).to_dict()).forecasts
    assert (tmp_path / "coverage.md").read_text("utf-8").startswith("# Bands of the forecasts")


def test_a_figure_or_a_case_that_is_missing_is_an_error() -> None:
    verdict = made_up_verdict(is_chosen_after=True)
    with pytest.raises(InputError, match=f"lacks {verdict.cases[0].name}"):
        checked_forecasts(replace(verdict, cases=verdict.cases[1:]))
    shorter = replace(verdict.cases[0], points=verdict.cases[0].points[1:])
    with pytest.raises(InputError, match="has no"):
        checked_forecasts(replace(verdict, cases=(shorter, *verdict.cases[1:])))
    with pytest.raises(InputError, match="no first forecast"):
        median_first_error(["deepbench"])
