"""The analytic forecast of a large model's training with the batch of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LearningScale:
    """What the scenario's model needs with the batch of a run, to the same loss as a training that is known.

    `batch` is the samples or tokens (`unit`) of the gradients in an update, and `noise_scale` the gradient noise scale:
    the critical batch, which needs twice as many samples as the smallest batch, and twice as many updates as the
    largest. `steps` are the updates, `samples` and `tokens` what is trained on, and `time_s` the time of all steps.
    `rate` is the best learning rate, if the known one is given. `sample_efficiency` is the samples that the smallest
    batch needs over those that this one needs. No batch needs fewer steps than `least_steps`.

    Where the formula does not hold, `reason` says why, and all of these but `batch` and `noise_scale` are None.
    """

    batch: float
    noise_scale: float
    unit: Literal["samples", "tokens"]
    steps: float | None = None
    samples: float | None = None
    tokens: float | None = None
    time_s: float | None = None
    rate: float | None = None
    sample_efficiency: float | None = None
    least_steps: float | None = None
    reason: str | None = None
