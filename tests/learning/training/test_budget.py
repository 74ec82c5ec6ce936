"""What a training costs beside the simulation."""

from __future__ import annotations

import time

import pytest

from clustersim.learning import train

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
