"""The rate of a run in words: tokens or samples per second, with its band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from clustersim.report.band import NEVER_CHECKED, band_range
from clustersim.report.machine import IDEAL
from clustersim.report.words import amount, count, gpus, long_duration, percent, times
from clustersim.results import Run, Sweep

SURER = "comparisons are surer than each rate"
"""What a reader must know who sees bands that overlap: the forecasts of a sweep share most of their errors."""


def unit_of_cost(runs: Sequence[Run]) -> Literal["tokens", "samples"]:
    """Return what is trained at a price: tokens where all runs know how many a sample has, otherwise samples."""
    return "tokens" if all(run.tokens_per_sample for run in runs) else "samples"


def dropped_share(run: Run) -> float:
    """Return the share of the gradients that are dropped."""
    total = sum(run.gradients.values())
    return run.gradients.get("dropped", 0) / total if total else 0.0


def rate_words(run: Run) -> str:
    """Return what a run trains per second, with its band in the same unit: tokens where they are known."""
    each = run.tokens_per_sample or 1.0
    unit = "tokens" if run.tokens_per_sample else "samples"
    band = ""
    if run.band is not None:
        low, high = run.band.samples_per_s
        words = f"{NEVER_CHECKED}, " if run.band.unchecked else ""
        band = f" ({words}{percent(run.band.level)} band {band_range((low * each, high * each))})"
    return f"{count(run.samples_per_s * each)} {unit} per second{band}"


def sentence_of_one(sweep: Sweep, run: Run, against: str = "") -> str:
    """Say what a run trains, `against` what, and how long the training takes."""
    subject = f"{gpus(run.num_gpus)} {'trains' if run.num_gpus == 1 else 'train'} {rate_words(run)}"
    if run.has_ideal_network:
        subject = f"On an {IDEAL}, {subject}"
    against = f", {against}" if against else ""
    if run.speedup is not None and run.num_gpus > 1:
        against = f", {_speedup(sweep, run, run.speedup)}{against}"
    return f"{subject}{against}{training(sweep, run)}"


def _speedup(sweep: Sweep, run: Run, speedup: float) -> str:
    """Say what a speedup is over; that over hours that the scenario gives is of hours, and not of the rate."""
    if run.speedup_baseline is not None:
        return f"{times(speedup)} the baseline ({run.speedup_baseline.short})"
    given = sweep.scenario.get("baseline")
    in_hours = " in hours" if isinstance(given, Mapping) and given.get("hours") else ""
    return f"a speedup{in_hours} of {times(speedup)} over {run.speedup_basis}"


def training(sweep: Sweep, run: Run) -> str:
    """Say how long the training takes and what it costs, after a semicolon; empty where its length is unknown."""
    if run.time_to_train_s is None:
        return ""
    length, are_many = length_words(sweep, run)
    what = f"{length or 'training'} {'take' if are_many else 'takes'} {long_duration(run.time_to_train_s)}"
    cost = f" and cost{'' if are_many else 's'} ${amount(run.train_dollars)}" if run.train_dollars else ""
    return f"; {what}{cost}"


def length_words(sweep: Sweep, run: Run) -> tuple[str, bool]:
    """Return what is trained in all, tokens or epochs, and whether it is several; empty where nothing says."""
    for key in ("train_tokens", "epochs"):
        asked = run.axes.get(key, sweep.scenario.get(key))
        if isinstance(asked, int | float) and asked != 1:
            return (f"{amount(asked)} tokens" if key == "train_tokens" else f"{count(asked)} epochs"), True
    return "", False
