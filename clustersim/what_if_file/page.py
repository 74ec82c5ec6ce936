"""The page: knobs at the side, the figures of the chosen point, and all points as packed data."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from clustersim import __version__
from clustersim.report.packed import packed_plotly
from clustersim.report.page import CONTENT_POLICY
from clustersim.report.palette import DARK, LIGHT
from clustersim.results import write_atomically
from clustersim.results.files import to_json
from clustersim.what_if import FIGURE_NAMES, Knob, Stop, WhatIf
from clustersim.what_if.planned_points import PlannedPoints
from clustersim.what_if_file.packs import PER_PACK, fitting_packs
from clustersim.what_if_file.points import Document, Progress, Source, points_of

MOST_POINTS = 400
"""Points of a page if nothing else is said."""

_HEADINGS = {"scaling": "Scaling", "breakdown": "Where the time goes", "timeline": "One iteration"}


def write_what_if(
    source: Source,
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    most: int = MOST_POINTS,
    workers: int = 0,
    progress: Progress = lambda share, what: None,
) -> Path:
    """Simulate at most `most` points of a scenario with values changed, and write them as one HTML page.

    `overrides` are texts of `--set`; `workers` is the number of processes, 0 for one per core. The bytes of the file
    depend on neither the processes nor the time.
    """
    return write_atomically(path, what_if_html(*points_of(source, overrides, most, workers, progress)))


def what_if_html(study: WhatIf, planned: PlannedPoints, documents: Sequence[Document]) -> str:
    """Return the page as HTML. The first document is the scenario as it is."""
    packs = fitting_packs(documents)
    report, own = files("clustersim.report"), files("clustersim.what_if_file")
    scripts = (report / "shared.js", own / "what_if.js")
    data = {"plotly": packed_plotly(), **{f"points-{number}": pack for number, pack in enumerate(packs)}}
    return _text(own / "what_if.html").format(
        policy=CONTENT_POLICY,
        version=escape(__version__),
        name=escape(study.name),
        style=_text(report / "page.css") + _text(own / "what_if.css"),
        figures="\n".join(_card(name) for name in FIGURE_NAMES),
        inside=_inside(study, planned, documents),
        page=to_json(_about(study, planned, documents)).replace("<", "\\u003c"),
        packed="\n".join(f'<script type="text/plain" id="packed-{name}">{data[name]}</script>' for name in data),
        script='"use strict";\n(() => {\n' + "".join(map(_text, scripts)) + "})();",
    )


def _about(study: WhatIf, planned: PlannedPoints, documents: Sequence[Document]) -> dict[str, Any]:
    """Return what the script needs at once: the knobs, the settings of each point, and the colours.

    The settings of a point are pairs of numbers of a knob and of its stop.
    """
    numbers = {knob.name: number for number, knob in enumerate(study.knobs)}
    stops = [{stop.text: number for number, stop in enumerate(knob.stops)} for knob in study.knobs]
    return {
        "name": study.name,
        "knobs": [_knob(knob, knob.name in planned.combined) for knob in study.knobs],
        "points": [
            [[numbers[name], stops[numbers[name]][text]] for name, text in document["settings"].items()]
            for document in documents
        ],
        "first": next((number for number, each in enumerate(documents) if "question" in each), 0),
        "perPack": PER_PACK,
        "themes": {"light": LIGHT, "dark": DARK},
    }


def _knob(knob: Knob, is_combined: bool) -> dict[str, Any]:
    return {
        "name": knob.name,
        "label": knob.label,
        "kind": knob.kind,
        "unit": knob.unit,
        "current": knob.current,
        "kinds": list(knob.kinds),
        "combined": is_combined,
        "stops": [{"label": stop.label, "kind": _strategy_kind(knob, stop)} for stop in knob.stops],
    }


def _strategy_kind(knob: Knob, stop: Stop) -> str | None:
    """Return the kind of strategy that a stop chooses; None for other knobs."""
    if knob.key not in ("strategy", "strategy.kind"):
        return None
    return str(stop.value["kind"] if isinstance(stop.value, dict) else stop.value)


def _card(name: str) -> str:
    """Return the card of a figure, with a place for that of the pinned point."""
    return (
        f'<section class="card" id="{name}" aria-label="{_HEADINGS[name]}"><div class="beside">'
        + "".join(
            f'<div class="{which}"><p class="which">{which}</p><h3 id="title-{name}-{which}"></h3>'
            f'<p class="under" id="under-{name}-{which}"></p>'
            f'<div class="plot" id="plot-{name}-{which}" role="img" aria-labelledby="title-{name}-{which}"></div>'
            f'<p class="note" id="note-{name}-{which}"></p></div>'
            for which in ("pinned", "now")
        )
        + "</div></section>"
    )


def _inside(study: WhatIf, planned: PlannedPoints, documents: Sequence[Document]) -> str:
    """Return what the file has points for, as a list."""
    labels = {knob.name: knob.label for knob in study.knobs}
    stops = {knob.name: {stop.text: stop.label for stop in knob.stops} for knob in study.knobs}
    combined = [
        f"{labels[name]} ({', '.join(stops[name][text] for text in texts)})" for name, texts in planned.combined.items()
    ]
    alone = [
        f"{labels[name]} ({len(texts)} of {len(stops[name])} values)" if len(texts) < len(stops[name]) else labels[name]
        for name, texts in planned.alone.items()
    ]
    refused = sum(document["rate"] is None for document in documents)
    items = [
        f"All combinations of {'; '.join(combined)}." if combined else "No combinations of several knobs.",
        f"One at a time, all others as in the scenario: {', '.join(alone)}.",
        f"{len(documents)} points in all, of which {refused} are refused; these say why.",
    ]
    return "".join(f"<li>{escape(item)}</li>" for item in items)


def _text(resource: Traversable) -> str:
    return resource.read_text(encoding="utf-8")
