"""Compute time by layer: forward and backward, and the provenance of the number."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import LABELS, PARTS, PROVENANCE_PATTERNS
from clustersim.report.series import run_label
from clustersim.report.words import count, duration, percent, plot_text, plural, shortened, size, time_unit
from clustersim.results import Run, Sweep

MAX_LAYERS = 24
"""Layers drawn; the rest are summed in the note."""


@dataclass(frozen=True)
class LayerBar:
    """One layer on one GPU and one iteration, or the sum of `number` layers that are alike or not drawn."""

    name: str
    op: str
    forward_s: float
    backward_s: float
    provenance: str
    gradient_bytes: float
    number: int = 1

    @property
    def total_s(self) -> float:
        return self.forward_s + self.backward_s


@dataclass(frozen=True)
class LayerBars:
    """The figure in numbers: the layers with the longest time, longest first, and the sum of those not drawn.

    Layers whose names differ in numbers alone (`h.0.mlp`, `h.1.mlp`) and that take the same time are one bar.
    """

    title: str
    run: str
    bars: tuple[LayerBar, ...]
    rest: LayerBar | None
    total_s: float
    quiet: str


def layers_data(sweep: Sweep, run: Run, max_layers: int = MAX_LAYERS) -> LayerBars | None:
    """Return the layers by compute time; None where the run has none that take time."""
    bars = sorted(_joined([LayerBar(*row) for row in run.layers]), key=lambda bar: -bar.total_s)
    total = sum(bar.total_s for bar in bars)
    if not total:
        return None
    shown, rest = bars[:max_layers], bars[max_layers:]
    quiet = "All compute is in layers of one kind." if len(bars) == 1 else ""
    summed = _sum(rest, "") if rest else None
    return LayerBars(_title(bars, total), run_label(sweep, run), tuple(shown), summed, total, quiet)


def _joined(bars: list[LayerBar]) -> list[LayerBar]:
    """Return the layers, those that are alike but for the numbers in their names as one."""
    alike: dict[tuple[str, ...], list[LayerBar]] = defaultdict(list)
    for bar in bars:
        times_s = (f"{value:.6g}" for value in (bar.forward_s, bar.backward_s))
        alike[_NUMBERS.sub("*", bar.name), bar.op, bar.provenance, *times_s].append(bar)
    return [
        group[0] if len(group) == 1 else _sum(group, common_name([bar.name for bar in group]))
        for group in alike.values()
    ]


_NUMBERS = re.compile(r"\d+")


def common_name(names: Sequence[str]) -> str:
    """Return one name for names that differ in numbers alone, with a star for those.

    >>> common_name(["h.4.conv3", "h.7.conv3"])
    'h.*.conv3'
    """
    columns = zip(*(re.split(r"(\d+)", name) for name in names), strict=True)
    return "".join(parts[0] if len(set(parts)) == 1 else "*" for parts in columns)


def _sum(bars: list[LayerBar], name: str) -> LayerBar:
    """Return the sum of layers; without a name it is how many they are."""
    origins = {bar.provenance for bar in bars}
    number = sum(bar.number for bar in bars)
    return LayerBar(
        name=name or plural(number, "other layer"),
        op=bars[0].op if name else "",
        forward_s=sum(bar.forward_s for bar in bars),
        backward_s=sum(bar.backward_s for bar in bars),
        provenance=origins.pop() if len(origins) == 1 else "mixed",
        gradient_bytes=sum(bar.gradient_bytes for bar in bars),
        number=number,
    )


def _title(bars: list[LayerBar], total: float) -> str:
    if len(bars) == 1:
        what = "one layer" if bars[0].number == 1 else f"{count(bars[0].number)} layers of one kind"
        return f"The whole model is {what}: {duration(total)} of compute per iteration"
    few = next(number for number in range(1, len(bars) + 1) if sum(b.total_s for b in bars[:number]) >= 0.5 * total)
    kinds = "kinds of layers" if any(bar.number > 1 for bar in bars) else "layers"
    return (
        f"Half of the compute time is in {few} of {len(bars)} {kinds}; {_name(bars[0])} alone takes "
        f"{percent(bars[0].total_s / total)}"
    )


def _name(bar: LayerBar) -> str:
    return bar.name if bar.number == 1 else f"{bar.name} ({plural(bar.number, 'layer')})"


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
            ticktext=[plot_text(f"{shortened(bar.name, 36)}{_times(bar)}") for bar in data.bars],
            range=[number - 0.4, -0.6],
            showgrid=False,
            fixedrange=True,
        ),
        showlegend=True,
        legend=legend(),
    )
    short = [plot_text(f"{shortened(bar.name, 17)}{_times(bar)}") for bar in data.bars]
    narrow = {"yaxis": {"ticktext": short}, "xaxis": {"nticks": 5}}
    return Figure(data.title, under, traces, drawn, narrow, label=data.run, note=_note(data), quiet=data.quiet)


def _times(bar: LayerBar) -> str:
    return f" ({count(bar.number)}×)" if bar.number > 1 else ""


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
        f"<b>{plot_text(_name(bar))}</b> {plot_text(bar.op)}<br>{LABELS[kind]} {duration(value)} ({bar.provenance})"
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
