"""Drawing of a cluster without a run: hosts with their parts, switches, and the links between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clustersim import __version__
from clustersim.report.figure import Figure, FigureTable, Json, axis, layout, legend
from clustersim.report.link_layout import Box, Place, host_of, place_nodes
from clustersim.report.page import page
from clustersim.report.palette import series_colour
from clustersim.report.panel import Panel
from clustersim.report.words import count, gpus, plot_text, plural
from clustersim.results import write_atomically
from clustersim.topology import Topology
from clustersim.units import format_duration, format_rate

MAX_NODES = 90
"""Larger clusters are drawn in part: their node names would overlap."""

_ARC = 0.1
"""Height of an arc over its width."""

_ARC_STEPS = 12
_DASHES = ("solid", "dot", "dash", "dashdot")
_NUM_HUES = 6


@dataclass(frozen=True)
class DrawnCable:
    """All links of one kind between two nodes, both directions; rate and latency are those from `a` to `b`."""

    a: str
    b: str
    kind: str
    num_links: int
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class ClusterDrawing:
    """The figure in numbers: the cables, the position of each node, the box of each host."""

    title: str
    cables: tuple[DrawnCable, ...]
    places: dict[str, Place]
    boxes: dict[str, Box]
    note: str


def write_topology(topology: Topology, path: str | Path) -> Path:
    """Draw a cluster on one self-contained HTML page."""
    panel = Panel("cluster", (draw_cluster(cluster_data(topology)),), heading="Cluster")
    return write_atomically(path, page(f"{topology.name}: cluster", __version__, [panel.html()], [panel]))


def cluster_data(topology: Topology, max_nodes: int = MAX_NODES) -> ClusterDrawing:
    """Return the figure data: the whole cluster, or two distant hosts of a large one and the routes between them."""
    num_nodes = len(topology.node_names)
    whole = num_nodes <= max_nodes
    nodes = np.arange(num_nodes) if whole else _far_pair(topology)
    cables = _cables(topology, nodes)
    places, boxes = place_nodes((cable.a, cable.b) for cable in cables)
    hosts = plural(topology.num_hosts, "host")
    note = "" if whole else f"Two of {hosts} are drawn, with the routes between their first GPUs in both directions."
    between = int((topology.links.src != topology.links.dst).sum())  # a memory is a link to itself
    title = f"{topology.name}: {gpus(topology.num_gpus)} in {hosts}, {count(between)} directed links"
    return ClusterDrawing(title, cables, places, boxes, note)


def _far_pair(topology: Topology) -> np.ndarray:
    """Return the nodes of the first host, of one half the ranks away, and of the routes between their GPUs."""
    first, other = int(topology.gpus[0]), int(topology.gpus[topology.num_gpus // 2])
    hosts = {int(topology.node_hosts[node]) for node in (first, other)} - {-1}
    inside = np.flatnonzero(np.isin(topology.node_hosts, list(hosts)))
    links = np.concatenate([topology.route(first, other), topology.route(other, first)])
    nodes: np.ndarray = np.unique(
        np.concatenate([inside, topology.links.src[links], topology.links.dst[links], [first, other]])
    )
    return nodes


def _cables(topology: Topology, nodes: np.ndarray) -> tuple[DrawnCable, ...]:
    links = topology.links
    chosen = np.flatnonzero(np.isin(links.src, nodes) & np.isin(links.dst, nodes) & (links.src != links.dst))
    groups: dict[tuple[int, int, str], list[int]] = {}
    for link in chosen.tolist():
        ends = sorted((int(links.src[link]), int(links.dst[link])))
        groups.setdefault((ends[0], ends[1], links.kind[link]), []).append(link)
    return tuple(
        DrawnCable(
            str(topology.node_names[a]),
            str(topology.node_names[b]),
            kind,
            len(members),
            float(links.bytes_per_s[members[0]]),
            float(links.latency_s[members[0]]),
        )
        for (a, b, kind), members in groups.items()
    )


def draw_cluster(data: ClusterDrawing) -> Figure:
    """Draw each kind of link in its own colour and dash, the rate in the legend, and the names of nodes."""
    kinds = sorted({cable.kind for cable in data.cables})
    traces = [_lines(data, kind, number) for number, kind in enumerate(kinds)]
    traces += [_handles(data), _nodes(data)]
    x_range, y_range = _ranges(data)
    height = min(max(round(1080 * (y_range[1] - y_range[0]) / (x_range[1] - x_range[0])), 380), 760)
    hidden: Json = {"visible": False, "showgrid": False}
    drawn = layout(
        height,
        showlegend=True,
        legend=legend(),
        shapes=[_box(box) for box in data.boxes.values()],
        annotations=[_host_name(host, box) for host, box in data.boxes.items()],
        xaxis=axis(range=x_range, **hidden),
        yaxis=axis(range=y_range, scaleanchor="x", **hidden),
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
    )
    under = "Lines: links between nodes, by kind; boxes: hosts. Hover over the middle of a line for rate and latency."
    return Figure(data.title, under, traces, drawn, {"height": 460}, note=data.note, table=_table(data))


def _table(data: ClusterDrawing) -> FigureTable:
    """Return a row for each cable."""
    headings = ["from", "to", "kind", "links, both directions", "rate (bytes/s)", "latency (s)"]
    return FigureTable(
        headings,
        [(each.a, each.b, each.kind, each.num_links, each.bytes_per_s, each.latency_s) for each in data.cables],
    )


def _lines(data: ClusterDrawing, kind: str, number: int) -> Json:
    xs: list[float | None] = []
    ys: list[float | None] = []
    members = [cable for cable in data.cables if cable.kind == kind]
    for cable in members:
        path = _path(data, cable)
        xs += [*(x for x, _ in path), None]
        ys += [*(y for _, y in path), None]
    rates = sorted({format_rate(cable.bytes_per_s) for cable in members})
    rate = rates[0] if len(rates) == 1 else f"{rates[0]} to {rates[-1]}"
    return {
        "type": "scatter",
        "mode": "lines",
        "x": xs,
        "y": ys,
        "name": plot_text(f"{kind} ({rate})"),
        "line": {"color": series_colour(number), "dash": _DASHES[number // _NUM_HUES % len(_DASHES)], "width": 2.5},
        "hoverinfo": "skip",
    }


def _handles(data: ClusterDrawing) -> Json:
    """Return invisible markers in the middle of each line, which carry the hover texts."""
    middles = [_middle(_path(data, cable)) for cable in data.cables]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in middles],
        "y": [y for _, y in middles],
        "text": [_hover(cable) for cable in data.cables],
        "marker": {"size": 18, "opacity": 0},
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
    }


def _hover(cable: DrawnCable) -> str:
    links = "both directions" if cable.num_links == 2 else plural(cable.num_links, "link")
    ends, kind = plot_text(f"{cable.a} – {cable.b}"), plot_text(cable.kind)
    return f"{ends}<br>{kind}, {links}<br>{format_rate(cable.bytes_per_s)}, {format_duration(cable.latency_s)}"


def _nodes(data: ClusterDrawing) -> Json:
    names = list(data.places)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [data.places[name][0] for name in names],
        "y": [data.places[name][1] for name in names],
        "text": [plot_text(name.rpartition("/")[2]) for name in names],
        "hovertext": [plot_text(name) for name in names],
        "textposition": [_label_side(name) for name in names],
        "textfont": {"size": 11},
        "marker": {"size": 9, "color": "@ink"},
        "hovertemplate": "%{hovertext}<extra></extra>",
        "showlegend": False,
    }


def _label_side(node: str) -> str:
    """Return the position of a node's name; a memory's is below it, since its socket is close beside it."""
    return "bottom center" if node.rpartition("/")[2].startswith("memory") else "top center"


def _ranges(data: ClusterDrawing) -> tuple[list[float], list[float]]:
    xs = [*_edges(data.boxes.values(), 0), *(x for x, _ in data.places.values())]
    ys = [*_edges(data.boxes.values(), 1), *(y for _, y in data.places.values())]
    return [min(xs) - 0.7, max(xs) + 0.7], [min(ys) - 0.6, max(ys) + 0.9]


def _edges(boxes: Iterable[Box], first: int) -> list[float]:
    return [box[index] for box in boxes for index in (first, first + 2)]


def _box(box: Box) -> Json:
    x0, y0, x1, y1 = box
    ends = {"x0": x0, "y0": y0, "x1": x1, "y1": y1}
    return {"type": "rect", **ends, "fillcolor": "@box", "line": {"width": 0}, "layer": "below"}


def _host_name(host: str, box: Box) -> Json:
    return {
        "x": box[0],
        "y": box[3],
        "text": plot_text(host),
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 12, "color": "@muted"},
    }


def _path(data: ClusterDrawing, cable: DrawnCable) -> list[Place]:
    """Return the points of a line: straight, or an arc over the nodes between two ends in the same row of a host."""
    (x0, y0), (x1, y1) = data.places[cable.a], data.places[cable.b]
    host = host_of(cable.a)
    if not host or host != host_of(cable.b) or abs(y1 - y0) > 1e-9 or abs(x1 - x0) < 1.5:
        return [(x0, y0), (x1, y1)]
    box = data.boxes[host]
    outwards = 1.0 if y0 >= (box[1] + box[3]) / 2 else -1.0
    height = outwards * _ARC * abs(x1 - x0)
    shares = [step / _ARC_STEPS for step in range(_ARC_STEPS + 1)]
    return [(x0 + share * (x1 - x0), y0 + 4 * share * (1 - share) * height) for share in shares]


def _middle(path: list[Place]) -> Place:
    if len(path) > 2:
        return path[len(path) // 2]
    (x0, y0), (x1, y1) = path
    return (x0 + x1) / 2, (y0 + y1) / 2
