"""The answer of a plan in sentences: the best layout, the rule of thumb beside, how the search ended, and the cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite

from clustersim.plan_report.words import (
    dollars,
    ended_words,
    hourly,
    is_proved,
    memory_words,
    million,
    named_by_gpus,
    rate_words,
    training_words,
)
from clustersim.planner import ClusterComparison, ClusterPlan, Entry, Plan, Totals, as_run, totals
from clustersim.planner.totals import unit_of
from clustersim.report.words import count, percent, times

_BEST = {"samples_per_s": "fastest layout", "cost": "cheapest layout", "energy": "layout with the least energy"}
_BETTER = {"samples_per_s": "faster", "cost": "cheaper", "energy": "lower in energy"}
_ALIKE = 0.005
"""Difference below which two layouts or clusters are called equal."""


def answer(found: Plan | ClusterComparison) -> list[str]:
    """Return the answer, the most important sentence first."""
    return list(_of_plan(found) if isinstance(found, Plan) else _of_clusters(found))


def _of_plan(plan: Plan) -> Iterator[str]:
    best, on = as_run(plan.best[0]), "On an ideal network, " if plan.transport == "ideal" else ""
    where = f"{'on' if on else 'On'} {named_by_gpus(plan, best)}"
    called = _BEST[plan.objective] + ("" if plan.ended == "done" else " found")
    figures = [rate_words(plan, best)]
    if plan.objective == "cost":
        figures.insert(0, million(plan, totals(plan, best)))
    if plan.objective == "energy" and best.joules_per_sample is not None:
        figures.insert(0, f"at most {count(float(f'{best.joules_per_sample:.4g}'))} J per sample")
    memory = f", with {memory_words(plan, best)}" if isfinite(plan.gpu_memory_bytes) else ""
    yield f"{on}{where}, the {called} is {best.choice.text()}: {', '.join(figures)}{memory}."
    yield from filter(None, (against_rule(plan), how_it_ended(plan), _cost(plan, totals(plan, best))))


def against_rule(plan: Plan) -> str:
    """Compare the best layout with that of the rule of thumb; empty where no rule gives one."""
    pair = best_and_rule(plan)
    if pair is None:
        return ""
    best, rule = pair
    if rule.choice == best.choice:
        return "A rule of thumb gives the same layout."
    gain, better = gain_over(plan, best, rule), _BETTER[plan.objective]
    how = f"{percent(gain)} {better} than" if gain >= _ALIKE else "as good as"
    return f"It is {how} what a rule of thumb gives ({rule.choice.text()}: {rate_words(plan, rule)})."


def best_and_rule(plan: Plan) -> tuple[Entry, Entry] | None:
    """Return the best layout and that of the rule of thumb, as run if both are known so; None without a rule."""
    best, rule = plan.best[0], plan.rule_of_thumb
    if rule is None:
        return None
    return (best, rule) if None in (best.run_s, rule.run_s) else (as_run(best), as_run(rule))


def gain_over(plan: Plan, best: Entry, other: Entry) -> float:
    """Return by which share of the other layout's figure the best one is better, by the plan's objective."""
    if plan.objective == "cost" and best.dollars_per_sample is not None and other.dollars_per_sample is not None:
        return 1 - best.dollars_per_sample / other.dollars_per_sample
    if plan.objective == "energy" and best.joules_per_sample is not None and other.joules_per_sample is not None:
        return 1 - best.joules_per_sample / other.joules_per_sample
    if best.run_s is not None and other.run_s is not None:
        return best.choice.batch / best.run_s / (other.choice.batch / other.run_s) - 1
    return best.samples_per_s / other.samples_per_s - 1


def how_it_ended(plan: Plan) -> str:
    """Say whether a better layout may be left, and by how much."""
    simulated = f"{count(plan.num_simulated)} of {count(plan.num_layouts)} layouts were simulated"
    if plan.ended == "done":
        planned = f" in a plan, which is without {', '.join(plan.left_out)}" if plan.left_out else ""
        return f"No other layout is better{planned}: {simulated}, and the bounds of the others are worse."
    how = "The time limit ended the search" if plan.ended == "time" else "The search was interrupted"
    left = "" if plan.gap is None else f", and one of the others could be at most {percent(plan.gap)} better"
    if is_proved(plan):
        left = ", and by their bounds none of the others is better"
    return f"{how}: {simulated}{left}."


def _cost(plan: Plan, found: Totals) -> str:
    training = training_words(plan, found)
    if found.dollars_per_hour is None:
        return f"{training[:1].upper()}{training[1:]}." if training else ""
    each = "" if plan.objective == "cost" else f", {million(plan, found)}"
    return f"It costs {hourly(found)}{each}{f'; {training}' if training else ''}."


def _of_clusters(found: ClusterComparison) -> Iterator[str]:
    planned = [(each, each.plan, totals(each.plan, as_run(each.plan.best[0]))) for each in found.planned if each.plan]
    fastest = max(planned, key=lambda each: each[2].rate)
    priced = [each for each in planned if each[2].dollars_per_million is not None]
    spent = [each for each in planned if each[2].joules_per_sample is not None]
    if len(planned) == 1:
        yield f"Only {fastest[0].label} has a layout."
        yield from _of_plan(fastest[1])
    elif found.objective == "energy" and len(spent) == len(planned):
        yield _by_energy(planned)
    elif len(priced) < len(planned):
        yield _compared("fastest", planned, fastest, lambda each: each.rate)
    else:
        yield from _by_price(planned, fastest)
    if len(planned) > 1:
        yield from _ends(found)
    for each in found.clusters:
        if each.plan is None:
            yield f"{each.label} has no plan: {each.reason.rstrip('.')}."


Planned = tuple[ClusterPlan, Plan, Totals]


def _by_price(planned: list[Planned], fastest: Planned) -> Iterator[str]:
    """Name the cheapest cluster, and the fastest where that is another."""
    cheapest = min(planned, key=lambda each: each[2].dollars_per_million or 0.0)
    others = [each for each in planned if each is not cheapest]
    second = min(others, key=lambda each: each[2].dollars_per_million or 0.0)
    unit = unit_of(cheapest[1])
    first, next_ = (each[2].dollars_per_million or 0.0 for each in (cheapest, second))
    how = "cheapest and fastest" if cheapest is fastest else "cheapest"
    less = f"{percent(1 - first / next_)} less than" if first < (1 - _ALIKE) * next_ else "as much as"
    yield (
        f"{cheapest[0].label} are {how}: {dollars(first)} per million {unit}, {less} {second[0].label} "
        f"({dollars(next_)})."
    )
    slower = second if cheapest is fastest else cheapest
    factor = times(fastest[2].rate / slower[2].rate)
    subject = "They train" if cheapest is fastest else f"{fastest[0].label} are fastest: they train"
    yield f"{subject} {rate_words(fastest[1], as_run(fastest[1].best[0]))}, {factor} {slower[0].label}."
    if training := training_words(cheapest[1], cheapest[2]):
        own = f"With {cheapest[0].label}, {training}"
        beside = [each for each in others if each[2].train_s is not None]
        more = ", ".join(f"with {each[0].label}, {training_words(each[1], each[2], True)}" for each in beside)
        yield f"{own}; {more}."


def _by_energy(planned: list[Planned]) -> str:
    """Name the cluster that needs the least energy for a sample, and the next one."""
    first, second, *_ = sorted(planned, key=lambda each: each[2].joules_per_sample or 0.0)
    least, more = (each[2].joules_per_sample or 0.0 for each in (first, second))
    less = percent(1 - least / more)
    return (
        f"{first[0].label} need the least energy: at most {count(least)} J per sample, {less} less "
        f"than {second[0].label}, at {rate_words(first[1], as_run(first[1].best[0]))}."
    )


def _compared(word: str, planned: list[Planned], best: Planned, value: Callable[[Totals], float]) -> str:
    second = max((each for each in planned if each is not best), key=lambda each: value(each[2]))
    return (
        f"{best[0].label} are {word}: {rate_words(best[1], as_run(best[1].best[0]))}, "
        f"{times(value(best[2]) / value(second[2]))} {second[0].label}."
    )


def _ends(found: ClusterComparison) -> Iterator[str]:
    """Say on which clusters the search did not prove that nothing is better, and how much better it could be."""
    for ended, how in (("time", "The time limit ended the search"), ("interrupted", "The search was interrupted")):
        names = [
            f"{each.label} ({ended_words(each.plan)})"
            for each in found.planned
            if each.plan is not None and each.plan.ended == ended and not is_proved(each.plan)
        ]
        if names:
            yield f"{how} on {', '.join(names)}: in brackets is how much better another layout could be."
