"""Several clusters side by side: each plan is that of the cluster alone, and one without a layout is a row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.planner import ClusterComparison, compare_clusters, plan, search
from clustersim.planner.comparing import NOT_REACHED

SCENARIO: dict[str, Any] = {
    "name": "small",
    "model": "vgg11",
    "num_gpus": 4,
    "batch": {"global": 8},
    "topology": {"kind": "star", "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "10 Gbit/s"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
}
NARROW = {**SCENARIO, "parallelism": {"tensor": 1, "recompute": "none", "sharding": None}}
TRAINING = {**NARROW, "epochs": 2, "dataset_size": 1000}
CLUSTERS = ["scenario:4@2.0", "a100:4"]


@pytest.fixture(scope="module")
def found() -> ClusterComparison:
    return compare_clusters(TRAINING, [*CLUSTERS, "ethernet-1g:64"], top=3, workers=1)


def test_each_plan_is_that_of_the_cluster_alone(found: ClusterComparison) -> None:
    for each in found.planned:
        alone = plan(TRAINING, [4], top=3, workers=1, overrides=each.settings)
        assert each.plan is not None
        assert each.plan.to_dict() == alone.to_dict()
    assert [each.label for each in found.clusters] == ["4 v100", "4 a100", "64 ethernet-1g"]


def test_prices_and_the_length_of_the_training_are_in_the_totals(found: ClusterComparison) -> None:
    total = found.clusters[0].totals
    assert total is not None
    assert total.dollars_per_hour == 8.0
    assert total.tokens_per_s is None
    assert total.train_s == pytest.approx(2000 / total.samples_per_s)
    assert total.train_dollars == pytest.approx(8.0 * total.train_s / 3600)
    assert total.dollars_per_million == pytest.approx(8.0 / 3600 / total.samples_per_s * 1e6)


def test_a_cluster_without_a_layout_is_a_row_with_its_reason(found: ClusterComparison) -> None:
    last = found.clusters[-1]
    assert last.plan is None
    assert "has 32 GPUs (got 64)" in last.reason
    document = found.to_dict()
    assert document["schema"] == "clustersim.plan-comparison/1"
    assert [entry["plan"] is None for entry in document["clusters"]] == [False, False, True]
    assert document["clusters"][2]["errors"][0]["key"] == "num_gpus"
    assert document["clusters"][0]["errors"] == []


def test_no_plan_at_all_is_an_error() -> None:
    with pytest.raises(InputError, match=r"64 ethernet-1g: .*has 32 GPUs"):
        compare_clusters(NARROW, ["ethernet-1g:64", "dgx-h100-ndr:4096"], workers=1)
    with pytest.raises(InputError, match="does not divide") as caught:  # the same for all: said once
        compare_clusters(NARROW, CLUSTERS, batches=[3], overrides=["parallelism.data=4"], workers=1)
    assert len(caught.value.mistakes) == 1


def test_a_cluster_is_given_once_and_one_is_needed() -> None:
    with pytest.raises(InputError, match="4 v100 is given twice"):
        compare_clusters(NARROW, ["v100:4@1", "v100:4@2"])
    with pytest.raises(InputError, match="needs a cluster"):
        compare_clusters(NARROW, [])


def test_the_file_of_each_cluster_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.jsonl"
    first = compare_clusters(NARROW, CLUSTERS, workers=1, resume=path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["plan-4-a100.jsonl", "plan-4-scenario.jsonl"]

    def refused(*_: Any) -> Any:
        raise AssertionError("simulated again")

    monkeypatch.setattr(search, "_simulate", refused)
    dearer = compare_clusters(NARROW, ["scenario:4@9.0", "a100:4"], workers=1, resume=path)
    assert dearer.clusters[1] == first.clusters[1]
    assert dearer.clusters[0].totals != first.clusters[0].totals


def test_a_file_of_another_scenario_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plan-4-a100.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"plan-4-a100\.jsonl is of another scenario"):
        compare_clusters(NARROW, CLUSTERS, workers=1, resume=tmp_path / "plan.jsonl")


def test_an_interruption_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = plan

    def second_is_stopped(*args: Any, **keys: Any) -> Any:
        asked.append(args)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(*args, **keys)

    monkeypatch.setattr("clustersim.planner.comparing.plan", second_is_stopped)
    found = compare_clusters(NARROW, [*CLUSTERS, "h100:4"], workers=1)
    assert found.is_interrupted
    assert [each.reason for each in found.clusters] == ["", NOT_REACHED, NOT_REACHED]
    assert len(asked) == 2
    asked[:] = [()]
    with pytest.raises(KeyboardInterrupt):
        compare_clusters(NARROW, CLUSTERS, workers=1)


def test_the_time_limit_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    real = plan

    def noted(*args: Any, **keys: Any) -> Any:
        limits.append(keys["time_limit_s"])
        return real(*args, **{**keys, "time_limit_s": None})

    monkeypatch.setattr("clustersim.planner.comparing.plan", noted)
    begin_s = time.monotonic()
    compare_clusters(NARROW, CLUSTERS, workers=1, time_limit_s=1000.0)
    used_s = time.monotonic() - begin_s
    assert limits[0] == pytest.approx(500.0, abs=used_s)
    assert 1000.0 - used_s <= limits[1] <= 1000.0


@pytest.mark.parametrize("after", [2, 6, 9])
def test_a_search_that_ends_on_time_bounds_what_it_left(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {**SCENARIO, "parallelism": {}}
    best = plan(free, [4], batches=[64], workers=1)
    left, real = [after], search._simulate

    def counted(*args: Any) -> Any:
        left[0] -= 1
        return real(*args)

    monkeypatch.setattr(search, "_simulate", counted)
    monkeypatch.setattr(search.Deadline, "left_s", lambda self: float(left[0]))
    short = plan(free, [4], batches=[64], workers=1, time_limit_s=1.0)
    assert (best.ended, best.gap, short.ended) == ("done", 0.0, "time")
    assert short.num_simulated < best.num_simulated
    assert short.gap is not None
    assert best.best[0].samples_per_s <= short.best[0].samples_per_s * (1 + short.gap) * (1 + 1e-9)
    assert short.num_simulated + sum(short.discarded.values()) == short.num_layouts


def test_the_scenario_of_the_best_runs_as_the_plan_says(tmp_path: Path) -> None:
    found = plan(NARROW, [4], top=1, workers=1)
    path = tmp_path / "best.yaml"
    path.write_text(found.scenario_text, encoding="utf-8")
    assert clustersim.simulate(path).iteration_s == found.best[0].run_s
