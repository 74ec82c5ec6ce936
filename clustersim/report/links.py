"""Where the bytes jam: the busiest links drawn on the topology, hosts as groups."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from clustersim.report.figure import Figure, Json, axis, layout
from clustersim.report.link_layout import Box, Place, host_of, place_nodes
from clustersim.report.palette import load_colour, load_scale
from clustersim.report.series import run_label
from clustersim.report.words import count, percent, plot_text, plural, size
from clustersim.results import LinkLoad, Run, Sweep

MAX_LINKS = 28
"""Links drawn; the labels of more would cover each other."""

_ASIDE = 0.07
"""How far the two directions of a cable stand apart, each on its right-hand side."""


@dataclass(frozen=True)
class Links:
    """The figure in numbers: the busiest links first, where each node stands, the box of each host."""

    title: str
    run: str
    links: tuple[LinkLoad, ...]
    places: dict[str, Place]
    boxes: dict[str, Box]
    note: str


def links_data(sweep: Sweep, run: Run, max_links: int = MAX_LINKS) -> Links | None:
    """Return the busiest links and a place for each of their nodes; None where nothing was sent."""
    busy = sorted((link for link in run.links if link.num_bytes > 0), key=lambda link: (-link.utilisation, link.name))
    if not busy:
        return None
    shown = tuple(busy[:max_links])
    places, boxes = place_nodes((link.src, link.dst) for link in shown)
    num_used = max(len(busy), sum(one.num_used for one in run.link_classes))
    left_out = num_used - len(shown)
    note = f"The {len(shown)} busiest of {count(num_used)} used links are drawn." if left_out else ""
    return Links(_title(shown), run_label(sweep, run), shown, places, boxes, note)


def _title(links: tuple[LinkLoad, ...]) -> str:
    worst = links[0]
    equal = sum(link.utilisation > 0.995 * worst.utilisation for link in links)
    what = f"{worst.src} → {worst.dst}" if worst.src != worst.dst else f"adding in {worst.dst}"
    also = f" (and {plural(equal - 1, 'other')})" if equal > 1 else ""
    return f"The busiest link is {what}{also}: {percent(worst.utilisation)} of the iteration at its full rate"


def draw_links(data: Links) -> Figure:
    """Draw every link as a line whose width and colour are its utilisation, and name the bottleneck."""
    traces = [_line(data, link) for link in reversed(data.links) if link.src != link.dst]
    traces += [_nodes(data), _handles(data), _colour_bar(data)]
    xs = [edge for x0, _, x1, _ in data.boxes.values() for edge in (x0, x1)] + [x for x, _ in data.places.values()]
    ys = [edge for _, y0, _, y1 in data.boxes.values() for edge in (y0, y1)] + [y for _, y in data.places.values()]
    x_range, y_range = [min(xs) - 0.7, max(xs) + 0.7], [min(ys) - 0.6, max(ys) + 0.7]
    height = min(max(round(1080 * (y_range[1] - y_range[0]) / (x_range[1] - x_range[0])), 340), 620)
    hidden: Json = {"visible": False, "showgrid": False}
    drawn = layout(
        height,
        shapes=[_box(box) for box in data.boxes.values()],
        annotations=[*_host_names(data.boxes), *_arrows(data), _bottleneck(data)],
        xaxis=axis(range=x_range, **hidden),
        yaxis=axis(range=y_range, scaleanchor="x", **hidden),
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
    )
    under = (
        f"Busiest links of {data.run}; width and colour: utilisation (% of the iteration at full rate); boxes: hosts."
    )
    return Figure(data.title, under, traces, drawn, {"height": 460}, label=data.run, note=data.note)


def _ends(data: Links, link: LinkLoad) -> tuple[Place, Place]:
    """Return the ends of a link, moved to the right of its direction so that both directions show."""
    (x0, y0), (x1, y1) = data.places[link.src], data.places[link.dst]
    length = hypot(x1 - x0, y1 - y0)
    dx, dy = _ASIDE * (y1 - y0) / length, -_ASIDE * (x1 - x0) / length
    return (x0 + dx, y0 + dy), (x1 + dx, y1 + dy)


def _width(data: Links, link: LinkLoad) -> float:
    return 1.5 + 6.5 * link.utilisation / data.links[0].utilisation


def _line(data: Links, link: LinkLoad) -> Json:
    (x0, y0), (x1, y1) = _ends(data, link)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x0, x1],
        "y": [y0, y1],
        "line": {"width": _width(data, link), "color": load_colour(link.utilisation)},
        "hoverinfo": "skip",
    }


def _nodes(data: Links) -> Json:
    adding = {link.src: link.utilisation for link in data.links if link.src == link.dst}
    nodes = list(data.places)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": [data.places[node][0] for node in nodes],
        "y": [data.places[node][1] for node in nodes],
        "text": [plot_text(node.rpartition("/")[2] if host_of(node) else node) for node in nodes],
        "textposition": "bottom center",
        "textfont": {"size": 11, "color": "@ink"},
        "hovertext": [
            f"<b>{plot_text(node)}</b>{f'<br>adding: {percent(adding[node])} of the time' if node in adding else ''}"
            for node in nodes
        ],
        "hoverinfo": "text",
        "marker": {
            "size": [17 if node in adding else 13 for node in nodes],
            "symbol": ["circle" if host_of(node) else "square" for node in nodes],
            "color": "@surface",
            "line": {
                "color": [load_colour(adding[node]) if node in adding else "@ink" for node in nodes],
                "width": [5 if node in adding else 1.5 for node in nodes],
            },
        },
    }  # fmt: skip


def _handles(data: Links) -> Json:
    """Return unseen markers at the middles of the links, which carry what hovering says."""
    rows = [(link, *_ends(data, link)) for link in data.links if link.src != link.dst]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [(start[0] + end[0]) / 2 for _, start, end in rows],
        "y": [(start[1] + end[1]) / 2 for _, start, end in rows],
        "hovertext": [
            f"<b>{plot_text(link.src)} → {plot_text(link.dst)}</b><br>{plot_text(link.kind)}<br>"
            f"{percent(link.utilisation)} of the iteration<br>{size(link.num_bytes)} an iteration"
            for link, _, _ in rows
        ],
        "hoverinfo": "text",
        "marker": {"size": 14, "opacity": 0},
    }


def _colour_bar(data: Links) -> Json:
    bar = {"title": {"text": "utilisation (%)", "side": "top", "font": {"size": 12}}, "orientation": "h", "len": 0.3,
           "lenmode": "fraction", "thickness": 9, "x": 0, "xanchor": "left", "y": 0, "yanchor": "bottom",
           "tickvals": [0, 50, 100], "tickfont": {"size": 11}, "outlinewidth": 0, "ypad": 0}  # fmt: skip
    x, y = next(iter(data.places.values()))
    scale = {"colorscale": load_scale(), "cmin": 0, "cmax": 100, "color": [0], "showscale": True, "colorbar": bar}
    marker = {**scale, "size": 0.1, "opacity": 0}
    return {"type": "scatter", "mode": "markers", "x": [x], "y": [y], "marker": marker, "hoverinfo": "skip"}


def _arrows(data: Links) -> list[Json]:
    """Return an arrow head a little behind the middle of every link."""
    return [_arrow(*_ends(data, link), _width(data, link), link) for link in data.links if link.src != link.dst]


def _arrow(start: Place, end: Place, width: float, link: LinkLoad) -> Json:
    head, tail = ([start[axis] + share * (end[axis] - start[axis]) for axis in (0, 1)] for share in (0.58, 0.5))
    return {
        "x": head[0],
        "y": head[1],
        "ax": tail[0],
        "ay": tail[1],
        "axref": "x",
        "ayref": "y",
        "text": "",
        "showarrow": True,
        "arrowhead": 2,
        "arrowwidth": min(3.0, 1.0 + 0.3 * width),
        "arrowcolor": load_colour(link.utilisation),
    }


def _bottleneck(data: Links) -> Json:
    worst = data.links[0]
    if worst.src == worst.dst:
        x, y = data.places[worst.src]
    else:
        (x0, y0), (x1, y1) = _ends(data, worst)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
    text = f"<b>{percent(worst.utilisation)}</b> {plot_text(worst.kind)}"
    return {
        "x": x, "y": y, "text": text, "showarrow": True, "ax": 46, "ay": -30, "arrowcolor": "@ink", "arrowwidth": 1,
        "bgcolor": "@surface", "bordercolor": "@ink", "borderpad": 3, "font": {"size": 12, "color": "@ink"},
    }  # fmt: skip


def _box(box: Box) -> Json:
    x0, y0, x1, y1 = box
    line = {"color": "@grid", "width": 1}
    return {"type": "rect", "x0": x0, "y0": y0, "x1": x1, "y1": y1, "layer": "below", "fillcolor": "@box", "line": line}


def _host_names(boxes: dict[str, Box]) -> list[Json]:
    style = {"showarrow": False, "xanchor": "left", "yanchor": "bottom", "font": {"size": 11, "color": "@muted"}}
    return [{"x": x0, "y": y1, "text": f"<b>{plot_text(host)}</b>", **style} for host, (x0, _, _, y1) in boxes.items()]
