"""Which setting is fastest, by how much, and under which conditions another one is."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.hints import hint, in_parentheses
from clustersim.report.machine import IDEAL
from clustersim.report.options import EQUAL, Axis, SweepCell, SweepQuestion
from clustersim.report.per_axis import axes_compared
from clustersim.report.rate_words import rate_words, training
from clustersim.report.series import headline
from clustersim.report.words import THIN, percent, times
from clustersim.results import Run, Sweep

_ENOUGH = 0.95
"""Share of the best rate from which on a smaller value is said to be enough."""

_MOST_GROUPS = 3

_OTHER = 1.2
"""Ratio of two factors from which on the one under other conditions is given too."""


@dataclass(frozen=True)
class CellGroup:
    """Neighbouring cells in which one setting is the fastest."""

    best: str
    cells: tuple[SweepCell, ...]


def axes_sentences(sweep: Sweep, question: SweepQuestion, main: SweepCell) -> tuple[str, str]:
    """Say what each of several axes gives, and then which setting is the fastest; empty where `comparison` tells."""
    axes = axes_compared(question, main) if question.is_chosen and len(groups_of(question)) == 1 else ""
    if not axes:
        return "", ""
    best = question.best(main)
    ideal = f"on an {IDEAL} " if main.runs[0].has_ideal_network else ""
    where = f"{question.where(main)}, " if question.conditions else ""
    rate = f": {rate_words(best)}" if main.runs[0] is headline(sweep) else ""
    fastest = f"fastest{_everywhere(question, main)} is {question.label(best)}"
    return f"{ideal}{where}{axes}", f"{fastest}{rate}{training(sweep, best)}"


def comparison(sweep: Sweep, question: SweepQuestion, main: SweepCell) -> str:
    """Say which setting is the fastest, for each group of conditions if it changes."""
    groups = groups_of(question)
    ideal = f"on an {IDEAL} " if main.runs[0].has_ideal_network else ""
    if len(groups) > 1:
        return f"{ideal}fastest is {_crossover(question, groups)}"
    if len(main.runs) > 1 and len(main.fastest) == len(main.runs):
        where = " under all conditions" if question.conditions else ""
        every = "both settings" if len(main.runs) == 2 else f"all {len(main.runs)} settings"
        return f"{ideal}{every} are equally fast{where}, within {100 * EQUAL:.0f}{THIN}%"
    rate = rate_words(question.best(main)) if main.runs[0] is headline(sweep) else ""
    if not question.is_chosen:
        return f"{ideal}{_loss(question, main)}"
    names, against = _ranking(question, main) if question.number is None else _numeric(question, question.number, main)
    verb = "are" if question.number is None and len(question.named(main)) > 1 else "is"
    where = f"{question.where(main)}, " if question.conditions else ""
    found = f"{ideal}fastest{_everywhere(question, main)} {verb} {names}: {where}{f'{rate}, ' if rate else ''}{against}"
    return f"{found}{_other_end(question, main)}{training(sweep, question.best(main))}"


def _loss(question: SweepQuestion, cell: SweepCell) -> str:
    """Say how much less is trained where what happens to a training is at its worst."""
    best, worst = cell.runs[0], cell.runs[-1]
    where = f"{question.where(cell)}, " if question.conditions else ""
    less = percent(1.0 - worst.samples_per_s / best.samples_per_s)
    sure = in_parentheses(hint(best, worst))
    rate = f"{rate_words(worst)}, {less} less than with {question.label(best)}{sure}"
    return f"{where}{question.label(worst)} leaves {rate}"


def _everywhere(question: SweepQuestion, main: SweepCell) -> str:
    """Say that one setting is the fastest in all cells; empty where some are equally fast in another."""
    named = [question.best(main)] if question.number or len(question.choices) > 1 else question.named(main)
    is_true = all(question.label(run) in question.everywhere for run in named)
    if len(question.cells) < 2 or not is_true or any(len(cell.fastest) > len(named) for cell in question.cells):
        return ""
    is_size = [axis.key for axis in question.conditions] == ["num_gpus"]
    return " at every size" if is_size else " under all conditions"


def _other_end(question: SweepQuestion, main: SweepCell) -> str:
    """Give the factor over the slowest setting in the first cell too, where it is another one."""
    first, slowest = question.cells[0], question.label(question.worst(main))
    if first is main:
        first = question.cells[-1]
    best, other = (run_labelled(question, first, label) for label in (question.label(question.best(main)), slowest))
    if first is main or best is None or other is None:
        return ""
    there, here = best.samples_per_s / other.samples_per_s, main.factor
    is_equal = abs(there - 1) < EQUAL
    if max(there / here, here / there) < _OTHER and not is_equal:
        return ""
    return f"; {question.where(first)}, {'equally fast' if is_equal else f'{times(there)} {slowest}'}"


def groups_of(question: SweepQuestion) -> list[CellGroup]:
    """Return the cells by their fastest setting: as few groups as possible, for rates within 1 % are equal."""
    groups: list[CellGroup] = []
    alike: list[str] = []
    for cell in question.cells:
        equal = [question.label(run) for run in cell.fastest]
        common = [label for label in equal if label in alike]
        if common:
            groups[-1] = CellGroup(common[0], (*groups[-1].cells, cell))
        else:
            groups.append(CellGroup(equal[0], (cell,)))
        alike = common or equal
    return groups


def run_labelled(question: SweepQuestion, cell: SweepCell, label: str) -> Run | None:
    """Return the run of a cell with this setting."""
    return next((run for run in cell.runs if question.label(run) == label), None)


def _crossover(question: SweepQuestion, groups: list[CellGroup]) -> str:
    """Say which setting is the fastest in each group, and by how much over the fastest of a neighbouring group."""
    shown = groups if len(groups) <= _MOST_GROUPS else [groups[0], groups[-1]]
    parts = []
    for group in shown:
        is_first = group is groups[0]
        other = groups[1] if is_first else groups[groups.index(group) - 1]
        cell = group.cells[0 if is_first else -1]
        best, rival = run_labelled(question, cell, group.best), run_labelled(question, cell, other.best)
        by = ""
        if best is not None and rival is not None:
            at = f"{question.where(cell)}, " if len(group.cells) > 1 else ""
            by = f" ({', '.join(filter(None, (f'{at}{_factor(best, rival)} {other.best}', hint(best, rival))))})"
        parts.append(f"{group.best} {_span(question, groups, group)}{by}")
    between = f"; it changes {len(groups) - 1} times" if len(groups) > _MOST_GROUPS else ""
    return f"{', '.join(parts[:-1])} and {parts[-1]}{between}"


def _span(question: SweepQuestion, groups: list[CellGroup], group: CellGroup) -> str:
    """Return the conditions of a group: of one ordered condition its ends, otherwise those of its first cell."""
    first, last = group.cells[0], group.cells[-1]
    if first is last or len(question.conditions) > 1 or not question.conditions[0].is_numeric:
        more = "" if first is last else " and others"
        return f"{question.where(first)}{more}"
    axis = question.conditions[0]
    if group is groups[0]:
        return f"up to {axis.labels[last.where[0]]}"
    if group is groups[-1]:
        return f"from {axis.labels[first.where[0]]} on"
    return f"from {axis.labels[first.where[0]]} to {axis.labels[last.where[0]]}"


def _ranking(question: SweepQuestion, cell: SweepCell) -> tuple[str, str]:
    """Return the fastest setting, and how many times as fast it is as the slowest one and the next."""
    best, worst = cell.runs[0], question.worst(cell)
    equal = question.named(cell)
    names = " and ".join(question.label(run) for run in equal[:2])
    more = f" and {len(equal) - 2} more" if len(equal) > 2 else ""
    if len(cell.fastest) == len(cell.runs):
        return f"{names}{more}", "the only setting"
    fast = len(cell.fastest)
    following = worst if fast + len(cell.slowest) == len(cell.runs) else cell.runs[fast]
    against = f"{_factor(best, following)} {question.label(following)}"
    sure = in_parentheses(hint(best, following))
    if following is worst:
        return f"{names}{more}", f"{_factor(best, worst)} the rate of {_slowest(question, cell)}{sure}"
    slowest = f"{_factor(best, worst)} the rate of {_slowest(question, cell)}, the slowest"
    if in_parentheses(hint(best, worst)) != sure:
        slowest += in_parentheses(hint(best, worst))
    return f"{names}{more}", f"{slowest}, and {against}, the next{sure}"


def _slowest(question: SweepQuestion, cell: SweepCell) -> str:
    """Name the slowest settings that are equally fast: two of them at most."""
    slow = sorted(cell.slowest, key=question.places)
    more = f" and {len(slow) - 2} more" if len(slow) > 2 else ""
    return " and ".join(question.label(run) for run in slow[:2]) + more


def _factor(best: Run, other: Run) -> str:
    return times(best.samples_per_s / other.samples_per_s)


def _numeric(question: SweepQuestion, axis: Axis, cell: SweepCell) -> tuple[str, str]:
    """Return the fastest value of a number, and its gain, which smaller value is enough, and what larger ones give."""
    runs = sorted(cell.runs, key=axis.place)
    rates = [run.samples_per_s for run in runs]
    top = max(rates)
    best = runs.index(question.best(cell))
    names = [axis.label(run) for run in runs]
    worst = cell.runs[-1]
    sure = in_parentheses(hint(runs[best], worst))
    by = f"{_factor(runs[best], worst)} the rate of {axis.label(worst)}, the slowest{sure}"
    enough = next(place for place, rate in enumerate(rates) if rate >= _ENOUGH * top)
    less = f"; {names[enough]} gives {percent(rates[enough] / top)} of that" if enough < best else ""
    return names[best], f"{by}{less}{_beyond(names, rates, best)}"


def _beyond(names: list[str], rates: list[float], best: int) -> str:
    """Say what values above the best one give."""
    if best == len(rates) - 1:
        return ""
    losses = [1.0 - rate / rates[best] for rate in rates[best + 1 :]]
    if all(abs(loss) < EQUAL for loss in losses):
        return "; more gives nothing"
    return f"; {names[-1]} gives {percent(losses[-1])} less" if losses[-1] >= EQUAL else ""
