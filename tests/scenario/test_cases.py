"""Named variants of a scenario, each with its own cluster, GPUs and lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clustersim.errors import Mistake
from clustersim.scenario import Scenario, load_scenario

Load = Callable[..., Scenario]
Mistakes = Callable[..., list[Mistake]]

CASES = """\
cases:
  slow: {num_gpus: 8, topology: {link: 1 Gbit/s}}
  fast:
    num_gpus: [2, 4]
    topology: {kind: star, num_hosts: 4, link: 100 Gbit/s, host: {gpu: p100}}
batch: {per_gpu: [8, 16]}
"""


def test_each_case_is_merged_and_multiplies_with_the_lists(load: Load) -> None:
    points = load(CASES).points()
    assert [tuple(axes.values()) for axes, _ in points] == [
        ("slow", 8),
        ("slow", 16),
        ("fast", 2, 8),
        ("fast", 2, 16),
        ("fast", 4, 8),
        ("fast", 4, 16),
    ]
    assert list(points[0].axes) == ["case", "batch.per_gpu"]
    assert [point.num_gpus for _, point in points] == [8, 8, 2, 2, 4, 4]
    assert [point.topology.host.gpu for _, point in points] == ["k80"] * 2 + ["p100"] * 4  # type: ignore[attr-defined]
    assert all(point.cases is None for _, point in points)


def test_the_scenario_that_is_saved_has_the_same_points(load: Load) -> None:
    scenario = load(CASES)
    again = load_scenario(scenario.raw)
    assert [axes for axes, _ in again.points()] == [axes for axes, _ in scenario.points()]


@pytest.mark.parametrize(
    ("overrides", "axes", "gpus"),
    [
        (["case=slow"], {"batch.per_gpu": [8, 16]}, [8, 8]),
        (["case=[fast, slow]", "batch.per_gpu=8"], {"case": ["fast", "slow"], "num_gpus": [2, 4]}, [2, 4, 8]),
        (["num_gpus=1", "batch.per_gpu=8"], {"case": ["slow", "fast"]}, [1, 1]),
        (["cases.slow.num_gpus=3", "batch.per_gpu=8"], {"case": ["slow", "fast"], "num_gpus": [2, 4]}, [3, 2, 4]),
    ],
)
def test_set_chooses_cases_and_wins_over_them(load: Load, overrides: list[str], axes: object, gpus: list[int]) -> None:
    scenario = load(CASES, tuple(overrides))
    assert scenario.axes == axes
    assert [point.num_gpus for _, point in scenario.points()] == gpus


def test_a_part_that_is_set_stays_in_a_case_with_another_cluster(load: Load) -> None:
    scenario = load(CASES, ("topology.hop=7 us", "batch.per_gpu=8"))
    assert [point.topology.hop for _, point in scenario.points()] == pytest.approx([7e-6] * 3)  # type: ignore[attr-defined]


def test_a_file_that_extends_another_changes_one_case(tmp_path: Path, varied: Callable[[str], str]) -> None:
    (tmp_path / "base.yaml").write_text(varied(CASES), encoding="utf-8")
    child = tmp_path / "child.yaml"
    child.write_text("extends: base.yaml\ncases: {slow: {num_gpus: 2}}\nbatch: {per_gpu: 8}", encoding="utf-8")
    assert [point.num_gpus for _, point in load_scenario(child).points()] == [2, 2, 4]
    child.write_text("extends: base.yaml\ncases: null\nnum_gpus: 2", encoding="utf-8")
    assert load_scenario(child).axes == {"batch.per_gpu": [8, 16]}


@pytest.mark.parametrize(
    ("added", "overrides", "key", "words"),
    [
        ("cases: {}", (), "cases", "at least 1"),
        ("cases: {a: 3}", (), "cases.a", "expected a map"),
        ("cases: {a: {seed: 1, sweep: {}}}", (), "cases.a.sweep", "a case has no 'sweep' of its own"),
        ("cases: {a: {colour: red}}", (), "colour", "there is no such key here"),
        ("case: {a: {seed: 1}}", (), "case", "did you mean 'cases'?"),
        ("cases: {a: {seed: 1}, b: {seed: 2}}", ("case=c",), "case", "no case is called 'c' (known: a, b)"),
        ("seed: 1", ("case=c",), "case", "the scenario has no cases"),
    ],
)
def test_wrong_cases_are_refused(
    mistakes: Mistakes, added: str, overrides: tuple[str, ...], key: str, words: str
) -> None:
    found = mistakes(added, overrides)[0]
    assert (found.key, words in found.message) == (key, True), found


def test_a_measured_run_says_which_case_it_was(load: Load, mistakes: Mistakes) -> None:
    run = "measured: {{num_gpus: 4, samples_per_s: 100, set: {{{given}}}}}"
    (anchor,) = load(f"{CASES}{run.format(given='case: fast, batch.per_gpu: 8')}").anchors
    assert (anchor.point.num_gpus, anchor.point.topology.host.gpu) == (4, "p100")  # type: ignore[attr-defined]
    (wrong,) = mistakes(f"{CASES}{run.format(given='batch.per_gpu: 8')}")
    assert "several values of case" in wrong.message
