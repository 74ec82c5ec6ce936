"""Failures in a forecast: recovery is part of the iteration, and its parts are those of the closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.failures import daly_s, expected_s, young_s
from clustersim.results import Run

WORKLOAD = """
name: one-layer
layers:
  - {name: a, parameter_bytes: 4000000000, activation_bytes: 4000, forward_s: 0.2, backward_s: 0.4}
"""
BYTES = 8e9  # weights, and a momentum for each


@pytest.fixture
def scenario(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "one-layer.yaml").write_text(WORKLOAD)
    cluster = {"kind": "star", "num_hosts": 4, "host": {"gpu": "p100", "num_gpus": 2}, "link": "1 GB/s", "hop": 0}
    return {
        "model": str(tmp_path / "one-layer.yaml"),
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": cluster,
        "software": "plain",
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "optimizer": {"kind": "momentum"},
        "num_iterations": 2,
    }


def failing(scenario: dict[str, Any], checkpoint: dict[str, Any] | None = None, **knobs: Any) -> Run:
    failures = {
        "gpu": {"mtbf": "40 h"},
        "checkpoint": {"write": "1 min"} if checkpoint is None else checkpoint,
        "restart": "5 min",
        "length": "100 h",
    }
    return clustersim.simulate(scenario | {"failures": failures | knobs})


def test_recovery_is_the_part_of_the_iteration_that_failures_cost(scenario: dict[str, Any]) -> None:
    plain, run = clustersim.simulate(scenario), failing(scenario)
    assert run.failures is not None
    cost = run.failures.total_s / run.failures.useful_s
    assert run.iteration_s == pytest.approx(plain.iteration_s * cost, rel=1e-12)
    assert run.samples_per_s == pytest.approx(plain.samples_per_s / cost, rel=1e-12)
    assert run.breakdown_s["recovery"] == pytest.approx(run.iteration_s - plain.iteration_s, rel=1e-9)
    assert run.breakdown_s["compute"] == pytest.approx(plain.breakdown_s["compute"], rel=1e-12)
    assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=1e-9)
    assert plain.failures is None
    assert plain.breakdown_s["recovery"] == 0.0


def test_the_mean_over_replicates_is_what_is_expected(scenario: dict[str, Any]) -> None:
    run = failing(scenario | {"replicates": 60})
    times = run.failures
    assert times is not None
    assert (times.mtbf_s, times.write_s, times.down_s) == (36_000.0, 60.0, 360.0)
    expected = expected_s(times.useful_s, times.interval_s, 60.0, 360.0, 36_000.0)
    assert times.total_s == pytest.approx(expected, rel=0.02)
    assert times.num_failures == pytest.approx(times.total_s / 36_000, rel=0.2)
    assert run.interval is not None
    assert run.interval.iteration_s[0] < run.iteration_s < run.interval.iteration_s[1]


def test_replicates_that_cannot_differ_are_those_of_an_exact_run(scenario: dict[str, Any]) -> None:
    slow = scenario | {"stragglers": [{"kind": "constant", "factor": 2, "of": [1]}], "replicates": 3}
    quick, exact = (clustersim.simulate(slow, exact=exact) for exact in (False, True))
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)
    assert quick.interval is not None
    assert quick.interval.iteration_s[0] == quick.interval.iteration_s[1]
    apart = {"kind": "all-reduce", "algorithm": "halving-doubling"}  # quicker where partners share no adapter
    moved = clustersim.simulate(slow | {"placement": {"kind": "random"}, "strategy": apart})
    assert moved.interval is not None
    assert moved.interval.iteration_s[0] * 1.01 < moved.interval.iteration_s[1]


def test_intervals_are_whole_updates_next_to_the_optimum_that_was_asked_for(scenario: dict[str, Any]) -> None:
    step_s = clustersim.simulate(scenario).update_s
    asked = {"young": young_s(60.0, 36_000.0), "daly": daly_s(60.0, 36_000.0), "10 min": 600.0, "1 ms": step_s}
    for every, interval_s in asked.items():
        times = failing(scenario, {"write": "1 min", "every": every}).failures
        assert times is not None
        assert times.interval_s == pytest.approx(interval_s, abs=step_s / 2)
        assert times.interval_s / step_s == pytest.approx(round(times.interval_s / step_s), rel=1e-9)
    best = failing(scenario, {"write": "1 min", "every": "best"}).failures
    assert best is not None
    assert best.interval_s == best.best_s
    assert best.best_s / best.daly_s == pytest.approx(1.0, abs=0.5)


def test_a_checkpoint_takes_its_bytes_over_the_rate_of_the_storage_and_the_way_to_host_memory(
    scenario: dict[str, Any],
) -> None:
    slow, quick = (failing(scenario, {"rate": rate}).failures for rate in ("2 GB/s", "1000000 GB/s"))
    assert slow is not None
    assert quick is not None
    assert slow.write_s - quick.write_s == pytest.approx(BYTES / 2e9, rel=1e-3)
    assert 0 < quick.write_s < 1.0  # over PCI Express
    assert slow.down_s == pytest.approx(300 + slow.write_s)


def test_a_checkpoint_to_another_host_takes_its_bytes_over_the_network(scenario: dict[str, Any]) -> None:
    first, by_all = (failing(scenario, {"host": 3, "writers": writers}).failures for writers in ("first", "all"))
    assert first is not None
    assert by_all is not None
    assert first.write_s == pytest.approx(BYTES / 1e9, rel=0.01)
    assert by_all.write_s == pytest.approx(first.write_s, rel=0.01)  # the storage host's link is what they share


@pytest.mark.parametrize(("library", "other"), [("nccl-sockets", "nccl-one-socket"), ("mpi", "mpi-adapter")])
def test_a_checkpoint_is_no_message_of_the_library(scenario: dict[str, Any], library: str, other: str) -> None:
    """It meets neither NCCL's one socket nor MPI's way by the adapter."""
    scenario["topology"]["link"] = "10 GB/s"
    own, same = (
        failing(scenario | {"transport": name}, {"host": 3, "writers": "first"}).failures for name in (library, other)
    )
    assert own is not None
    assert same is not None
    assert own.write_s == same.write_s > 0


def test_the_length_is_that_of_all_epochs_where_they_are_given(scenario: dict[str, Any]) -> None:
    plain = clustersim.simulate(scenario | {"epochs": 3, "dataset_size": 1_000_000})
    run = failing(scenario | {"epochs": 3, "dataset_size": 1_000_000}, length=None)
    assert run.failures is not None
    assert run.failures.useful_s == pytest.approx(plain.time_to_train_s, abs=plain.update_s)
    assert run.time_to_train_s == pytest.approx(run.failures.total_s, rel=1e-4)
    month = failing(scenario, length=None).failures
    assert month is not None
    assert month.useful_s == pytest.approx(30 * 86_400, rel=1e-4)


def test_failures_survive_being_saved(scenario: dict[str, Any]) -> None:
    run = failing(scenario | {"replicates": 2})
    assert Run.from_dict(run.to_dict()).failures == run.failures


def test_another_strategy_meets_the_same_failures(scenario: dict[str, Any]) -> None:
    ring, server = (failing(scenario | {"strategy": {"kind": kind}}).failures for kind in ("all-reduce", "server"))
    assert ring is not None
    assert server is not None
    assert [row[:3] for row in ring.downtimes[:3]] == [row[:3] for row in server.downtimes[:3]]


def test_failures_so_frequent_that_nothing_ends_are_refused(scenario: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"the training does not end: there is a failure every 15\.0 s"):
        failing(scenario, gpu={"mtbf": "1 min"})


def test_checkpoints_to_a_host_that_is_not_there_are_refused(scenario: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"has 4 hosts, numbered 0 to 3 \(got 4\)"):
        failing(scenario, {"host": 4})
