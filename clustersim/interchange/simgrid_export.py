"""Writes a cluster as a SimGrid platform, with our routes between all pairs of GPUs.

The platform is one zone of explicit routes (`routing="Full"`), since SimGrid's own searches take another of the equal
routes than our hash. Format: simgrid 3.32 to 4.1, src/kernel/xml/simgrid.dtd.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

from clustersim.errors import InputError
from clustersim.topology import Topology

MAX_GPUS = 128
"""GPUs of the largest platform that is written: 16,256 routes, some 10 MB."""

_HEAD = """\
<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
"""


class _Cable(NamedTuple):
    """Where a directed link is in the platform: its cable, and the direction in which it passes that."""

    name: str
    direction: str  # UP, DOWN, or NONE of a link that goes one way only


def simgrid_platform(topology: Topology) -> str:
    """Return the platform: GPUs as hosts, a split-duplex link for each cable, and the route of every pair of GPUs.

    Two links between the same nodes with one rate and one delay are a cable. The ends, kind and sheet of each are
    properties, which SimGrid passes over. A message there has the same links as here, so that it gets the same rate
    if SimGrid's corrections for TCP are off. Raise InputError for more than `MAX_GPUS` GPUs.
    """
    if topology.num_gpus > MAX_GPUS:
        message = f"a SimGrid platform with all routes is written for at most {MAX_GPUS} GPUs (got {topology.num_gpus})"
        raise InputError(message, got=f"{topology.num_gpus} GPUs", allowed=f"at most {MAX_GPUS}")
    src, dst = (ends.ravel() for ends in np.meshgrid(topology.gpus, topology.gpus, indexing="ij"))
    apart = src != dst
    routes = topology.routes(src[apart], dst[apart])
    used = set(np.unique(routes.links).tolist())
    lines = [f"<zone id={quoteattr(topology.name)} routing={quoteattr('Full')}>", *_hosts(topology)]
    cables: dict[int, _Cable] = {}
    for pair in _pairs(topology, used):
        lines.append(_link(topology, pair))
        directions = ("UP", "DOWN") if len(pair) == 2 else ("NONE",)
        cables |= {link: _Cable(f"link-{pair[0]}", way) for link, way in zip(pair, directions, strict=True)}
    names = [quoteattr(str(name)) for name in topology.node_names]
    starts = zip(src[apart].tolist(), dst[apart].tolist(), routes.first[:-1], routes.first[1:], strict=True)
    for one, other, first, last in starts:
        ways = "".join(_way(cables[link]) for link in routes.links[first:last].tolist())
        lines.append(f'<route src={names[one]} dst={names[other]} symmetrical="NO">{ways}</route>')
    return _HEAD + "\n".join(lines) + "\n</zone>\n</platform>\n"


def _hosts(topology: Topology) -> Iterator[str]:
    for gpu, sheet in zip(topology.gpus.tolist(), topology.gpu_sheets, strict=True):
        props = _props(kind="gpu", **({} if sheet is None else {"gpu": sheet}))
        yield f'<host id={quoteattr(str(topology.node_names[gpu]))} speed="1Gf">{props}</host>'


def _pairs(topology: Topology, used: set[int]) -> Iterator[list[int]]:
    """Yield each cable as its two links, and each link that goes one way as itself; memories are on no route."""
    links = topology.links
    waiting: dict[tuple[int, int, float, float], list[int]] = defaultdict(list)
    alone: dict[int, None] = {}
    for link in range(len(links)):
        src, dst = int(links.src[link]), int(links.dst[link])
        numbers = float(links.bytes_per_s[link]), float(links.latency_s[link])
        if src == dst:
            if link in used:
                alone[link] = None
        elif waiting[dst, src, *numbers]:
            other = waiting[dst, src, *numbers].pop(0)
            del alone[other]
            yield [other, link]
        else:
            waiting[src, dst, *numbers].append(link)
            alone[link] = None
    yield from ([link] for link in alone)


def _link(topology: Topology, pair: list[int]) -> str:
    link = pair[0]
    src, dst, kind = topology.describe_link(link)
    rate, delay_s = float(topology.links.bytes_per_s[link]), float(topology.links.latency_s[link])
    policy = "SPLITDUPLEX" if len(pair) == 2 else "SHARED"
    return (
        f'<link id="link-{link}" bandwidth="{rate!r}Bps" latency="{delay_s!r}s" sharing_policy="{policy}">'
        f"{_props(src=src, dst=dst, kind=kind)}</link>"
    )


def _way(cable: _Cable) -> str:
    direction = "" if cable.direction == "NONE" else f' direction="{cable.direction}"'
    return f'<link_ctn id="{cable.name}"{direction}/>'


def _props(**values: str) -> str:
    return "".join(f"<prop id={quoteattr(name)} value={quoteattr(value)}/>" for name, value in values.items())
