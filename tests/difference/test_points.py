"""Which two points are compared, on which basis, and what of their scenarios differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clustersim.difference import BASES, diff
from clustersim.difference.settings import ABSENT, at_point
from clustersim.errors import InputError
from clustersim.results import write_sweep
from clustersim.results.files import to_json
from clustersim.scenario import load_scenario
from clustersim.sweep import sweep
from tests.difference.pairs import SMALL, compared, only, part, small

SIZES = {**SMALL, "num_gpus": [2, 4]}
BOTH = {**SIZES, "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": [True, False]}}


def test_a_saved_run_is_the_simulated_one(tmp_path: Path) -> None:
    write_sweep(small(), tmp_path / "result.json")
    for saved in (tmp_path, tmp_path / "result.json", str(tmp_path)):
        found = diff(saved, SMALL)
        assert found.main.is_equal
        assert part(found.main, "compute").causes


def test_a_run_saved_without_detail_has_parts_without_causes(tmp_path: Path) -> None:
    path = tmp_path / "printed.json"
    path.write_text(to_json(small().to_dict(detail=False)), encoding="utf-8")
    point = diff(path, small("num_gpus=8")).main
    assert not any(each.causes for each in point.parts if each.part in ("compute", "waiting"))
    assert point.links
    assert sum(each.change_s for each in point.parts) == pytest.approx(point.change_s)


def test_points_with_equal_values_on_all_axes_are_compared() -> None:
    found = diff(SIZES, SIZES, b_settings=["topology.link=5 Gbit/s"])
    assert [[run.num_gpus for run in each.runs] for each in found.differences] == [[2, 2], [4, 4]]
    assert found.answer[0].startswith("At 2\u202fpoints, B takes ")
    assert found.answer[0].endswith(" more time than A; they differ most at num_gpus 4.")
    assert found.main.runs[0].num_gpus == 4


def test_a_point_that_only_one_has_is_left_out_and_said() -> None:
    found = diff({**SMALL, "num_gpus": [1, 2]}, SIZES, b_settings=["topology.link=5 Gbit/s"])
    assert [each.runs[0].num_gpus for each in found.differences] == [2]
    assert (found.only_a, found.only_b) == (({"num_gpus": 1},), ({"num_gpus": 4},))
    assert "1\u202fpoint of A and 1\u202fpoint of B" in found.answer[-1]


def test_one_point_is_compared_with_that_of_its_size() -> None:
    found = diff(small(), sweep(SIZES))
    assert [run.num_gpus for run in found.main.runs] == [4, 4]


def test_settings_of_an_axis_choose_points_of_a_saved_sweep() -> None:
    found = diff(sweep(BOTH), a_settings=["strategy.overlap=true"], b_settings=["strategy.overlap=false"])
    assert [run.num_gpus for each in found.differences for run in each.runs] == [2, 2, 4, 4]
    assert [change.key for change in found.main.settings] == ["strategy.overlap"]


def test_settings_of_an_axis_choose_by_its_label_too() -> None:
    two = {
        **SMALL,
        "strategy": [{"kind": "all-reduce", "algorithm": "ring"}, {"kind": "server", "servers": {"num": 2}}],
    }
    found = diff(two, a_settings=["strategy=all-reduce"], b_settings=["strategy=server"])
    assert [dict(run.axes) for run in found.main.runs] == [{"strategy": "all-reduce"}, {"strategy": "server"}]
    assert [change.key for change in found.main.settings] == ["strategy.kind", "strategy.algorithm", "strategy.servers"]


def test_what_cannot_be_decided_lists_the_points() -> None:
    with pytest.raises(InputError, match=r"it cannot be decided .*--a KEY=VALUE and --b KEY=VALUE") as error:
        diff(SIZES, {**SMALL, "num_gpus": [8, 1]})
    assert "A (small): num_gpus=2; num_gpus=4" in str(error.value)
    assert "B (small): num_gpus=8; num_gpus=1" in str(error.value)
    with pytest.raises(InputError, match="cannot be decided"):
        diff(SIZES, {**SMALL, "precision": ["fp32", "fp16"]})


def test_a_point_that_a_saved_sweep_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"A \(small\) has no point with num_gpus=3; its points are num_gpus=2; num"):
        diff(sweep(SIZES), small(), a_settings=["num_gpus=3"])


@pytest.mark.parametrize("text", ["num_gpus", "=8"])
def test_a_setting_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected KEY=VALUE"):
        diff(SMALL, a_settings=[text])


def test_an_unknown_basis_is_refused() -> None:
    with pytest.raises(InputError, match="no basis is called 'samples'; did you mean 'sample'"):
        compared((), (), per="samples")


def test_seconds_of_a_token_need_tokens() -> None:
    with pytest.raises(InputError, match="seconds per token need a model with tokens"):
        compared((), (), per="token")


def test_the_basis_is_an_iteration_where_its_work_is_alike() -> None:
    assert compared((), ("topology.link=5 Gbit/s",)).main.basis.name == "iteration"
    assert compared((), ("num_gpus=8",)).main.basis.name == "iteration"
    assert compared((), ("num_gpus=8", "batch.per_gpu=16")).main.basis.name == "iteration"


def test_the_basis_is_a_sample_where_iterations_train_other_numbers() -> None:
    point = compared((), ("batch.per_gpu=64",)).main
    assert point.basis.name == "sample"
    assert point.seconds == pytest.approx([1 / run.samples_per_s for run in point.runs])


def test_the_basis_is_a_token_where_samples_have_other_lengths() -> None:
    short, long = (
        replace(small(), runs=(replace(only(small()), tokens_per_sample=tokens),)) for tokens in (1024.0, 2048.0)
    )
    point = diff(short, long).main
    assert point.basis.name == "token"
    assert point.seconds[1] == pytest.approx(point.seconds[0] / 2)


def test_gpu_time_of_a_sample_counts_all_gpus() -> None:
    run = only(small())
    assert run.iteration_s / BASES["gpu-sample"].per_iteration(run) == pytest.approx(run.num_gpus / run.samples_per_s)


def test_a_map_that_only_one_scenario_has_is_one_key() -> None:
    (change,) = compared((), ("stragglers=[{kind: constant, factor: 2, of: [1]}]",)).main.settings
    assert (change.key, change.a) == ("stragglers", ABSENT)
    assert change.words[1] == "[{kind: constant, factor: 2, of: [1]}]"


def test_keys_inside_lists_are_found() -> None:
    one, two = (f"stragglers=[{{kind: constant, factor: {factor}, of: [1]}}]" for factor in (2, 3))
    assert [(c.key, c.a, c.b) for c in compared((one,), (two,)).main.settings] == [("stragglers.0.factor", 2, 3)]


def test_names_and_descriptions_are_no_differences() -> None:
    other = {**SMALL, "name": "other", "description": "the same"}
    assert diff(small(), other).main.settings == ()


def test_another_seed_is_a_difference() -> None:
    assert [(c.key, c.b) for c in compared((), ("seed=5",)).main.settings] == [("seed", 5)]


def test_a_point_has_the_values_of_its_axes() -> None:
    scenario = {"strategy": [{"kind": "ring"}, {"kind": "server", "n": [1, 2]}], "batch": {"per_gpu": [1, 2]}}
    assert at_point(scenario, {"strategy": "server", "strategy.n": 2, "batch.per_gpu": 1}) == {
        "strategy": {"kind": "server", "n": 2},
        "batch": {"per_gpu": 1},
    }


SWEPT = {
    **SMALL,
    "cases": {"slow": {"topology": {"link": "5 Gbit/s"}, "num_gpus": 2}, "fast": {}},
    "sweep": {
        "grid": {"batch.per_gpu": [32, 64]},
        "zip": {"topology.hop": ["1 us", "2 us"], "seed": [1, 2]},
        "where": "num_gpus > 1",
    },
}
"""Axes that are no lists in the scenario."""


def test_a_point_has_the_values_of_cases_and_sweep() -> None:
    axes = {"case": "slow", "batch.per_gpu": 64, "topology.hop": "2 us", "seed": 2}
    topology = {**SMALL["topology"], "link": "5 Gbit/s", "hop": "2 us"}
    expected = {**SMALL, "num_gpus": 2, "batch": {"per_gpu": 64}, "topology": topology, "seed": 2}
    assert at_point(SWEPT, axes) == expected


def test_every_point_of_cases_and_sweep_loads_as_the_point_of_the_sweep() -> None:
    loaded = load_scenario(SWEPT)
    for swept in loaded.points():
        ((_, alone),) = load_scenario(at_point(loaded.raw, swept.axes)).points()
        assert alone == swept.point


@pytest.mark.parametrize("saves", [False, True])
def test_what_cases_and_sweep_change_is_said(saves: bool) -> None:
    a, b = ["case=slow", "seed=1", "topology.hop=1 us"], ["case=fast", "seed=1", "topology.hop=1 us"]
    found = diff(sweep(load_scenario(SWEPT)) if saves else SWEPT, a_settings=a, b_settings=b)
    assert [change.key for change in found.main.settings] == ["num_gpus", "topology.link"]
    assert not any("the same keys" in text for text in found.answer)


BIG = {**SMALL, "batch": {"per_gpu": [32, 100_000]}}


def test_points_without_a_forecast_are_left_out_and_said() -> None:
    found = diff(BIG, b_settings=["topology.link=5 Gbit/s"])
    assert [dict(each.runs[0].axes) for each in found.differences] == [{"batch.per_gpu": 32}]
    assert [(each.side, dict(each.axes)) for each in found.failed] == [
        ("A", {"batch.per_gpu": 100_000}),
        ("B", {"batch.per_gpu": 100_000}),
    ]
    assert "Without a forecast: 1\u202fpoint of A and 1\u202fpoint of B" in found.answer[-1]
    assert [each["side"] for each in found.to_dict()["failed"]] == ["a", "b"]


def test_points_of_a_saved_sweep_without_a_forecast_are_left_out_too() -> None:
    found = diff(sweep(BIG), sweep(BIG))
    assert len(found.differences) == 1
    assert len(found.failed) == 2


def test_the_only_points_must_have_a_forecast() -> None:
    with pytest.raises(InputError) as error:
        diff(SMALL, b_settings=["batch.per_gpu=100000"])
    assert error.value.mistakes[0].key is not None
    with pytest.raises(InputError, match="no point has a forecast in both; A: "):
        diff(sweep(BIG), sweep(BIG), a_settings=["batch.per_gpu=100000"], b_settings=["batch.per_gpu=100000"])
