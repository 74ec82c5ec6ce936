"""A point that fails is a run with its error, and the other points of the sweep have their forecasts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.errors import InputError, SimulationError, TooLongError
from clustersim.execution.rendezvous import Rendezvous
from clustersim.interchange import write_csv
from clustersim.network import Collective
from clustersim.results import Run, Sweep, read_sweep
from clustersim.results.files import to_json, write_sweep
from clustersim.scenario import Scenario, load_scenario
from clustersim.sweep import check_ran, none_ran

FIGURES = (
    *("batch_per_gpu", "iteration_s", "update_s", "samples_per_s", "samples_per_s_per_gpu", "efficiency", "speedup"),
    *("memory_bytes", "time_to_train_s", "host_share", "tokens_per_s", "dollars_per_hour", "train_dollars"),
)
SCENARIO: dict[str, Any] = {
    "name": "small",
    "model": "squeezenet-1.0",
    "num_gpus": 2,
    "batch": {"per_gpu": [4, 100_000]},
    "topology": {"kind": "star", "num_hosts": 4, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "all-reduce", "algorithm": "ring"},
    "num_iterations": 1,
}
NEVER_SAVED = {
    "gpu": {"mtbf": "2 h"},
    "checkpoint": {"every": ["10 min", "12 h"], "rate": "1 GB/s"},
    "restart": "10 min",
    "length": "30 d",
}
"""Failures after which a training goes on if it saves every 10 minutes, and with which it never ends otherwise."""

LONG: dict[str, Any] = {
    **SCENARIO,
    "batch": {"per_gpu": 4},
    "num_gpus": [2, 1024],
    "num_iterations": 50,
    "topology": {**SCENARIO["topology"], "num_hosts": 1024},
    "stragglers": [{"kind": "lognormal", "sigma": 0.2}],
}


def kinds(sweep: Sweep) -> list[str | None]:
    return [run.error and run.error.kind for run in sweep.runs]


def test_a_point_that_lacks_memory_has_its_bytes_and_a_change_with_which_it_fits() -> None:
    good, lacking = clustersim.sweep(SCENARIO).runs
    assert good.error is None
    error = lacking.error
    assert error is not None
    assert error.kind == "does-not-fit"
    assert error.needed_bytes is not None
    assert error.available_bytes == 12 * 2**30
    assert error.needed_bytes > error.available_bytes
    assert "\n" not in error.message
    assert error.message.startswith("batch.per_gpu: one k80 holds 12.9 GB, and this needs ")
    assert error.remedy == "parallelism {micro_batches: 400}"
    fits = {**SCENARIO, "batch": {"per_gpu": 100_000}, "parallelism": {"micro_batches": 400}}
    assert clustersim.simulate(fits).memory_bytes <= error.available_bytes


def test_where_no_layout_fits_the_change_is_the_largest_batch_that_does() -> None:
    gossip = {**SCENARIO, "strategy": {"kind": "gossip", "asynchronous": True}}
    error = clustersim.sweep(gossip).runs[1].error
    assert error is not None
    assert error.remedy is not None
    most = int(error.remedy.removeprefix("batch {per_gpu: ").removesuffix("}"))
    found = clustersim.sweep({**gossip, "batch": {"per_gpu": [most, most + 1]}})
    assert kinds(found) == [None, "does-not-fit"]


def test_a_global_batch_is_changed_as_a_whole() -> None:
    scenario = {**SCENARIO, "batch": {"global": [8, 200_001 * 2]}, "strategy": {"kind": "gossip", "asynchronous": True}}
    error = clustersim.sweep(scenario).runs[1].error
    assert error is not None
    assert error.remedy is not None
    most = int(error.remedy.removeprefix("batch {global: ").removesuffix("}"))
    found = clustersim.sweep({**scenario, "batch": {"global": [most, most + 2]}})
    assert kinds(found) == [None, "does-not-fit"]


def test_a_layout_of_which_even_one_sample_is_too_much_has_no_remedy() -> None:
    scenario = {**SCENARIO, "model": ["squeezenet-1.0", "megatron-175b"], "batch": {"per_gpu": 1}}
    error = clustersim.sweep(scenario).runs[1].error
    assert error is not None
    assert (error.kind, error.remedy) == ("does-not-fit", None)


def test_hosts_that_lack_memory_for_what_is_offloaded_are_a_lack_too() -> None:
    host = {"template": "dgx-1", "gpu": "v100", "memory": "1 GB"}
    scenario = {
        "model": "gpt2-medium", "num_gpus": 8, "batch": {"global": 64}, "software": "plain", "precision": "amp-fp16",
        "topology": {"kind": "star", "num_hosts": 1, "host": host, "link": "10 Gbit/s"}, "optimizer": "adam",
        "num_iterations": 1, "parallelism": {"micro_batches": 8, "offload": ["none", "optimizer"]},
    }  # fmt: skip
    error = clustersim.sweep(scenario).runs[1].error
    assert error is not None
    assert (error.kind, error.available_bytes) == ("does-not-fit", 1e9)


def test_keys_that_are_wrong_together_are_refused() -> None:
    found = clustersim.sweep({**SCENARIO, "batch": {"per_gpu": 4}, "num_gpus": [4, 5]})
    assert kinds(found) == [None, "refused"]
    error = found.runs[1].error
    assert error is not None
    assert "has 4 GPUs (got 5)" in error.message
    assert (error.needed_bytes, error.available_bytes, error.remedy) == (None, None, None)


def test_a_point_that_lacks_memory_and_is_wrong_otherwise_is_refused() -> None:
    failures = {"gpu": {"mtbf": "5000 h"}, "checkpoint": {"host": [0, 99]}, "length": "1 d"}
    found = clustersim.sweep({**SCENARIO, "failures": failures})
    assert kinds(found) == [None, "refused", "does-not-fit", "refused"]


def test_a_training_that_never_ends_is_stuck() -> None:
    found = clustersim.sweep({**SCENARIO, "batch": {"per_gpu": 4}, "failures": NEVER_SAVED})
    assert kinds(found) == [None, "stuck"]
    error = found.runs[1].error
    assert error is not None
    assert error.message.startswith("the training does not end: there is a failure every ")


def test_ranks_that_wait_for_each_other_are_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last rank of a ring of two never enters."""
    enter = Rendezvous._enter

    def without_the_last(self: Rendezvous, ranks: np.ndarray, times_s: np.ndarray, *where: int) -> Collective:
        kept = ranks != 1
        return enter(self, ranks[kept], times_s[kept], *where) if kept.any() else self._open[where]  # type: ignore[index]

    monkeypatch.setattr(Rendezvous, "_enter", without_the_last)
    found = clustersim.sweep({**SCENARIO, "batch": {"per_gpu": 4}, "num_gpus": [1, 2]})
    assert kinds(found) == [None, "stuck"]
    assert "waits for rank 1, which has not entered" in str(found.runs[1].error)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_point_that_takes_too_long_is_ended_and_the_next_ones_are_right(workers: int) -> None:
    sizes = [2, 1024, 4]
    found = clustersim.sweep({**LONG, "num_gpus": sizes}, exact=True, workers=workers, point_timeout_s=3)
    assert kinds(found) == [None, "too-long", None]
    error = found.runs[1].error
    assert error is not None
    assert error.message == "it takes more than 3.00 s to simulate"
    alone = clustersim.sweep({**LONG, "num_gpus": [2, 4]}, exact=True)
    assert [run.to_dict() for run in found.ran] == [run.to_dict() for run in alone.runs]


def test_several_processes_give_what_one_gives_with_points_that_fail() -> None:
    scenario = {**SCENARIO, "num_gpus": [1, 2, 5], "failures": NEVER_SAVED}
    alone, several = (clustersim.sweep(scenario, workers=workers) for workers in (1, 3))
    assert to_json(several.to_dict()) == to_json(alone.to_dict())
    assert several == alone
    assert set(kinds(alone)) == {None, "does-not-fit", "refused", "stuck"}
    assert pickle.loads(pickle.dumps(alone)) == alone


def test_a_strict_sweep_raises_the_first_failure() -> None:
    with pytest.raises(InputError, match="one k80 holds"):
        clustersim.sweep(SCENARIO, strict=True)
    with pytest.raises(SimulationError, match="does not end"):
        clustersim.sweep({**SCENARIO, "batch": {"per_gpu": 4}, "failures": NEVER_SAVED}, strict=True)
    with pytest.raises(TooLongError, match="more than 500 ms"):
        clustersim.sweep({**LONG, "num_gpus": 1024}, exact=True, strict=True, point_timeout_s=0.5)


def test_a_time_limit_is_above_zero() -> None:
    with pytest.raises(InputError, match="point_timeout_s must be a finite number above 0"):
        clustersim.sweep(SCENARIO, point_timeout_s=0)


class TestDocuments:
    def test_figures_are_null_and_the_error_is_there(self) -> None:
        good, lacking = (json.loads(to_json(run.to_dict(detail=False))) for run in clustersim.sweep(SCENARIO).runs)
        assert good["error"] is None
        assert lacking["axes"] == {"batch.per_gpu": 100_000}
        assert {name: lacking[name] for name in FIGURES} == dict.fromkeys(FIGURES)
        assert list(lacking["error"]) == ["kind", "message", "needed_bytes", "available_bytes", "remedy"]
        assert set(lacking) == set(good)

    def test_a_saved_sweep_comes_back(self, tmp_path: Path) -> None:
        found = clustersim.sweep(SCENARIO)
        again = read_sweep(write_sweep(found, tmp_path / "result.json"))
        assert to_json(again.to_dict()) == to_json(found.to_dict())
        assert again.failed == found.failed
        assert not list(again.contradictions())

    def test_a_wrong_kind_of_error_is_refused(self, tmp_path: Path) -> None:
        document = json.loads(to_json(clustersim.sweep(SCENARIO).to_dict()))
        document["runs"][1]["error"]["kind"] = "tired"
        (tmp_path / "result.json").write_text(json.dumps(document))
        with pytest.raises(InputError, match=r"runs\.1\.error is .*, not"):
            read_sweep(tmp_path)

    def test_rows_have_the_error_and_no_figures(self, tmp_path: Path) -> None:
        found = clustersim.sweep(SCENARIO)
        good, lacking = found.to_rows()
        assert list(good) == list(lacking)
        assert (good["error"], good["error_message"]) == (None, None)
        error = found.runs[1].error
        assert error is not None
        given = {"scenario": "small", "seed": 0, "num_gpus": 2, "batch.per_gpu": 100_000, "error": "does-not-fit"}
        given |= {"error_message": error.message, "remedy": error.remedy}
        given |= {"needed_bytes": error.needed_bytes, "available_bytes": error.available_bytes}
        assert {name: cell for name, cell in lacking.items() if cell is not None} == given
        lines = write_csv(found, tmp_path / "runs.csv").read_text().splitlines()
        assert "nan" not in lines[2]
        assert "does-not-fit" in lines[2]


class TestNoPointRan:
    def test_a_point_that_ran_is_enough(self) -> None:
        loaded = load_scenario(SCENARIO, strict=False)
        check_ran(loaded, clustersim.sweep(loaded))

    def test_all_refused_is_one_input_error_with_the_places_of_its_mistakes(self, tmp_path: Path) -> None:
        file = tmp_path / "small.yaml"
        file.write_text(json.dumps({**SCENARIO, "num_gpus": [2, 5]}))
        loaded, found = part_of(file, lambda run: run.error is not None)
        with pytest.raises(InputError) as caught:
            check_ran(loaded, found)
        too_many, lacking = caught.value.mistakes
        assert (too_many.file, too_many.line, too_many.key) == (str(file), 1, "num_gpus")
        assert "has 4 GPUs (got 5) (at num_gpus 5" in too_many.message
        assert (lacking.file, lacking.key, lacking.remedy) == (
            str(file),
            "batch.per_gpu",
            "parallelism {micro_batches: 400}",
        )

    def test_a_point_that_is_stuck_makes_it_an_error_of_the_simulation(self) -> None:
        loaded, found = part_of({**SCENARIO, "failures": NEVER_SAVED}, lambda run: run.error is not None)
        with pytest.raises(SimulationError, match=r"does not end.*\(at batch.per_gpu 4") as caught:
            check_ran(loaded, found)
        assert "one k80 holds" in str(caught.value)

    def test_of_many_points_only_the_first_are_checked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(none_ran, "_MOST_CHECKED", 1)
        loaded, found = part_of({**SCENARIO, "num_gpus": [1, 2, 3]}, lambda run: run.error is not None)
        with pytest.raises(InputError) as caught:
            check_ran(loaded, found)
        assert str(caught.value.mistakes[1]) == "2 further points have no forecast either; --strict names all mistakes"


def part_of(source: Any, is_part: Callable[[Run], bool]) -> tuple[Scenario, Sweep]:
    """Return a scenario and its sweep with some of its points only."""
    loaded = load_scenario(source, strict=False)
    found = clustersim.sweep(loaded)
    chosen = [number for number, run in enumerate(found.runs) if is_part(run)]
    trees = [loaded.trees()[number] for number in chosen]
    return Scenario("part", loaded.tree(), trees), replace(found, runs=tuple(found.runs[number] for number in chosen))
