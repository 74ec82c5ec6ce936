"""Tables of a plan: the clusters side by side, the best layouts, and the layouts that were discarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clustersim.plan_report.answer import best_and_rule, gain_over
from clustersim.plan_report.words import dollars, ended_words, layout_name
from clustersim.planner import ClusterComparison, Entry, Plan, Totals, as_run, totals
from clustersim.planner.totals import unit_of
from clustersim.report.words import count, duration, long_duration, percent, size

CLUSTER_WORDS = ("cluster", "best layout")
LAYOUT_WORDS = ("layout", "why it is slower")
"""Columns of texts, not numbers."""

NONE = "–"

Table = tuple[list[str], list[list[str]]]


def cluster_rows(found: ClusterComparison) -> Table:
    """Return the table of the clusters: headings, and a row of texts for each, its best layout and totals.

    The last columns are there where any cluster has a price, the training a length, or a plan a rule of thumb.
    """
    plans = [each.plan for each in found.planned if each.plan is not None]
    sums = [each.totals for each in found.planned if each.totals is not None]
    unit = unit_of(plans[0])
    columns: list[tuple[str, Callable[[Plan, Totals], str]]] = [
        ("iteration", lambda plan, _: duration(as_run(plan.best[0]).iteration_s)),
        (f"{unit}/s", lambda _, total: count(total.rate)),
        ("MFU", lambda plan, _: percent(as_run(plan.best[0]).mfu)),
        ("memory", lambda plan, _: size(plan.best[0].memory_bytes)),
    ]
    if any(total.dollars_per_hour is not None for total in sums):
        columns += [
            ("$/h", lambda _, total: _known(total.dollars_per_hour, count)),
            (f"$/M {unit}", lambda _, total: _known(total.dollars_per_million, count)),
        ]
    if any(total.train_s is not None for total in sums):
        columns.append(("training", lambda _, total: _known(total.train_s, long_duration)))
    if any(total.train_dollars is not None for total in sums):
        columns.append(("$ total", lambda _, total: _known(total.train_dollars, lambda value: dollars(value)[1:])))
    if found.objective == "energy":
        columns.append(("J/sample, at most", lambda _, total: _known(total.joules_per_sample, count)))
    if any(plan.rule_of_thumb is not None for plan in plans):
        columns.append(("over rule of thumb", lambda plan, _: _known(_gain(plan), lambda gain: percent(gain, True))))
    columns.append(("left to gain", lambda plan, _: ended_words(plan)))
    body = []
    for each in found.clusters:
        total = each.totals
        if each.plan is None or total is None:
            body.append([each.label, f"no plan: {each.reason}", *(NONE for _ in columns)])
        else:
            cells = [text(each.plan, total) for _, text in columns]
            body.append([each.label, each.plan.best[0].choice.text(), *cells])
    return [*CLUSTER_WORDS, *(name for name, _ in columns)], body


def _gain(plan: Plan) -> float | None:
    """Return by which share the best layout is better than that of the rule of thumb; None where no rule gives one."""
    pair = best_and_rule(plan)
    return None if pair is None else gain_over(plan, *pair)


def layout_rows(plan: Plan) -> Table:
    """Return the table of the best layouts, and of the rule of thumb's: headings, and a row of texts for each."""
    as_run, unit = any(entry.run_s is not None for entry in plan.best), unit_of(plan)
    is_priced = plan.gpu_dollars_per_hour is not None
    headings = ["layout", "iteration", *(["as run"] if as_run else []), f"{unit}/s", "MFU", "memory", "bubble"]
    headings += [f"$/M {unit}"] if is_priced else []
    headings += ["J/sample, at most"] if plan.objective == "energy" else []
    headings += ["why it is slower"]

    def row(entry: Entry, name: str, reason: str) -> list[str]:
        total = totals(plan, entry)
        cells = [name, duration(entry.iteration_s)]
        cells += [_known(entry.run_s, duration)] if as_run else []
        cells += [count(total.rate), percent(entry.mfu), size(entry.memory_bytes), percent(entry.bubble_share)]
        cells += [_known(total.dollars_per_million, count)] if is_priced else []
        cells += [_known(entry.joules_per_sample, lambda value: f"{value:.4g}")] if plan.objective == "energy" else []
        return [*cells, reason]

    rule = plan.rule_of_thumb
    is_shown = rule is not None and any(entry.choice == rule.choice for entry in plan.best)
    body = []
    for entry in [*plan.best, *([rule] if rule is not None and not is_shown else [])]:
        by_rule = " (rule of thumb)" if rule is not None and entry.choice == rule.choice else ""
        body.append(row(entry, layout_name(plan, entry) + by_rule, entry.reason or "(best)"))
    return headings, body


def discarded_rows(plan: Plan) -> Table:
    """Return why layouts were not simulated, the most frequent reason first."""
    found: Sequence[tuple[str, int]] = sorted(plan.discarded.items(), key=lambda item: -item[1])
    return ["layouts", "reason"], [[count(number), why] for why, number in found]


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return NONE if value is None else text(value)
