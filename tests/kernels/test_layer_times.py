"""Kernels wait for the thread that issues them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels.layer_times import as_issued, estimate_layers
from clustersim.model import Layer, LayerTime, Model, load_model

LAYER = load_model("alexnet").layers[0]


def total(layers: tuple[LayerTime, ...]) -> float:
    return sum(layer.forward_s + layer.backward_s for layer in layers)


def chain(forward_s: float, data_s: float, weights_s: float, length: int = 10) -> tuple[LayerTime, ...]:
    return (LayerTime(LAYER, forward_s, data_s, weights_s, "estimated"),) * length


def test_short_kernels_take_the_threads_time_and_the_last_kernels() -> None:
    assert total(as_issued(chain(1e-6, 1e-6, 1e-6), 10e-6)) == pytest.approx(19 * 10e-6 + 2e-6)


def test_long_kernels_take_their_own_time() -> None:
    layers = chain(1e-3, 1e-3, 1e-3)
    assert as_issued(layers, 10e-6) == layers


def test_a_thread_that_takes_no_time_changes_nothing() -> None:
    layers = chain(1e-6, 2e-6, 3e-6)
    assert as_issued(layers, 0.0) == layers


def test_a_gap_before_gradients_of_weights_alone_is_theirs() -> None:
    (first, *_) = as_issued(chain(1e-6, 0.0, 1e-6), 10e-6)
    assert first.backward_data_s == 0
    assert first.backward_weights_s == pytest.approx(10e-6)
    assert as_issued(chain(1e-6, 1e-6, 0.0), 10e-6)[0].backward_data_s == pytest.approx(10e-6)


def test_every_recurrent_layer_goes_token_by_token() -> None:
    shape = {"rows": 1, "inputs": 512, "outputs": 1024, "count": 30}
    lstm = Layer("r", "lstm", 3e7, 3e7, 3e7, 0, 1.0, 1.0, shape)
    kinds = tuple(replace(lstm, op=op) for op in ("lstm", "gru", "rnn", "fully-connected"))
    times = estimate_layers(Model("m", "m", kinds), load_gpu("v100"), 4, "fp32", operator_s=0.0).layers
    assert times[0].forward_s == times[1].forward_s == times[2].forward_s > 3 * times[3].forward_s


def test_a_model_at_a_small_batch_on_a_fast_gpu_is_as_slow_as_its_framework() -> None:
    model = load_model("resnet50")
    layers = estimate_layers(model, load_gpu("h100"), 1, "amp-bf16", operator_s=100e-6).layers
    assert total(layers) == pytest.approx(2 * len(model.layers) * 100e-6, rel=0.02)
