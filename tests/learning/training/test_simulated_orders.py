"""Orders that were simulated train as the strategies are defined, with stragglers and a network in between."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clustersim.learning import SharedModelOrder, TrainingOrder
from clustersim.scenario import load_scenario
from clustersim.simulate.concurrent_jobs import setups_of
from clustersim.simulate.training_order import training_order

from .runs import Trained, spec
from .trainees import Regression

pytestmark = pytest.mark.learning

NUM_WORKERS, ROUNDS = 4, 25
SERVERS = {"num": 1, "on": "own-hosts"}


def order_of(num_updates: int, **strategy: Any) -> TrainingOrder:
    """Return the order of a strategy on four workers, which are unequally slow."""
    scenario = load_scenario(
        {
            "model": "resnet50",
            "num_gpus": NUM_WORKERS,
            "batch": {"per_gpu": 32},
            "topology": {"kind": "star", "num_hosts": NUM_WORKERS + 1, "host": {"gpu": "v100"}, "link": "10 Gbit/s"},
            "strategy": strategy,
            "stragglers": [{"kind": "lognormal", "cv": 0.3}],
            "seed": 3,
        }
    )
    (point,) = scenario.points()
    return training_order(setups_of(point.point, None, False)[0], 0, num_updates)


def trained(order: TrainingOrder, rate: float = 0.02) -> Trained:
    return Trained(order, spec(rate=rate), Regression())


def test_a_bound_of_zero_trains_as_synchronous_workers_do() -> None:
    """Each gradient is an update of its own, so the rate of an update with the mean of all is as many times larger."""
    synchronous = trained(order_of(ROUNDS, kind="server", servers=SERVERS), NUM_WORKERS * 0.02)
    bounded = trained(order_of(ROUNDS * NUM_WORKERS, kind="bounded-staleness", bound=0, servers=SERVERS))
    rounds = bounded.weights[NUM_WORKERS - 1 :: NUM_WORKERS]
    assert len(rounds) == len(synchronous.weights) == ROUNDS
    for one, other in zip(rounds, synchronous.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_larger_bound_trains_otherwise() -> None:
    num_updates = ROUNDS * NUM_WORKERS
    orders = [order_of(num_updates, kind="bounded-staleness", bound=bound, servers=SERVERS) for bound in (0, 4)]
    assert not torch.allclose(trained(orders[0]).last, trained(orders[1]).last, rtol=1e-6)


def test_an_all_reduce_trains_as_a_server_and_as_local_workers_with_one_step_do() -> None:
    server = trained(order_of(ROUNDS, kind="server", servers=SERVERS))
    ring = trained(order_of(ROUNDS, kind="all-reduce", algorithm="ring"))
    local = trained(order_of(ROUNDS * NUM_WORKERS, kind="local", steps=1))
    assert torch.equal(server.last, ring.last)
    torch.testing.assert_close(local.last, ring.last, rtol=1e-12, atol=1e-12)


def test_backup_workers_without_backups_train_as_a_server_does() -> None:
    server = trained(order_of(ROUNDS, kind="server", servers=SERVERS))
    backup = trained(order_of(ROUNDS, kind="backup", backups=0, servers=SERVERS))
    torch.testing.assert_close(backup.last, server.last, rtol=1e-12, atol=1e-12)


def test_the_slowest_gradients_are_dropped_and_their_samples_passed_over() -> None:
    order = order_of(ROUNDS, kind="backup", backups=1, servers=SERVERS)
    assert isinstance(order, SharedModelOrder)
    accepted = order.log.is_accepted
    assert accepted.sum() == ROUNDS * (NUM_WORKERS - 1)
    assert not accepted.all()
    assert trained(order).run.curve[-1].updates == ROUNDS
