"""Training with compressed gradients: error feedback loses nothing, and each worker compresses its own gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clustersim.kernels.compression import (
    COMPRESSIONS,
    Compression,
    EightBit,
    HalfPrecision,
    NoCompression,
    OneBit,
    TopK,
)
from clustersim.learning.training.compression import WorkerCompression

from .orders import random_asynchronous, shared, synchronous
from .runs import SEED, Trained, digits, spec
from .trainees import Played, Regression

pytestmark = pytest.mark.learning


@pytest.mark.parametrize("compression", [OneBit(group=5), TopK(density=0.2)])
@given(seed=st.integers(0, 1000))
def test_what_was_sent_and_the_residual_are_the_sum_of_all_gradients(compression: Compression, seed: int) -> None:
    worker, generator = WorkerCompression(compression, seed, 0), np.random.default_rng(seed)
    gradients = generator.normal(size=(30, 17)).astype(np.float32)
    sent = sum(worker.sent(torch.from_numpy(each)).double().numpy() for each in gradients)
    assert worker.residual is not None
    assert sent + worker.residual == pytest.approx(gradients.sum(0, dtype=float), abs=1e-4)
    assert np.abs(worker.residual).max() > 0.1


@pytest.mark.parametrize("kind", ["none", "fp16", "int8"])
def test_a_compression_without_error_feedback_keeps_nothing(kind: str) -> None:
    worker = WorkerCompression(COMPRESSIONS[kind](), SEED, 0)
    worker.sent(torch.rand(20))
    assert worker.residual is None


@pytest.mark.parametrize("order", [synchronous(3, 40), random_asynchronous(3, 40)])
def test_no_compression_trains_as_without(order) -> None:
    plain, compressed = Trained(order, spec(), Regression()), Trained(order, spec(), Regression(), NoCompression())
    assert torch.equal(plain.last, compressed.last)


def test_each_worker_compresses_its_own_gradient_and_keeps_its_own_residual() -> None:
    """Written out for two workers that send the larger of two values."""
    gradients = torch.tensor([[3.0, 1.0], [1.0, 2.0], [0.0, 0.5], [1.5, 0.0]], dtype=torch.float64)
    trained = Trained(synchronous(2, 2), spec(rate=1.0), Played(2, lambda number: gradients[number]), TopK(density=0.5))
    first = torch.tensor([3.0, 2.0]) / 2
    second = torch.tensor([2.5, 1.5]) / 2
    assert trained.weights[0].tolist() == (1 - first).tolist()
    assert trained.weights[1].tolist() == (1 - first - second).tolist()


def test_a_dropped_gradient_leaves_its_residual() -> None:
    gradients = torch.tensor([[3.0, 1.0], [0.0, 0.5]], dtype=torch.float64)
    order = shared(1, [(0, 0, 1, 1.0, False), (0, 0, 1)])
    trained = Trained(order, spec(rate=1.0), Played(2, lambda number: gradients[number]), TopK(density=0.5))
    assert trained.last.tolist() == [1.0, 1 - 1.5]


def test_sums_of_half_precision_travel_in_half_precision_too() -> None:
    gradients = torch.tensor([[1.0], [1.0 + 2**-10]], dtype=torch.float64)
    trained = Trained(synchronous(2, 1), spec(rate=1.0), Played(1, lambda number: gradients[number]), HalfPrecision())
    assert float(1 - trained.last) in (1.0, 1.0 + 2**-10)


def test_eight_bits_round_the_same_way_in_every_run() -> None:
    once, again = (Trained(random_asynchronous(3, 40), spec(), Regression(), EightBit()) for _ in range(2))
    assert torch.equal(once.last, again.last)
    assert not torch.equal(once.last, Trained(random_asynchronous(3, 40), spec(), Regression()).last)


@pytest.mark.parametrize("compression", [HalfPrecision(), EightBit(), OneBit(), TopK(density=0.05)])
def test_digits_are_learnt_with_compressed_gradients(compression: Compression) -> None:
    trained = Trained(synchronous(4, 250), spec(8, 0.1), digits(16, SEED), compression)
    accuracy = trained.run.curve[-1].accuracy
    assert accuracy is not None
    assert accuracy > 0.85


def test_error_feedback_is_what_makes_top_k_learn() -> None:
    """Without it the smallest gradient would never be sent: here its weight would stay where it is."""
    gradient = torch.tensor([1.0, 0.4], dtype=torch.float64)
    order, trainee = random_asynchronous(1, 100), Played(2, lambda number: gradient)
    trained = Trained(order, spec(rate=0.01), trainee, TopK(density=0.5))
    assert (1 - trained.last).tolist() == pytest.approx([1.0, 0.4], abs=0.02)
