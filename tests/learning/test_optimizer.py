"""The keys of the optimizer, and its rate by updates."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from clustersim.learning.optimizer import LearningOptimizer


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_momentum_that_would_change_nothing_is_refused(kind: str) -> None:
    with pytest.raises((ValidationError, ValueError), match="momentum changes nothing"):
        LearningOptimizer.model_validate({"kind": kind, "momentum": 0.5})


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_every_update_has_a_rate_and_the_highest_comes_after_the_warm_up(schedule: str) -> None:
    optimizer = LearningOptimizer.model_validate({"schedule": schedule, "warm_up": 0.25})
    factors = [optimizer.factor(number, 20, 1) for number in range(20)]
    assert min(factors) > 0
    assert factors[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert factors[5:] == sorted(factors[5:], reverse=True)
    assert max(factors) == pytest.approx(1.0)
