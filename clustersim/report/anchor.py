"""Measured runs that anchor a forecast: what they change, and how well each follows from the others."""

from __future__ import annotations

from clustersim.report.page import card, grid
from clustersim.report.words import count, duration, gpus, percent, plural, times
from clustersim.results import Anchor, MeasuredNetwork, MeasuredPoint, Run, Sweep

_HEADINGS = ["run", "measured", "with the anchor", "without it", "from the others"]


def anchor_of(sweep: Sweep) -> Anchor | None:
    """Return the anchor of a sweep, whose runs all have the same factor; None without measured runs."""
    return next((run.anchor for run in sweep.ran if run.anchor is not None), None)


def without_anchor(run: Run) -> dict[str, str]:
    """Return what a run's forecast would be without the anchor, as texts by column of the table."""
    if run.anchor is None:
        return {}
    return {"iteration": duration(run.anchor.iteration_s_without), "samples/s": count(run.anchor.samples_per_s_without)}


def anchor_sentence(found: Anchor) -> str:
    """Say what the measured runs change."""
    if found.network is not None and not found.points:
        return f"The network is fitted to measured collectives: {_network_text(found.network)}."
    network = "" if found.network is None else f"; network by measured collectives: {_network_text(found.network)}"
    fixed = f" and iterations {duration(found.fixed_s)} more" if found.fixed_s else ""
    runs = plural(len(found.points), "measured run")
    return f"Anchored on {runs}: kernels take {times(found.factor)} their time from other sources{fixed}{network}."


def _network_text(network: MeasuredNetwork) -> str:
    """Return the constants of a transport as they were and as fitted, and the errors of both."""
    constants = ", ".join(f"{key} {after:.3g} (was {before:.3g})" for key, (before, after) in network.constants.items())
    errors = [percent(each) for each in (network.median_abs_error, network.median_abs_error_without)]
    figures = plural(network.num_figures, "time")
    return f"{network.transport} with {constants or 'its own constants'}, {errors[0]} off {figures} (was {errors[1]})"


def anchor_lines(sweep: Sweep) -> list[str]:
    """Return the anchor of a sweep as lines of text, with a line for each measured run; empty without one."""
    found = anchor_of(sweep)
    if found is None:
        return []
    lines = [anchor_sentence(found)]
    for row in map(_row, found.points):
        what, measured, forecast, without, others = row
        left_out = "" if others == "–" else f"; from the other runs {others}"
        lines.append(f"  {what}: measured {measured}, forecast {forecast}, without the anchor {without}{left_out}")
    return lines


def anchor_card(sweep: Sweep) -> str:
    """Return the measured runs as a card of the report; empty without any."""
    found = anchor_of(sweep)
    if found is None:
        return ""
    if not found.points:
        return card(anchor_sentence(found), "", "", long=True, name="Anchor")
    under = "“From the others” is the error of the forecast of a run if only the other measured runs were known."
    body = [_row(each) for each in found.points]
    sources = [f"{gpus(each.num_gpus)}: {each.source}" for each in found.points if each.source]
    named = f" Sources: {'; '.join(sources)}." if sources else ""
    return card(anchor_sentence(found), under + named, grid(_HEADINGS, body, ("run",)), long=True, name="Anchor")


def _row(point: MeasuredPoint) -> list[str]:
    """Return a measured run as texts in the order of `_HEADINGS`; errors are forecast / measured - 1."""
    own = ", ".join(f"{key} {_text(value)}" for key, value in point.set.items())
    errors = [
        "–" if error is None else percent(error, signed=True)
        for error in (
            point.forecast / point.measured - 1,
            point.forecast_without / point.measured - 1,
            point.leave_one_out_error,
        )
    ]
    return [
        gpus(point.num_gpus) + (f" ({own})" if own else ""),
        _figure(point, point.measured),
        f"{_figure(point, point.forecast)} ({errors[0]})",
        f"{_figure(point, point.forecast_without)} ({errors[1]})",
        errors[2],
    ]


def _figure(point: MeasuredPoint, value: float) -> str:
    return duration(value) if point.metric == "iteration_s" else f"{count(value)} samples/s"


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(each)}" for key, each in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else str(value)
