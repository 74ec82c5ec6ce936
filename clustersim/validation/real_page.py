"""The HTML page of a run on real nodes: the accuracy, pairs of timelines, every figure, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from clustersim.report.figure import Figure, layout, legend
from clustersim.report.page import bullets, card, grid, page, part
from clustersim.report.palette import series_colour
from clustersim.report.panel import Panel
from clustersim.report.words import percent, plural, size
from clustersim.results import write_atomically
from clustersim.validation.figures.marks import log_axis
from clustersim.validation.real import RealVerdict
from clustersim.validation.real_file import AllReducePhase
from clustersim.validation.real_timeline import draw_pair, pair_data
from clustersim.validation.text import number_text, percent_text, summary_text
from clustersim.validation.verdict import Compared


@dataclass(frozen=True)
class SweepCurve:
    """All-reduces by size [num_sizes]: bytes, and milliseconds simulated and measured; `fitted`: a link was fitted."""

    num_bytes: list[float]
    points: list[Compared]
    fitted: bool


def write_real(found: RealVerdict, path: str | Path) -> Path:
    """Write the page of a run on real nodes as one self-contained HTML file."""
    return write_atomically(path, real_html(found))


def real_html(found: RealVerdict) -> str:
    """Return the page."""
    verdict = found.verdict
    panels = list(_panels(found))
    body = [
        f'<header><p class="name">clustersim validate --real {escape(found.run.path.name)}</p>'
        f"<h1>{escape(headline(found))}</h1></header>",
        *(panel.html() for panel in panels),
        _points(found),
        *_left_out(found),
        part("Assumptions"),
        _assumptions(found),
        f"<footer>clustersim {verdict.version}. Figures need JavaScript; nothing is loaded from anywhere.</footer>",
    ]
    return page(f"clustersim: {found.run.path.name} against the simulator", verdict.version, body, panels)


def headline(found: RealVerdict) -> str:
    """Return the accuracy of the simulator in one sentence."""
    summary = found.verdict.summary()
    where = found.cluster.title
    if summary.median_abs_error is None:
        return f"No figure of this run could be predicted ({where})."
    predicted = f"{plural(summary.num_points, 'predicted figure')} of this run"
    return f"{predicted}: the median error is {percent(summary.median_abs_error)} ({where})."


def _panels(found: RealVerdict) -> Iterator[Panel]:
    pairs = [data for answered in found.answered if (data := pair_data(answered)) is not None]
    pairs.sort(key=lambda data: len(data.lanes) == 2)  # several ranks come first
    if pairs:
        yield Panel("timelines", tuple(draw_pair(data) for data in pairs), "phase", "Timelines", "lane")
    curve = sweep_data(found)
    if curve is not None:
        yield Panel("all-reduce", (draw_sweep(curve),), heading="All-reduce")


def sweep_data(found: RealVerdict) -> SweepCurve | None:
    """Return the run's all-reduces by size; None if it has none."""
    for answered in found.answered:
        if isinstance(answered.phase, AllReducePhase):
            sizes = [row.num_bytes for row in answered.phase.rows]
            return SweepCurve(sizes, list(answered.points), found.cluster.is_fitted)
    return None


def draw_sweep(data: SweepCurve) -> Figure:
    """Draw the simulated line and the measured black outlined marks on logarithmic axes."""
    hover_texts = [
        f"{size(num_bytes)}: simulated {number_text(point.simulated)} ms, measured {number_text(point.measured)} ms, "
        f"{percent(point.error, signed=True)}"
        for num_bytes, point in zip(data.num_bytes, data.points, strict=True)
    ]
    common = {"type": "scatter", "x": data.num_bytes, "hovertext": hover_texts, "hoverinfo": "text"}
    simulated, measured = ([getattr(point, name) for point in data.points] for name in ("simulated", "measured"))
    hollow = {"symbol": "circle-open", "size": 12, "color": "@ink", "line": {"width": 1.5, "color": "@ink"}}
    colour = series_colour(0)
    line = {"mode": "lines", "name": "simulated", "line": {"color": colour, "width": 2}}
    worst = max(data.points, key=lambda point: abs(point.error))
    role = "the link was fitted to them" if data.fitted else "nothing was fitted to them"
    return Figure(
        title=f"The largest error of all-reduces is {percent(worst.error, signed=True)}; {role}",
        subtitle="Time (ms) of an all-reduce against its size (bytes); line: simulated, outlined marks: measured.",
        traces=[
            common | line | {"y": simulated},
            common | {"mode": "markers", "name": "measured", "y": measured, "marker": hollow},
        ],
        layout=layout(
            380,
            xaxis=log_axis("size (bytes)", data.num_bytes),
            yaxis=log_axis("time (ms)", [*simulated, *measured]),
            showlegend=True,
            legend=legend(),
        ),
    )


def _points(found: RealVerdict) -> str:
    (case,) = found.verdict.cases
    headings = ["ranks", "what", "metric", "simulated", "measured", "unit", "error", "role"]
    rows = [
        [str(point.num_gpus), point.label, point.metric, number_text(point.simulated), number_text(point.measured),
         point.unit, percent_text(point.error), point.role]
        for point in case.points
    ]  # fmt: skip
    about = (
        f"Predicted: {summary_text(case.summary())}. Calibration figures are inputs of the simulator and not scored."
    )
    return card("Every figure", about, grid(headings, rows, ("what", "metric", "unit", "role")), long=True)


def _left_out(found: RealVerdict) -> Iterator[str]:
    if found.verdict.skipped:
        reasons = [each.reason for each in found.verdict.skipped]
        yield card(f"{len(reasons)} could not be compared", "All other figures were compared.", bullets(reasons))


def _assumptions(found: RealVerdict) -> str:
    """Return how the simulated cluster was built."""
    cluster = found.cluster
    notes = [
        "Compute times are those of the run's compute-only phase.",
        f"Messages have the costs of the transport {cluster.transport}.",
        f"The cluster, as a scenario's topology: {_written(cluster.topology)}",
        *found.notes,
    ]
    return card("Inputs of the simulation", "", bullets(notes))


def _written(topology: dict[str, Any] | None) -> str:
    """Return a topology in one line, without the folder of a generated sheet."""
    if topology is None:
        return "unknown."
    host = topology.get("host")
    rest = {key: value for key, value in topology.items() if key not in ("host", "gpu")}
    gpu = host["gpu"] if isinstance(host, dict) else topology.get("gpu", "")
    inside = {key: value for key, value in host.items() if key != "gpu"} if isinstance(host, dict) else {}
    parts = {**rest, **({"host": "{" + _pairs(inside) + "}"} if inside else {}), "gpu": Path(str(gpu)).stem}
    return f"{_pairs(parts)}."


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())
