"""The panels of Pollux's formula and of another batch, as numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.figure import log_ticks
from clustersim.report.learning_scale import draw_learning_scale, learning_scale_data, learning_scale_lines
from clustersim.report.pollux import draw_pollux, pollux_data
from clustersim.report.words import THIN
from clustersim.results import Run, Sweep
from clustersim.results.learning import CurvePoint, LearningRun
from clustersim.results.learning_scale import LearningScale
from tests.report.synthetic import make_sweep


def with_scale(run: Run, batch: float, time_s: float | None) -> Run:
    """Return a run with a forecast at a noise scale of 1000 samples; without a time its gradients are stale."""
    if time_s is None:
        scale = LearningScale(batch, 1000.0, "samples", reason="Gradients are 3 versions old.")
    else:
        efficiency = 1000 / (1000 + batch)
        scale = LearningScale(
            batch, 1000.0, "samples", steps=100.0, samples=100 * batch, time_s=time_s, sample_efficiency=efficiency,
            least_steps=50.0,
        )  # fmt: skip
    return replace(run, learning_scale=scale)


def sweep_with(*scales: tuple[float, float | None]) -> Sweep:
    sweep = make_sweep()
    runs = [with_scale(run, *scale) for run, scale in zip(sweep.runs, scales, strict=False)]
    return replace(sweep, runs=tuple(runs))


def plain(text: str) -> str:
    return text.replace(THIN, " ")


def test_critical_batch_in_gpus():
    sweep = make_sweep()
    runs = tuple(with_scale(run, 32.0 * run.num_gpus, 1e6 / run.num_gpus) for run in sweep.runs)
    data = learning_scale_data(replace(sweep, runs=runs))
    assert data is not None
    assert data.lines[0].critical_gpus == pytest.approx(1000 / 32)
    assert "from 31 GPUs on (batch 1 000 samples), twice the GPUs save less than 25 % of the updates" in plain(
        data.title
    )
    assert draw_learning_scale(data).traces[-1]["x"] == [run.num_gpus for run in runs]
    lines = learning_scale_lines(replace(sweep, runs=runs))
    assert len(lines) == 2
    assert lines[0].endswith(data.title)


def test_same_batch_on_all_sizes():
    sweep = make_sweep()
    data = learning_scale_data(replace(sweep, runs=tuple(with_scale(run, 500.0, 1e3) for run in sweep.runs)))
    assert data is not None
    assert data.lines[0].critical_gpus is None
    assert "67 % of its samples would do with small batches" in plain(data.title)


def test_no_run_has_a_forecast():
    data = learning_scale_data(sweep_with((32.0, None), (64.0, None), (96.0, None)))
    assert data is not None
    assert data.lines == ()
    assert "holds for none" in data.title
    assert "3 versions old" in data.note
    draw_learning_scale(data)
    assert learning_scale_data(make_sweep()) is None
    assert learning_scale_lines(make_sweep()) == []


def test_pollux_panel():
    def training(batch: float, samples: float) -> LearningRun:
        curve = (CurvePoint(0.0, 0, 2.0, 0.1), CurvePoint(9.0, 100, 0.5, 0.9))
        return LearningRun(
            task="t", seeds=1, updates=100, samples_per_update=batch, final_loss=0.5, final_accuracy=0.9, curve=curve,
            seed_curves=(curve,), target_metric="accuracy", target=0.8, num_reached=1, time_to_target_s=5.0,
            samples_to_target=samples, noise=((0.0, 100.0),),
        )  # fmt: skip

    sweep = make_sweep()
    trainings = [training(10.0, 1000.0), training(120.0, 1000.0), training(230.0, 3300.0)]
    runs = tuple(replace(run, learning=each) for run, each in zip(sweep.runs, trainings, strict=False))
    data = pollux_data(replace(sweep, runs=runs))
    assert data is not None
    assert data.batch == 10
    assert data.noise_scale == 100
    assert sorted((line.predicted, line.measured) for line in data.lines) == [(2.0, 1.0), (3.0, 3.3)]
    assert data.title.startswith(
        "Pollux's formula is off in the median by 1.55×, at most by 2.00×: too many samples for"
    )
    figure = draw_pollux(data)
    assert "knows no staleness" in figure.subtitle
    assert figure.table is not None
    assert len(figure.table.rows) == 3
    assert pollux_data(sweep) is None


def test_ticks_of_short_and_long_axes():
    assert log_ticks([1.0, 900.0])["ticktext"] == ["1", "2", "5", "10", "20", "50", "100", "200", "500", f"1{THIN}000"]
    assert log_ticks([1.0, 1e6])["tickvals"] == pytest.approx([10.0**power for power in range(7)])
