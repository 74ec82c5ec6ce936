"""PipeDream: each stage of the weights is updated with a gradient on its own, older version."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clustersim.errors import InputError
from clustersim.learning import StageOrder

from .orders import stale, synchronous
from .runs import SEED, Trained, digits, spec
from .test_shared_model import worker_samples
from .trainees import Regression

pytestmark = pytest.mark.learning


def stages(staleness: list[int], num_updates: int = 30, num_workers: int = 1) -> StageOrder:
    return StageOrder(num_workers, staleness, np.arange(1.0, num_updates + 1))


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_one_stage_without_staleness_is_sgd(kind: str) -> None:
    for num_workers in (1, 3):
        order = stages([0], num_workers=num_workers)
        piped, plain = (Trained(each, spec(kind=kind), Regression()) for each in (order, synchronous(num_workers, 30)))
        assert torch.equal(piped.last, plain.last)
        assert piped.run == plain.run


def test_one_stage_is_a_constant_staleness() -> None:
    piped = Trained(stages([2]), spec(), Regression())
    assert torch.equal(piped.last, Trained(stale(2, 30), spec(), Regression()).last)


def test_each_stage_is_at_its_own_version() -> None:
    """Three stages of two weights, one, two and no versions late, played by the formula."""
    staleness, trainee = [2, 1, 0], Regression()
    trained = Trained(stages(staleness), spec(), trainee)
    samples, versions = worker_samples(trainee, 0, 4), [trainee.initial]
    for number in range(30):
        used = [versions[max(0, number - late)][2 * stage : 2 * stage + 2] for stage, late in enumerate(staleness)]
        versions.append(versions[-1] - 0.05 * trainee.gradient(torch.cat(used), samples.next()))
    torch.testing.assert_close(trained.last, versions[-1], rtol=1e-12, atol=1e-12)


def test_a_model_with_fewer_layers_than_stages_is_refused() -> None:
    with pytest.raises(InputError, match="the task's model has 2 layers with weights, and the pipeline 3 stages"):
        Trained(stages([2, 1, 0]), spec(), digits(8, SEED))


def test_a_pipeline_trains_the_digits() -> None:
    trained = Trained(stages([1, 0], 600), spec(16, 0.1), digits(16, SEED))
    assert trained.run.curve[-1].accuracy > 0.85
