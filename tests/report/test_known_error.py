"""The error in a report is that of similar validated forecasts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report import known_error
from clustersim.report.answer import tiles
from clustersim.report.known_error import error_sentence, error_source, kind_of, no_similar_case, similar_case_error
from clustersim.report.sections import nearest
from clustersim.report.words import THIN
from clustersim.results.budget import Kind, KnownError
from tests.report.synthetic import make_comparison, make_run, make_sweep

FOUND = KnownError(0.05, 0.21, 14, ("tensorflow-dgx-1", "goyal-2017", "mlperf-v100", "nvidia-dgx"))


def asking(**scenario):
    sweep = make_sweep((8,))
    return replace(sweep, scenario={**sweep.scenario, **scenario})


def test_a_run_is_of_the_kind_that_its_scenario_says() -> None:
    sweep = asking(strategy={"kind": "server"}, transport="tcp", model="nin")
    assert kind_of(sweep, sweep.runs[0]) == Kind("server", "tcp", 8, 8, "nin")


def test_an_axis_wins_over_the_scenario_and_a_map_on_an_axis_is_labelled_by_its_kind() -> None:
    sweep = make_comparison()
    assert {kind_of(sweep, run).strategy for run in sweep.runs} == {"all-reduce", "server"}
    run = make_run(8, axes={"strategy": "all-reduce algorithm=ring", "transport": "nccl"})
    kind = kind_of(asking(strategy=[{"kind": "all-reduce"}], transport=["nccl", "mpi"]), run)
    assert (kind.strategy, kind.transport) == ("all-reduce", "nccl")


def test_layout_and_origin_of_the_layer_times_are_those_of_the_run() -> None:
    run = replace(make_run(8), layout={"kind": "grid", "pipeline": 4, "data": 2}, provenance={"estimated": 1.0})
    kind = kind_of(asking(strategy={"kind": "all-reduce"}), run)
    assert (kind.layout, kind.compute) == ("stages", "estimated")


def test_a_layout_without_measurements_has_the_differences_to_the_nearest_case() -> None:
    run = replace(make_run(8), layout={"kind": "paths", "pipeline": 4, "data": 2})
    sweep = asking(strategy={"kind": "all-reduce"}, transport="nccl", model="resnet50")
    assert similar_case_error(sweep, run) is None
    assert "differs in layout" in no_similar_case(sweep, run)


def test_gpus_of_one_host_are_on_one_host() -> None:
    run = replace(make_run(8), rank_names=tuple(f"host0/gpu{rank}" for rank in range(8)))
    assert kind_of(asking(strategy={"kind": "all-reduce"}), run).num_hosts == 1


def test_a_scenario_that_does_not_say_its_strategy_has_no_known_error() -> None:
    sweep = make_sweep((8,))
    assert similar_case_error(sweep, sweep.runs[0]) is None
    assert "No similar validated case" in nearest(sweep, sweep.runs[0])


def test_the_first_screen_quotes_validated_forecasts_where_nothing_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_error, "known_error", lambda kind: FOUND)
    sweep = asking(strategy={"kind": "all-reduce"})
    tile = {tile.label: tile for tile in tiles(sweep)}["Model error"]
    assert tile.value.replace(THIN, " ") == "± 5.0 %"
    assert tile.note == error_source(FOUND)
    assert "tensorflow-dgx-1, goyal-2017, mlperf-v100 and 1 more" in tile.note
    published = {tile.label: tile for tile in tiles(make_sweep())}["Model error"]
    assert "published figures" in published.note


def test_the_page_names_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_error, "known_error", lambda kind: FOUND)
    sweep = asking(strategy={"kind": "all-reduce"})
    html = nearest(sweep, sweep.runs[0])
    assert error_sentence(FOUND) in html
    assert all(f"<li>{case}</li>" in html for case in FOUND.cases)


def test_runs_with_idle_network_adapters_have_no_known_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_error, "known_error", lambda kind: FOUND)
    sweep = asking(strategy={"kind": "all-reduce"})
    run = sweep.runs[0]
    assert similar_case_error(sweep, replace(run, adapters=(8, 8))) == FOUND
    assert similar_case_error(sweep, replace(run, adapters=(1, 8))) is None


def test_a_model_is_called_in_a_report_as_it_is_in_the_budget() -> None:
    for model, name in (("squeezenet-1.0", "squeezenet-1.0"), ("nets/mine.workload.yaml", "mine")):
        sweep = asking(strategy={"kind": "all-reduce"}, model=model)
        assert kind_of(sweep, sweep.runs[0]).model == name
