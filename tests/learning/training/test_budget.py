"""What a training costs beside the simulation."""

from __future__ import annotations

import time

import pytest

from clustersim.learning import LearningSpec, train, training_s
from clustersim.learning.training import cost

from .orders import random_asynchronous
from .runs import SEED, digits, spec

pytestmark = pytest.mark.learning

NUM_UPDATES, MOST_CPU_S = 10_000, 5.0


def test_ten_thousand_updates_of_the_perceptron_take_a_few_cpu_seconds() -> None:
    """It takes about 1.5 s of a core, and as much again in a process that has not used torch's optimizers before."""
    order, trainee = random_asynchronous(8, NUM_UPDATES), digits(64, SEED)
    train(random_asynchronous(8, 10), spec(16), trainee, SEED)
    start_s = time.process_time()
    train(order, spec(16), trainee, SEED)
    assert time.process_time() - start_s < MOST_CPU_S


def test_telling_the_cost_times_each_task_and_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[int] = []
    measured = cost.cost_of(digits(64, SEED), 16)

    def cost_of(trainee: object, batch: int) -> cost.TrainingCost:
        timed.append(batch)
        return measured

    monkeypatch.setattr(cost, "cost_of", cost_of)
    rates = [(spec(16, rate=0.001 * number), 2) for number in range(1, 100)]
    one_s = measured.cpu_s(rates[0][0])
    assert training_s(rates) == pytest.approx(198 * one_s)
    assert timed == [16]
    half = LearningSpec(task="digits", batch=16, epochs=10, seeds=3)
    assert training_s([(half, 1)]) == pytest.approx(measured.cpu_s(half))
    assert measured.cpu_s(half) == pytest.approx(1.5 * one_s, rel=0.3)
    batches = [(LearningSpec(task="digits", batch=batch), 1) for batch in range(1, 31)]
    timed.clear()
    assert training_s(batches) > 0
    assert len(timed) == 10
