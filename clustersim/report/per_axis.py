"""What each of several axes gives, all others fixed, the one that matters most first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import exp, log

from clustersim.report.hints import hint, in_parentheses
from clustersim.report.options import EQUAL, Axis, SweepCell, SweepQuestion, enough
from clustersim.report.words import times
from clustersim.results import Run

_TOLD_EACH = 2
"""Contexts up to which the factor in each is told; of more, the smallest and the largest."""


@dataclass(frozen=True)
class Context:
    """The runs with one value on every axis but one, the fastest first, and the label of these values."""

    where: str
    runs: tuple[Run, ...]

    @property
    def factor(self) -> float:
        """How many times as fast the fastest run is as the slowest one."""
        return self.runs[0].samples_per_s / self.runs[-1].samples_per_s


@dataclass(frozen=True)
class Effect:
    """One axis in all contexts in which it varies."""

    axis: Axis
    contexts: tuple[Context, ...]

    @property
    def factor(self) -> float:
        """The geometric mean of the factor between its fastest and its slowest value."""
        return exp(sum(log(context.factor) for context in self.contexts) / len(self.contexts))

    @property
    def is_idle(self) -> bool:
        """Whether it changes nothing anywhere."""
        return all(context.factor <= 1 + EQUAL for context in self.contexts)

    @property
    def best(self) -> str:
        """The first of its values that is the fastest everywhere; empty without one."""
        for label in self.axis.labels:
            rates = [self._rate(context, label) for context in self.contexts]
            if all(
                rate * (1 + EQUAL) >= context.runs[0].samples_per_s
                for rate, context in zip(rates, self.contexts, strict=True)
            ):
                return label
        return ""

    def _rate(self, context: Context, label: str) -> float:
        return next((run.samples_per_s for run in context.runs if self.axis.label(run) == label), 0.0)


def effects(question: SweepQuestion, cell: SweepCell) -> list[Effect]:
    """Return what each choice gives, the largest first; axes that vary in no context are left out."""
    found = (Effect(axis, _contexts(question, cell, axis)) for axis in question.choices)
    return sorted((effect for effect in found if effect.contexts), key=lambda effect: -effect.factor)


def _contexts(question: SweepQuestion, cell: SweepCell, axis: Axis) -> tuple[Context, ...]:
    others = [other for other in question.choices if other is not axis]

    def places(run: Run) -> tuple[int, ...]:
        return tuple(other.place(run) for other in others)

    ordered = sorted(cell.runs, key=lambda run: (places(run), -run.samples_per_s))
    groups = (tuple(runs) for _, runs in groupby(ordered, key=places))
    return tuple(Context(", ".join(other.label(runs[0]) for other in others), runs) for runs in groups if len(runs) > 1)


def axes_compared(question: SweepQuestion, cell: SweepCell) -> str:
    """Say what the axis that matters most gives, and then the others; empty where axes do not vary by themselves."""
    found = effects(question, cell)
    if len(found) < 2 or found[0].is_idle:
        return ""
    idle = [effect.axis.name for effect in found if effect.is_idle]
    parts = [_main(found[0]), *(_other(effect) for effect in found[1:] if not effect.is_idle)]
    if idle:
        parts.append(f"{' and '.join(idle)} {'gives' if len(idle) == 1 else 'give'} nothing")
    return "; ".join(parts)


def _main(effect: Effect) -> str:
    best = effect.best
    if not best:
        return _turning(effect)
    slow = list(dict.fromkeys(effect.axis.label(context.runs[-1]) for context in effect.contexts))
    several = len(effect.axis.values) > 2
    if len(effect.contexts) == 1:  # points that fail have left no other to compare
        only = effect.contexts[0]
        return f"{best} is faster than {slow[0]} with {only.where}: {_factors(effect)}{beyond(effect)}"
    if several and len(slow) > 1:
        return f"{best} is always the fastest {effect.axis.name}: {_factors(effect)} the slowest{_sure(effect)}"
    against = f"{slow[0]}, the slowest {effect.axis.name}" if several else slow[0]
    return f"{best} is always faster than {against}: {_factors(effect)}{_sure(effect)}{beyond(effect)}"


def _turning(effect: Effect) -> str:
    """Name the two contexts with the largest factors in which different values are the fastest."""
    widest = sorted(effect.contexts, key=lambda context: -context.factor)
    first = widest[0]
    label = effect.axis.label
    second = next(context for context in widest if label(context.runs[0]) != label(first.runs[0]))
    parts = [
        f"{label(context.runs[0])} with {context.where} ({times(context.factor)} {label(context.runs[-1])})"
        for context in (first, second)
    ]
    return f"what is the best of {effect.axis.name} depends on the rest: {' but '.join(parts)}"


def _other(effect: Effect) -> str:
    if not effect.best:
        return _turning(effect)
    slow = list(dict.fromkeys(effect.axis.label(context.runs[-1]) for context in effect.contexts))
    against = f" the rate of {slow[0]}" if len(slow) == 1 else " the rate of the slowest"
    return f"{effect.best} gives {_range(effect)}{against}{beyond(effect)}"


def beyond(effect: Effect) -> str:
    """Say from which value of a number on nothing is gained; empty where the largest one gains."""
    found = [enough(effect.axis, context.runs) for context in effect.contexts]
    places = [effect.axis.labels.index(label) for label in found if label]
    return f" (nothing beyond {effect.axis.labels[max(places)]})" if len(places) == len(found) else ""


def _factors(effect: Effect) -> str:
    if len(effect.contexts) > _TOLD_EACH or _range(effect) == times(effect.factor):
        return _range(effect)
    return ", ".join(f"{times(context.factor)} with {context.where}" for context in effect.contexts)


def _range(effect: Effect) -> str:
    """Return the smallest and the largest factor, or one where they are equal."""
    low, high = (choose(context.factor for context in effect.contexts) for choose in (min, max))
    return times(effect.factor) if high <= (1 + EQUAL) * low else f"{times(low)} to {times(high)}"


def _sure(effect: Effect) -> str:
    """Return how sure the smallest of its factors is."""
    least = min(effect.contexts, key=lambda context: context.factor)
    return in_parentheses(hint(least.runs[0], least.runs[-1]))
