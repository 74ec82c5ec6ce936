"""Texts and tables around the figures: forecast, error, assumptions, how to reproduce."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from shlex import quote

from clustersim.report.anchor import anchor_card
from clustersim.report.answer import Tile, rows, tiles
from clustersim.report.band import band_basis, band_sentence
from clustersim.report.failing import every_point, failing_rows, failing_sentence
from clustersim.report.findings import findings
from clustersim.report.machine import machine
from clustersim.report.page import bullets, card, choice_grid, grid, of_run
from clustersim.report.published import METRICS, comparisons
from clustersim.report.series import axis_headings, headline, run_label, runs_in_order, varied
from clustersim.report.words import count, percent, plural, size
from clustersim.results import Run, Sweep

_WORDS = ("run", "metric", "source", "what")
"""Table columns of texts, not numbers."""

_FROM_TABLES = "has kernels that were measured on that device, one by one"

_PROVENANCE = {
    "measured": "was measured on that device",
    "published": "follows a published single-device rate",
    "estimated": "is estimated from the device's data sheet",
    "anchored": "is scaled to the measured runs of the scenario",
}


def header(sweep: Sweep) -> str:
    """Return the name of the scenario, the answer, the numbers, and whether there are warnings.

    The first sentence of the answer is the heading of the page, the others follow it.
    """
    first, *others = findings(sweep)
    numbers = f'<dl class="tiles">{"".join(map(tile_html, tiles(sweep)))}</dl>' if sweep.ran else ""
    banner = ""
    if sweep.warnings:
        number = plural(len(sweep.warnings), "warning")
        banner = f'<p class="banner"><a href="#warnings">{number}</a>: {escape(sweep.warnings[0])}</p>'
    return (
        f'<header><p class="name">{escape(sweep.name)}</p><h1>{escape(first)}</h1>'
        f'<p class="more">{escape(" ".join(others))}</p>'
        f'<p class="note">{escape(machine(sweep))}</p></header>{banner}{numbers}'
    )


def tile_html(tile: Tile) -> str:
    """Return a number of the first screen."""
    return (
        f'<div class="tile"><dt>{escape(tile.label)}</dt><dd>{escape(tile.value)}</dd>'
        f'<dd class="note">{escape(tile.note)}</dd></div>'
    )


def all_runs(sweep: Sweep) -> str:
    """Return the table of all runs, which the reader sorts, and in which a row is the choice of that run."""
    headings, body = rows(sweep)
    title = (
        f"{count(len(body))} of {plural(len(sweep.runs), 'point')} ran"
        if sweep.failed
        else ("One run" if len(body) == 1 else f"All {len(body)} runs")
    )
    words = _text_axes(sweep)
    under = "Means over workers and iterations."
    if "baseline" in headings:
        under += (
            " Each run has its own baseline, in samples/s: one GPU at its batch, the fewest GPUs that hold the model,"
        )
        under += " or the one in the scenario."
    if len(body) == 1:
        return card(title, under, grid(headings, body, words), name="Runs")
    under += " Click a heading to sort, and a row to see that run."
    names = [run_label(sweep, run) for run in runs_in_order(sweep)]
    return card(title, under, choice_grid(headings, body, words, names), name="Runs")


def failing(sweep: Sweep) -> str:
    """Return the table of the points without a forecast; empty if all have one."""
    if not sweep.failed:
        return ""
    sentence = failing_sentence(sweep)
    headings, body = failing_rows(sweep)
    has_remedies = any(run.error is not None and run.error.remedy for run in sweep.failed)
    under = "The change after the bytes is the least one with which a point fits." if has_remedies else ""
    words = [*_text_axes(sweep), headings[-1]]
    title = f"{sentence[:1].upper()}{sentence[1:]}"
    return card(title, under, grid(headings, body, words, "scroll many"), long=True, name="Points without a forecast")


def _text_axes(sweep: Sweep) -> list[str]:
    """Return the headings of the axes that have texts."""
    keys = varied(every_point(sweep))
    return axis_headings([key for key in keys if any(isinstance(run.axes.get(key), str) for run in sweep.runs)])


def sources(sweep: Sweep) -> str:
    """Return the table of published figures with their sources; empty where there are none."""
    found = comparisons(sweep)
    if not found:
        return ""
    headings = ["run", "metric", "published", "forecast", "error", "source"]
    body = [
        [row.run, METRICS[row.metric], row.published_text(), row.forecast_text(), percent(row.error, signed=True),
         "; ".join(filter(None, (row.source, row.note)))]
        for row in found
    ]  # fmt: skip
    title, under = "Sources of the published figures", "Error is forecast / published − 1."
    return card(title, under, grid(headings, body, _WORDS), long=True, name="Sources")


def provenance(run: Run, label: str) -> str:
    """Return the shares of the compute time by their provenance, as a bar and as text."""
    shares = {origin: run.provenance.get(origin, 0.0) for origin in _PROVENANCE}
    known = {origin: share for origin, share in shares.items() if share > 0}
    if not known:
        return ""
    bar = "".join(f'<span class="{origin}" style="width:{100 * share:.3f}%"></span>' for origin, share in known.items())
    says = _PROVENANCE | ({"measured": _FROM_TABLES} if run.kernels == "measured" else {})
    words = "".join(
        f'<li><span class="key {origin}"></span>{percent(share)} {says[origin]}</li>' for origin, share in known.items()
    )
    most = max(known, key=lambda origin: known[origin])
    share = "All" if known[most] > 0.9999 else percent(known[most])
    return card(
        f"{share} of the compute time {says[most]}",
        f"Provenance of the compute time: {label}.",
        f'<div class="bar">{bar}</div><ul class="keys">{words}</ul>',
        name="Provenance",
    )


def memory(run: Run, label: str) -> str:
    """Return the memory of the GPU that holds most, by part; empty where it is unknown."""
    parts = sorted(((part, value) for part, value in run.memory_parts.items() if value > 0), key=lambda item: -item[1])
    if not parts:
        return ""
    title = f"The GPU that holds most uses {size(run.memory_bytes)}; the largest part is {parts[0][0]}"
    body = [[part, size(value), percent(value / run.memory_bytes)] for part, value in parts]
    under = f"Memory by its contents: {label}."
    return card(title, under, grid(["what", "memory", "share"], body, _WORDS), name="Memory")


def band(run: Run) -> str:
    """Return where the measurement is expected and what that rests on."""
    if run.band is None:
        return card("No band", "Too few checked forecasts, or a result of an earlier version.", "", name="Band")
    title = "A forecast like this one was never checked" if run.band.unchecked else "How sure the forecast is"
    basis = band_basis(run.band)
    return card(title, f"{band_sentence(run)} {basis[0].upper()}{basis[1:]}.", "", name="Band")


def run_cards(run: Run, label: str) -> dict[str, str]:
    """Return the cards of one run, by name; the page shows those of the run that the reader chooses."""
    return {"band": band(run), "provenance": provenance(run, label), "memory": memory(run, label)}


def how_sure(sweep: Sweep) -> Iterator[str]:
    """Yield the cards on the error of the forecast and its inputs."""
    run = headline(sweep)
    cards = {name: of_run(name, html) for name, html in run_cards(run, run_label(sweep, run)).items()}
    yield sources(sweep)
    yield anchor_card(sweep)
    yield from cards.values()
    yield _list("warning", sweep.warnings, "No problem was found.")
    yield _list("assumption", sweep.assumptions, "No value of the data sheets used is a guess.")
    yield _list(
        "shortcut",
        sweep.shortcuts,
        "Every event was simulated.",
        "Exact to 1e-9; --exact turns them off.",
    )


def _list(one: str, items: tuple[str, ...], nothing: str, under: str = "") -> str:
    if not items:
        return card(f"No {one}s", nothing, "", name=f"{one.capitalize()}s")
    return card(plural(len(items), one).capitalize(), under, bullets(items), long=True, name=f"{one.capitalize()}s")


def reproduce(sweep: Sweep) -> Iterator[str]:
    """Yield the command and the scenario, as written by the user."""
    file = f"{sweep.name}.yaml"
    command = f"clustersim run {quote(file)} --seed {sweep.seed}"
    yield card(
        "Run it again", f"With clustersim {sweep.version}; the scenario below saved as {file}.",
        f"<pre>{escape(command)}</pre>", name="Command",
    )  # fmt: skip
    if sweep.scenario_text:
        yield card(
            "The scenario",
            "As it was run: with the file that it extends, and with every --set.",
            f"<pre>{escape(sweep.scenario_text)}</pre>",
            long=True,
            name="Scenario",
        )
