"""Workers with their own weights: averaging, pairs, gossip's contraction, and DiLoCo's outer step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clustersim.kernels.compression import HalfPrecision
from clustersim.learning import ReplicaEvents, ReplicaOrder
from clustersim.learning.order import APPLY, MIX, OUTER, PAIR, READ
from clustersim.learning.training.outer import NUMBERS, OUTER_MOMENTUM, OUTER_RATE
from clustersim.strategies.graphs import GRAPHS, mixing_matrix, neighbours, spectral_gap

from .orders import random_asynchronous, replicas, synchronous
from .runs import Trained, spec
from .trainees import Played, Regression

pytestmark = pytest.mark.learning


def uniform(num_workers: int) -> np.ndarray:
    return np.full((num_workers, num_workers), 1 / num_workers)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_a_worker_alone_trains_as_one_model_does(kind: str) -> None:
    alone = Trained(replicas(1, 50), spec(kind=kind), Regression())
    assert torch.equal(alone.last, Trained(random_asynchronous(1, 50), spec(kind=kind), Regression()).last)
    assert [distance for _, distance in alone.run.consensus] == [0.0] * len(alone.run.curve)


@pytest.mark.parametrize("scaling", ["none", "linear", "sqrt"])
def test_weights_averaged_after_every_step_are_those_of_synchronous_training(scaling: str) -> None:
    given = spec(rate=0.02, scaling=scaling)
    local = Trained(replicas(4, 50, [MIX], mixing=uniform(4)), given, Regression())
    synced = Trained(synchronous(4, 50), given, Regression())
    torch.testing.assert_close(local.last, synced.last, rtol=1e-12, atol=1e-12)


def test_local_steps_are_each_workers_own() -> None:
    """Two workers make two steps each, with known gradients, and average: the mean of all steps, each worker's sum."""
    gradients = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    trainee = Played(2, lambda number: gradients[number])
    order = replicas(2, 1, [MIX], steps=2, mixing=uniform(2))
    trained = Trained(order, spec(rate=0.1, evaluate_every=1), trainee)
    torch.testing.assert_close(trained.last, 1 - 0.1 * gradients.sum(0) / 2)
    assert trained.run.consensus[-1][1] * float(trained.last.norm()) == pytest.approx(0.1 * np.hypot(2, 3))
    assert [point.updates for point in trained.run.curve] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("graph", ["ring", "complete", "wheel"])
def test_consensus_contracts_with_the_spectral_gap(graph: str) -> None:
    """Where gradients are 0, the distance of the workers from their mean shrinks by 1 - gap in each averaging."""
    num_workers, rounds = 8, 40
    mixing = mixing_matrix(neighbours(num_workers, GRAPHS[graph](num_workers, 0)))
    start = torch.randn(num_workers, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    trainee = Played(50, lambda number: start[number] if number < num_workers else torch.zeros_like(start[0]))
    order = replicas(num_workers, rounds, [MIX], mixing=mixing)
    trained = Trained(order, spec(rate=0.1, evaluate_every=num_workers), trainee)
    distances = np.array([distance for _, distance in trained.run.consensus])[1:]
    slowest = 1 - spectral_gap(mixing)
    if slowest < 1e-9:
        assert distances[1:].max() < 1e-12
        return
    ratios = distances[1:] / distances[:-1]
    assert (ratios <= slowest + 1e-9).all()
    assert ratios[-1] == pytest.approx(slowest, rel=1e-3)


def test_the_mean_of_all_weights_is_what_is_evaluated() -> None:
    trainee = Played(1, lambda number: torch.tensor([float(number)], dtype=torch.float64))
    trained = Trained(replicas(3, 1), spec(rate=0.1), trainee)
    assert trained.run.curve[-1].loss == pytest.approx(1 - 0.1 * (0 + 1 + 2) / 3)


def test_a_pair_averages_and_the_others_keep_their_weights() -> None:
    events = ReplicaEvents()
    for worker in range(3):
        events.add(1.0, READ, worker)
        events.add(1.0, APPLY, worker)
    events.add(2.0, PAIR, 0, 2)
    events.add(3.0, READ, 0)
    events.add(3.0, APPLY, 0)
    gradients = torch.eye(4, 3, dtype=torch.float64) * torch.tensor([1.0, 2.0, 4.0])
    order = ReplicaOrder(3, events)
    trained = Trained(order, spec(rate=1.0, evaluate_every=1), Played(3, lambda number: gradients[number]))
    torch.testing.assert_close(trained.last, 1 - gradients.sum(0) / 3)
    after_pair = [[0.5, 0.0, 2.0], [0.0, 2.0, 0.0], [0.5, 0.0, 2.0]]
    expected = np.array(after_pair) - np.mean(after_pair, axis=0)
    distance = trained.run.consensus[-1][1] * float(trained.last.norm())
    assert distance == pytest.approx(np.sqrt((expected**2).sum(1).mean()))


def test_a_gradient_is_that_of_the_weights_when_it_was_read() -> None:
    """A worker reads, its weights are averaged, and the gradient of the old weights is applied to the average."""
    trainee, events = Regression(), ReplicaEvents()
    for kind in (READ, APPLY, READ):
        for worker in range(2):
            events.add(1.0, kind, worker)
    events.add(2.0, MIX)
    for worker in range(2):
        events.add(3.0, APPLY, worker)
    order = ReplicaOrder(2, events, np.full((2, 2), 0.5))
    read: list[torch.Tensor] = []
    gradient = trainee.gradient

    def noted(weights: torch.Tensor, samples: np.ndarray) -> torch.Tensor:
        read.append(weights.clone())
        return gradient(weights, samples)

    trainee.gradient = noted  # type: ignore[method-assign]
    trained = Trained(order, spec(), trainee)
    assert not torch.equal(read[2], read[3])
    torch.testing.assert_close((read[2] + read[3]) / 2, trained.weights[1])


def test_the_outer_step_is_nesterovs_with_the_mean_change() -> None:
    """Written out: v = momentum v + change, w = w - rate (change + momentum v); change = w - mean of the workers'.

    All workers are at w after the step, so an update with a gradient of 0 finds no distance.
    """
    rounds, gradients = 4, torch.rand(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradients[-2:] = 0.0
    trained = Trained(
        replicas(2, rounds, [OUTER]), spec(rate=0.5, evaluate_every=1), Played(3, lambda number: gradients[number])
    )
    weights, velocity = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for change in 0.5 * gradients.reshape(-1, 2, 3).mean(1):
        velocity = OUTER_MOMENTUM * velocity + change
        weights = weights - OUTER_RATE * (change + OUTER_MOMENTUM * velocity)
    torch.testing.assert_close(trained.last, weights, rtol=1e-12, atol=1e-12)
    assert trained.run.consensus[-1][1] == 0.0


@pytest.mark.parametrize("number", NUMBERS)
def test_outer_gradients_are_averaged_in_their_number_format(number: str) -> None:
    """One outer step without momentum yet: w - rate (1 + momentum) x the mean change, as it was sent."""
    changes = torch.randn(2, 3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = replicas(2, 1, [OUTER], outer_number=number)
    trained = Trained(order, spec(rate=1.0), Played(3000, lambda number: changes[number]))
    found = (1 - trained.last) / (OUTER_RATE * (1 + OUTER_MOMENTUM))
    error = float((found - changes.mean(0)).abs().max())
    least, most = {"fp32": (0, 1e-12), "fp16": (1e-5, 3e-3), "bf16": (3e-3, 3e-2), "int8": (1e-3, 1.0)}[number]
    assert least <= error <= most
    if number == "int8":
        assert len(found.unique()) <= 256
        assert float((found - changes.mean(0)).square().mean().sqrt()) < 0.03


def test_eight_bits_of_an_outer_gradient_are_means_of_equal_steps() -> None:
    values = torch.tensor([0.0, 0.0, 0.001, 1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    levels = NUMBERS["int8"](values)
    assert levels.tolist() == pytest.approx([0.001 / 3] * 3 + [1.0, -1.0, 1.0, -1.0], abs=1e-12)
    assert NUMBERS["int8"](torch.ones(3)).tolist() == [1.0, 1.0, 1.0]
    assert NUMBERS["int8"](torch.tensor([np.nan, 1.0])).isnan().any()


def test_averaged_weights_are_sent_compressed_and_gradients_stay_as_they_are() -> None:
    gradient = torch.tensor([1e-6, 0.5], dtype=torch.float64)
    order = replicas(2, 2, [MIX], mixing=uniform(2))
    trained = Trained(order, spec(rate=1.0), Played(2, lambda number: gradient), HalfPrecision())
    torch.testing.assert_close(trained.weights[0], 1 - gradient / 2, rtol=0, atol=1e-12)
    sent = (1 - gradient).half().double()
    assert sent[0] == 1.0
    assert trained.weights[1].tolist() == sent.tolist()
    assert trained.last.tolist() == (sent - gradient).half().tolist()


def test_the_weights_after_the_outer_step_are_evaluated() -> None:
    """One round of two workers with the gradient 1: the outer step of the same instant is in the last evaluation."""
    ones = torch.ones(1, dtype=torch.float64)
    trained = Trained(replicas(2, 1, [OUTER]), spec(rate=0.1, evaluate_every=1), Played(1, lambda number: ones))
    after = 1 - OUTER_RATE * (1 + OUTER_MOMENTUM) * 0.1
    assert [(point.updates, point.loss) for point in trained.run.curve] == [
        (0, 1.0), (1, pytest.approx(0.95)), (2, pytest.approx(after)),
    ]  # fmt: skip
