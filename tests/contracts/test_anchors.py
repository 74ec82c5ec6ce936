"""Kernels and a fixed time as measured runs say: the default result equals the exact one, and parts add up."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.model.layer import Anchoring
from clustersim.scenario import load_scenario
from clustersim.simulate import forecast
from clustersim.strategies import STRATEGIES
from tests.contracts import test_host_bound as host_bound
from tests.contracts import test_strategies as strategies
from tests.contracts.exactness import REL, check_exact

ANCHORING = Anchoring(1.3, 0.01)
SITUATIONS = ("alone", "one constant straggler", "jitter of layers", "pauses", "slow input", "two stages", "host-bound")
IN_STEP = ("copies", "split layers", "many micro-batches", "chunks", "weights put off", "optimizer in shares",
           "weights in shares", "recomputation", "offload", "two jobs")  # fmt: skip

experts = host_bound.experts


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", STRATEGIES)
def test_strategies_are_exact(kind: str, situation: str) -> None:
    check_exact(strategies.scenario(kind, strategies.SITUATIONS[situation]), may_be_refused=True, anchoring=ANCHORING)


@pytest.mark.parametrize("case", host_bound.CASES)
def test_layouts_are_exact(case: str, experts: str) -> None:
    check_exact(host_bound.scenario(case, experts), anchoring=ANCHORING)


@pytest.mark.parametrize("case", IN_STEP)
def test_a_fixed_time_is_added_to_the_compute_of_every_iteration(case: str, experts: str) -> None:
    asked: dict[str, Any] = host_bound.scenario(case, experts)
    asked["compute"] = {**asked.get("compute", {}), "variability": 0}
    (point,) = load_scenario(asked).points()
    without, with_it = (forecast(point.point.anchored(Anchoring(1.3, each))).run for each in (0.0, 0.02))
    assert with_it.iteration_s - without.iteration_s == pytest.approx(0.02, rel=1e-6)
    assert sum(with_it.breakdown_s.values()) == pytest.approx(with_it.iteration_s, rel=REL)
    if "pipeline" not in asked.get("parallelism", {}):
        assert with_it.breakdown_s["compute"] - without.breakdown_s["compute"] == pytest.approx(0.02, rel=1e-6)
