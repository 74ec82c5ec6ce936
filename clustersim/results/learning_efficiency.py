"""How much of the best speed, and of the best use of samples, each training of a sweep has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clustersim.results.learning import LearningRun


class Efficiency(NamedTuple):
    """Shares of a training, 0 to 1; None where no target is reached.

    `hardware` is the samples of the task per second, over those of the fastest training. `statistical` is the fewest
    samples with which a training reached the target, over its own. `product` of both orders trainings as the time to
    the target does, if each applies gradients at a steady pace.
    """

    hardware: float
    statistical: float | None
    product: float | None


def efficiencies(trainings: Sequence[LearningRun | None]) -> list[Efficiency | None]:
    """Return the efficiency of each training, relative to the best of them [trainings]; None for those that are None.

    All train the same task to the same target.
    """
    rates = [None if each is None else samples_per_second(each) for each in trainings]
    needed = [None if each is None else each.samples_to_target for each in trainings]
    best_rate = max((rate for rate in rates if rate is not None), default=0.0)
    fewest = min((samples for samples in needed if samples is not None), default=0.0)
    return [
        None
        if rate is None
        else _efficiency(rate / best_rate, None if samples is None else fewest / samples if samples else 1.0)
        for rate, samples in zip(rates, needed, strict=True)
    ]


def samples_per_second(training: LearningRun) -> float | None:
    """Return how many samples of the task are applied in a simulated second; None if the training took no time."""
    seconds = training.curve[-1].seconds if training.curve else 0.0
    return training.updates * training.samples_per_update / seconds if seconds > 0 else None


def _efficiency(hardware: float, statistical: float | None) -> Efficiency:
    return Efficiency(hardware, statistical, None if statistical is None else hardware * statistical)
