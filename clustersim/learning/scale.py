"""How long a large model would train with another batch: the analytic forecast from its gradient noise scale.

Nothing is trained here. With fresh gradients and the best rate for each batch, a training with batch B needs
S(B) = S_min (1 + phi / B) updates to the same loss, where phi is the gradient noise scale (McCandlish et al.,
arXiv:1812.06162, 2018, equations 2.11 and 2.12, for a noise scale that is the same all the time).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clustersim.results.learning_scale import LearningScale
from clustersim.spec import Spec

Positive = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]


class ScaleSpec(Spec):
    """A training of the scenario's model with a known batch and length, and its gradient noise scale.

    The forecast is for the same loss with the batch of each run.
    """

    noise_scale: Positive = Field(
        description="gradient noise scale that you measured on your model, averaged over its training, in `unit`"
    )
    batch: Positive = Field(description="batch of the training that you know, or that is planned, in `unit`")
    steps: Positive = Field(description="updates of this training")
    rate: Positive | None = Field(
        default=None, description="its learning rate, if that is the best for its batch, for the best rate of each run"
    )
    unit: Literal["samples", "tokens"] = Field(
        default="samples",
        description="what `noise_scale` and `batch` count: samples of the scenario's model, or tokens",
    )

    def forecast(
        self, batch_samples: float, update_s: float, tokens_per_sample: float | None, reason: str | None = None
    ) -> LearningScale:
        """Return the training to the same loss with another batch; updates take `update_s` seconds each.

        `tokens_per_sample` is needed where the unit is tokens. With a `reason` there is no forecast.
        """
        per_sample = (tokens_per_sample or 1.0) if self.unit == "tokens" else 1.0
        batch = batch_samples * per_sample
        if reason is not None:
            return LearningScale(batch=batch, noise_scale=self.noise_scale, unit=self.unit, reason=reason)
        steps = steps_at(batch, self.noise_scale, self.batch, self.steps)
        samples = steps * batch_samples
        return LearningScale(
            batch=batch,
            noise_scale=self.noise_scale,
            unit=self.unit,
            steps=steps,
            samples=samples,
            tokens=None if tokens_per_sample is None else samples * tokens_per_sample,
            time_s=steps * update_s,
            rate=None if self.rate is None else rate_at(batch, self.noise_scale, self.batch, self.rate),
            sample_efficiency=sample_efficiency(batch, self.noise_scale),
            least_steps=least_steps(self.noise_scale, self.batch, self.steps),
        )

    def assumptions(self) -> tuple[str, ...]:
        """Return what the forecast assumes, as sentences."""
        return (
            f"learning.scale: the gradient noise scale is {self.noise_scale:g} {self.unit} all the time, and the batch "
            "beyond which training gains little; measured noise scales grow as the loss falls and may be several times "
            "that batch",
            "learning.scale: updates to the same loss are in proportion to 1 + noise scale / batch (McCandlish et al., "
            "2018), with the best learning rate for each batch, its warm-up and schedule as shares of the training",
            "learning.scale: gradients are fresh; staleness, averaged weights and compression are not in the formula",
        )


def steps_at(batch: float, noise_scale: float, known_batch: float, known_steps: float) -> float:
    """Return the updates to the loss of a training with `known_batch` and `known_steps`, with another batch.

    >>> steps_at(2000.0, 1000.0, 1000.0, 100.0)
    75.0
    """
    return least_steps(noise_scale, known_batch, known_steps) * (1 + noise_scale / batch)


def least_steps(noise_scale: float, known_batch: float, known_steps: float) -> float:
    """Return the updates that no batch, however large, can go below.

    >>> least_steps(1000.0, 1000.0, 100.0)
    50.0
    """
    return known_steps / (1 + noise_scale / known_batch)


def rate_at(batch: float, noise_scale: float, known_batch: float, known_rate: float) -> float:
    """Return the best learning rate of SGD for a batch, from the best for another.

    It is in proportion to 1 / (1 + noise scale / batch): to the batch where that is small, and constant where it is
    large (McCandlish et al., 2018, equation 2.6).

    >>> rate_at(3000.0, 1000.0, 1000.0, 0.5)
    0.75
    """
    return known_rate * (1 + noise_scale / known_batch) / (1 + noise_scale / batch)


def sample_efficiency(batch: float, noise_scale: float) -> float:
    """Return the samples that the smallest batch needs, over those that this batch needs to the same loss.

    >>> sample_efficiency(1000.0, 1000.0)
    0.5
    """
    return noise_scale / (noise_scale + batch)


def noise_scale_of(batch: float, steps: float, other_batch: float, other_steps: float) -> float:
    """Return the noise scale that explains the updates of two trainings to the same loss with different batches.

    It is infinite where samples do not depend on the batch, and raises ValueError where the larger batch needs fewer
    samples or as many updates as the smaller.

    >>> noise_scale_of(1000.0, 100.0, 2000.0, 75.0)
    1000.0
    """
    gained, saved = other_batch * other_steps - batch * steps, steps - other_steps
    if gained < 0 or saved <= 0:
        raise ValueError("the larger batch needs more samples and fewer updates")
    return saved * batch * other_batch / gained if gained else float("inf")
