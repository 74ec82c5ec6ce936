"""SimGrid platforms of our clusters: the same links and the same routes, link for link."""

from __future__ import annotations

from collections.abc import Iterable

from clustersim.topology import Topology

_HEAD = """\
<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="cluster" routing="Full">
"""
_TAIL = "</zone>\n</platform>\n"


def host_name(node: int) -> str:
    """Return what SimGrid calls a node."""
    return f"node-{node}"


def platform_xml(cluster: Topology, pairs: Iterable[tuple[int, int]]) -> str:
    """Return the platform in which these pairs of nodes can send to each other, in the direction given.

    Only nodes, links and routes in use are written, so a torus of 512 in which a ring is played has 512
    routes and not 262,144. Every link goes one way, as ours do.
    """
    routes = {pair: cluster.route(*pair).tolist() for pair in pairs}
    nodes = sorted({node for pair in routes for node in pair})
    links = sorted({link for route in routes.values() for link in route})
    lines = [f'<host id="{host_name(node)}" speed="1Gf"/>' for node in nodes]
    for link in links:
        rate, latency_s = float(cluster.links.bytes_per_s[link]), float(cluster.links.latency_s[link])
        lines.append(f'<link id="{link}" bandwidth="{rate!r}Bps" latency="{latency_s!r}s"/>')
    for (src, dst), route in routes.items():
        ways = "".join(f'<link_ctn id="{link}"/>' for link in route)
        lines.append(f'<route src="{host_name(src)}" dst="{host_name(dst)}" symmetrical="NO">{ways}</route>')
    return _HEAD + "\n".join(lines) + "\n" + _TAIL
