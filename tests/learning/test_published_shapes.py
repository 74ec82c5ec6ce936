"""Who trains and who stays at chance in published trainings, and in the same orders on a small task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.results import Run

pytestmark = pytest.mark.learning

CHANCE = 0.15
"""The accuracy of one class of ten, with room for the sample."""

NUM_WORKERS = 30
CLUSTER: dict[str, Any] = {
    "model": "squeezenet-1.0",
    "batch": {"per_gpu": 32},
    "software": "plain",
    "transport": "mpi",
    "stragglers": [{"kind": "lognormal", "cv": 0.1}],
    "num_iterations": 60,
}


def star(num_hosts: int) -> dict[str, Any]:
    return {"kind": "star", "num_hosts": num_hosts, "host": {"gpu": "p100"}, "link": "infiniband-fdr"}


def accuracy(run: Run) -> float:
    assert run.learning is not None
    assert run.learning.final_accuracy is not None
    return run.learning.final_accuracy


def softsync_runs() -> Iterator[tuple[int, bool, Run]]:
    scenario = CLUSTER | {
        "num_gpus": NUM_WORKERS,
        "topology": star(NUM_WORKERS + 1),
        "strategy": {
            "kind": "softsync",
            "n": [1, 15, 30],
            "staleness_aware_rate": [False, True],
            "buckets": "whole",
            "overlap": False,
            "servers": {"on": "own-hosts"},
        },
        "learning": {
            "task": "digits",
            "optimizer": {"kind": "momentum", "momentum": 0.9, "rate": 0.05},
            "batch": 4,
            "epochs": 10,
        },
    }
    for run in clustersim.sweep(clustersim.load_scenario(scenario)).runs:
        yield int(run.axes["strategy.n"]), bool(run.axes["strategy.staleness_aware_rate"]), run


def test_stale_softsync_stays_at_chance_with_an_unchanged_rate_and_trains_with_the_rate_over_the_staleness() -> None:
    """Zhang et al., arXiv:1511.05950, 2016: 15- and 30-softsync with 30 learners on CIFAR-10.

    Their rate of a gradient is the unchanged one over its staleness, as that of `staleness_aware_rate`.
    """
    reached: dict[tuple[int, bool], float] = {}
    for n, is_aware, run in softsync_runs():
        staleness = float(np.mean(run.updates.staleness))
        assert staleness == pytest.approx(n, rel=0.1)
        reached[n, is_aware] = accuracy(run)
    assert reached[1, False] > 0.9
    for n in (15, 30):
        assert reached[n, False] < CHANCE
        assert reached[n, True] > 0.9


def test_asynchronous_workers_keep_their_accuracy_from_2_to_10_with_shared_data() -> None:
    """NicolasRR/OptML (commit c6132a4): 89.05 % with 2 and 86.92 % with 10 workers, each with a random share."""
    scenario = CLUSTER | {
        "num_gpus": [2, 10],
        "topology": star(11),
        "strategy": {"kind": "async", "servers": {"on": "own-hosts"}},
        "learning": {
            "task": "digits",
            "data": ["shared", "split"],
            "optimizer": {"kind": "momentum", "momentum": 0.9, "rate": 0.01},
            "batch": 32,
        },
    }
    runs = clustersim.sweep(clustersim.load_scenario(scenario)).runs
    assert len(runs) == 4
    assert min(accuracy(run) for run in runs) > 0.93
