"""On a quadratic with noisy gradients, the expected loss with a constant staleness follows its closed form.

A weight obeys w[t + 1] = w[t] - a w[t - staleness] + rate x noise, with a = rate x curvature.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from .orders import stale
from .runs import Trained, spec
from .trainees import Quadratic

pytestmark = pytest.mark.learning

CURVATURE, NOISE = 0.5, 2.0


def companion(a: float, staleness: int) -> np.ndarray:
    """Return the matrix that takes (w[t], ..., w[t - staleness]) to (w[t + 1], ..., w[t + 1 - staleness])."""
    matrix = np.eye(staleness + 1, k=-1)
    matrix[0, 0] += 1
    matrix[0, staleness] -= a
    return matrix


def expected_loss(rate: float, staleness: int, num_updates: int) -> np.ndarray:
    """Return the expected loss of each version [num_updates + 1], from weights of 1, by first and second moments."""
    step = companion(rate * CURVATURE, staleness)
    mean, variance = np.ones(staleness + 1), np.zeros((staleness + 1, staleness + 1))
    losses = []
    for _ in range(num_updates + 1):
        losses.append(CURVATURE / 2 * (mean[0] ** 2 + variance[0, 0]))
        mean, variance = step @ mean, step @ variance @ step.T
        variance[0, 0] += (rate * NOISE) ** 2
    return np.array(losses)


@pytest.mark.parametrize(("staleness", "rate"), [(0, 0.5), (1, 0.5), (4, 0.2), (8, 0.1)])
def test_the_expected_loss_follows_its_closed_form(staleness: int, rate: float) -> None:
    num_updates, num_weights = 120, 20_000
    trainee = Quadratic(CURVATURE, NOISE, num_weights)
    trained = Trained(stale(staleness, num_updates), spec(rate=rate, evaluate_every=1), trainee)
    losses = np.array([point.loss for point in trained.run.curve])
    expected = expected_loss(rate, staleness, num_updates)
    assert losses == pytest.approx(expected, rel=6 * math.sqrt(2 / num_weights))


@pytest.mark.parametrize(("staleness", "a"), [(0, 0.3), (1, 0.3), (1, 0.6)])
def test_the_last_loss_is_that_of_the_stationary_process(staleness: int, a: float) -> None:
    """The variance of w without staleness is (rate x noise)² / (a (2 - a)), one version late (1 + a) / (a (1 - a)
    (2 + a)) instead: that of an autoregressive process of order 2.
    """
    rate, num_weights = a / CURVATURE, 20_000
    factor = [1 / (a * (2 - a)), (1 + a) / (a * (1 - a) * (2 + a))][staleness]
    trainee = Quadratic(CURVATURE, NOISE, num_weights)
    trained = Trained(stale(staleness, 150), spec(rate=rate), trainee)
    loss = CURVATURE / 2 * (rate * NOISE) ** 2 * factor
    assert trained.run.curve[-1].loss == pytest.approx(loss, rel=6 * math.sqrt(2 / num_weights))


@pytest.mark.parametrize("staleness", [0, 1, 3, 8])
def test_training_diverges_beyond_the_stable_rate(staleness: int) -> None:
    """Weights shrink while a < 2 sin(pi / (2 (2 staleness + 1))), and grow beyond it."""
    bound = 2 * math.sin(math.pi / (2 * (2 * staleness + 1)))
    assert max(abs(np.linalg.eigvals(companion(bound, staleness)))) == pytest.approx(1)
    ends = {}
    for share in (0.9, 1.1):
        trainee = Quadratic(CURVATURE, noise=0.0)
        trained = Trained(stale(staleness, 300 * (staleness + 1)), spec(rate=share * bound / CURVATURE), trainee)
        ends[share] = [point.loss for point in trained.run.curve]
    assert ends[0.9][-1] < 1e-3 * ends[0.9][0]
    assert ends[1.1][-1] > 1e3 * ends[1.1][0]
