"""The analytic forecast of `learning.scale` for a run."""

from __future__ import annotations

from clustersim.kernels.compression import NoCompression
from clustersim.learning.scale import ScaleSpec
from clustersim.results import Run
from clustersim.results.learning_scale import LearningScale
from clustersim.simulate.setup import Setup
from clustersim.strategies import Strategy


def learning_scale_of(setup: Setup, run: Run) -> LearningScale | None:
    """Return the forecast for the run's batch: the samples of the gradients that an update applies, on average.

    None if the scenario does not ask for it.
    """
    scale = _scale(setup)
    if scale is None:
        return None
    return scale.forecast(run.samples_per_s * run.update_s, run.update_s, run.tokens_per_sample, _reason(setup, run))


def scale_assumptions(setup: Setup) -> tuple[str, ...]:
    """Return what the forecast assumes, as sentences."""
    scale = _scale(setup)
    if scale is None:
        return ()
    compressed = () if isinstance(setup.compression, NoCompression) else (_COMPRESSED,)
    return (*scale.assumptions(), *compressed)


_COMPRESSED = "learning.scale: compressed gradients need as many updates as full ones"


def _scale(setup: Setup) -> ScaleSpec | None:
    learning = setup.point.learning
    return None if learning is None else learning.scale


def _reason(setup: Setup, run: Run) -> str | None:
    """Return why the formula does not hold, as a sentence; None where it holds."""
    strategy = setup.point.strategy
    if type(strategy).replica_order is not Strategy.replica_order:
        return "Workers train weights of their own, and the formula is for one model that all gradients are applied to."
    age = float(run.staleness.get("mean") or 0.0)
    if age > 0:
        return f"Gradients are {age:.3g} versions old on average, and the formula is for fresh ones."
    return None
