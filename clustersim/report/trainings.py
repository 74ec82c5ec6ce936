"""The trained runs of a sweep as comparisons: same task, same conditions, the best first; and their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clustersim.report.leaders import Lead, Metric, error_of, leads, value_of
from clustersim.report.options import Axis, SweepQuestion, main_cell, question_of
from clustersim.report.series import run_label, setting
from clustersim.results import Run, Sweep
from clustersim.results.learning import LearningRun

MOST_COMPARISONS = 8
"""Comparisons of one sweep that the reader chooses from."""


@dataclass(frozen=True)
class TrainedRun:
    """A run that was trained; `label` tells it from the others of its comparison, and is empty for the only one."""

    label: str
    run: Run
    learning: LearningRun

    @property
    def name(self) -> str:
        """The label, or what a text calls the only run."""
        return self.label or "the training"


@dataclass(frozen=True)
class TrainingComparison:
    """Trainings of one task under the same conditions (`where`), the best first.

    `target_metric` and `target` are None where there is none, or where the trainings have several. `num_untrained` runs
    under these conditions were not trained. `number` is the axis by which the runs differ if it is the only one and a
    number.
    """

    where: str
    task: str
    target_metric: Metric | None
    target: float | None
    trainings: tuple[TrainedRun, ...]
    num_untrained: int
    number: Axis | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What the trainings have: the target's metric first, and accuracy before loss."""
        has_accuracy = all(each.learning.final_accuracy is not None for each in self.trainings)
        found: tuple[Metric, ...] = ("accuracy", "loss") if has_accuracy else ("loss",)
        return tuple(sorted(found, key=lambda metric: metric != self.target_metric))

    @property
    def metric(self) -> Metric:
        """The metric of the target."""
        return self.metrics[0]

    def leads(self, metric: Metric | None = None) -> list[Lead]:
        """Return who leads where; the target is a level if it has this metric, that of the target by default."""
        chosen = metric or self.metric
        target = self.target if chosen == self.target_metric else None
        return leads([each.learning for each in self.trainings], chosen, target)


def comparisons(sweep: Sweep) -> tuple[TrainingComparison, ...]:
    """Return the comparisons of a sweep, that of the main conditions first; empty where nothing was trained."""
    if not any(run.learning for run in sweep.ran):
        return ()
    question = question_of(sweep)
    found = [each for where, runs in _cells(sweep, question) for each in _of_tasks(sweep, question, where, runs)]
    return tuple(found[:MOST_COMPARISONS])


def _cells(sweep: Sweep, question: SweepQuestion) -> Iterator[tuple[str, Sequence[Run]]]:
    """Yield the conditions with their runs; all runs together where there is nothing to choose."""
    if not (question.choices and question.conditions):
        yield "", sweep.ran
        return
    main = main_cell(question)
    for cell in (main, *(each for each in question.cells[::-1] if each is not main)):
        yield question.where(cell), cell.runs


def _of_tasks(sweep: Sweep, question: SweepQuestion, where: str, runs: Sequence[Run]) -> Iterator[TrainingComparison]:
    """Yield a comparison for each task that the runs train."""
    tasks = dict.fromkeys(run.learning.task for run in runs if run.learning)
    untrained = sum(run.learning is None for run in runs)
    for task in tasks:
        trained = [(run, run.learning) for run in runs if run.learning and run.learning.task == task]
        targets = {(learning.target_metric, learning.target) for _, learning in trained}
        metric, target = targets.pop() if len(targets) == 1 else (None, None)
        found = [TrainedRun(_label(sweep, question, run), run, learning) for run, learning in trained]
        known: Metric | None = "loss" if metric == "loss" else "accuracy" if metric == "accuracy" else None
        best_first = tuple(sorted(found, key=rank))
        yield TrainingComparison(where, task, known, target, best_first, untrained, question.number)


def _label(sweep: Sweep, question: SweepQuestion, run: Run) -> str:
    if question.choices and question.conditions:
        return question.label(run)
    sizes = {each.num_gpus for each in sweep.ran}
    return setting(sweep, run) if len(sizes) == 1 else run_label(sweep, run)


def rank(training: TrainedRun) -> tuple[float, int, float]:
    """Return what sorts trainings: the time to the target, then how many seeds have it, then the end."""
    learning = training.learning
    time_s = learning.time_to_target_s
    last = learning.curve[-1] if learning.curve else None
    by_loss = learning.target_metric == "loss" or learning.final_accuracy is None
    value = None if last is None else value_of(last, "loss" if by_loss else "accuracy")
    error = float("inf") if value is None else error_of(value, "loss" if by_loss else "accuracy")
    return (float("inf") if time_s is None else time_s, -learning.num_reached, error)
