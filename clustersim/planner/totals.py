"""Totals of a layout: rates, dollars for an hour and for a million tokens, days and dollars of a training, energy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from clustersim.planner.plan import Entry, Plan


@dataclass(frozen=True)
class Totals:
    """Totals of a layout; None where a sheet has no price, the model no tokens, or the training no length.

    `dollars_per_million` is for a million tokens, of samples where the model has no tokens.
    """

    samples_per_s: float
    tokens_per_s: float | None
    dollars_per_hour: float | None
    dollars_per_million: float | None
    train_s: float | None
    train_dollars: float | None
    joules_per_sample: float | None

    @property
    def rate(self) -> float:
        """Tokens per second, samples per second where the model has no tokens."""
        return self.samples_per_s if self.tokens_per_s is None else self.tokens_per_s

    def to_dict(self) -> dict[str, Any]:
        """Return the totals as plain data."""
        return asdict(self)


def as_run(entry: Entry) -> Entry:
    """Return a layout with the time that `clustersim run` forecasts and what follows from it; without one, as it is."""
    if entry.run_s is None:
        return entry
    factor = entry.run_s / entry.iteration_s
    dollars, joules = entry.dollars_per_sample, entry.joules_per_sample
    return replace(
        entry,
        iteration_s=entry.run_s,
        samples_per_s=entry.samples_per_s / factor,
        mfu=entry.mfu / factor,
        dollars_per_sample=None if dollars is None else dollars * factor,
        joules_per_sample=None if joules is None else joules * factor,
    )


def totals(plan: Plan, entry: Entry) -> Totals:
    """Return the totals of a layout of a plan, by its times as planned; `as_run(entry)` has those of a run."""
    each, price = plan.tokens_per_sample, plan.gpu_dollars_per_hour
    per_hour = None if price is None else price * entry.choice.num_gpus
    train_s = None if plan.train_samples is None else plan.train_samples / entry.samples_per_s
    per_sample = entry.dollars_per_sample
    return Totals(
        samples_per_s=entry.samples_per_s,
        tokens_per_s=each and each * entry.samples_per_s,
        dollars_per_hour=per_hour,
        dollars_per_million=None if per_sample is None else 1e6 * per_sample / (each or 1),
        train_s=train_s,
        train_dollars=None if train_s is None or per_hour is None else train_s * per_hour / 3600,
        joules_per_sample=entry.joules_per_sample,
    )


def unit_of(plan: Plan) -> str:
    """Return what is counted: tokens, or samples where the model has no tokens."""
    return "tokens" if plan.tokens_per_sample else "samples"
