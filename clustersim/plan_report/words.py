"""Figures of a plan in words: rates, memory, dollars, the length of a training."""

from __future__ import annotations

from clustersim.planner import Entry, Plan, Totals
from clustersim.planner.totals import totals, unit_of
from clustersim.report.words import amount, count, long_duration, percent, size

_NOTHING = 5e-5
"""Gain below which a percentage says 0."""


def rate_words(plan: Plan, entry: Entry) -> str:
    """Return what a layout trains per second: tokens where the model has them, otherwise samples."""
    return f"{count(totals(plan, entry).rate)} {unit_of(plan)} per second"


def memory_words(plan: Plan, entry: Entry) -> str:
    """Return the memory of the fullest GPU, and that of the GPU."""
    return f"{size(entry.memory_bytes)} of {size(plan.gpu_memory_bytes)} memory"


def named_by_gpus(plan: Plan, entry: Entry) -> str:
    """Return on how many of which GPUs a layout is, such as `512 h100`."""
    return f"{count(entry.choice.num_gpus)} {plan.gpu}"


def are_several(plan: Plan) -> bool:
    """Return whether the best layouts differ in their GPUs or batches."""
    return len({(entry.choice.num_gpus, entry.choice.batch) for entry in plan.best}) > 1


def layout_name(plan: Plan, entry: Entry) -> str:
    """Return a layout as text, with its GPUs and batch where these differ."""
    where = f"{count(entry.choice.num_gpus)} GPUs, batch {entry.choice.batch}: " if are_several(plan) else ""
    return where + entry.choice.text()


def dollars(number: float) -> str:
    """Return dollars with three digits.

    >>> dollars(0.16134), dollars(2.42e6)
    ('$0.161', '$2.42M')
    """
    return f"${amount(number)}"


def hourly(found: Totals) -> str:
    """Return the price of all GPUs for an hour."""
    return f"{dollars(found.dollars_per_hour or 0.0)} an hour"


def million(plan: Plan, found: Totals) -> str:
    """Return the dollars for a million tokens or samples."""
    return f"{dollars(found.dollars_per_million or 0.0)} per million {unit_of(plan)}"


def training_words(plan: Plan, found: Totals, is_short: bool = False) -> str:
    """Say how long the training takes and what it costs; empty where its length is unknown."""
    if found.train_s is None or plan.train_samples is None:
        return ""
    length = plan.train_samples * (plan.tokens_per_sample or 1)
    cost = "" if found.train_dollars is None else f" and {dollars(found.train_dollars)}"
    if is_short:
        return f"{long_duration(found.train_s)}{cost}"
    return f"{amount(length)} {unit_of(plan)} take {long_duration(found.train_s)}{cost}"


def is_proved(plan: Plan) -> bool:
    """Return whether no layout that was not simulated can be better, by its bound."""
    return plan.ended == "done" or (plan.gap is not None and plan.gap < _NOTHING)


def ended_words(plan: Plan) -> str:
    """Return how much better a layout that was not simulated could be."""
    if is_proved(plan):
        return "nothing"
    return "not known" if plan.gap is None else f"{percent(plan.gap)} at most"
