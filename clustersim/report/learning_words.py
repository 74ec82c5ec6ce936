"""Sentences on what is learnt: the first at the target, where the lead changes, and who does not reach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clustersim.report.leaders import Metric, error_of, is_faster
from clustersim.report.leaders import reached as reached_at
from clustersim.report.options import Axis
from clustersim.report.trainings import TrainedRun, TrainingComparison, comparisons
from clustersim.report.words import count, duration, listed, times
from clustersim.results import Sweep
from clustersim.results.learning import LearningRun

MOST_SENTENCES = 4
"""Conditions with a sentence of their own in the answer."""

_MOST_NAMED, _LONGEST_NAMES = 2, 40
"""Runs that are named, and the length of their names; more or longer ones are counted."""

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


def learning_sentences(sweep: Sweep) -> tuple[str, ...]:
    """Return the answer on learning: a sentence for each of the first conditions; empty where nothing was trained.

    One more is on runs of the first conditions that learn nothing.
    """
    found = comparisons(sweep)
    told = [sentence_of(each) for each in found[:MOST_SENTENCES]]
    return tuple(text for text in (*told, _untaught(found[0]) if found else "") if text)


def _untaught(comparison: TrainingComparison) -> str:
    """Name the runs whose loss ends no lower than it begins; empty without any."""
    runs = [each for each in comparison.trainings if _learns_nothing(each.learning)]
    if not runs:
        return ""
    where = f"{comparison.where}, " if comparison.where else ""
    names = _some(runs) if len(runs) <= _MOST_NAMED else f"{count(len(runs))} runs"
    of_first = "its first weights" if len(runs) == 1 else "the first weights"
    return f"{where}the loss of {names} ends no lower than that of {of_first}: try a smaller learning rate"


def _learns_nothing(learning: LearningRun) -> bool:
    """Return whether the loss of a training ends no lower than that of its first weights, a mean over seeds."""
    return len(learning.curve) > 1 and learning.final_loss >= learning.curve[0].loss > 0


def title_words(comparison: TrainingComparison, metric: Metric) -> str:
    """Return the title of the curves of one metric: the sentence of the answer if it is that of the target."""
    return _capital(sentence_of(comparison, metric))


def sentence_of(comparison: TrainingComparison, metric: Metric | None = None) -> str:
    """Return who reaches the target first, who is equal, who does not reach it, and where the lead changes.

    Of another metric than that of the target (the default) it is who leads.
    """
    chosen = metric or comparison.metric
    target = comparison.target if chosen == comparison.target_metric else None
    at_target = None if target is None else first_at_target(comparison)
    if len(comparison.trainings) == 1:
        said = _of_one(comparison.trainings[0], chosen, target)
    elif target is None:
        said = _lead_words(comparison, chosen)
    elif at_target is None:
        said = f"{_missed(comparison)}{_change(comparison, chosen)}"
    else:
        number = comparison.number
        said = _reached(at_target, comparison) if number is None else _optimum(at_target, comparison, number)
        said += _change(comparison, chosen)
    return f"{comparison.where}, {said}" if comparison.where else said


@dataclass(frozen=True)
class AtTarget:
    """Who reaches a target first, who is equal to it within the seeds, who is later, and who not in every seed.

    The first has the shortest mean time. The later ones begin, in the order of the mean time, with the first that is
    slower by more than the seeds' spread: an equal one is never behind it.
    """

    first: TrainedRun
    equals: tuple[TrainedRun, ...]
    slower: tuple[TrainedRun, ...]
    never: tuple[TrainedRun, ...]


def first_at_target(comparison: TrainingComparison) -> AtTarget | None:
    """Return who reaches the target first; None where none does in every seed, or there is no target."""
    reached = [each for each in comparison.trainings if each.learning.time_to_target_s is not None]
    if comparison.target is None or comparison.target_metric is None or not reached:
        return None
    error = np.array([error_of(comparison.target, comparison.target_metric)])
    best, *rest = reached
    time = reached_at(best.learning, comparison.metric, error).at(0)
    is_later = [is_faster(time, reached_at(each.learning, comparison.metric, error).at(0)) for each in rest]
    num_equal = next((place for place, later in enumerate(is_later) if later), len(rest))
    never = [each for each in comparison.trainings if each.learning.time_to_target_s is None]
    return AtTarget(best, tuple(rest[:num_equal]), tuple(rest[num_equal:]), tuple(never))


def interval_of(learning: LearningRun) -> tuple[float, float] | None:
    """Return the interval of the time to the target, if there are enough seeds for one."""
    return learning.time_to_target_interval if learning.seeds >= _FEWEST_SEEDS else None


def _of_one(training: TrainedRun, metric: Metric, target: float | None) -> str:
    """Say what the only training reaches."""
    learning = training.learning
    end = level_words(metric, _final(training, metric))
    if target is None:
        return f"the training ends with {end} after {duration(learning.curve[-1].seconds if learning.curve else 0.0)}"
    words = level_words(metric, target)
    if learning.time_to_target_s is not None:
        mean, ends = duration(learning.time_to_target_s), [duration(end) for end in interval_of(learning) or ()]
        between = f" ({' to '.join(ends)})" if set(ends) - {mean} else ""
        return f"{words} is reached after {mean}{between}"
    some = f"is reached by {learning.num_reached} of {learning.seeds} seeds only"
    return f"{words} {some if learning.num_reached else 'is never reached'}: the training ends with {end}"


def _missed(comparison: TrainingComparison) -> str:
    """Say that no training reaches the target in every seed, and who comes closest."""
    metric = comparison.metric
    words, best = level_words(metric, comparison.target or 0.0), comparison.trainings[0]
    if best.learning.num_reached:
        seeds = f"{best.learning.num_reached} of {best.learning.seeds}"
        return f"no run reaches {words} with every seed; {best.name} does with {seeds}"
    end = value_words(metric, _final(best, metric))
    return f"no run reaches {words}; {best.name} comes closest, with {end} at the end"


def _reached(found: AtTarget, comparison: TrainingComparison) -> str:
    """Say who reaches the target first, and what the others do."""
    words, seconds = level_words(comparison.metric, comparison.target or 0.0), _seconds(found.first)
    said = f"{found.first.name} reaches {words} first, after {duration(seconds)}"
    if found.equals:
        said += f"; {_some(found.equals)} {_are(found.equals)} {_equal(comparison)}"
    elif found.slower and seconds > 0:
        following = found.slower[0]
        name = following.name if len(found.slower) == 1 else f"{following.name}, the next,"
        said += f"; {name} takes {times(_seconds(following) / seconds)} as long"
    if found.never:
        verb = "does" if len(found.never) == 1 else "do"
        said += f"; {_some(found.never)} {verb} not reach it{_with_every_seed(found)}"
    return said


def _optimum(found: AtTarget, comparison: TrainingComparison, number: Axis) -> str:
    """Say with which value of a number the target is reached first, and beyond which one it is not reached."""
    words = level_words(comparison.metric, comparison.target or 0.0)
    best, after = number.label(found.first.run), f"after {duration(_seconds(found.first))}"
    reached = sorted(number.place(each.run) for each in (found.first, *found.equals, *found.slower))
    if len(reached) == 1 and found.never:
        return f"{words} is reached with {best} only, {after}"
    said = f"{words} is reached first with {best}, {after}"
    if found.equals:
        times_are = "time is" if len(found.equals) == 1 else "times are"
        said += f"; with {_values(found, number)} the {times_are} equal{_within(comparison)}"
    missed = [number.place(each.run) for each in found.never]
    ends = [f"beyond {number.labels[reached[-1]]}"] if any(place > reached[-1] for place in missed) else []
    ends += [f"below {number.labels[reached[0]]}"] if any(place < reached[0] for place in missed) else []
    return f"{said}; {listed(ends)} it is not reached{_with_every_seed(found)}" if ends else said


def _values(found: AtTarget, number: Axis) -> str:
    """Name the values that are equal to the best one, or count them."""
    places = sorted(number.place(each.run) for each in found.equals)
    if len(places) > _MOST_NAMED:
        return f"{count(len(places))} other values"
    return listed([number.labels[place] for place in places])


def _change(comparison: TrainingComparison, metric: Metric) -> str:
    """Say where the lead changes: empty unless one run clearly leads first, and another one from there on."""
    found, at_target = comparison.leads(metric), first_at_target(comparison)
    if len(found) != 2 or found[0].equals or found[1].equals:
        return ""
    one, other = (comparison.trainings[each.first] for each in found)
    if metric == comparison.target_metric:
        named = at_target.first if at_target is not None else comparison.trainings[0]
        if other is not named or (at_target is not None and at_target.equals):
            return ""
    level = f"{level_words(metric, found[0].level)} ({duration(found[0].seconds)})"
    is_named = at_target is not None and metric == comparison.target_metric
    is_long = len(f"{one.name}{other.name}") > _LONGEST_NAMES
    return f"; {one.name} leads until {level}" + ("" if is_named and is_long else f", then {other.name}")


def _lead_words(comparison: TrainingComparison, metric: Metric) -> str:
    """Say who leads in a metric without a target."""
    found = comparison.leads(metric)
    if not found:
        return f"no run gets a better {metric} than its first weights"
    if change := _change(comparison, metric):
        return change.removeprefix("; ")
    if len(found) > 1 or found[0].equals:
        return f"no run clearly leads in {metric}"
    return f"{comparison.trainings[found[0].first].name} leads in {metric}"


def _equal(comparison: TrainingComparison) -> str:
    """Return what is said of trainings whose times differ by less than chance, or than two evaluations."""
    return f"equal{within}" if (within := _within(comparison)) else "equally fast"


def _within(comparison: TrainingComparison) -> str:
    return " within the seeds" if any(each.learning.seeds > 1 for each in comparison.trainings) else ""


def _some(trainings: Sequence[TrainedRun]) -> str:
    """Name few runs; count many, or those with long names."""
    names = [each.name for each in trainings]
    if len(names) <= _MOST_NAMED and len("".join(names)) <= _LONGEST_NAMES:
        return listed(names)
    return "another run" if len(names) == 1 else f"{count(len(names))} others"


def _are(trainings: Sequence[TrainedRun]) -> str:
    return "is" if len(trainings) == 1 else "are"


def _with_every_seed(found: AtTarget) -> str:
    return " with every seed" if any(each.learning.num_reached for each in found.never) else ""


def _seconds(training: TrainedRun) -> float:
    return training.learning.time_to_target_s or 0.0


def _final(training: TrainedRun, metric: Metric) -> float:
    learning = training.learning
    return (learning.final_accuracy if metric == "accuracy" else learning.final_loss) or 0.0


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
