"""Drawing of some links: line width and colour show the utilisation, boxes show hosts."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from clustersim.report.figure import Json, axis, layout
from clustersim.report.link_layout import Box, Place, host_of, place_nodes
from clustersim.report.palette import load_colour, load_scale
from clustersim.report.words import percent, plot_text, size
from clustersim.results import LinkLoad

ASIDE_PX = 4.5
"""Offset of each direction of a cable to its right-hand side."""

_NAME_PX = 50.0
"""Width of the name of a host."""

MAX_HEIGHT_PX = 640.0
MIN_PX_PER_UNIT, MAX_PX_PER_UNIT = 44.0, 80.0
"""Limits between which names neither overlap nor are too far apart; a unit is the height of a row in a host."""


@dataclass(frozen=True)
class Picture:
    """Links, the busiest first; the position of each node, the box of each host, and the size of the drawing."""

    links: tuple[LinkLoad, ...]
    places: dict[str, Place]
    boxes: dict[str, Box]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    height_px: int
    px_per_unit: float


def make_picture(links: tuple[LinkLoad, ...], width_px: float, stretch: float) -> Picture:
    """Place the busiest links, as many as fit a drawing of `width_px` with readable names.

    `stretch` is the maximum ratio of width to height.
    """
    number = len(links)
    while True:
        picture = _picture(links[:number], width_px, stretch)
        if picture.px_per_unit >= MIN_PX_PER_UNIT or number == 1:
            return picture
        number = max(1, min(number - 1, round(0.85 * number)))


def _picture(links: tuple[LinkLoad, ...], width_px: float, stretch: float) -> Picture:
    places, boxes = place_nodes(((link.src, link.dst) for link in links), stretch)
    xs = [x for x0, _, x1, _ in boxes.values() for x in (x0, x1)] + [x for x, _ in places.values()]
    ys = [y for _, y0, _, y1 in boxes.values() for y in (y0, y1)] + [y for _, y in places.values()]
    wide, tall = max(xs) - min(xs) + 1.6, max(ys) - min(ys) + 1.4
    px = min(width_px / wide, MAX_HEIGHT_PX / tall, MAX_PX_PER_UNIT)
    x, y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    x_range, y_range = (x - width_px / px / 2, x + width_px / px / 2), (y - tall / 2, y + tall / 2)
    return Picture(links, places, boxes, x_range, y_range, round(tall * px) + 48, px)


def draw_picture(picture: Picture) -> tuple[list[Json], Json]:
    """Return the traces and the layout of a picture."""
    traces = [_line(picture, link) for link in reversed(picture.links) if link.src != link.dst]
    traces += [_nodes(picture), _handles(picture), _colour_bar(picture)]
    hidden: Json = {"visible": False, "showgrid": False}
    notes = [*_arrows(picture), *_host_names(picture.boxes), *_node_names(picture), _bottleneck(picture)]
    return traces, layout(
        picture.height_px,
        shapes=[_box(box) for box in picture.boxes.values()],
        annotations=notes,
        xaxis=axis(range=list(picture.x_range), **hidden),
        yaxis=axis(range=list(picture.y_range), scaleanchor="x", **hidden),
        margin={"l": 4, "r": 4, "t": 4, "b": 44},
    )


def _ends(picture: Picture, link: LinkLoad) -> tuple[Place, Place]:
    """Return the ends of a link, offset to the right of its direction so that both directions are visible."""
    (x0, y0), (x1, y1) = picture.places[link.src], picture.places[link.dst]
    aside = ASIDE_PX / picture.px_per_unit / hypot(x1 - x0, y1 - y0)
    dx, dy = aside * (y1 - y0), -aside * (x1 - x0)
    return (x0 + dx, y0 + dy), (x1 + dx, y1 + dy)


def _width(picture: Picture, link: LinkLoad) -> float:
    return 1.5 + 5.5 * link.utilisation / picture.links[0].utilisation


def _line(picture: Picture, link: LinkLoad) -> Json:
    (x0, y0), (x1, y1) = _ends(picture, link)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x0, x1],
        "y": [y0, y1],
        "line": {"width": _width(picture, link), "color": load_colour(link.utilisation)},
        "hoverinfo": "skip",
    }


def _nodes(picture: Picture) -> Json:
    adding = {link.src: link.utilisation for link in picture.links if link.src == link.dst}
    nodes = list(picture.places)
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [picture.places[node][0] for node in nodes],
        "y": [picture.places[node][1] for node in nodes],
        "hovertext": [
            f"<b>{plot_text(node)}</b>"
            + (f"<br>reductions: {percent(adding[node])} of the time" if node in adding else "")
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


def _handles(picture: Picture) -> Json:
    """Return invisible markers at the middles of the links, which carry the hover texts."""
    rows = [(link, *_ends(picture, link)) for link in picture.links if link.src != link.dst]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [(start[0] + end[0]) / 2 for _, start, end in rows],
        "y": [(start[1] + end[1]) / 2 for _, start, end in rows],
        "hovertext": [
            f"<b>{plot_text(link.src)} → {plot_text(link.dst)}</b><br>{plot_text(link.kind)}<br>"
            f"{percent(link.utilisation)} of the iteration<br>{size(link.num_bytes)} per iteration"
            for link, _, _ in rows
        ],
        "hoverinfo": "text",
        "marker": {"size": 14, "opacity": 0},
    }


def _colour_bar(picture: Picture) -> Json:
    bar = {"title": {"text": "utilisation (%)", "side": "top", "font": {"size": 12}}, "orientation": "h", "len": 160,
           "lenmode": "pixels", "thickness": 9, "x": 0, "xanchor": "left", "y": 0, "yanchor": "top",
           "tickvals": [0, 50, 100], "tickfont": {"size": 11}, "outlinewidth": 0, "ypad": 0}  # fmt: skip
    x, y = next(iter(picture.places.values()))
    scale = {"colorscale": load_scale(), "cmin": 0, "cmax": 100, "color": [0], "showscale": True, "colorbar": bar}
    marker = {**scale, "size": 0.1, "opacity": 0}
    return {"type": "scatter", "mode": "markers", "x": [x], "y": [y], "marker": marker, "hoverinfo": "skip"}


def _arrows(picture: Picture) -> list[Json]:
    """Return an arrow head slightly behind the middle of every link."""
    return [
        _arrow(*_ends(picture, link), _width(picture, link), link) for link in picture.links if link.src != link.dst
    ]


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


def _node_names(picture: Picture) -> list[Json]:
    style = {"showarrow": False, "yanchor": "top", "yshift": -8, "borderpad": 0, "font": {"size": 11, "color": "@ink"}}
    return [
        {
            **style,
            "x": x,
            "y": y,
            "text": plot_text(node.rpartition("/")[2] if host_of(node) else node),
            "bgcolor": "@box" if host_of(node) else "@surface",
        }
        for node, (x, y) in picture.places.items()
    ]


def _bottleneck(picture: Picture) -> Json:
    """Return the label of the busiest link, on the side with the most free space."""
    worst, px = picture.links[0], picture.px_per_unit
    start, end = (picture.places[worst.src],) * 2 if worst.src == worst.dst else _ends(picture, worst)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    offsets = [
        (far * dx, far * dy * 0.6) for far in (70, 110, 160) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy
    ]
    ax, ay = max(
        offsets, key=lambda at: min(14.0, _clearance(picture, x + at[0] / px, y - at[1] / px)) - 0.01 * abs(at[0])
    )
    return {
        "x": x,
        "y": y,
        "ax": ax,
        "ay": ay,
        "text": f"<b>{percent(worst.utilisation)}</b> {plot_text(worst.kind)}",
        "showarrow": True,
        "arrowcolor": "@ink",
        "arrowwidth": 1,
        "bgcolor": "@surface",
        "bordercolor": "@ink",
        "borderpad": 3,
        "font": {"size": 12, "color": "@ink"},
    }


def _clearance(picture: Picture, x: float, y: float) -> float:
    """Return the distance in px of a label centred at a point to nodes, names of hosts and the edge.

    It is negative where the label covers one.
    """
    px = picture.px_per_unit
    inside = min(x - picture.x_range[0], picture.x_range[1] - x) * px - 65
    clear = [
        max(abs(x - node_x) * px - 90, abs(y - node_y + 8 / px) * px - 32) for node_x, node_y in picture.places.values()
    ]
    names = [
        max(abs(x - box_x) * px - 65 - _NAME_PX / 2, abs(y - top) * px - 22)
        for box_x, top in ((x0 + _NAME_PX / 2 / px, y1 + 8 / px) for x0, _, _, y1 in picture.boxes.values())
    ]
    return min(inside, *clear, *names)


def _box(box: Box) -> Json:
    x0, y0, x1, y1 = box
    line = {"color": "@grid", "width": 1}
    return {"type": "rect", "x0": x0, "y0": y0, "x1": x1, "y1": y1, "layer": "below", "fillcolor": "@box", "line": line}


def _host_names(boxes: dict[str, Box]) -> list[Json]:
    style = {
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
        "bgcolor": "@surface",
        "borderpad": 0,
        "font": {"size": 11, "color": "@muted"},
    }
    return [{"x": x0, "y": y1, "text": f"<b>{plot_text(host)}</b>", **style} for host, (x0, _, _, y1) in boxes.items()]
