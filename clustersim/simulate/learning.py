"""Trains the task of a point in the order of its own simulation."""

from __future__ import annotations

from clustersim.execution.job import OnProgress
from clustersim.learning import check_installed, learning_run, train
from clustersim.results.learning import LearningRun
from clustersim.seeding import stream
from clustersim.simulate.setup import Setup
from clustersim.simulate.training_order import gradients_per_update, training_order

_SIMULATED_SHARE = 0.2
"""Share of the progress that is the simulation; an estimate."""


def learning_of(setup: Setup, on_progress: OnProgress = lambda share: None) -> LearningRun | None:
    """Return what comes of training the point's task; None if the scenario has none.

    Each seed has its own weights, samples and simulated luck: seed number k has the luck of replicate k.
    """
    spec = setup.point.learning
    if spec is None:
        return None
    check_installed(spec)
    trained, per_update = [], gradients_per_update(setup)
    for number in range(spec.seeds):
        of_seed = _part(on_progress, number / spec.seeds, (number + 1) / spec.seeds)
        seed = int(stream(setup.seed(number), "learning").integers(2**31))
        trainee = spec.task.trainee(seed)
        num_updates = spec.num_updates(trainee.num_samples, per_update)
        order = training_order(setup, number, num_updates, _part(of_seed, 0.0, _SIMULATED_SHARE))
        of_training = _part(of_seed, _SIMULATED_SHARE, 1.0)
        trained.append(train(order, spec, trainee, seed, setup.compression, of_training))
    return learning_run(spec, trained, per_update)


def _part(on_progress: OnProgress, begin: float, end: float) -> OnProgress:
    """Return a callback for a part of the work, from one share of the whole to another."""
    return lambda share: on_progress(begin + share * (end - begin))
