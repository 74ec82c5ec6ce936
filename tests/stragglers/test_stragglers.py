"""Every random straggler has mean 1, the given spread, and its own random stream."""

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
    Draws,
    Exponential,
    ExponentialTail,
    Gamma,
    Lognormal,
    OfHosts,
    Pareto,
    Straggler,
    Uniform,
    factors,
    layer_factors,
)

RANDOM = ["exponential", "exponential-tail", "gamma", "lognormal", "pareto", "uniform"]
DRAWN = ["constant", *RANDOM]
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


def test_a_share_of_slow_draws_does_not_change_the_others() -> None:
    spec = ExponentialTail(kind="exponential-tail", cv=0.5, share=0.1)
    drawn = factors([spec], 7, hosts_of(40), 10_000)
    assert drawn.mean() == pytest.approx(1.0, abs=5 * 0.5 / math.sqrt(drawn.size))
    assert drawn.std() == pytest.approx(0.5, rel=0.05)
    undisturbed = drawn == drawn.min()
    assert undisturbed.mean() == pytest.approx(0.9, abs=5 * math.sqrt(0.09 / drawn.size))


def test_an_exponential_part_in_every_draw_is_the_exponential() -> None:
    tail, whole = ExponentialTail(kind="exponential-tail", cv=0.4), Exponential(kind="exponential", cv=0.4)
    assert factors([tail], 1, hosts_of(1), 9).shape == (1, 9)
    z = np.linspace(-6, 8, 50)
    assert tail.factors(z) == pytest.approx(whole.factors(z), rel=1e-12)


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("knobs", [{"rho": 0.8}, {"host_correlation": 0.6}, {"rho": 0.5, "host_correlation": 1.0}])
def test_correlated_draws_keep_the_distribution(name: str, knobs: dict[str, float]) -> None:
    from scipy.stats import ks_2samp

    alone = factors([straggler(name)], 7, hosts_of(1), 20_000)[0]
    correlated = factors([straggler(name, **knobs)], 8, hosts_of(8, 4), 20_000)[:, ::20]
    assert correlated.mean() == pytest.approx(1.0, abs=0.03)
    assert ks_2samp(alone, correlated[5]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("knobs", "expected"), [({"rho": 0.7}, 0.7), ({"correlation_iterations": 4}, math.exp(-1 / 4)), ({}, 0.0)]
)
def test_correlation_in_time_falls_by_the_same_factor_each_iteration(knobs: dict[str, float], expected: float) -> None:
    logarithms = np.log(factors([straggler("lognormal", **knobs)], 3, hosts_of(1), 100_000)[0])
    for lag in (1, 2, 5):
        measured = np.corrcoef(logarithms[:-lag], logarithms[lag:])[0, 1]
        assert measured == pytest.approx(expected**lag, abs=0.03)


def test_correlation_in_iterations_means_the_same_whatever_it_is_drawn_per() -> None:
    num_layers, spec = 5, straggler("lognormal", per="layer", correlation_iterations=3)
    drawn = layer_factors([spec], 3, 0, hosts_of(1), 30_000, num_layers)
    assert drawn is not None
    logarithms = np.log(drawn)
    same_layer = np.corrcoef(logarithms[:-1, 2], logarithms[1:, 2])[0, 1]
    assert same_layer == pytest.approx(math.exp(-1 / 3), abs=0.03)


def test_gpus_of_a_host_are_correlated_and_those_of_two_hosts_are_not() -> None:
    spec = straggler("lognormal", host_correlation=0.6)
    measured = np.corrcoef(np.log(factors([spec], 3, np.array([4, 1, 4, 1]), 40_000)))
    expected = [[1, 0, 0.6, 0], [0, 1, 0, 0.6], [0.6, 0, 1, 0], [0, 0.6, 0, 1]]
    assert measured == pytest.approx(np.array(expected), abs=0.025)


def test_with_full_correlation_a_host_draws_one_number() -> None:
    drawn = factors([straggler("gamma", host_correlation=1)], 3, hosts_of(4, 2), 10)
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[2], drawn[3])
    assert not np.array_equal(drawn[0], drawn[2])


def test_a_wider_spread_scales_the_same_random_numbers() -> None:
    narrow, wide = (np.log(factors([straggler("lognormal", sigma=s, cv=None)], 3, hosts_of(2), 9)) for s in (0.1, 0.3))
    assert wide + 0.3**2 / 2 == pytest.approx(3 * (narrow + 0.1**2 / 2), rel=1e-9)


@given(
    wanted=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90)), min_size=1, max_size=20),
    per=st.sampled_from(["iteration", "layer", "gpu"]),
    name=st.sampled_from(DRAWN),
)
def test_drawing_later_iterations_changes_no_earlier_ones(wanted: list[tuple[int, int]], per: str, name: str) -> None:
    knobs = {"rho": 0.5, "host_correlation": 0.3} if name in RANDOM and per != "gpu" else {}
    specs, hosts = [straggler(name, per=per, **knobs)], hosts_of(4, 2)
    draws, whole = Draws(specs, 5, hosts), factors(specs, 5, hosts, 100)
    layers = [layer_factors(specs, 5, rank, hosts, 100, 3) for rank in range(4)]
    for rank, iteration in wanted:
        assert draws.factor(rank, iteration) == whole[rank, iteration]
        drawn = layers[rank]
        if drawn is not None:
            assert np.array_equal(draws.layers(rank, iteration, 3), drawn[iteration])
    assert draws.has_layers == (per == "layer")


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


@pytest.mark.parametrize("name", DRAWN)
@given(num_ranks=st.integers(1, 6), more=st.integers(1, 4), seed=st.integers(0, 2**63 - 1))
def test_more_ranks_and_iterations_change_no_other_factors(name: str, num_ranks: int, more: int, seed: int) -> None:
    few = factors([straggler(name)], seed, hosts_of(num_ranks), 5)
    many = factors([straggler(name)], seed, hosts_of(num_ranks + more), 5 + more)
    assert np.array_equal(many[:num_ranks, :5], few)


def test_a_straggler_of_another_kind_changes_no_other_factors() -> None:
    gamma, pareto = straggler("gamma"), straggler("pareto")
    alone = factors([gamma], 5, hosts_of(4), 6) * factors([pareto], 5, hosts_of(4), 6)
    assert factors([gamma, pareto], 5, hosts_of(4), 6) == pytest.approx(alone, rel=1e-15)
    assert factors([pareto, gamma], 5, hosts_of(4), 6) == pytest.approx(alone, rel=1e-15)


def test_two_stragglers_of_one_kind_are_independent() -> None:
    both = factors([straggler("gamma"), straggler("gamma")], 5, hosts_of(2), 4000)
    once = factors([straggler("gamma")], 5, hosts_of(2), 4000)
    second = both / once
    assert abs(np.corrcoef(once[0], second[0])[0, 1]) < 0.06
    assert abs(np.corrcoef(once[0], once[1])[0, 1]) < 0.06


def test_another_seed_gives_other_factors() -> None:
    spec = straggler("lognormal")
    assert not np.array_equal(factors([spec], 1, hosts_of(2), 3), factors([spec], 2, hosts_of(2), 3))


def test_factors_multiply_and_affect_only_the_named_ranks() -> None:
    specs = [Constant(kind="constant", factor=4, of=[0]), Constant(kind="constant", factor=0.5, of=OfHosts(hosts=[1]))]
    drawn = factors(specs, 0, np.array([9, 9, 2, 9, 2]), 2)
    assert drawn.tolist() == [[4, 4], [1, 1], [0.5, 0.5], [1, 1], [0.5, 0.5]]


def test_hosts_are_numbered_in_the_order_of_their_first_rank() -> None:
    meets = Constant(kind="constant", factor=2, of=OfHosts(hosts=[0, 2])).affects(np.array([30, 10, 20, 30, 10]))
    assert meets.tolist() == [True, False, True, True, False]


def test_drawn_once_per_gpu_is_the_same_in_every_iteration() -> None:
    drawn = factors([straggler("lognormal", per="gpu")], 1, hosts_of(3), 8)
    assert np.array_equal(drawn, np.repeat(drawn[:, :1], 8, axis=1))
    assert len(set(drawn[:, 0].tolist())) == 3


def test_drawn_per_layer_does_not_change_factors_of_iterations() -> None:
    specs = [straggler("uniform", per="layer"), straggler("constant", per="layer", of=[1])]
    assert np.array_equal(factors(specs, 1, hosts_of(2), 4), np.ones((2, 4)))
    first, second = (layer_factors(specs, 1, rank, hosts_of(2), 4, 10) for rank in (0, 1))
    assert first is not None
    assert second is not None
    assert first.shape == (4, 10)
    assert len(np.unique(first)) == 40
    assert second.mean() / first.mean() == pytest.approx(3, rel=0.2)


def test_without_layer_stragglers_there_is_no_array() -> None:
    assert layer_factors([straggler("gamma")], 1, 0, hosts_of(1), 4, 10) is None


def test_a_job_without_ranks_has_no_factors() -> None:
    assert factors([straggler("gamma")], 1, NO_HOSTS, 4).shape == (0, 4)


@pytest.mark.parametrize(
    ("kind", "knobs", "words"),
    [
        ("lognormal", {}, "one of 'cv' and 'sigma'"),
        ("lognormal", {"cv": 0.1, "sigma": 0.1}, "one of 'cv' and 'sigma'"),
        ("uniform", {"cv": 0.6}, "less than"),
        ("exponential", {"cv": 1.5}, "less than or equal to 1"),
        ("exponential-tail", {"cv": 1}, "below 1 "),
        ("exponential-tail", {"cv": 5, "share": 0.1}, "cv must be below 4.359 .got 5.; lower cv or share"),
        ("exponential-tail", {"cv": 0.1, "share": 0}, "greater than 0"),
        ("gamma", {"cv": 0.1, "rho": 1}, "less than 1"),
        ("gamma", {"cv": 0.1, "rho": -0.1}, "greater than or equal to 0"),
        ("gamma", {"cv": 0.1, "host_correlation": 1.1}, "less than or equal to 1"),
        ("gamma", {"cv": 0.1, "rho": 0.5, "correlation_iterations": 3}, "keep one of 'rho' and 'corr"),
        ("gamma", {"cv": 0.1, "rho": 0.5, "per": "gpu"}, "once per GPU has no correlation in time"),
        ("gamma", {"cv": 0}, "greater than 0"),
        ("pareto", {"cv": math.inf}, "finite"),
        ("constant", {"factor": 0}, "greater than 0"),
        ("constant", {"factor": 2, "of": [-1]}, "greater than or equal to 0"),
        ("constant", {"factor": 2, "of": {"hosts": []}}, "at least 1"),
        ("constant", {"factor": 2, "per": "epoch"}, "'iteration', 'layer' or 'gpu'"),
    ],
)
def test_impossible_stragglers_are_refused(kind: str, knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        STRAGGLERS[kind].model_validate({"kind": kind} | knobs)
