"""What Pollux's formula says of the samples that trainings need, beside what they really needed.

Pollux (Qiao et al., OSDI 2021, section 3.1) takes the statistical efficiency of batch M relative to batch m0 as
(phi + m0) / (phi + M), where phi is the gradient noise scale: a sample of the larger batch is worth so much of one of
the smaller batch. The formula is for fresh gradients and a rate that is adapted to the batch; it knows no staleness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.results.learning import LearningRun, Rows


@dataclass(frozen=True)
class PolluxRow:
    """Samples to the target over those of the reference: by the formula, and as measured.

    `place` is the training's place in the list; `batch` is the samples of its updates.
    """

    place: int
    batch: float
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """The prediction over what was measured, minus 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Pollux:
    """All trainings that reach their target, with the place of the reference: the smallest batch.

    Of several with that batch it is the one that needs the fewest samples. `noise_scale` is its mean gradient noise
    scale until the target, in samples.
    """

    reference: int
    noise_scale: float
    rows: tuple[PolluxRow, ...]


def pollux(trainings: Sequence[LearningRun | None]) -> Pollux | None:
    """Return the comparison for trainings of one task to one target.

    None if fewer than two of them reach the target, or the reference has no measured noise scale before it.
    """
    reached = {
        place: each for place, each in enumerate(trainings) if each is not None and each.samples_to_target is not None
    }
    if len(reached) < 2:
        return None
    reference = min(reached, key=lambda place: (reached[place].samples_per_update, reached[place].samples_to_target))
    base = reached[reference]
    samples = base.samples_to_target or 0.0
    noise = _until(base.noise, samples / base.samples_per_update)
    if not noise or not samples:
        return None
    rows = tuple(
        PolluxRow(
            place,
            each.samples_per_update,
            _mean([samples_ratio(phi, each.samples_per_update, base.samples_per_update) for phi in noise]),
            (each.samples_to_target or 0.0) / samples,
        )
        for place, each in reached.items()
        if place != reference
    )
    return Pollux(reference, _mean(noise), rows)


def samples_ratio(noise_scale: float, batch: float, base_batch: float) -> float:
    """Return the samples that a batch needs over those of another, for the same progress; all in samples.

    >>> samples_ratio(100.0, 300.0, 100.0)
    2.0
    """
    return (noise_scale + batch) / (noise_scale + base_batch)


def _until(noise: Rows, updates: float) -> list[float]:
    """Return the noise scales that were measured before so many updates."""
    return [value for number, value in noise if number < updates]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
