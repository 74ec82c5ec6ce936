"""Trains the task of a point in the order of its own simulation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from clustersim.errors import InputError
from clustersim.execution.job import OnProgress
from clustersim.failures.wall_clock import first_wall_s, stretched, work_spans
from clustersim.learning import (
    LearningSpec,
    TaskData,
    Trainee,
    check_installed,
    learning_mistakes,
    learning_run,
    train,
    training_s,
)
from clustersim.results import FailureTimes
from clustersim.results.learning import LearningRun, SeedRun
from clustersim.scenario import JobOfMany, PointTree, Scenario
from clustersim.seeding import stream
from clustersim.simulate.long_run import recovery_of
from clustersim.simulate.setup import Setup
from clustersim.simulate.training_order import Jobs, check_order, gradients_per_update, training_order
from clustersim.stragglers import has_given_times

_SIMULATED_SHARE = 0.5
"""Share of the progress of a training that is the simulation of its order; an estimate."""

_KEY = "learning"
_LOOKED_AT = 1000
"""Points whose tasks are looked at before the first one is simulated."""


def check_can_learn(loaded: Scenario) -> None:
    """Raise InputError if a point needs packages that are not installed, or wrong files, before any is simulated."""
    for tree, spec, _ in _trained(loaded):
        try:
            check_installed(spec)
        except InputError as error:
            raise type(error)(tree.located(error).mistakes) from None


def training_cpu_s(loaded: Scenario) -> float:
    """Return about how many seconds of one CPU core the trainings of all points take; 0 if there are none.

    Raise InputError if packages are not installed. A task that cannot be made counts nothing.
    """
    check_can_learn(loaded)
    found_s = 0.0
    for _, spec, number in _trained(loaded):
        with suppress(InputError):
            found_s += training_s(spec) * number
    return found_s * len(loaded.trees()) / min(len(loaded.trees()), _LOOKED_AT)


def _trained(loaded: Scenario) -> list[tuple[PointTree, LearningSpec, int]]:
    """Return each task of the first points: its first point, what is trained, and the number of points that train it.

    Points whose `learning` is wrong are left out: they are refused later.
    """
    if _KEY not in repr(loaded.raw):
        return []
    found: dict[str, list[PointTree]] = {}
    for tree in itertools.islice(loaded.trees(), _LOOKED_AT):
        node = tree.root.child(_KEY)
        if node is not None:
            found.setdefault(repr(node.plain()), []).append(tree)
    specs = ((trees[0], trees[0].learning(), len(trees)) for trees in found.values())
    return [(tree, spec, number) for tree, spec, number in specs if spec is not None and spec.task is not None]


@dataclass(frozen=True)
class Training:
    """A task that can be trained: it is installed, and goes together with the point.

    Each seed has its own weights, samples and random times: seed number k has those of replicate k. `jobs` are all
    jobs on the cluster, if there are several; the first one trains.
    """

    spec: LearningSpec
    setup: Setup
    jobs: Jobs
    num_updates: int
    first: Trainee

    @classmethod
    def of(cls, jobs: Sequence[JobOfMany], setups: Sequence[Setup]) -> Training | None:
        """Return the training of a point; None if it has none. Raise InputError if it cannot be trained."""
        setup = setups[0]
        spec = setup.point.learning
        if spec is None or spec.task is None:
            return None
        check_installed(spec)
        check_order(setup)
        setup.compression.check_decoded()
        trainee = spec.task.trainee(_seed(setup, 0))
        num_updates = spec.num_updates(trainee.num_samples, gradients_per_update(setup))
        _, accuracy = trainee.evaluate(trainee.initial)
        data = TaskData(trainee.num_samples, trainee.labels is not None, accuracy is not None)
        mistakes = list(learning_mistakes(spec, data, setup.num_workers, num_updates))
        if mistakes:
            raise InputError(mistakes)
        layout = setup.point.parallelism
        if layout.schedule == "pipedream":
            trainee.stage_starts(setup.point.grid.pipeline)
        beside = tuple(zip(jobs, setups, strict=True)) if len(jobs) > 1 else ()
        return cls(spec, setup, beside, num_updates, trainee)

    @property
    def share(self) -> float:
        """The share of the whole work on the point that the training is; an estimate."""
        point = self.setup.point
        trained = self.spec.seeds * self.num_updates / _SIMULATED_SHARE
        return trained / (trained + point.replicates * point.num_iterations)

    def run(
        self,
        exact: bool = False,
        failures: FailureTimes | None = None,
        on_progress: OnProgress = lambda share: None,
    ) -> LearningRun:
        """Return what comes of the trainings of all seeds.

        `exact` is that of the simulation, and `failures` are the figures of a long training that fails.
        """
        spec, trained = self.spec, []
        for number in range(spec.seeds):
            of_seed = part_of(on_progress, number / spec.seeds, (number + 1) / spec.seeds)
            simulated = part_of(of_seed, 0.0, _SIMULATED_SHARE)
            order = training_order(self.setup, number, self.num_updates, simulated, exact=exact, jobs=self.jobs)
            seed = _seed(self.setup, number)
            of_training = part_of(of_seed, _SIMULATED_SHARE, 1.0)
            trainee = spec.trained.trainee(seed) if number else self.first
            run = train(order, spec, trainee, seed, self.setup.compression, of_training, measures_noise=number == 0)
            trained.append(run if failures is None else _on_wall_clock(run, self.setup, failures, number))
        return learning_run(spec, trained, gradients_per_update(self.setup))

    def assumptions(self) -> tuple[str, ...]:
        """Return what is trained and what is not, as sentences."""
        task, model, point = self.spec.trained.title(), self.setup.point.model, self.setup.point
        sentences = [
            f"Loss and accuracy are those of {task}, really trained in the order in which the workers' reads and "
            f"writes of weights were simulated. {model} itself is not trained: it decides only how long gradients take "
            "to be computed and exchanged.",
            "A worker computes each gradient on one version of all weights, even if several servers hold them.",
        ]
        if has_given_times(point.stragglers):
            sentences.append(
                "In the training of the task, times that are given for stragglers count from the start of the job. In "
                "all other figures they count from the start of the iterations that are measured."
            )
        if point.failures is not None:
            sentences.append(
                "A failure takes the training of the task back to its last checkpoint: weights, state of the optimizer "
                "and order of the samples. The same updates are then made again. Failures and checkpoints are those of "
                "the first part of the long training, as long as the task trains; failures.length does not change them."
            )
        return tuple(sentences)


def _seed(setup: Setup, number: int) -> int:
    """Return the seed of weights and samples of one of the trainings."""
    return int(stream(setup.seed(number), "learning").integers(2**31))


def _on_wall_clock(run: SeedRun, setup: Setup, failures: FailureTimes, replicate: int) -> SeedRun:
    """Return a training with the checkpoints and restarts of a replicate, from the same without failures."""
    work_s = run.curve[-1].seconds
    spans = work_spans(recovery_of(setup, failures, replicate, work_s), failures.interval_s, failures.write_s)
    consensus = tuple((first_wall_s(seconds, spans), distance) for seconds, distance in run.consensus)
    return run._replace(curve=stretched(run.curve, spans), consensus=consensus)


def part_of(on_progress: OnProgress, begin: float, end: float) -> OnProgress:
    """Return a callback for a part of the work, from one share of the whole to another."""
    return lambda share: on_progress(begin + share * (end - begin))
