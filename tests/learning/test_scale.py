"""The forecast of another batch from a noise scale: by hand, as laws, and beside published trainings."""

from __future__ import annotations

import copy
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim import simulate, sweep
from clustersim.cli.learning import note_untrained
from clustersim.errors import InputError
from clustersim.learning.scale import (
    ScaleSpec,
    least_steps,
    noise_scale_of,
    rate_at,
    sample_efficiency,
    steps_at,
)
from clustersim.results import Run
from clustersim.results.rows import rows_of
from clustersim.scenario import load_scenario
from clustersim.sweep.ledger.ledger_keys import LedgerKeys

POSITIVE = st.floats(1e-3, 1e9)

MLPERF = {
    "bert": [
        (256, 2546432), (448, 2408448), (1536, 2789376), (3072, 2752512), (4096, 2838528), (4608, 2810880),
        (6144, 3317760), (6912, 3621888), (8192, 4177920), (8704, 4243200), (12288, 4442880), (13056, 4617600),
        (16384, 5494272),
    ],
    "gpt3": [
        (1536, 1182793728), (2048, 1157627904), (3072, 1207959552), (4096, 1258291200), (6144, 1409286144),
        (8192, 1610612736),
    ],
    "llama31_8b": [(16, 159744), (32, 184320), (64, 233472), (96, 272448), (128, 344064)],
    "llama31_405b": [(1152, 313344), (2304, 368640), (4608, 497664)],
    "gpt_oss_20b": [(16, 196608), (32, 233472), (64, 294912)],
}  # fmt: skip
"""Samples to the same loss by batch (gpt3: tokens): medians of MLCommons' reference runs.

Source: github.com/mlcommons/logging, commit 7bbf792, mlperf_logging/rcp_checker: training_5.0.0/rcps_bert.json,
training_4.1.0/rcps_gpt3.json, training_6.0.0/rcps_llama31_8b.json and rcps_gpt_oss_20b.json,
training_5.1.0/rcps_llama31_405b.json.
"""


def test_by_hand():
    """phi = 1000: batch 500 needs three times the fewest updates, batch 2000 one and a half times."""
    assert least_steps(1000, 500, 300) == 100
    assert steps_at(2000, 1000, 500, 300) == 150
    assert rate_at(2000, 1000, 500, 0.1) == pytest.approx(0.2)
    assert sample_efficiency(3000, 1000) == 0.25


@given(noise_scale=POSITIVE, known=POSITIVE, steps=POSITIVE, batch=POSITIVE)
def test_laws(noise_scale, known, steps, batch):
    """The known training is itself, samples over efficiency are constant, and rate times updates stays the same."""
    assert steps_at(known, noise_scale, known, steps) == pytest.approx(steps)
    there = steps_at(batch, noise_scale, known, steps)
    fewest_samples = noise_scale * least_steps(noise_scale, known, steps)
    assert batch * there * sample_efficiency(batch, noise_scale) == pytest.approx(fewest_samples)
    assert rate_at(batch, noise_scale, known, 0.1) * there == pytest.approx(0.1 * steps)
    assert steps_at(known, noise_scale, batch, there) == pytest.approx(steps)


@given(noise_scale=st.floats(1, 1e6), batch=st.floats(1, 1e5), factor=st.floats(1.5, 1e3))
def test_two_trainings_give_the_noise_scale(noise_scale, batch, factor):
    other = steps_at(factor * batch, noise_scale, batch, 1000.0)
    assert noise_scale_of(batch, 1000.0, factor * batch, other) == pytest.approx(noise_scale, rel=1e-3)


def test_trainings_that_have_no_noise_scale():
    assert noise_scale_of(10, 100, 20, 50) == float("inf")
    for steps in (100, 30):
        with pytest.raises(ValueError, match="more samples and fewer updates"):
            noise_scale_of(10, 100, 20, steps)


def test_best_step_on_a_noisy_quadratic():
    """The expected loss after a step of the best rate falls in proportion to 1 / (1 + phi / B), on its quadratic.

    Loss h w^2 / 2, gradient of a batch h w + noise of variance s / B: the expected loss after a step of rate e is
    h ((1 - e h)^2 w^2 + e^2 s / B) / 2. Its least value over e is taken here on a fine grid.
    """
    h, w, s = 2.0, 3.0, 7.0
    phi = s / (h * w) ** 2
    for batch in (0.05, 0.2, 1.0, 8.0):
        rates = [number / 1e5 for number in range(100_000)]
        losses = [h * ((1 - rate * h) ** 2 * w**2 + rate**2 * s / batch) / 2 for rate in rates]
        best = min(range(len(rates)), key=losses.__getitem__)
        gain = h * w**2 / 2 - losses[best]
        assert gain == pytest.approx(h * w**2 / 2 / (1 + phi / batch), rel=1e-6)
        assert rates[best] == pytest.approx(1 / h / (1 + phi / batch), abs=1e-5)


@pytest.mark.parametrize(("name", "most"), [("bert", 0.19), ("gpt3", 0.08), ("llama31_8b", 0.08),
                                            ("llama31_405b", 0.03), ("gpt_oss_20b", 0.03)])  # fmt: skip
def test_published_batches_between(name, most):
    """The noise scale is that of the smallest and the largest batch; the batches between them are forecast."""
    assert max(abs(error) for error in errors(name)) < most


def test_published_batches_in_the_median():
    found = [abs(error) for name in MLPERF for error in errors(name)]
    assert len(found) == 20
    assert median(found) < 0.06


def errors(name: str) -> list[float]:
    rows = MLPERF[name]
    (small, few), (large, many) = rows[0], rows[-1]
    phi = noise_scale_of(small, few / small, large, many / large)
    return [batch * steps_at(batch, phi, small, few / small) / samples - 1 for batch, samples in rows[1:-1]]


def scenario(**keys: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "model": "alexnet", "num_gpus": 4, "batch": {"per_gpu": 64}, "num_iterations": 3,
        "topology": {"kind": "star", "num_hosts": 5, "link": "10 Gbit/s", "hop": "1 us",
                     "host": {"template": "dual-socket", "gpu": "p100", "num_gpus": 1}},
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "learning": {"scale": {"noise_scale": 512, "batch": 128, "steps": 1000, "rate": 0.1}},
    }  # fmt: skip
    return copy.deepcopy(base) | keys


def test_run_has_the_forecast_without_training():
    run = simulate(scenario())
    found = run.learning_scale
    assert run.learning is None
    assert found is not None
    assert (found.batch, found.unit, found.reason) == (pytest.approx(256), "samples", None)
    assert found.steps == pytest.approx(600)
    assert found.samples == pytest.approx(600 * 256)
    assert found.time_s == pytest.approx(600 * run.update_s)
    assert found.rate == pytest.approx(0.1 / 0.6)
    assert found.sample_efficiency == pytest.approx(2 / 3)
    assert Run.from_dict(run.to_dict()).learning_scale == found


def test_forecast_is_the_same_without_learning():
    assert simulate(scenario(), learns=False).learning_scale == simulate(scenario()).learning_scale


def test_dropped_gradients_are_not_in_the_batch():
    strategy = {"kind": "backup", "backups": 1, "servers": {"num": 1, "on": "own-hosts"}}
    found = simulate(scenario(strategy=strategy)).learning_scale
    assert found is not None
    assert found.batch == pytest.approx(3 * 64, rel=0.02)


def test_stale_gradients_have_no_forecast():
    found = simulate(scenario(strategy={"kind": "async", "servers": {"num": 1, "on": "own-hosts"}})).learning_scale
    assert found is not None
    assert found.steps is None
    assert found.time_s is None
    assert "versions old on average" in (found.reason or "")


def test_weights_of_their_own_have_no_forecast():
    found = simulate(scenario(strategy={"kind": "local", "steps": 2})).learning_scale
    assert found is not None
    assert found.steps is None
    assert "weights of their own" in (found.reason or "")


def test_tokens_of_a_model_without_tokens():
    scale = {"noise_scale": 1e6, "batch": 1e6, "steps": 10, "unit": "tokens"}
    with pytest.raises(InputError, match="has no tokens"):
        simulate(scenario(learning={"scale": scale}))


def test_unit_of_tokens():
    found = ScaleSpec(noise_scale=1000, batch=1000, steps=100, unit="tokens").forecast(20, 0.5, 100)
    assert (found.batch, found.steps, found.samples, found.tokens, found.time_s) == (2000, 75, 1500, 150_000, 37.5)


@pytest.mark.parametrize(
    "keys", [{}, {"epochs": 3}, {"epochs": 3, "scale": {"noise_scale": 1, "batch": 1, "steps": 1}}]
)
def test_nothing_to_do(keys):
    with pytest.raises(InputError, match="without a task nothing is trained"):
        simulate(scenario(learning=keys))


def ledger_key(learns: bool, learning: dict[str, Any] | None) -> str:
    loaded = load_scenario(scenario(learning=learning) if learning else {**scenario(), "learning": None})
    return LedgerKeys(loaded, exact=False, learns=learns).key(loaded.trees()[0])


def test_kept_points_depend_on_the_scale_and_without_training_not_on_the_task():
    one = {"scale": {"noise_scale": 512, "batch": 128, "steps": 1000}}
    other = {"scale": {"noise_scale": 513, "batch": 128, "steps": 1000}}
    trained = {"task": "digits", **one}
    assert ledger_key(False, one) == ledger_key(True, one) == ledger_key(False, trained)
    assert len({ledger_key(True, each) for each in (one, other, trained)}) == 3
    assert ledger_key(False, other) != ledger_key(False, one)


def test_noise_scale_is_an_axis_and_the_csv_has_the_time():
    swept = scenario(learning={"scale": {"noise_scale": [64, 512], "batch": 128, "steps": 1000}})
    found = sweep(swept)
    rows = rows_of(found, ())
    assert [row["learning_scale_batch"] for row in rows] == pytest.approx([256, 256])
    assert [row["learning_scale_steps"] for row in rows] == pytest.approx([1000 * 1.25 / 1.5, 600])
    assert "learning_scale_time_s" in rows[0]
    assert any("64 samples all the time" in each for each in found.assumptions)


def test_only_a_task_is_told_not_to_be_trained(capsys):
    note_untrained("a plan", [scenario()])  # type: ignore[list-item]
    assert capsys.readouterr().err == ""
