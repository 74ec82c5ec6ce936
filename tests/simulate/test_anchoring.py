"""Anchors: forecasts of measured runs are as measured, and a synthetic truth is found again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.model.layer import Anchoring
from clustersim.results import Run, Sweep
from clustersim.scenario import load_scenario
from clustersim.simulate import forecast
from clustersim.simulate.anchor_fit import NEGATIVE, TOO_ALIKE, fit, root

HOST = {"gpu": "v100", "num_gpus": 4}
SCENARIO: dict[str, Any] = {
    "model": "resnet50",
    "num_gpus": 8,
    "batch": {"per_gpu": 32},
    "topology": {"kind": "star", "num_hosts": 4, "host": HOST, "link": "10 Gbit/s", "hop": "1 us"},
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 3,
}
ALONE: dict[str, Any] = {**SCENARIO, "num_gpus": 1, "compute": {"variability": 0}, "software": {"launch": "graphs"}}
LANGUAGE: dict[str, Any] = {
    **SCENARIO,
    "model": "gpt-6x256x4-seq128-vocab1000",
    "batch": {"global": 64},
    "topology": {"kind": "star", "num_hosts": 2, "host": {"template": "dgx-h100", "gpu": "h100", "num_gpus": 4},
                 "link": "infiniband-ndr"},
    "precision": "amp-bf16",
}  # fmt: skip


def measured(scenario: dict[str, Any], truth: Anchoring, **changes: Any) -> dict[str, Any]:
    """Return a run of a scenario with other keys, as a cluster with this truth trains it."""
    (point,) = load_scenario({**scenario, **changes}).points()
    own = {key: value for key, value in changes.items() if key != "num_gpus"}
    run = forecast(point.point.anchored(truth)).run
    return {"num_gpus": run.num_gpus, "samples_per_s": run.samples_per_s, "set": own}


def anchored(scenario: dict[str, Any], *runs: dict[str, Any], exact: bool = False) -> Run:
    return clustersim.simulate({**scenario, "measured": list(runs)}, exact=exact)


LAYOUTS: dict[str, dict[str, Any]] = {
    "copies": SCENARIO,
    "split layers": {**LANGUAGE, "parallelism": {"tensor": 4}},
    "stages": {**LANGUAGE, "parallelism": {"pipeline": 4, "micro_batches": 8}},
    "weights in shares": {**LANGUAGE, "parallelism": {"sharding": "zero-3"}},
    "slow GPUs": {**SCENARIO, "stragglers": [{"kind": "lognormal", "cv": 0.3}], "replicates": 2},
    "servers": {**SCENARIO, "strategy": {"kind": "async", "servers": {"num": 2}}},
    "slow input": {**SCENARIO, "input": {"decode": "900 samples/s"}},
    "two jobs": {**SCENARIO, "jobs": 2},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_forecast_of_a_measured_run_is_as_measured(layout: str) -> None:
    scenario = LAYOUTS[layout]
    plain = clustersim.simulate(scenario)
    run = anchored(scenario, {"num_gpus": 8, "iteration_s": 1.2 * plain.iteration_s})
    assert run.iteration_s == pytest.approx(1.2 * plain.iteration_s, rel=1e-9)
    assert run.anchor is not None
    assert run.anchor.factor > 1.1
    assert run.anchor.iteration_s_without == plain.iteration_s
    assert run.anchor.samples_per_s_without == plain.samples_per_s
    assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=1e-9)


@pytest.mark.parametrize("layout", ["copies", "stages", "slow GPUs"])
def test_an_anchor_at_the_own_forecast_changes_nothing(layout: str) -> None:
    plain = clustersim.simulate(LAYOUTS[layout])
    run = anchored(LAYOUTS[layout], {"num_gpus": 8, "samples_per_s": plain.samples_per_s})
    assert run.anchor is not None
    assert run.anchor.factor == pytest.approx(1.0, abs=1e-6)
    assert run.iteration_s == pytest.approx(plain.iteration_s, rel=1e-9)


def test_pure_compute_takes_the_factor_of_the_figure() -> None:
    plain = clustersim.simulate(ALONE)
    run = anchored(ALONE, {"num_gpus": 1, "iteration_s": 1.3 * plain.iteration_s})
    assert run.anchor is not None
    assert run.anchor.factor == pytest.approx(1.3, rel=1e-9)
    assert run.provenance == {"measured": 0.0, "published": 0.0, "estimated": 0.0, "anchored": 1.0}


def test_the_host_is_scaled_with_the_kernels() -> None:
    """A GPU that waits for its host trains in proportion to the factor, too."""
    host_bound = {**LANGUAGE, "num_gpus": 1, "batch": {"global": 1}, "compute": {"variability": 0}}
    plain = clustersim.simulate(host_bound)
    assert plain.breakdown_s["host"] > 0.3 * plain.iteration_s
    slow = anchored(host_bound, {"num_gpus": 1, "iteration_s": 1.4 * plain.iteration_s})
    assert slow.anchor is not None
    assert slow.anchor.factor == pytest.approx(1.4, rel=1e-6)
    for part in ("compute", "host"):
        assert slow.breakdown_s[part] == pytest.approx(1.4 * plain.breakdown_s[part], rel=1e-6)


@pytest.mark.parametrize("runs", [((4, 32), (8, 64)), ((4, 32), (8, 64), (16, 16))])
def test_a_factor_and_a_fixed_time_are_found_again(runs: tuple[tuple[int, int], ...]) -> None:
    truth = Anchoring(1.2, 0.02)
    known = [measured(SCENARIO, truth, num_gpus=num, batch={"per_gpu": batch}) for num, batch in runs]
    run = anchored(SCENARIO, *known)
    assert run.anchor is not None
    assert (run.anchor.factor, run.anchor.fixed_s) == pytest.approx(truth, rel=1e-6)
    assert run.iteration_s == pytest.approx(8 * 32 / measured(SCENARIO, truth)["samples_per_s"], rel=1e-9)
    errors = [point.leave_one_out_error for point in run.anchor.points]
    if len(runs) == 3:  # any two give the truth
        assert errors == pytest.approx([0.0] * 3, abs=1e-6)
    else:  # one alone gives a factor for the fixed time too
        assert all(error is not None and abs(error) > 0.01 for error in errors)


def test_a_stage_and_split_layers_take_the_factor_of_copies() -> None:
    truth = Anchoring(1.4)
    run = measured(LANGUAGE, truth, parallelism={"tensor": 2, "pipeline": 2, "micro_batches": 4, "sharding": None})
    for layout in ({}, {"tensor": 4}, {"sharding": "zero-1"}):
        found = anchored({**LANGUAGE, "parallelism": layout}, run)
        assert found.anchor is not None
        assert found.anchor.factor == pytest.approx(1.4, rel=1e-6)
        assert found.samples_per_s == pytest.approx(
            measured({**LANGUAGE, "parallelism": layout}, truth)["samples_per_s"], rel=1e-9
        )


def test_gradient_kernels_and_copies_of_shards_are_scaled() -> None:
    copies = {"sharding_copies": "parameters", "launch": "graphs"}
    layout = {"parallelism": {"sharding": "zero-3"}, "software": copies}
    scenario = {**LANGUAGE, **layout, "compute": {"variability": 0}, "num_gpus": 4}
    (point,) = load_scenario(scenario).points()
    plain, slow = (forecast(point.point.anchored(each)).run.breakdown_s["compute"] for each in (None, Anchoring(2.0)))
    assert slow == pytest.approx(2 * plain, rel=1e-9)


def test_default_equals_exact() -> None:
    run = {"num_gpus": 4, "samples_per_s": 900}
    quick, exact = (anchored(SCENARIO, run, exact=each) for each in (False, True))
    assert quick.anchor is not None
    assert exact.anchor is not None
    assert quick.anchor.factor == pytest.approx(exact.anchor.factor, rel=1e-9)
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)


def test_stragglers_are_the_same_in_every_run() -> None:
    scenario = {**LAYOUTS["slow GPUs"], "seed": 4}
    run = {"num_gpus": 8, "samples_per_s": 1200}
    assert anchored(scenario, run).to_dict() == anchored(scenario, run).to_dict()


@pytest.mark.parametrize("workers", [1, 2])
def test_all_points_of_a_sweep_have_the_same_anchor(workers: int) -> None:
    sweep = clustersim.sweep(
        {**SCENARIO, "num_gpus": [4, 8], "measured": [{"num_gpus": 16, "samples_per_s": 2400}]}, workers=workers
    )
    factors = [run.anchor and run.anchor.factor for run in sweep.runs]
    assert factors[0] == factors[1]
    assert sweep.assumptions[0].startswith("Kernels, and the host that issues them, take")
    assert Sweep.from_dict(sweep.to_dict()).runs[0].anchor == sweep.runs[0].anchor


def test_an_axis_takes_the_value_of_the_run() -> None:
    runs = [{"num_gpus": 8, "samples_per_s": 1100, "set": {"batch.per_gpu": 16}}]
    sweep = clustersim.sweep({**SCENARIO, "batch": {"per_gpu": [8, 16]}, "measured": runs})
    assert [run.samples_per_s == pytest.approx(1100, rel=1e-9) for run in sweep.runs] == [False, True]


def test_a_far_factor_is_warned_of_and_a_farther_one_refused() -> None:
    plain = clustersim.simulate(ALONE)
    for factor, is_warned in ((1.49, False), (1.51, True), (0.51, False), (0.49, True), (4.9, True)):
        run = {"num_gpus": 1, "samples_per_s": plain.samples_per_s / factor}
        warnings = clustersim.sweep({**ALONE, "measured": [run]}).warnings
        assert any("seldom more than" in warning for warning in warnings) == is_warned
    for factor, words in ((5.1, "5 times slower than estimated"), (0.19, "5 times quicker than estimated")):
        run = {"num_gpus": 1, "samples_per_s": plain.samples_per_s / factor}
        with pytest.raises(InputError, match=words) as error:
            clustersim.simulate({**ALONE, "measured": [run]})
        assert error.value.mistakes[0].key == "measured.0"


def test_a_negative_fixed_time_leaves_one_factor() -> None:
    runs = [
        {"num_gpus": 8, "samples_per_s": 1500},
        {"num_gpus": 8, "samples_per_s": 1300, "set": {"batch.per_gpu": 64}},
    ]
    sweep = clustersim.sweep({**SCENARIO, "measured": runs})
    anchor = sweep.runs[0].anchor
    assert anchor is not None
    assert anchor.fixed_s == 0
    assert f"measured: {NEGATIVE}" in sweep.warnings
    assert any("contradict each other" in warning for warning in sweep.warnings)


def test_runs_with_equal_work_give_one_factor() -> None:
    truth = Anchoring(1.2, 0.02)
    graphs = {**ALONE, "compute": {"variability": 0}, "software": {"launch": "graphs"}}
    runs = [measured(graphs, truth, batch={"per_gpu": each}) for each in (32, 33)]
    sweep = clustersim.sweep({**graphs, "measured": runs})
    anchor = sweep.runs[0].anchor
    assert anchor is not None
    assert anchor.fixed_s == 0
    assert f"measured: {TOO_ALIKE}" in sweep.warnings


def test_a_run_of_another_gpu_or_model_or_precision_is_told() -> None:
    own = {"topology": {"host": {"gpu": "p100"}}, "precision": "fp16"}
    run = {"num_gpus": 8, "samples_per_s": 1500, "set": own}
    (warning,) = (
        each for each in clustersim.sweep({**SCENARIO, "measured": [run]}).warnings if "was found with" in each
    )
    assert "GPU p100 (here v100) and precision fp16 (here fp32)" in warning


def test_a_run_of_other_software_is_told() -> None:
    """Without a name, the layout decides which program trains."""
    run = {"num_gpus": 4, "samples_per_s": 5000, "set": {"parallelism": {"tensor": 2}}}
    (warning,) = (
        each for each in clustersim.sweep({**LANGUAGE, "measured": [run]}).warnings if "was found with" in each
    )
    assert "software megatron-core (here pytorch-ddp)" in warning


def test_a_published_rate_is_scaled_too() -> None:
    """A catalogue rate of one GPU is used without being asked for; the anchor comes on top of it."""
    scenario = {**SCENARIO, "model": "googlenet", "topology": {**SCENARIO["topology"], "host": {"gpu": "k80"}}}
    plain = clustersim.simulate({**scenario, "num_gpus": 1})
    run = anchored({**scenario, "num_gpus": 1}, {"num_gpus": 1, "samples_per_s": plain.samples_per_s / 1.25})
    assert run.anchor is not None
    assert run.anchor.factor == pytest.approx(1.25, rel=0.02)


def test_least_squares_of_many_runs_are_a_minimum() -> None:
    rng = np.random.default_rng(0)
    compute_s, other_s = rng.uniform(0.05, 0.2, 6), rng.uniform(0.01, 0.05, 6)
    measured_s = (1.3 * compute_s + other_s + 0.03) * rng.normal(1, 0.02, 6)

    def ratios(anchoring: Anchoring) -> np.ndarray:
        return np.asarray((anchoring.factor * compute_s + other_s + anchoring.fixed_s) / measured_s)

    def squares(anchoring: Anchoring) -> float:
        return float(((ratios(anchoring) - 1) ** 2).sum())

    found = fit(ratios, compute_s + other_s).anchoring
    for more in (Anchoring(1.001, 0), Anchoring(0.999, 0), Anchoring(1, 1e-4), Anchoring(1, -1e-4)):
        near = Anchoring(found.factor * more.factor, found.fixed_s + more.fixed_s)
        assert squares(near) > squares(found)


def test_the_factor_of_a_forecast_that_jumps_is_at_the_jump() -> None:
    assert root(lambda factor: 0.8 * factor if factor < 1.2 else 1.1 * factor) == pytest.approx(1.2)


def band_width(run: Run) -> float:
    assert run.band is not None
    low, high = run.band.samples_per_s
    return high / low


def test_an_anchor_that_is_not_to_be_believed_has_the_band_of_an_estimate() -> None:
    """With a factor of 3, or runs that contradict each other, nothing is known of how far off such forecasts are."""
    plain = clustersim.simulate(SCENARIO)
    good, slow, contrary = (
        anchored(SCENARIO, *runs)
        for runs in (
            [{"num_gpus": 8, "iteration_s": 1.2 * plain.iteration_s}],
            [{"num_gpus": 8, "iteration_s": 2.5 * plain.iteration_s}],
            [{"num_gpus": 4, "samples_per_s": 500}, {"num_gpus": 8, "samples_per_s": 3000}],
        )
    )
    assert good.features is not None
    assert good.features.origin == "anchored"
    for run in (slow, contrary):
        assert run.features is not None
        assert run.features.origin == "estimated"
        assert band_width(run) > band_width(good)
