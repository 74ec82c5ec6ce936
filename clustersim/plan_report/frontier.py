"""Figures of the frontier: the throughput of every simulated layout against its memory, and against its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from clustersim.plan_report.words import dollars, layout_name
from clustersim.planner import ClusterComparison, Entry, Plan, totals
from clustersim.planner.totals import unit_of
from clustersim.report.figure import Figure, FigureTable, Json, axis, layout, legend
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.words import count, gpus, percent, plot_text, size

_NEAR = 0.9
"""Share of the best rate from which the layout with the least memory is named."""

_FEWEST = 3
"""Layouts from which on a frontier of memory says something."""

_FAR = 1.6
"""Times the largest memory of a layout from which that of the GPU is not drawn."""

_GB = 1e9


@dataclass(frozen=True)
class FrontierPoint:
    """One simulated layout: `across` is its memory in GB or its dollars for a million, `rate` what it trains a second.

    `is_best`: no simulated layout of its cluster is better by the objective. `is_rule`: a rule of thumb gives it.
    """

    name: str
    across: float
    rate: float
    about: str
    is_best: bool = False
    is_rule: bool = False


@dataclass(frozen=True)
class FrontierLine:
    """The layouts of one cluster, and which of them are on its frontier, if it has one of its own.

    `limit` is the memory of a GPU in GB; None where that is not across.
    """

    label: str
    points: tuple[FrontierPoint, ...]
    frontier: tuple[int, ...]
    limit: float | None = None


@dataclass(frozen=True)
class Frontier:
    """The figure in numbers; `shared` are the points (line, point) on a frontier of all clusters together, if any."""

    title: str
    subtitle: str
    across: str
    up: str
    lines: tuple[FrontierLine, ...]
    shared: tuple[tuple[int, int], ...] = ()
    quiet: str = ""


Labelled = tuple[str, Plan]


def labelled(found: Plan | ClusterComparison) -> list[Labelled]:
    """Return each plan with the name of its cluster; the name is empty for a single plan."""
    if isinstance(found, Plan):
        return [("", found)]
    return [(each.label, each.plan) for each in found.planned if each.plan is not None]


def memory_data(plans: Sequence[Labelled]) -> Frontier:
    """Return the throughput of every simulated layout against the memory of its fullest GPU."""
    unit = unit_of(plans[0][1])
    lines = []
    for label, plan in plans:
        points = tuple(_point(plan, entry, entry.memory_bytes / _GB) for entry in _entries(plan))
        limit = plan.gpu_memory_bytes / _GB if isfinite(plan.gpu_memory_bytes) else None
        lines.append(FrontierLine(label, points, pareto(points), limit))
    return Frontier(
        title=_memory_title(plans, lines),
        subtitle=f"Each point is a simulated layout: {unit} per second against the memory of its fullest GPU (GB). "
        "The line joins those that no other beats in both.",
        across="memory of the fullest GPU (GB)",
        up=f"{unit} per second",
        lines=tuple(lines),
        quiet="" if any(len(line.points) >= _FEWEST for line in lines) else "Too few layouts were simulated.",
    )


def cost_data(plans: Sequence[Labelled]) -> Frontier | None:
    """Return the throughput of every simulated layout against its cost; None without prices."""
    priced = [(label, plan) for label, plan in plans if plan.gpu_dollars_per_hour is not None]
    if not priced:
        return None
    unit = unit_of(priced[0][1])
    lines = []
    for label, plan in priced:
        found = [(entry, totals(plan, entry).dollars_per_million or 0.0) for entry in _entries(plan)]
        lines.append(FrontierLine(label, tuple(_point(plan, entry, cost) for entry, cost in found), ()))
    places = [(number, place) for number, line in enumerate(lines) for place in range(len(line.points))]
    shared = pareto([lines[number].points[place] for number, place in places])
    hourly = {totals(plan, entry).dollars_per_hour for _, plan in priced for entry in _entries(plan)}
    quiet = "All these layouts cost the same an hour, so the fastest is the cheapest." if len(hourly) == 1 else ""
    return Frontier(
        title=_cost_title(priced),
        subtitle=f"Each point is a simulated layout: {unit} per second against dollars per million {unit}. "
        "The line joins those that no other beats in both.",
        across=f"dollars per million {unit}",
        up=f"{unit} per second",
        lines=tuple(lines),
        shared=tuple(places[number] for number in shared),
        quiet=quiet,
    )


def pareto(points: Sequence[FrontierPoint]) -> tuple[int, ...]:
    """Return the points that no other beats both across (less) and in rate (more), in the order of `across`.

    >>> pareto([FrontierPoint("a", 1.0, 2.0, ""), FrontierPoint("b", 2.0, 1.0, ""), FrontierPoint("c", 3.0, 4.0, "")])
    (0, 2)
    """
    found, most = [], 0.0
    for number in sorted(range(len(points)), key=lambda number: (points[number].across, -points[number].rate)):
        if points[number].rate > most:
            found.append(number)
            most = points[number].rate
    return tuple(found)


def _entries(plan: Plan) -> list[Entry]:
    """Return all simulated layouts and that of the rule of thumb."""
    entries = list(plan.simulated or plan.best)
    if plan.rule_of_thumb is not None and all(each.choice != plan.rule_of_thumb.choice for each in entries):
        entries.append(plan.rule_of_thumb)
    return entries


def _point(plan: Plan, entry: Entry, across: float) -> FrontierPoint:
    found, unit = totals(plan, entry), unit_of(plan)
    about = [f"{count(found.rate)} {unit} per second", f"{size(entry.memory_bytes)} on the fullest GPU"]
    if found.dollars_per_million is not None:
        about.append(f"{dollars(found.dollars_per_million)} per million {unit}")
    about.append(f"MFU {percent(entry.mfu)}")
    rule = plan.rule_of_thumb
    return FrontierPoint(
        name=layout_name(plan, entry),
        across=across,
        rate=found.rate,
        about="; ".join(about),
        is_best=entry.choice == plan.best[0].choice,
        is_rule=rule is not None and entry.choice == rule.choice,
    )


def _memory_title(plans: Sequence[Labelled], lines: Sequence[FrontierLine]) -> str:
    """Name the least memory that still gives nearly the best rate, on the first cluster with such a layout."""
    for (label, plan), line in zip(plans, lines, strict=True):
        fastest = max(line.points, key=lambda point: point.rate)
        near = [line.points[number] for number in line.frontier if line.points[number].rate >= _NEAR * fastest.rate]
        least = min(near, key=lambda point: point.across)
        on = f"On {label}, " if label else ""
        if least.across < _NEAR * fastest.across:
            return (
                f"{on}{percent(least.rate / fastest.rate)} of the best rate takes {size(least.across * _GB)} "
                f"instead of {size(fastest.across * _GB)}: {least.name}"
            )
        if len(plans) == 1:
            of = f" of {size(plan.gpu_memory_bytes)}" if isfinite(plan.gpu_memory_bytes) else ""
            return f"The fastest layout takes {size(fastest.across * _GB)}{of}; none near it takes much less"
    return "The fastest layouts take the memory that they need: none near them takes much less"


def _cost_title(priced: Sequence[Labelled]) -> str:
    """Name the cheapest layout and the fastest one, with their clusters, or their GPUs in a single plan."""
    found = [
        (totals(plan, entry), label or gpus(entry.choice.num_gpus))
        for label, plan in priced
        for entry in _entries(plan)
    ]
    cheapest, where = min(found, key=lambda each: each[0].dollars_per_million or 0.0)
    fastest, there = max(found, key=lambda each: each[0].rate)
    each = f"{dollars(cheapest.dollars_per_million or 0.0)} per million {unit_of(priced[0][1])} on {where}"
    if fastest is cheapest:
        return f"The cheapest layout is the fastest too: {each}"
    dearer = (fastest.dollars_per_million or 0.0) / (cheapest.dollars_per_million or 1.0) - 1
    return f"The cheapest layout costs {each}; the fastest, on {there}, {percent(dearer)} more"


def draw_frontier(data: Frontier) -> Figure:
    """Draw a cloud of layouts and its frontier for each cluster; the best and the rule of thumb have symbols."""
    traces: list[Json] = []
    if data.shared:
        traces.append(_joined([data.lines[number].points[place] for number, place in data.shared], "@muted"))
    for number, line in enumerate(data.lines):
        own = [line.points[place] for place in line.frontier]
        traces += [_joined(own, series_colour(number))] if own else []
        traces.append(_cloud(line, number, len(data.lines) > 1))
    traces += _named(data)
    drawn = layout(
        430,
        xaxis=axis(data.across, range=_range(data)),
        yaxis=axis(data.up, rangemode="normal"),
        shapes=_limits(data),
        hovermode="closest",
        showlegend=True,
        legend=legend(),
    )
    narrow = {"height": 400, "xaxis": {"nticks": 5}, "yaxis": {"nticks": 6}}
    note, table = _note(data), _table(data)
    return Figure(data.title, data.subtitle, traces, drawn, narrow, note=note, quiet=data.quiet, table=table)


def _range(data: Frontier) -> list[float]:
    """Return the axis across, with room for the limit of the memory."""
    values = [point.across for line in data.lines for point in line.points]
    limits = [line.limit for line in data.lines if line.limit is not None]
    low, high = min(values), max(values)
    high = max([high, *(limit for limit in limits if limit < _FAR * high)])
    margin = 0.08 * (high - low or high)
    return [max(0.0, low - margin), high + margin]


def _limits(data: Frontier) -> list[Json]:
    """Return a dashed line at the memory of each cluster's GPU."""
    return [
        {
            "type": "line", "x0": line.limit, "x1": line.limit, "yref": "paper", "y0": 0, "y1": 1,
            "line": {"color": series_colour(number) if len(data.lines) > 1 else "@muted", "width": 1.2, "dash": "dash"},
        }
        for number, line in enumerate(data.lines) if line.limit is not None
    ]  # fmt: skip


def _note(data: Frontier) -> str:
    limits = [f"{line.label} {size(line.limit * _GB)}".strip() for line in data.lines if line.limit is not None]
    dashed = f"Memory of a GPU, dashed where it is near: {', '.join(limits)}. " if limits else ""
    return f"{dashed}Layouts with a worse bound were not simulated, so they have no point. Hover for the layout."


def _hover(line: FrontierLine, point: FrontierPoint) -> str:
    on = f"{plot_text(line.label)}: " if line.label else ""
    return f"<b>{on}{plot_text(point.name)}</b><br>{'<br>'.join(point.about.split('; '))}"


def _cloud(line: FrontierLine, number: int, is_named: bool) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": line.label,
        "showlegend": is_named,
        "x": [point.across for point in line.points],
        "y": [point.rate for point in line.points],
        "hovertext": [_hover(line, point) for point in line.points],
        "hoverinfo": "text",
        "marker": {"size": 8, "opacity": 0.75, "color": series_colour(number), "symbol": series_marker(number)},
    }


def _joined(points: Sequence[FrontierPoint], colour: str) -> Json:
    """Return the frontier through these points, in steps: between two of them nothing better was simulated."""
    return {
        "type": "scatter",
        "mode": "lines",
        "showlegend": False,
        "x": [point.across for point in points],
        "y": [point.rate for point in points],
        "line": {"color": colour, "width": 2, "shape": "hv"},
        "hoverinfo": "skip",
    }


def _named(data: Frontier) -> list[Json]:
    """Return the best layout of each cluster and that of the rule of thumb, each kind with its symbol in the legend."""
    pairs = [(number, point) for number, line in enumerate(data.lines) for point in line.points]
    kinds = [
        ("best", "star", [each for each in pairs if each[1].is_best]),
        ("rule of thumb", "diamond-open", [each for each in pairs if each[1].is_rule]),
    ]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [point.across for _, point in found],
            "y": [point.rate for _, point in found],
            "hovertext": [_hover(data.lines[number], point) for number, point in found],
            "hoverinfo": "text",
            "cliponaxis": False,
            "marker": {"size": 14, "color": "@ink", "symbol": symbol, "line": {"width": 1.6}},
        }
        for name, symbol, found in kinds
        if found
    ]


def _table(data: Frontier) -> FigureTable:
    """Return a row for each point."""
    is_named = len(data.lines) > 1
    headings = [*(["cluster"] if is_named else []), "layout", data.across, data.up, "on the frontier", "note"]
    rows: list[list[str | float | None]] = []
    for place, line in enumerate(data.lines):
        for number, point in enumerate(line.points):
            note = ", ".join([*(["best"] if point.is_best else []), *(["rule of thumb"] if point.is_rule else [])])
            is_on = "yes" if number in line.frontier or (place, number) in data.shared else "no"
            rows.append([*([line.label] if is_named else []), point.name, point.across, point.rate, is_on, note])
    return FigureTable(headings, rows)
