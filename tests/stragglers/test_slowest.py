"""The slowest awaited GPU: the integral against draws, and against the formula of the maximum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from clustersim.stragglers import Awaited, slowest


@pytest.mark.parametrize("num", [2, 8, 100, 4096])
def test_all_awaited_is_the_expected_maximum(num: int) -> None:
    sigma = math.sqrt(math.log1p(0.03**2))
    law = stats.lognorm(sigma, scale=math.exp(-(sigma**2) / 2))
    expected = integrate.quad(lambda u: law.ppf(u ** (1 / num)), 0, 1, limit=400)[0]
    assert slowest(0.03, Awaited(num, num)) == pytest.approx(expected, rel=1e-6)


def test_some_awaited_is_the_order_statistic_of_the_slowest_members() -> None:
    sigma = math.sqrt(math.log1p(0.1**2))
    normal = np.random.default_rng(1).standard_normal((100_000, 8, 3))
    drawn = np.sort(np.exp(sigma * normal - sigma**2 / 2).max(axis=2), axis=1).mean(axis=0)
    found = [slowest(0.1, Awaited(number, 8), 3) for number in range(1, 9)]
    np.testing.assert_allclose(found, drawn, rtol=1e-3)


def test_a_single_worker_or_equal_workers_do_not_wait() -> None:
    assert slowest(0.05, Awaited(1, 1)) == slowest(0.0, Awaited(64, 64)) == 1.0


def test_a_worker_alone_waits_for_its_own_members() -> None:
    assert slowest(0.05, Awaited(1, 1), 4) == slowest(0.05, Awaited(4, 4)) > 1.0
