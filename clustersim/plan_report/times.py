"""Where the time goes: an iteration of the best layouts, split into its parts, beside that of the rule of thumb."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.plan_report.frontier import Labelled
from clustersim.plan_report.words import layout_name
from clustersim.planner import Entry, Plan
from clustersim.report.breakdown import Breakdown
from clustersim.report.palette import LABELS
from clustersim.report.words import percent, shortened
from clustersim.results import BREAKDOWN

_MOST = 5
"""Layouts of a single plan that are shown."""

_LONGEST = 44
_LEAST = 0.03
"""Share of an iteration from which a part is named in the title."""


def times_data(plans: Sequence[Labelled]) -> Breakdown:
    """Return the parts of an iteration: of the best few of one plan, or the best of each cluster; and of the rules."""
    if len(plans) == 1:
        _, plan = plans[0]
        rows = [(f"{place}. {layout_name(plan, entry)}", entry) for place, entry in enumerate(plan.best[:_MOST], 1)]
        rows += _rule(plan, "")
    else:
        rows = []
        for label, plan in plans:
            rows += [(f"{label}: {plan.best[0].choice.text()}", plan.best[0]), *_rule(plan, f"{label}, ")]
    entries = [entry for _, entry in rows]
    parts = {part: [entry.breakdown_s.get(part, 0.0) for entry in entries] for part in BREAKDOWN}
    longest = max(entry.iteration_s for entry in entries)
    return Breakdown(
        title=_title(plans),
        runs=[shortened(name, _LONGEST) for name, _ in rows],
        parts_s={part: seconds for part, seconds in parts.items() if max(seconds) > 1e-9 * longest},
        iteration_s=[entry.iteration_s for entry in entries],
        uneven=longest > 6 * min(entry.iteration_s for entry in entries),
    )


def _rule(plan: Plan, before: str) -> list[tuple[str, Entry]]:
    """Return the layout of the rule of thumb unless it is the best one."""
    rule = plan.rule_of_thumb
    if rule is None or rule.choice == plan.best[0].choice:
        return []
    return [(f"{before}rule of thumb: {rule.choice.text()}", rule)]


def _title(plans: Sequence[Labelled]) -> str:
    """Name the largest part of an iteration of the best layout, compute excluded, and that of what is beside it.

    That is the rule of thumb's layout of a single plan, and the last cluster of several.
    """
    label, plan = plans[0]
    best, rule = plan.best[0], plan.rule_of_thumb
    own = f"With {label or 'the best layout'}, {_largest(best)}"
    if len(plans) > 1:
        return f"{own}; with {plans[-1][0]}, {_largest(plans[-1][1].best[0])}"
    if rule is None or rule.choice == best.choice:
        return own
    return f"{own}; with the rule of thumb's, {_largest(rule)}"


def _largest(entry: Entry) -> str:
    """Say how much of an iteration the largest part takes that is not compute; compute where that is little."""
    part, share = _overhead(entry)
    if share < _LEAST:
        return f"{percent(entry.breakdown_s.get('compute', 0.0) / entry.iteration_s)} of each iteration is compute"
    return f"{LABELS[part]} takes {percent(share)} of each iteration"


def _overhead(entry: Entry) -> tuple[str, float]:
    """Return the largest part of an iteration that is not compute, and its share."""
    parts = [part for part in BREAKDOWN if part != "compute"]
    part = max(parts, key=lambda part: entry.breakdown_s.get(part, 0.0))
    return part, entry.breakdown_s.get(part, 0.0) / entry.iteration_s
