"""Every source of slowness has mean 1, the spread that was asked for, and a stream of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from clustersim.stragglers import (
    STRAGGLERS,
    Constant,
    Exponential,
    Gamma,
    Lognormal,
    OfHosts,
    Pareto,
    Straggler,
    Uniform,
    factors,
    layer_factors,
)

RANDOM = [name for name in STRAGGLERS if name != "constant"]
NO_HOSTS = np.zeros(0, dtype=np.int64)


def hosts_of(num_ranks: int, per_host: int = 1) -> np.ndarray:
    return np.arange(num_ranks) // per_host


def straggler(name: str, **knobs: Any) -> Straggler:
    width = {"factor": 3.0} if name == "constant" else {"cv": 0.3}
    return STRAGGLERS[name].model_validate({"kind": name} | width | knobs)


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("cv", [0.05, 0.3])
def test_mean_is_one_and_spread_is_cv(name: str, cv: float) -> None:
    drawn = factors([straggler(name, cv=cv)], 7, hosts_of(40), 10_000)
    assert drawn.mean() == pytest.approx(1.0, abs=5 * cv / math.sqrt(drawn.size))
    assert drawn.std() == pytest.approx(cv, rel=0.05)
    assert drawn.min() >= 0


def test_lognormal_takes_sigma_instead_of_cv() -> None:
    by_cv = Lognormal(kind="lognormal", cv=math.sqrt(math.expm1(0.2**2)))
    by_sigma = Lognormal(kind="lognormal", sigma=0.2)
    assert factors([by_cv], 1, hosts_of(3), 50) == pytest.approx(factors([by_sigma], 1, hosts_of(3), 50), rel=1e-12)


def test_slowest_of_n_exponentials_is_harmonic() -> None:
    num_ranks, cv = 16, 0.25
    slowest = factors([Exponential(kind="exponential", cv=cv)], 3, hosts_of(num_ranks), 20_000).max(axis=0)
    harmonic = sum(1 / k for k in range(1, num_ranks + 1))
    assert slowest.mean() == pytest.approx(1 - cv + cv * harmonic, abs=5 * slowest.std() / math.sqrt(slowest.size))


def test_slowest_of_n_uniforms_is_beta() -> None:
    num_ranks, cv = 9, 0.2
    slowest = factors([Uniform(kind="uniform", cv=cv)], 3, hosts_of(num_ranks), 20_000).max(axis=0)
    expected = 1 + math.sqrt(3) * cv * (num_ranks - 1) / (num_ranks + 1)
    assert slowest.mean() == pytest.approx(expected, abs=5 * slowest.std() / math.sqrt(slowest.size))


def test_quantiles_are_those_of_scipy() -> None:
    from scipy import stats

    cv = 0.4
    shape = 1 + math.sqrt(1 + cv**-2)
    laws = {
        "gamma": (Gamma(kind="gamma", cv=cv), stats.gamma(cv**-2, scale=cv**2)),
        "pareto": (Pareto(kind="pareto", cv=cv), stats.pareto(shape, scale=(shape - 1) / shape)),
    }
    for spec, law in laws.values():
        assert law.std() == pytest.approx(cv)
        assert stats.kstest(factors([spec], 11, hosts_of(1), 20_000)[0], law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", STRAGGLERS)
@given(num_ranks=st.integers(1, 6), more=st.integers(1, 4), seed=st.integers(0, 2**63 - 1))
def test_more_ranks_and_iterations_shift_nobody(name: str, num_ranks: int, more: int, seed: int) -> None:
    few = factors([straggler(name)], seed, hosts_of(num_ranks), 5)
    many = factors([straggler(name)], seed, hosts_of(num_ranks + more), 5 + more)
    assert np.array_equal(many[:num_ranks, :5], few)


def test_a_source_of_another_kind_shifts_nobody() -> None:
    gamma, pareto = straggler("gamma"), straggler("pareto")
    alone = factors([gamma], 5, hosts_of(4), 6) * factors([pareto], 5, hosts_of(4), 6)
    assert factors([gamma, pareto], 5, hosts_of(4), 6) == pytest.approx(alone, rel=1e-15)
    assert factors([pareto, gamma], 5, hosts_of(4), 6) == pytest.approx(alone, rel=1e-15)


def test_two_sources_of_one_kind_are_independent() -> None:
    both = factors([straggler("gamma"), straggler("gamma")], 5, hosts_of(2), 4000)
    once = factors([straggler("gamma")], 5, hosts_of(2), 4000)
    second = both / once
    assert abs(np.corrcoef(once[0], second[0])[0, 1]) < 0.06
    assert abs(np.corrcoef(once[0], once[1])[0, 1]) < 0.06


def test_another_seed_is_another_luck() -> None:
    spec = straggler("lognormal")
    assert not np.array_equal(factors([spec], 1, hosts_of(2), 3), factors([spec], 2, hosts_of(2), 3))


def test_factors_multiply_and_meet_only_whom_they_name() -> None:
    specs = [Constant(kind="constant", factor=4, of=[0]), Constant(kind="constant", factor=0.5, of=OfHosts(hosts=[1]))]
    drawn = factors(specs, 0, np.array([9, 9, 2, 9, 2]), 2)
    assert drawn.tolist() == [[4, 4], [1, 1], [0.5, 0.5], [1, 1], [0.5, 0.5]]


def test_hosts_are_numbered_in_the_order_of_their_first_rank() -> None:
    meets = Constant(kind="constant", factor=2, of=OfHosts(hosts=[0, 2])).meets(np.array([30, 10, 20, 30, 10]))
    assert meets.tolist() == [True, False, True, True, False]


def test_drawn_once_per_gpu_is_the_same_in_every_iteration() -> None:
    drawn = factors([straggler("lognormal", per="gpu")], 1, hosts_of(3), 8)
    assert np.array_equal(drawn, np.repeat(drawn[:, :1], 8, axis=1))
    assert len(set(drawn[:, 0].tolist())) == 3


def test_drawn_per_layer_leaves_the_iterations_alone() -> None:
    specs = [straggler("uniform", per="layer"), straggler("constant", per="layer", of=[1])]
    assert np.array_equal(factors(specs, 1, hosts_of(2), 4), np.ones((2, 4)))
    first, second = (layer_factors(specs, 1, rank, hosts_of(2), 4, 10) for rank in (0, 1))
    assert first is not None
    assert second is not None
    assert first.shape == (4, 10)
    assert len(np.unique(first)) == 40
    assert second.mean() / first.mean() == pytest.approx(3, rel=0.2)


def test_no_layer_source_makes_no_array() -> None:
    assert layer_factors([straggler("gamma")], 1, 0, hosts_of(1), 4, 10) is None


def test_nobody_gets_no_factors() -> None:
    assert factors([straggler("gamma")], 1, NO_HOSTS, 4).shape == (0, 4)


@pytest.mark.parametrize(
    ("kind", "knobs", "words"),
    [
        ("lognormal", {}, "one of 'cv' and 'sigma'"),
        ("lognormal", {"cv": 0.1, "sigma": 0.1}, "one of 'cv' and 'sigma'"),
        ("uniform", {"cv": 0.6}, "less than"),
        ("exponential", {"cv": 1.5}, "less than or equal to 1"),
        ("gamma", {"cv": 0}, "greater than 0"),
        ("pareto", {"cv": math.inf}, "finite"),
        ("constant", {"factor": 0}, "greater than 0"),
        ("constant", {"factor": 2, "of": [-1]}, "greater than or equal to 0"),
        ("constant", {"factor": 2, "of": {"hosts": []}}, "at least 1"),
        ("constant", {"factor": 2, "per": "epoch"}, "'iteration', 'layer' or 'gpu'"),
    ],
)
def test_impossible_slowness_is_refused(kind: str, knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        STRAGGLERS[kind].model_validate({"kind": kind} | knobs)
