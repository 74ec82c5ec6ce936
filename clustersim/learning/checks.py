"""Whether what `learning` asks for goes together: with the data of its task, and with the number of workers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from clustersim.errors import Mistake
from clustersim.learning.spec import MOST_BATCH, LearningSpec
from clustersim.learning.tasks import TaskData

MOST_GRADIENTS = 20_000_000
"""Gradients of all seeds together: hours of CPU for a small perceptron, and much more for larger models."""


def learning_mistakes(
    spec: LearningSpec, data: TaskData, num_workers: int, num_updates: int | None = None
) -> Iterator[Mistake]:
    """Yield what cannot be trained by so many workers; what `data` does not know, and unknown updates, are passed over.

    Keys are those of the scenario.
    """
    yield from _class_mistakes(spec, data)
    if data.num_samples is not None:
        yield from _batch_mistakes(spec, data.num_samples, num_workers)
        yield from _length_mistakes(spec, data.num_samples, _own_samples(spec, data.num_samples, num_workers))
    every = spec.evaluate_every
    if num_updates is not None and every is not None and every > num_updates:
        message = f"the training has {num_updates:,} updates in all (got {every:,}); take at most {num_updates}"
        allowed = f"at most {num_updates}"
        yield Mistake(message, "learning.evaluate_every", got=str(every), allowed=allowed, remedy=str(num_updates))


def _class_mistakes(spec: LearningSpec, data: TaskData) -> Iterator[Mistake]:
    """Yield that the task has no classes, or no accuracy, and the scenario needs them."""
    accuracy = None if spec.target is None else spec.target.accuracy
    if accuracy is not None and data.has_accuracy is False:
        message = f"the task '{spec.trained.kind}' has no accuracy (got accuracy: {accuracy:g}); give a loss as target"
        yield Mistake(message, "learning.target.accuracy", got=f"{accuracy:g}", allowed="loss")
    if spec.data == "by-label" and data.has_labels is False:
        message = f"the samples of the task '{spec.trained.kind}' have no classes by which they could be sorted"
        yield Mistake(f"{message} (got by-label)", "learning.data", got="by-label", allowed="shared or split")


def _batch_mistakes(spec: LearningSpec, num_samples: int, num_workers: int) -> Iterator[Mistake]:
    """Yield that a batch has more samples than a worker has to draw from."""
    own = _own_samples(spec, num_samples, num_workers)
    if spec.batch <= own:
        return
    if not own:
        message = f"{num_samples:,} samples cannot be divided over {num_workers:,} workers"
        yield Mistake(f"{message} (got {spec.data}); take shared", "learning.data", got=spec.data, allowed="shared")
        return
    whose = "the task has" if spec.data == "shared" else f"each of {num_workers:,} workers has"
    message = f"{whose} {own:,} samples to draw from (got a batch of {spec.batch:,}); take at most {own}"
    yield Mistake(message, "learning.batch", got=str(spec.batch), allowed=f"at most {own}", remedy=f"batch: {own}")


def _own_samples(spec: LearningSpec, num_samples: int, num_workers: int) -> int:
    """Return the samples that a worker has to draw from."""
    return num_samples if spec.data == "shared" else num_samples // num_workers


def _length_mistakes(spec: LearningSpec, num_samples: int, most_batch: int) -> Iterator[Mistake]:
    """Yield that more gradients would be computed than can be, and the least changes.

    A batch has at most `most_batch` samples.
    """
    gradients = spec.epochs * num_samples / spec.batch * spec.seeds
    if gradients <= MOST_GRADIENTS:
        return
    epochs = _rounded_down(spec.epochs * MOST_GRADIENTS / gradients)
    seeds = int(spec.seeds * MOST_GRADIENTS / gradients)
    batch = math.ceil(spec.batch * gradients / MOST_GRADIENTS)
    others = [f"seeds: {seeds}"] * (seeds > 0) + [f"batch: {batch}"] * (batch <= min(most_batch, MOST_BATCH))
    remedy = f"epochs: {epochs:g}"
    over = "" if spec.seeds == 1 else f" over {spec.seeds} seeds"
    message = (
        f"{gradients:,.0f} gradients{over} are too many to compute (got epochs: {spec.epochs:g}), at most "
        f"{MOST_GRADIENTS:,}: take {' or '.join([remedy, *others])}"
    )
    got, allowed = f"{spec.epochs:g} epochs", f"at most {epochs:g} epochs"
    yield Mistake(message, "learning.epochs", got=got, allowed=allowed, remedy=remedy)


def _rounded_down(value: float) -> float:
    """Return the largest number of three digits that is not above a positive value.

    >>> _rounded_down(1236.9), _rounded_down(0.9999)
    (1230.0, 0.999)
    """
    digits = 2 - math.floor(math.log10(value))
    return round(math.floor(value * 10.0**digits) / 10.0**digits, max(digits, 0))
