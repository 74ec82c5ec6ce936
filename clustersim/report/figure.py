"""A drawn figure: plotly traces and a layout as plain dicts, with title and subtitle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, floor, log10
from typing import Any

from clustersim.report.words import count, plot_text, shortened

Json = dict[str, Any]


@dataclass(frozen=True)
class FigureTable:
    """The numbers of a figure: headings with units, and rows of texts and numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]


@dataclass(frozen=True)
class Figure:
    """A figure of the page: `title` states the finding, `subtitle` says what is drawn.

    `narrow` overrides the layout on screens narrower than 640 px; `narrow_traces` replace the traces there. `label`
    names the figure among its variants; `note` says what is not drawn. `quiet` says in a sentence why the figure has
    nothing to tell, such as "No link is busy for more than 20 % of the time."; its panel is then folded to that line.

    The numbers as a table are made from the traces and the titles of the axes. Where traces are only a drawing, `table`
    has the numbers.
    """

    title: str
    subtitle: str
    traces: list[Json]
    layout: Json
    narrow: Json = field(default_factory=dict)
    label: str = ""
    note: str = ""
    narrow_traces: list[Json] | None = None
    quiet: str = ""
    table: FigureTable | None = None

    def document(self) -> Json:
        """Return what the page's script needs: the drawing, its texts, and its table if it has one."""
        words = {word: getattr(self, word) for word in ("title", "subtitle", "note", "quiet")}
        return {**self.drawing(), **words, "table": None if self.table is None else asdict(self.table)}

    def drawing(self) -> Json:
        """Return the data from which the page's script draws."""
        return {
            "traces": self.traces,
            "layout": self.layout,
            "narrow": self.narrow,
            "narrow_traces": self.narrow_traces,
        }


def layout(height: int, **parts: Any) -> Json:
    """Return the layout that all figures share, with this height in px; `parts` override it."""
    return {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8, "pad": 2},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13, "color": "@ink"},
        "hoverlabel": {
            "align": "left",
            "bgcolor": "@surface",
            "bordercolor": "@muted",
            "font": {"size": 13, "color": "@ink"},
        },
        "separators": ".\u202f",
        "showlegend": False,
        "dragmode": "zoom",
        **parts,
    }


def axis(title: str = "", **parts: Any) -> Json:
    """Return an axis with its title (which includes the unit); `parts` override it."""
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 13, "color": "@muted"}},
        "gridcolor": "@grid",
        "linecolor": "@muted",
        "tickcolor": "@muted",
        "zeroline": False,
        "automargin": True,
        "exponentformat": "none",
        **parts,
    }


def log_ticks(values: Sequence[float]) -> Json:
    """Return round ticks of a logarithmic axis that has these values, closer together where it is short.

    >>> log_ticks([0.6, 2.5])["ticktext"]
    ['0.5', '0.7', '1', '1.5', '2', '3']
    """
    low, high = min(values), max(values)
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 8 * low else (1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)
    powers = range(floor(log10(low)) - 1, ceil(log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    inside = [tick for tick in ticks if 0.7 * low <= tick <= 1.45 * high]
    return {"tickvals": inside, "ticktext": [count(float(f"{tick:.2g}")) for tick in inside]}


def legend(**parts: Any) -> Json:
    """Return a legend above the plot, in rows."""
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1.0,
        "yanchor": "bottom",
        "traceorder": "normal",
        "font": {"size": 13},
        "itemclick": "toggle",
        **parts,
    }


def names_over(names: Sequence[str]) -> Json:
    """Return the layout of a narrow screen that writes row names above the rows instead of beside them."""
    style: Json = {
        "x": 0, "xref": "paper", "xanchor": "left", "yanchor": "middle", "showarrow": False, "borderpad": 0,
        "font": {"size": 12, "color": "@ink"},
    }  # fmt: skip
    texts = [{**style, "y": place - 0.38, "text": plot_text(shortened(name, 46))} for place, name in enumerate(names)]
    return {"yaxis": {"showticklabels": False, "ticks": ""}, "annotations": texts}


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    """Return `base` overridden by `over`; mappings are merged key by key.

    >>> merged({"xaxis": {"type": "log"}}, {"xaxis": {"title": "GPUs"}})
    {'xaxis': {'type': 'log', 'title': 'GPUs'}}
    """
    result = dict(base)
    for key, value in over.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return result
