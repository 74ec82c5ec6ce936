"""Compute time by layer: forward and backward, and the provenance of the number."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import LABELS, PARTS, PROVENANCE_PATTERNS
from clustersim.report.series import run_label
from clustersim.report.words import duration, percent, plot_text, plural, shortened, size, time_unit
from clustersim.results import Run, Sweep

MAX_LAYERS = 24
"""Layers drawn; the rest are summed in the note."""


@dataclass(frozen=True)
class LayerBar:
    """One layer on one GPU and one iteration, or the sum of the layers that are not drawn."""

    name: str
    op: str
    forward_s: float
    backward_s: float
    provenance: str
    gradient_bytes: float

    @property
    def total_s(self) -> float:
        return self.forward_s + self.backward_s


@dataclass(frozen=True)
class LayerBars:
    """The figure in numbers: the layers with the longest time, longest first, and the sum of those not drawn."""

    title: str
    run: str
    bars: tuple[LayerBar, ...]
    rest: LayerBar | None
    total_s: float


def layers_data(sweep: Sweep, run: Run, max_layers: int = MAX_LAYERS) -> LayerBars | None:
    """Return the layers by compute time; None where the run has none that take time."""
    bars = sorted((LayerBar(*row) for row in run.layers), key=lambda bar: -bar.total_s)
    total = sum(bar.total_s for bar in bars)
    if not total:
        return None
    shown, rest = bars[:max_layers], bars[max_layers:]
    return LayerBars(_title(bars, total), run_label(sweep, run), tuple(shown), _sum(rest) if rest else None, total)


def _sum(bars: list[LayerBar]) -> LayerBar:
    origins = {bar.provenance for bar in bars}
    return LayerBar(
        name=plural(len(bars), "other layer"),
        op="",
        forward_s=sum(bar.forward_s for bar in bars),
        backward_s=sum(bar.backward_s for bar in bars),
        provenance=origins.pop() if len(origins) == 1 else "mixed",
        gradient_bytes=sum(bar.gradient_bytes for bar in bars),
    )


def _title(bars: list[LayerBar], total: float) -> str:
    if len(bars) == 1:
        return f"The whole model is one layer: {duration(total)} of compute per iteration"
    few = next(number for number in range(1, len(bars) + 1) if sum(b.total_s for b in bars[:number]) >= 0.5 * total)
    return f"Half of the compute time is in {few} of {len(bars)} layers; {bars[0].name} alone takes " + percent(
        bars[0].total_s / total
    )


def draw_layers(data: LayerBars) -> Figure:
    """Draw one stacked bar per layer, hatched by provenance."""
    unit, factor = time_unit(max(bar.total_s for bar in data.bars))
    traces = [_trace(data, kind, factor) for kind in ("forward", "backward")]
    number = len(data.bars)
    origins = sorted({bar.provenance for bar in data.bars})
    keys = [_PATTERN_WORDS[name] for name in origins if name in _PATTERN_WORDS]
    under = f"One iteration on a GPU with the whole model ({unit}), longest first: {data.run}; {', '.join(keys)}."
    drawn = layout(
        90 + 24 * number,
        barmode="stack",
        bargap=0.22,
        xaxis=axis(f"compute time ({unit})", rangemode="tozero"),
        yaxis=axis(
            tickvals=list(range(number)),
            ticktext=[plot_text(shortened(bar.name, 36)) for bar in data.bars],
            range=[number - 0.4, -0.6],
            showgrid=False,
            fixedrange=True,
        ),
        showlegend=True,
        legend=legend(),
    )
    short = [plot_text(shortened(bar.name, 17)) for bar in data.bars]
    narrow = {"yaxis": {"ticktext": short}, "xaxis": {"nticks": 5}}
    return Figure(data.title, under, traces, drawn, narrow, label=data.run, note=_note(data))


def _note(data: LayerBars) -> str:
    if data.rest is None:
        return ""
    share = percent(data.rest.total_s / data.total_s)
    return f"Not drawn: {data.rest.name}, together {duration(data.rest.total_s)}, {share} of the compute time."


_PATTERN_WORDS = {
    "measured": "plain: measured",
    "published": "dotted: from a published rate",
    "estimated": "hatched: estimated",
    "anchored": "crossed: scaled to measured runs",
}


def _trace(data: LayerBars, kind: str, factor: float) -> Json:
    seconds = [getattr(bar, f"{kind}_s") for bar in data.bars]
    hover = [
        f"<b>{plot_text(bar.name)}</b> {plot_text(bar.op)}<br>{LABELS[kind]} {duration(value)} ({bar.provenance})"
        f"<br>{percent(bar.total_s / data.total_s)} of the compute time<br>gradient {size(bar.gradient_bytes)}"
        for bar, value in zip(data.bars, seconds, strict=True)
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "name": LABELS[kind],
        "x": [value / factor for value in seconds],
        "y": list(range(len(data.bars))),
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {
            "color": PARTS[kind],
            "line": {"color": "@surface", "width": 0.5},
            "pattern": {
                "shape": [PROVENANCE_PATTERNS.get(bar.provenance, "") for bar in data.bars],
                "fillmode": "overlay",
                "fgcolor": "#ffffff",
                "fgopacity": 0.35,
                "size": 6,
            },
        },
    }
