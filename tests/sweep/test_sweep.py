"""A sweep has one run per point in the order of the file; warnings name their points."""

from __future__ import annotations

from importlib import import_module

import pytest

import clustersim
from clustersim.sweep.executor import InProcess
from clustersim.sweep.task import PointTask

SCENARIO = {
    "name": "small",
    "model": "squeezenet-1.0",
    "num_gpus": [1, 2],
    "batch": {"per_gpu": 4},
    "topology": {"kind": "star", "num_hosts": 4, "gpu": "k80", "link": ["1 GB/s", "2 GB/s"], "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "all-reduce", "algorithm": "ring"},
    "num_iterations": 1,
}


def test_every_point_is_a_run_and_knows_its_axes():
    sweep = clustersim.sweep(SCENARIO)
    assert [tuple(run.axes.values()) for run in sweep.runs] == [
        (1, "1 GB/s"),
        (1, "2 GB/s"),
        (2, "1 GB/s"),
        (2, "2 GB/s"),
    ]
    assert sweep.runs[2].iteration_s > sweep.runs[3].iteration_s


def test_a_run_is_the_same_in_a_sweep_and_alone():
    alone = clustersim.simulate({**SCENARIO, "num_gpus": 2, "topology": {**SCENARIO["topology"], "link": "1 GB/s"}})
    assert clustersim.sweep(SCENARIO).runs[2].iteration_s == alone.iteration_s


def test_progress_goes_from_nothing_to_all():
    calls: list[float] = []
    clustersim.sweep(SCENARIO, lambda share, point: calls.append(share))
    assert calls == sorted(calls)
    assert calls[-1] == pytest.approx(1.0)


def test_a_warning_of_some_points_says_which():
    scenario = {
        **SCENARIO,
        "num_gpus": [2, 4],
        "topology": {
            "kind": "star",
            "num_hosts": 2,
            "host": {"template": "single-socket", "gpu": "k80", "num_gpus": 2},
            "link": "1 GB/s",
        },
    }
    warning = next(text for text in clustersim.sweep(scenario).warnings if "no message left a host" in text)
    assert warning.endswith("(at num_gpus 2)")


def test_several_processes_give_what_one_gives():
    calls: list[float] = []
    side_by_side = clustersim.sweep(SCENARIO, lambda share, point: calls.append(share), workers=2)
    assert side_by_side.to_dict() == clustersim.sweep(SCENARIO).to_dict()
    assert calls == [0.25, 0.5, 0.75, 1.0]


def test_a_negative_number_of_processes_is_refused():
    with pytest.raises(clustersim.errors.InputError, match="workers must be a whole number of at least 0"):
        clustersim.sweep(SCENARIO, workers=-1)


@pytest.mark.parametrize("executor", [None, InProcess()])
def test_the_task_of_a_point_is_made_when_a_worker_takes_it(executor, monkeypatch: pytest.MonkeyPatch):
    points, made, done = import_module("clustersim.sweep.points"), [], []
    monkeypatch.setattr(points, "PointTask", lambda *args, **kwargs: made.append(1) or PointTask(*args, **kwargs))

    def tell(share: float, point: str) -> None:
        done.append((len(made), share))

    clustersim.sweep(SCENARIO, tell, executor=executor)
    assert all(num_made <= 4 * share + 1 for num_made, share in done)
    assert len(made) == 4
