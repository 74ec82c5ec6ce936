"""Scenarios that train, from their keys to the result: axes, ledgers, workers, jobs, progress and limits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.results import LearningRun, Run
from clustersim.scenario import load_scenario
from clustersim.simulate import training_cpu_s
from clustersim.sweep.executor import InProcess
from clustersim.sweep.ledger import SweepLedger, fill
from tests.learning.scenario import LEARNING, SCENARIO, TRAINS

pytestmark = pytest.mark.learning
ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def training(run: Run) -> LearningRun:
    assert run.learning is not None
    return run.learning


def test_a_scenario_trains_and_the_forecast_stays_as_it_was() -> None:
    run = clustersim.simulate(TRAINS)
    found = training(run)
    assert found.curve[-1].updates == found.updates == round(0.5 * 1437 / 16)
    assert found.curve[-1].loss < found.curve[0].loss
    plain = clustersim.simulate(SCENARIO)
    assert (run.samples_per_s, run.breakdown_s) == (plain.samples_per_s, plain.breakdown_s)
    assert clustersim.simulate(TRAINS) == run


def test_the_result_says_what_is_trained() -> None:
    found = clustersim.sweep(TRAINS)
    assert any("alexnet itself is not trained" in text for text in found.assumptions)
    assert any("on one version of all weights" in text for text in found.assumptions)
    assert not any("trained" in text for text in clustersim.sweep(TRAINS, learns=False).assumptions)


def test_keys_of_learning_are_axes_that_change_nothing_but_the_training() -> None:
    found = clustersim.sweep({**TRAINS, "learning": {**LEARNING, "optimizer": {"rate": [0.01, 0.2]}}})
    slow, quick = found.runs
    assert slow.samples_per_s == quick.samples_per_s
    assert training(quick).final_loss < training(slow).final_loss
    assert [point.seconds for point in training(quick).curve] == [point.seconds for point in training(slow).curve]


@pytest.mark.parametrize("executor", ["processes", "in-process"])
def test_workers_train_the_same(executor: str) -> None:
    scenario = {**TRAINS, "num_gpus": [2, 4]}
    assert clustersim.sweep(scenario, executor=executor, workers=2) == clustersim.sweep(scenario)


def test_a_trained_point_in_a_ledger_is_another_than_one_without_training(tmp_path: Path) -> None:
    with SweepLedger.open(tmp_path / "a.db") as ledger:
        fill(ledger, load_scenario(TRAINS), InProcess(), learns=False)
        (made,) = fill(ledger, load_scenario(TRAINS), InProcess()).forecasts()
        assert training(made.run).updates > 0
        (again,) = fill(ledger, load_scenario(TRAINS), InProcess()).forecasts()
        assert again == made
        (without,) = fill(ledger, load_scenario(TRAINS), InProcess(), learns=False).forecasts()
        assert without.run.learning is None
    assert made.run.learning == clustersim.simulate(TRAINS).learning


def test_the_first_job_trains_beside_the_others() -> None:
    scenario = {**TRAINS, "strategy": {"kind": "all-reduce"}, "num_gpus": 2}
    alone, beside = clustersim.simulate(scenario), clustersim.simulate({**scenario, "jobs": 2})
    assert len(beside.jobs) == 2
    assert training(beside).curve[-1].loss == pytest.approx(training(alone).curve[-1].loss)


def test_times_are_those_of_the_anchored_forecast() -> None:
    scenario = {**TRAINS, "strategy": {"kind": "all-reduce"}}
    plain = clustersim.simulate(scenario)
    anchored = clustersim.simulate({**scenario, "measured": {"num_gpus": 4, "iteration_s": 1.2 * plain.iteration_s}})
    slower = training(anchored).curve[-1].seconds / training(plain).curve[-1].seconds
    assert slower == pytest.approx(1.2, rel=0.02)


def test_seeds_have_the_random_times_of_replicates_and_give_an_interval() -> None:
    scenario = {**TRAINS, "stragglers": [{"kind": "lognormal", "cv": 0.3}], "learning": {**LEARNING, "seeds": 2}}
    found = training(clustersim.simulate(scenario))
    assert found.seeds == len(found.seed_curves) == 2
    assert found.seed_curves[0][-1].seconds != found.seed_curves[1][-1].seconds
    assert found.seed_curves[0] == training(clustersim.simulate({**scenario, "learning": LEARNING})).curve
    assert training(clustersim.simulate({**scenario, "replicates": 3})).curve == found.curve


def test_progress_rises_through_the_training() -> None:
    told: list[float] = []
    clustersim.sweep({**TRAINS, "learning": {**LEARNING, "seeds": 2}}, lambda share, point: told.append(share))
    assert told == sorted(told)
    assert 0 <= told[0] < 0.2
    assert told[-1] == pytest.approx(1.0)
    assert len([share for share in told if 0.6 < share < 1.0]) > 10


def test_a_mistake_that_only_the_data_show_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = {**SCENARIO, "learning": {**LEARNING, "evaluate_every": 1000}}
    (tmp_path / "a.yaml").write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in keys.items()))
    assert main(["run", str(tmp_path / "a.yaml"), "-q", "--no-report"]) == 3
    error = capsys.readouterr().err
    assert f"a.yaml:{len(keys)}:" in error
    assert "learning.evaluate_every: the training has 45 updates in all (got 1,000); take at most 45" in error
    with pytest.raises(InputError, match="evaluate_every") as caught:
        clustersim.simulate(keys)
    assert caught.value.mistakes[0].got == "1000"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_point_that_cannot_be_trained_is_a_row_with_the_reason(workers: int) -> None:
    scenario = {**TRAINS, "learning": {**LEARNING, "evaluate_every": [10, 1000]}}
    found = clustersim.sweep(scenario, workers=workers)
    assert training(found.runs[0]).updates == 45
    (failed,) = found.failed
    assert failed.error is not None
    assert failed.error.kind == "refused"
    assert "take at most 45" in failed.error.message


LONG: dict[str, Any] = {**TRAINS, "learning": {**LEARNING, "epochs": 5000}}


def test_a_time_limit_cuts_a_training() -> None:
    found = clustersim.sweep({**LONG, "num_gpus": [2, 4]}, point_timeout_s=2.5)
    assert [run.error.kind for run in found.runs if run.error] == ["too-long"] * 2
    assert training(clustersim.sweep(TRAINS, point_timeout_s=60.0).runs[0]).updates == 45


def test_what_takes_long_is_told_before_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert 5 < training_cpu_s(load_scenario(LONG)) < 5000
    assert training_cpu_s(load_scenario(SCENARIO)) == 0
    assert training_cpu_s(load_scenario({**LONG, "num_gpus": [2, 4]})) > training_cpu_s(load_scenario(LONG))


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "clustersim", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_control_c_ends_a_training(tmp_path: Path) -> None:
    learning = {**LEARNING, "epochs": 500}
    (tmp_path / "long.json").write_text(json.dumps({**TRAINS, "learning": learning}))
    process = start(tmp_path, "run", "long.json")
    assert process.stderr is not None
    lines = []
    while not any("% done" in line for line in lines):  # the training is by far the longest part
        lines.append(process.stderr.readline())
        assert lines[-1], "it ended by itself"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in error
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists()


def test_a_sweep_of_trainings_that_is_stopped_goes_on(tmp_path: Path) -> None:
    learning = {**LEARNING, "epochs": [0.5, 0.6, 5000]}
    (tmp_path / "long.json").write_text(json.dumps({**TRAINS, "learning": learning}))
    process = start(tmp_path, "sweep", "long.json", "--ledger", "a.db", "--on", "in-process", "-q")
    end_s = time.monotonic() + 60
    while True:
        assert time.monotonic() < end_s
        time.sleep(0.05)
        with suppress(InputError), SweepLedger.read(tmp_path / "a.db") as opened:
            if opened.last().counts().done == 2:
                break
    time.sleep(1.0)  # into the third training
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert "the same command goes on from a.db (3 points: 2 done" in error
    again = start(
        tmp_path, "sweep", "long.json", "--ledger", "a.db", "--on", "in-process", "--point-timeout", "2", "-q"
    )
    output, error = again.communicate(timeout=60)
    assert again.returncode == 0, error
    assert "3 points: 2 done, 1 failed (too-long 1), 0 left" in output
