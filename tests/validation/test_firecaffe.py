"""The first real case: GoogLeNet on Titan, against FireCaffe's published hours."""

from __future__ import annotations

import pytest

import clustersim
from clustersim.data import data_folder
from clustersim.validation import load_cases


def measured(metric: str) -> dict[int, float]:
    rows = load_cases(["firecaffe"])[0].rows
    return {int(dict(row.settings)["num_gpus"]): row.value for row in rows if row.metric == metric}


@pytest.fixture(scope="module")
def runs():
    path = data_folder("validate") / "firecaffe" / "scenario.yaml"
    return {run.num_gpus: run for run in clustersim.sweep(path).runs}


@pytest.mark.parametrize("num_gpus", [32, 128])
def test_hours_come_out_within_15_percent(runs, num_gpus):
    assert runs[num_gpus].time_to_train_s / 3600 == pytest.approx(measured("time_to_train_s")[num_gpus], rel=0.15)


def test_compute_stands_on_the_published_rate_of_one_k20(runs):
    assert runs[32].provenance == {"measured": 0.0, "published": pytest.approx(1.0), "estimated": 0.0}
    assert measured("samples_per_s")[1] == pytest.approx(64 * 1.28e6 / (504 * 3600), rel=1e-4)


def test_speedup_is_hours_over_hours(runs):
    for run in runs.values():
        assert run.speedup == pytest.approx(504 * 3600 / run.time_to_train_s)


def test_small_batches_lose_efficiency_as_kernels_do(runs):
    per_image = {n: run.breakdown_s["compute"] / (1024 / n) for n, run in runs.items()}
    assert 1.05 < per_image[128] / per_image[32] < 1.35
