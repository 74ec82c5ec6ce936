"""The page of a plan: one self-contained HTML file, the answer first, in the style of the report of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from shlex import quote
from urllib.parse import quote as in_address

from clustersim import __version__
from clustersim.plan_report.answer import answer, best_and_rule, gain_over
from clustersim.plan_report.frontier import Labelled, cost_data, draw_frontier, labelled, memory_data
from clustersim.plan_report.tables import (
    CLUSTER_WORDS,
    LAYOUT_WORDS,
    cluster_rows,
    discarded_rows,
    layout_rows,
)
from clustersim.plan_report.times import times_data
from clustersim.plan_report.words import dollars, ended_words, named_by_gpus
from clustersim.planner import ClusterComparison, Plan, as_run, totals
from clustersim.planner.rule_of_thumb import RULE_OF_THUMB
from clustersim.planner.totals import unit_of
from clustersim.report.answer import Tile
from clustersim.report.breakdown import draw_breakdown, draw_shares
from clustersim.report.page import bullets, card, grid, page, part
from clustersim.report.panel import Panel
from clustersim.report.sections import tile_html
from clustersim.report.words import count, duration, long_duration, percent, size
from clustersim.results import write_atomically

_NO_BAND = (
    "A plan compares layouts by the mean time of few iterations, and states no band. Run the scenario "
    "below for the forecast of this layout with its band, its limits and its assumptions."
)


def write_plan_report(found: Plan | ClusterComparison, path: str | Path) -> Path:
    """Write the page of a plan, or of several clusters side by side, as one self-contained HTML file."""
    return write_atomically(path, plan_html(found))


def plan_html(found: Plan | ClusterComparison) -> str:
    """Return the page as HTML. The first screen has the answer; everything below is optional reading."""
    plans = labelled(found)
    frontiers, times = _frontiers(plans), _times(plans)
    body = [
        _header(found, plans),
        _clusters(found),
        part("Throughput, memory and cost"),
        *(panel.html() for panel in frontiers),
        part("The best layouts"),
        *(_layouts(label, plan) for label, plan in plans),
        times.html(),
        part("What was searched"),
        *(_searched(label, plan) for label, plan in plans),
        part("Run the best"),
        *(_scenario(label, plan) for label, plan in plans if plan.scenario_text),
        f"<footer>clustersim {__version__}. Figures need JavaScript; nothing is loaded from the network.</footer>",
    ]
    name = found.name
    return page(f"{name}: clustersim plan", __version__, body, [*frontiers, times], name=name)


def _header(found: Plan | ClusterComparison, plans: Sequence[Labelled]) -> str:
    """Return the name, the answer and the numbers of a single plan."""
    first, *others = answer(found)
    numbers = "".join(map(tile_html, _tiles(plans[0][1]))) if len(plans) == 1 else ""
    software = ", ".join(dict.fromkeys(plan.software for _, plan in plans if plan.software))
    transports = ", ".join(dict.fromkeys(plan.transport for _, plan in plans if plan.transport))
    machine = "; ".join(f"{what} {text}" for what, text in (("software", software), ("transport", transports)) if text)
    return (
        f'<header><p class="name">{escape(found.name)}</p><h1>{escape(first)}</h1>'
        f'<p class="more">{escape(" ".join(others))}</p><p class="note">{escape(machine)}</p></header>'
        + (f'<dl class="tiles">{numbers}</dl>' if numbers else "")
    )


def _tiles(plan: Plan) -> Iterator[Tile]:
    best, planned = as_run(plan.best[0]), plan.best[0]
    found, unit = totals(plan, best), unit_of(plan)
    yield Tile(f"{unit.capitalize()} per second", count(found.rate), named_by_gpus(plan, best))
    run = "" if best.run_s is None else f"as clustersim run forecasts it; {duration(planned.iteration_s)} as planned"
    yield Tile("Iteration", duration(best.iteration_s), run)
    yield Tile("MFU", percent(best.mfu), f"bubble {percent(best.bubble_share)}")
    memory = f"of {size(plan.gpu_memory_bytes)}, on the fullest GPU" if isfinite(plan.gpu_memory_bytes) else ""
    yield Tile("Memory", size(best.memory_bytes), memory)
    if found.dollars_per_hour is not None and found.dollars_per_million is not None:
        hourly = f"{dollars(found.dollars_per_hour)} an hour"
        yield Tile(f"Dollars per million {unit}", dollars(found.dollars_per_million), hourly)
    if found.train_s is not None:
        cost = "" if found.train_dollars is None else dollars(found.train_dollars)
        yield Tile("Time to train", long_duration(found.train_s), cost)
    if (pair := best_and_rule(plan)) is not None:
        yield Tile("Over the rule of thumb", percent(gain_over(plan, *pair), signed=True), pair[1].choice.text())
    simulated = f"{count(plan.num_simulated)} of {count(plan.num_layouts)} layouts simulated"
    yield Tile("Left to gain", ended_words(plan), simulated)


def _clusters(found: Plan | ClusterComparison) -> str:
    """Return the table of the clusters; empty for a single plan."""
    if isinstance(found, Plan):
        return ""
    headings, body = cluster_rows(found)
    under = "The best layout of each. Left to gain: how much better a layout that was not simulated could be."
    return card("Clusters side by side", under, grid(headings, body, CLUSTER_WORDS), name="Clusters")


def _frontiers(plans: Sequence[Labelled]) -> list[Panel]:
    """Return the figures of throughput against memory and, where there are prices, against cost."""
    panels = [Panel("memory", (draw_frontier(memory_data(plans)),), heading="Throughput and memory")]
    cost = cost_data(plans)
    if cost is not None:
        panels.insert(0 if len(plans) > 1 else 1, Panel("cost", (draw_frontier(cost),), heading="Throughput and cost"))
    return panels


def _times(plans: Sequence[Labelled]) -> Panel:
    data = times_data(plans)
    drawn = (draw_shares(data), draw_breakdown(data)) if data.uneven else (draw_breakdown(data), draw_shares(data))
    return Panel("times", drawn, choose="bars of", heading="Where the time goes", rows="layout")


def _layouts(label: str, plan: Plan) -> str:
    headings, body = layout_rows(plan)
    title = f"The best {len(plan.best)} layouts" if len(plan.best) > 1 else "The only simulated layout"
    of = f" of {label}" if label else ""
    under = "Reasons are shares of the best layout's whole time."
    if any(entry.run_s is not None for entry in plan.best):
        under += " Times and rates are as planned, as in the figures; as run: the time that clustersim run forecasts."
    if plan.rule_of_thumb is not None:
        under += f" Rule of thumb: {RULE_OF_THUMB}."
    return card(f"{title}{of}", under, grid(headings, body, LAYOUT_WORDS), name=f"Layouts{of}")


def _searched(label: str, plan: Plan) -> str:
    """Return how many layouts there are, why others were discarded, and what the scenario fixes."""
    headings, body = discarded_rows(plan)
    of = f" of {label}" if label else ""
    title = f"{count(plan.num_layouts)} layouts{of}, {count(plan.num_simulated)} simulated"
    fixed = [f"{key}: {_plain(value)}" for key, value in plan.fixed.items()]
    left_out = [f"software.{key}" for key in plan.left_out]
    measured = [] if plan.anchor is None else [*plan.anchor.sentences(), *plan.anchor.warnings]
    lists = [
        ("Fixed by the scenario", fixed),
        ("Settings of the software that a plan leaves out", left_out),
        ("Measured runs", measured),
    ]
    more = "".join(f'<p class="note">{escape(what)}:</p>{bullets(items)}' for what, items in lists if items)
    return card(title, "The others were discarded.", grid(headings, body, ("reason",)) + more, name=f"Search{of}")


def _plain(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _scenario(label: str, plan: Plan) -> str:
    """Return the scenario of the best layout, to be saved or copied, and the command that runs it."""
    of = f" of {label}" if label else ""
    file = "-".join(["best", *"".join(letter if letter.isalnum() else " " for letter in label).split()]) + ".yaml"
    address = f"data:text/yaml;charset=utf-8,{in_address(plan.scenario_text)}"
    link = f'<a download="{escape(file)}" href="{escape(address)}">Save {escape(file)}</a>'
    content = (
        f"<pre>{escape(f'clustersim run {quote(file)}')}</pre><p>{link}</p><pre>{escape(plan.scenario_text)}</pre>"
    )
    return card(f"The best layout{of} as a scenario", _NO_BAND, content, long=True, name=f"Scenario{of}")
