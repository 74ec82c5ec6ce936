"""Node positions of the link figure: hosts as boxes with their parts in rows, switches between them."""

from __future__ import annotations

from collections.abc import Iterable
from math import hypot

from clustersim.report.stress import connected_components, stress_layout

Place = tuple[float, float]
Box = tuple[float, float, float, float]  # x0, y0, x1, y1

_ROWS = {"nvswitch": 0, "gpu": 1, "plx": 2, "socket": 3, "memory": 3, "nic": 4}
"""Row of each kind of node inside a host, from the bottom up."""

_APART = 1.2
"""Distance between neighbours, in widths."""

_GAP = 0.5
"""Space between components that are not connected."""

_COLUMN = 1.5
"""Distance between nodes of one row of a host, in row heights."""


def host_of(node: str) -> str:
    """Return the host a node belongs to, by its name; empty for switches and routers.

    >>> host_of("host3/gpu0"), host_of("switch0")
    ('host3', '')
    """
    return node.partition("/")[0] if "/" in node else ""


def place_nodes(links: Iterable[tuple[str, str]], stretch: float = 1.7) -> tuple[dict[str, Place], dict[str, Box]]:
    """Return the position of each node, and the box around each host.

    Hosts and switches are placed by stress majorization, each connected component separately, and stretched in width
    by `stretch`; components are placed side by side. Inside a host every kind of node has its row. NICs are on the side
    that faces the rest of the network.
    """
    pairs = sorted(set(links))
    nodes = sorted({node for pair in pairs for node in pair})
    inside = {unit: _inside([node for node in nodes if _unit(node) == unit]) for unit in map(_unit, nodes)}
    extent = {unit: _extent(unit, places.values()) for unit, places in inside.items()}
    edges = {(_unit(a), _unit(b)) for a, b in pairs if _unit(a) != _unit(b)}
    centres = _centres(extent, edges, stretch)
    upside_down = _upside_down(centres, edges)
    places = {
        node: (centres[unit][0] + x, centres[unit][1] + (-y if unit in upside_down else y))
        for unit, members in inside.items()
        for node, (x, y) in members.items()
    }
    boxes = {
        unit: (x - extent[unit][0] / 2, y - extent[unit][1] / 2, x + extent[unit][0] / 2, y + extent[unit][1] / 2)
        for unit, (x, y) in centres.items()
        if any(host_of(node) for node in inside[unit])
    }
    return places, boxes


def _upside_down(centres: dict[str, Place], edges: set[tuple[str, str]]) -> set[str]:
    """Return the hosts that are placed above the nodes they are connected to."""
    heights: dict[str, list[float]] = {unit: [] for unit in centres}
    for a, b in edges:
        heights[a].append(centres[b][1])
        heights[b].append(centres[a][1])
    return {unit for unit, others in heights.items() if others and centres[unit][1] > sum(others) / len(others)}


def _unit(node: str) -> str:
    """Return the unit of placement that a node belongs to: its host, or the switch itself."""
    return host_of(node) or node


def _inside(nodes: list[str]) -> dict[str, Place]:
    """Return the positions of one host's nodes around its centre, one row per kind."""
    rows: dict[int, list[str]] = {}
    for node in nodes:
        kind = node.rpartition("/")[2].rstrip("0123456789")
        rows.setdefault(_ROWS.get(kind, 5), []).append(node)
    places = {}
    for level, row in enumerate(sorted(rows)):
        members = sorted(rows[row], key=lambda node: (len(node), node))
        for number, node in enumerate(members):
            places[node] = (_COLUMN * (number - (len(members) - 1) / 2), level - (len(rows) - 1) / 2)
    return places


def _extent(unit: str, places: Iterable[Place]) -> Place:
    """Return width and height of a box around some nodes, with space for their names and the host's."""
    xs, ys = zip(*places, strict=True)
    return max(max(xs) - min(xs) + 1.3, 0.11 * len(unit) + 0.3), max(ys) - min(ys) + 1.1


def _centres(extent: dict[str, Place], edges: set[tuple[str, str]], stretch: float) -> dict[str, Place]:
    laid = [_spread(piece, edges, extent, stretch) for piece in connected_components(sorted(extent), edges)]
    return _packed(laid, extent, stretch)


def _spread(
    units: list[str], edges: set[tuple[str, str]], extent: dict[str, Place], stretch: float
) -> dict[str, Place]:
    """Return the positions of one connected component, far enough apart that no boxes overlap."""
    places = {unit: (stretch * x, y) for unit, (x, y) in stress_layout(units, edges).items()}
    scale = 1.0
    for number, one in enumerate(units):
        for other in units[:number]:
            dx, dy = (abs(places[one][axis] - places[other][axis]) for axis in (0, 1))
            needed = (
                (extent[one][0] + extent[other][0]) / 2 * _APART,
                (extent[one][1] + extent[other][1]) / 2 * _APART,
            )
            clear = min(needed[axis] / gap for axis, gap in enumerate((dx, dy)) if gap > 1e-9 * hypot(dx, dy))
            scale = max(scale, clear)
    return {unit: (x * scale, y * scale) for unit, (x, y) in places.items()}


def _packed(pieces: list[dict[str, Place]], extent: dict[str, Place], stretch: float) -> dict[str, Place]:
    """Place the components side by side, in rows that together are `stretch` times as wide as tall."""
    boxes = [_bounds(piece, extent) for piece in pieces]
    area = sum((x1 - x0 + _GAP) * (y1 - y0 + _GAP) for x0, y0, x1, y1 in boxes)
    widest = max(max(x1 - x0 for x0, _, x1, _ in boxes), (1.4 * stretch * area) ** 0.5)
    centres: dict[str, Place] = {}
    x = y = tallest = 0.0
    for piece, (x0, y0, x1, y1) in zip(pieces, boxes, strict=True):
        if x and x + x1 - x0 > widest:
            x, y, tallest = 0.0, y - tallest - _GAP, 0.0
        for unit, (unit_x, unit_y) in piece.items():
            centres[unit] = (x + unit_x - x0, y + unit_y - y1)
        x, tallest = x + x1 - x0 + _GAP, max(tallest, y1 - y0)
    return centres


def _bounds(piece: dict[str, Place], extent: dict[str, Place]) -> Box:
    return (
        min(x - extent[unit][0] / 2 for unit, (x, _) in piece.items()),
        min(y - extent[unit][1] / 2 for unit, (_, y) in piece.items()),
        max(x + extent[unit][0] / 2 for unit, (x, _) in piece.items()),
        max(y + extent[unit][1] / 2 for unit, (_, y) in piece.items()),
    )
