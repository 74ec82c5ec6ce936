"""Trains the task of a point in the order of its own simulation."""

from __future__ import annotations

from clustersim.execution.job import OnProgress
from clustersim.failures.wall_clock import first_wall_s, stretched, work_spans
from clustersim.learning import check_installed, learning_run, train
from clustersim.results import FailureTimes
from clustersim.results.learning import LearningRun, SeedRun
from clustersim.seeding import stream
from clustersim.simulate.long_run import recovery_of
from clustersim.simulate.setup import Setup
from clustersim.simulate.training_order import Jobs, gradients_per_update, training_order
from clustersim.stragglers import has_given_times

_SIMULATED_SHARE = 0.2
"""Share of the progress that is the simulation; an estimate."""


def learning_of(
    setup: Setup,
    on_progress: OnProgress = lambda share: None,
    *,
    exact: bool = False,
    jobs: Jobs = (),
    failures: FailureTimes | None = None,
) -> LearningRun | None:
    """Return what comes of training the point's task; None if the scenario has none.

    Each seed has its own weights, samples and random times: seed number k has those of replicate k. `jobs` are all
    jobs on the cluster, where there are several, and `failures` the figures of a long training that fails.
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
        of_order, of_training = _part(of_seed, 0.0, _SIMULATED_SHARE), _part(of_seed, _SIMULATED_SHARE, 1.0)
        order = training_order(setup, number, num_updates, of_order, exact=exact, jobs=jobs)
        run = train(order, spec, trainee, seed, setup.compression, of_training)
        trained.append(run if failures is None else _on_wall_clock(run, setup, failures, number))
    return learning_run(spec, trained, per_update)


def learning_assumptions(setup: Setup) -> tuple[str, ...]:
    """Return what the training of the point's task assumes, as sentences."""
    point, sentences = setup.point, list[str]()
    if point.learning is None:
        return ()
    if has_given_times(point.stragglers):
        sentences.append(
            "In the training of the task, times that are given for stragglers count from the start of the job. In all "
            "other figures they count from the start of the iterations that are measured."
        )
    if point.failures is not None:
        sentences.append(
            "A failure takes the training of the task back to its last checkpoint: weights, state of the optimizer and "
            "order of the samples. The same updates are then made again. Failures and checkpoints are those of the "
            "first part of the long training, as long as the task trains; failures.length does not change them."
        )
    return tuple(sentences)


def _on_wall_clock(run: SeedRun, setup: Setup, failures: FailureTimes, replicate: int) -> SeedRun:
    """Return a training with the checkpoints and restarts of a replicate, from the same without failures."""
    work_s = run.curve[-1].seconds
    spans = work_spans(recovery_of(setup, failures, replicate, work_s), failures.interval_s, failures.write_s)
    consensus = tuple((first_wall_s(seconds, spans), distance) for seconds, distance in run.consensus)
    return run._replace(curve=stretched(run.curve, spans), consensus=consensus)


def _part(on_progress: OnProgress, begin: float, end: float) -> OnProgress:
    """Return a callback for a part of the work, from one share of the whole to another."""
    return lambda share: on_progress(begin + share * (end - begin))
