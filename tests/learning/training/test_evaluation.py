"""Evaluations do not change a training, its bytes are the same in any process, and one that diverges ends well."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch import nn

from clustersim.learning import LearningSpec, StageOrder, TrainingOrder, learning_run, train
from clustersim.learning.training.flat_model import FlatModel
from clustersim.results.learning import MAX_LOSS, LearningRun

from .orders import random_asynchronous, replicas, stale, synchronous
from .runs import SEED, Trained, digits, spec
from .trainees import Played, Quadratic

pytestmark = pytest.mark.learning


def normalized() -> FlatModel:
    """Return a model with statistics of batches and with dropout, on made-up classes."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(80, 5, generator=generator)
    targets = (inputs[:, 0] > 0).long()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        module = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
    return FlatModel(module, inputs[:60], targets[:60], inputs[60:], targets[60:])


@pytest.mark.parametrize("order", [random_asynchronous(3, 60), replicas(3, 20), synchronous(3, 60)])
def test_evaluations_do_not_change_the_training(order: TrainingOrder) -> None:
    often, seldom = (Trained(order, spec(evaluate_every=every), normalized()) for every in (1, 60))
    assert torch.equal(often.last, seldom.last)
    assert often.run.curve[-1] == seldom.run.curve[-1]
    assert (len(often.run.curve), len(seldom.run.curve)) == (61, 2)


def test_workers_do_not_share_a_batch_where_its_samples_are_normalized_together() -> None:
    assert normalized().mixes_samples
    assert not digits(8, SEED).mixes_samples
    whole = normalized()
    whole.mixes_samples = False
    workers = Trained(synchronous(3, 5), spec(), normalized()), Trained(synchronous(3, 5), spec(), whole)
    assert not torch.allclose(workers[0].last, workers[1].last)


def test_training_leaves_torchs_threads_and_random_state_as_they_were() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    train(synchronous(3, 5), spec(), normalized(), SEED)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


PRINT_CURVE = """
import sys
from clustersim.learning import train
from tests.learning.training.orders import random_asynchronous
from tests.learning.training.runs import digits, spec
import torch
torch.set_num_threads(2)
torch.manual_seed(99)
print(train(random_asynchronous(4, 200), spec(16, 0.1), digits(64, 7), 7).curve)
"""


def test_a_curve_is_the_same_in_any_process() -> None:
    here = train(random_asynchronous(4, 200), spec(16, 0.1), digits(64, SEED), SEED).curve
    told = subprocess.run([sys.executable, "-c", PRINT_CURVE], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(here)


def test_a_training_that_diverges_has_a_finite_curve_and_says_so() -> None:
    curves = [Trained(stale(1, 3000), spec(rate=rate), Quadratic(1.0, 0.0)).run for rate in (0.1, 2.0)]
    losses = [point.loss for point in curves[1].curve]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[0] == 0.5
    assert losses[-1] == MAX_LOSS
    run = learning_run(LearningSpec(task="digits"), curves, 1.0)
    assert run.diverged == 1
    document = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert asdict(LearningRun.from_dict(document)) == asdict(run)


@pytest.mark.parametrize("order", [replicas(2, 30), synchronous(2, 60), StageOrder(1, [0], np.arange(1.0, 61))])
def test_weights_that_are_no_numbers_end_with_the_largest_loss(order: TrainingOrder) -> None:
    nan = torch.full((2,), math.nan, dtype=torch.float64)
    trained = Trained(order, spec(), Played(2, lambda number: nan * number)).run
    assert trained.curve[0].loss < MAX_LOSS
    assert (trained.curve[-1].updates, trained.curve[-1].loss) == (60, MAX_LOSS)
    assert all(0 <= distance <= MAX_LOSS for _, distance in trained.consensus)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_a_classifier_with_a_far_too_large_rate_finds_no_classes(kind: str) -> None:
    trained = Trained(replicas(2, 30), spec(rate=1e6, kind=kind), digits(8, SEED)).run
    last = trained.curve[-1]
    assert last.updates == 60
    assert all(point.loss <= MAX_LOSS for point in trained.curve)
    assert last.accuracy is not None
    assert last.accuracy < 0.3
