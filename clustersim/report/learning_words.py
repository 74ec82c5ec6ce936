"""Sentences on what is learnt: the time to the target, where the lead changes, and what is never reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.report.leaders import Lead, Metric, error_of, is_faster
from clustersim.report.leaders import reached as reached_at
from clustersim.report.trainings import TrainedRun, TrainingComparison, comparisons
from clustersim.report.words import duration, listed, times
from clustersim.results import Sweep
from clustersim.results.learning import LearningRun

_MOST_NAMED, _MOST_LEADS = 3, 3

_FEWEST_SEEDS = 3
"""Seeds from which on an interval is told: that of two is mostly wider than what they differ by."""


def level_words(metric: Metric, value: float) -> str:
    """Return a loss or an accuracy as text: three digits.

    >>> level_words("accuracy", 0.95), level_words("accuracy", 0.9333), level_words("loss", 0.12345)
    ('accuracy 0.95', 'accuracy 0.933', 'loss 0.123')
    """
    return f"{metric} {value_words(metric, value)}"


def value_words(metric: Metric, value: float) -> str:
    """Return the number of `level_words`."""
    return f"{round(value, 3):g}" if metric == "accuracy" else f"{value:.3g}"


def learning_sentence(sweep: Sweep) -> str:
    """Return the answer on learning: who reaches the target first, and where the lead changes.

    Empty where nothing was trained.
    """
    found = comparisons(sweep)
    if not found:
        return ""
    main, metric = found[0], found[0].metric
    where = f"{main.where}, " if main.where else ""
    if len(main.trainings) == 1:
        return f"{where}{_of_one(main.trainings[0], metric, main.target)}"
    at_target = first_at_target(main)
    if at_target is None:
        return f"{where}{_missed(main)}{crossover_words(main, metric)}"
    changes = f"; {crossover_words(main, metric)}" if len(main.leads()) > 1 else ""
    return f"{where}{_reached(at_target, main)}{_slower(at_target)}{changes}{_elsewhere(found)}"


def title_words(comparison: TrainingComparison, metric: Metric) -> str:
    """Return the title of the curves of one metric: where the lead changes, then when the target is reached."""
    is_target = metric == comparison.target_metric
    if len(comparison.trainings) == 1:
        return _capital(_of_one(comparison.trainings[0], metric, comparison.target if is_target else None))
    crossover = crossover_words(comparison, metric)
    at_target = first_at_target(comparison)
    if not is_target or at_target is None:
        return _capital(f"{_missed(comparison) if is_target else ''}{crossover}")
    value = value_words(metric, comparison.target or 0.0)
    first, *equals = at_target.first
    is_ahead = first is _lead_at(comparison, comparison.target or 0.0)
    named = {
        comparison.trainings[number].name
        for lead in comparison.leads()[:1]
        for number in lead.equals
        if len(comparison.leads()) == 1
    }
    new = [each.name for each in equals if each.name not in named]
    alike = f", {_names(new)} {equal_words(comparison)}" if new else ""
    reached = "reached" if is_ahead else f"reached first with {first.name},"
    return _capital(f"{crossover}; {value} is {reached} after {duration(_seconds(first))}{alike}")


@dataclass(frozen=True)
class AtTarget:
    """Who reaches a target first (several that are equal within the seeds), who later, and who not in every seed."""

    first: tuple[TrainedRun, ...]
    slower: tuple[TrainedRun, ...]
    never: tuple[TrainedRun, ...]


def equal_words(comparison: TrainingComparison) -> str:
    """Return what is said of trainings whose times differ by less than chance, or than two evaluations."""
    return "equal within the seeds" if any(each.learning.seeds > 1 for each in comparison.trainings) else "equally fast"


def first_at_target(comparison: TrainingComparison) -> AtTarget | None:
    """Return who reaches the target first; None where none does in every seed, or there is no target."""
    reached = [each for each in comparison.trainings if each.learning.time_to_target_s is not None]
    if comparison.target is None or comparison.target_metric is None or not reached:
        return None
    error = np.array([error_of(comparison.target, comparison.target_metric)])
    times = {id(each): reached_at(each.learning, comparison.metric, error).at(0) for each in comparison.trainings}
    best, *rest = reached
    alike = [place for place, each in enumerate(rest, 1) if not is_faster(times[id(best)], times[id(each)])]
    equals = list(reached[: 1 + max(alike, default=0)])
    ahead = _lead_at(comparison, comparison.target)
    equals.sort(key=lambda each: each is not ahead)
    slower = reached[1 + max(alike, default=0) :]
    never = [each for each in comparison.trainings if each.learning.time_to_target_s is None]
    return AtTarget(tuple(equals), tuple(slower), tuple(never))


def _lead_at(comparison: TrainingComparison, target: float) -> TrainedRun | None:
    """Return who has the lead at the target."""
    error = error_of(target, comparison.metric)
    for each in comparison.leads():
        if error_of(each.level, comparison.metric) <= error * (1 + 1e-9):
            return comparison.trainings[each.first]
    return None


def time_words(training: TrainedRun) -> str:
    """Return the time to the target with its interval over seeds."""
    pair = interval_of(training.learning)
    between = f" ({duration(pair[0])} to {duration(pair[1])})" if pair is not None else ""
    return f"{duration(_seconds(training))}{between}"


def interval_of(learning: LearningRun) -> tuple[float, float] | None:
    """Return the interval of the time to the target, if there are enough seeds for one."""
    return learning.time_to_target_interval if learning.seeds >= _FEWEST_SEEDS else None


def _seconds(training: TrainedRun) -> float:
    return training.learning.time_to_target_s or 0.0


def _of_one(training: TrainedRun, metric: Metric, target: float | None) -> str:
    """Say what the only training reaches."""
    learning = training.learning
    last = learning.final_accuracy if metric == "accuracy" else learning.final_loss
    end = level_words(metric, last or 0.0)
    if target is None:
        return f"the training ends with {end} after {duration(learning.curve[-1].seconds if learning.curve else 0.0)}"
    words = level_words(metric, target)
    if learning.time_to_target_s is not None:
        return f"{words} is reached after {time_words(training)}"
    seeds = f"by {learning.num_reached} of {learning.seeds} seeds only" if learning.num_reached else "never"
    return f"{words} is reached {seeds}: the training ends with {end}"


def _missed(comparison: TrainingComparison) -> str:
    """Say that no training reaches the target in every seed; empty without one."""
    if comparison.target is None or comparison.target_metric is None:
        return ""
    words = level_words(comparison.target_metric, comparison.target)
    some = max(comparison.trainings, key=lambda each: each.learning.num_reached)
    if some.learning.num_reached:
        seeds = f"{some.learning.num_reached} of {some.learning.seeds}"
        return f"no training reaches {words} with every seed, {some.name} with {seeds}; "
    return f"no training reaches {words}; "


def _reached(found: AtTarget, comparison: TrainingComparison) -> str:
    """Say who reaches the target first, and after how long."""
    words = level_words(comparison.metric, comparison.target or 0.0)
    names = [each.name for each in found.first]
    if len(names) == 1:
        return f"{names[0]} reaches {words} first, after {time_words(found.first[0])}"
    return f"{_names(names)} reach {words} first, {equal_words(comparison)}, after {time_words(found.first[0])}"


def _slower(found: AtTarget) -> str:
    """Say how many times as long the next and the last take, and who never reaches the target."""
    base, texts = _seconds(found.first[0]), []
    named = found.slower if len(found.slower) < 3 else (found.slower[0], found.slower[-1])
    for number, each in enumerate(named):
        verb = "takes " if number == 0 else ""
        as_long = " as long" if number == 0 else ""
        texts.append(f"{each.name} {verb}{times(_seconds(each) / base)}{as_long}")
    said = f", {listed(texts)}" if texts and base > 0 else ""
    names = [each.name for each in found.never]
    some = any(each.learning.num_reached for each in found.never)
    never = f"; {_names(names)} {'does' if len(names) == 1 else 'do'} not reach it{' with every seed' if some else ''}"
    return f"{said}{never if names else ''}"


def crossover_words(comparison: TrainingComparison, metric: Metric) -> str:
    """Say who is the first at which levels, from the worst one on."""
    found = comparison.leads(metric)
    if not found:
        return f"no training gets a better {metric} than its first weights"
    names = [_leading(comparison, each) for each in found]
    if len(found) == 1:
        are = f"are {equal_words(comparison)}" if found[0].equals else "is first"
        return f"{names[0]} {are} at every {metric}"
    ends = [f"{value_words(metric, each.level)} ({duration(each.seconds)})" for each in found]
    if len(found) > _MOST_LEADS:
        return f"the lead changes {len(found) - 1} times, from {metric} {ends[-2]} on {names[-1]} first"
    verb = "are equal" if found[0].equals else "is first"
    between = "".join(f", {name} until {end}" for name, end in zip(names[1:-1], ends[1:-1], strict=True))
    return f"{names[0]} {verb} until {metric} {ends[0]}{between}, from there {names[-1]}"


def _leading(comparison: TrainingComparison, lead: Lead) -> str:
    """Name the first and its equals, or say how many they are."""
    names = [comparison.trainings[number].name for number in (lead.first, *lead.equals)]
    total = len(comparison.trainings)
    if len(names) <= _MOST_NAMED:
        return listed(names)
    return f"all {total} runs" if len(names) == total else f"{len(names)} of {total} runs"


def _elsewhere(found: Sequence[TrainingComparison]) -> str:
    """Name who is the first under other conditions, where it is another."""
    ahead = first_at_target(found[0])
    texts = []
    for other in (each for each in found[1:] if each.where):
        first = first_at_target(other)
        if first is not None and ahead is not None and first.first[0].label not in {each.label for each in ahead.first}:
            texts.append(f"{other.where} {first.first[0].name}")
    return f"; {listed(texts[:2])} {'is' if len(texts) == 1 else 'are'} first" if texts else ""


def _names(names: Sequence[str]) -> str:
    """Return names in a sentence; of many the first two.

    >>> _names(["async", "backup", "gossip", "local"])
    'async, backup and 2 more'
    """
    if len(names) <= _MOST_NAMED:
        return listed(names)
    return listed([*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} more"])


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
