"""Reads SimGrid's platform files: hosts, links and routes, and clusters.

Follows simgrid 3.36, src/kernel/xml/simgrid.dtd. A link there has no ends: they follow from the routes that use it. A
platform that `clustersim topology export` wrote names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from xml.etree import ElementTree

from clustersim.errors import InputError, Mistake
from clustersim.interchange.topology_files.fabric_shape import (
    MAX_STATED,
    FabricCable,
    FabricShape,
    StatedRoute,
    check_size,
    joined,
    rate_text,
)
from clustersim.interchange.topology_files.simgrid_cluster import cluster_shape
from clustersim.interchange.topology_files.simgrid_units import delay_s, rate_bytes_per_s
from clustersim.interchange.xml_text import line_of, mistakes_at, read_xml

_ZONES = {"zone", "AS"}
_ROUTES = {"route", "zoneRoute", "ASroute"}
_PASSED_OVER = {"config", "prop", "storage", "storage_type", "disk", "mount"}
_ROUTINGS = {"Full", "Floyd", "Dijkstra", "DijkstraCache", "None", ""}
_SERIES = ("peer", "staging")
"""Links of clustersim that a message of another link also uses, which have no ends of their own."""


@dataclass
class _Link:
    """A link, and its two ends in the union of places; `kind` is what clustersim called it."""

    bytes_per_s: float
    delay_s: float
    policy: str
    ends: tuple[int, int]
    kind: str = ""


@dataclass
class _Platform:
    """What has been read. `joined` holds for each place another one that is the same place, or itself."""

    hosts: dict[str, str | None] = field(default_factory=dict)  # None of a host, else the sheet of a GPU of ours
    routers: list[str] = field(default_factory=list)
    links: dict[str, _Link] = field(default_factory=dict)
    routes: list[ElementTree.Element] = field(default_factory=list)
    shapes: list[FabricShape] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    joined: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def new_place(self) -> int:
        self.joined.append(len(self.joined))
        return len(self.joined) - 1

    def place(self, name: str) -> int:
        """Return the place of a node by its name."""
        if name not in self.places:
            self.places[name] = self.new_place()
        return self.root(self.places[name])

    def root(self, place: int) -> int:
        while self.joined[place] != place:
            self.joined[place] = place = self.joined[self.joined[place]]
        return place

    def join(self, one: int, other: int) -> None:
        self.joined[self.root(one)] = self.root(other)


def looks_like_simgrid(text: str) -> bool:
    """Return whether a text has the root of a platform."""
    return "<platform" in text[:10_000]


def read_simgrid_platform(text: str) -> FabricShape:
    """Return the hosts of a platform, and a cable for each link, between the places where the routes use it."""
    root = read_xml(text, "SimGrid platform", "platform")
    platform = _Platform()
    for element in _elements(root, text):
        with mistakes_at(element, root, text):
            _add(platform, element)
    if not platform.hosts and not platform.shapes:
        raise InputError("this platform has no host", got="no <host>", allowed="<host> or <cluster>")
    if platform.shapes:
        return _clusters(platform)
    paths = []
    for route in platform.routes:
        with mistakes_at(route, root, text):
            paths.append(_walk(platform, route))
    return _shape(platform, paths)


def _elements(root: ElementTree.Element, text: str) -> Iterator[ElementTree.Element]:
    """Yield hosts, links, routes and clusters of all zones, zones within zones first."""
    zones = [root]
    found: list[list[ElementTree.Element]] = []
    while zones:
        zone = zones.pop()
        if zone.tag in _ZONES and zone.get("routing", "") not in _ROUTINGS:
            got = zone.get("routing", "")[:40]
            message, allowed = f"routing '{got}' of a zone is not read", ", ".join(sorted(_ROUTINGS - {""}))
            raise InputError(Mistake(message, line=line_of(zone, root, text), got=got, allowed=allowed))
        found.append([child for child in zone if child.tag not in _ZONES])
        zones += [child for child in zone if child.tag in _ZONES]
    for children in reversed(found):
        yield from children


def _add(platform: _Platform, element: ElementTree.Element) -> None:
    tag, name = element.tag, element.get("id", "")
    if tag in _PASSED_OVER:
        return
    if tag in _ROUTES:
        platform.routes.append(element)
    elif tag == "cluster":
        platform.shapes.append(cluster_shape(element))
    elif tag in ("host", "router", "link"):
        if not name or name in platform.hosts or name in platform.links or name in platform.routers:
            raise InputError(
                f"a <{tag}> has no name of its own (got '{name[:40]}')", got=name[:40], allowed="each id once", key="id"
            )
        if tag == "host":
            props = _props(element)
            platform.hosts[name] = props.get("gpu", "") if props.get("kind") == "gpu" else None
        elif tag == "router":
            platform.routers.append(name)
        else:
            platform.links[name] = _link(platform, element)
        check_size(len(platform.hosts) + len(platform.routers), len(platform.links))
    else:
        raise InputError(
            f"<{tag[:40]}> of a SimGrid platform is not read",
            got=f"<{tag[:40]}>",
            allowed="zone, host, router, link, route, zoneRoute, cluster",
        )


def _props(element: ElementTree.Element) -> dict[str, str]:
    return {prop.get("id", ""): prop.get("value", "") for prop in element.findall("prop")}


def _link(platform: _Platform, element: ElementTree.Element) -> _Link:
    policy = element.get("sharing_policy", "SHARED")
    if policy not in ("SHARED", "SPLITDUPLEX"):
        name = element.get("id", "")[:40]
        message = f"the link '{name}' has sharing_policy {policy[:20]}, which no cable has"
        raise InputError(message, got=policy[:20], allowed="SPLITDUPLEX or SHARED", key="sharing_policy")
    rate = rate_bytes_per_s(element.get("bandwidth", ""), "bandwidth")
    delay = delay_s(element.get("latency", "0s"), "latency")
    props = _props(element)
    known = "src" in props and "dst" in props
    ends = tuple(platform.place(props[end]) if known else platform.new_place() for end in ("src", "dst"))
    return _Link(rate, delay, policy, (ends[0], ends[1]), props.get("kind", ""))


def _clusters(platform: _Platform) -> FabricShape:
    if len(platform.shapes) > 1 or platform.hosts or platform.links:
        what = f"{len(platform.shapes)} clusters, {len(platform.hosts)} hosts and {len(platform.links)} links"
        raise InputError(
            "a <cluster> beside others is not read: give one cluster, or hosts and links alone",
            got=what,
            allowed="one <cluster>",
        )
    return platform.shapes[0]


def _walk(platform: _Platform, route: ElementTree.Element) -> tuple[str, str, list[str]]:
    """Follow a route from its first place over its links to its last place; return its ends and links."""
    src = route.get("gw_src", route.get("src", ""))
    dst = route.get("gw_dst", route.get("dst", ""))
    for end in (src, dst):
        if end not in platform.hosts and end not in platform.routers:
            message = f"a route begins and ends at hosts and routers of the file (got '{end[:40]}')"
            raise InputError(message, got=end[:40], allowed="the id of a <host> or <router>", key="src")
    here, used = platform.place(src), []
    for child in route:
        name = child.get("id", "")
        if child.tag != "link_ctn" or name not in platform.links:
            message = f"the route from {src[:40]} to {dst[:40]} has an unknown link '{name[:40]}'"
            raise InputError(
                message, got=name[:40] or f"<{child.tag[:20]}>", allowed="the id of a <link>", key="link_ctn"
            )
        link = platform.links[name]
        tail, head = link.ends if child.get("direction", "NONE") != "DOWN" else link.ends[::-1]
        if child.get("direction", "NONE") == "NONE" and platform.root(head) == here:
            tail, head = head, tail
        platform.join(tail, here)
        here = platform.root(head)
        used.append(name)
    platform.join(here, platform.place(dst))
    return src, dst, used


def _shape(platform: _Platform, paths: list[tuple[str, str, list[str]]]) -> FabricShape:
    names: dict[int, str] = {}
    for name in [*platform.places]:
        other = names.setdefault(platform.root(platform.places[name]), name)
        if other != name:
            message = f"the routes make '{other[:40]}' and '{name[:40]}' one place: a link is used at several places"
            raise InputError(message, got=name[:40], allowed="links between two places each")
    cables = []
    pairs: Counter[tuple[str, str, float, float]] = Counter()
    nodes = dict.fromkeys(platform.hosts)
    for name, link in platform.links.items():
        a, b = (names.setdefault(platform.root(end), f"switch{platform.root(end)}") for end in link.ends)
        nodes |= dict.fromkeys((a, b))
        if a == b:
            _without_ends(platform, name, link)
        elif link.policy == "SPLITDUPLEX" or not link.kind:
            cables.append(FabricCable(a, b, rate_text(link.bytes_per_s), link.delay_s))
        else:
            pairs[a, b, link.bytes_per_s, link.delay_s] += 1
    cables += _both_ways(pairs, platform)
    check_size(len(nodes), len(cables))
    _note_shared(platform)
    sheets = {*platform.hosts.values()}
    if len(sheets) > 1 and None not in sheets:
        platform.notes.append("GPUs of several sheets; give one by --gpu, or write them at the nodes")
    switches = tuple(node for node in nodes if node not in platform.hosts)
    shape = FabricShape(tuple(platform.hosts), switches, tuple(cables), tuple(platform.notes), gpus_per_host=1)
    sheet = sheets.pop() if len(sheets) == 1 else None
    ends = [(src, dst, used) for src, dst, used in paths if src in platform.hosts and dst in platform.hosts]
    routes = tuple(_stated(platform, *each) for each in ends[:MAX_STATED])
    are_gpus = None not in set(platform.hosts.values())
    return replace(shape, are_gpus=are_gpus, gpu=sheet or None, routes=routes)


def _both_ways(pairs: Counter[tuple[str, str, float, float]], platform: _Platform) -> Iterator[FabricCable]:
    """Yield a cable for each two links of ours that go opposite ways, and for the others one both ways, with a note."""
    while pairs:
        (a, b, rate, delay), _ = next(iter(pairs.items()))
        back = (b, a, rate, delay)
        if not pairs[back]:
            platform.notes.append("links that go one way only are cables both ways")
        for key in ((a, b, rate, delay), back):
            pairs[key] -= 1
            if pairs[key] <= 0:
                del pairs[key]
        yield FabricCable(a, b, rate_text(rate), delay)


def _without_ends(platform: _Platform, name: str, link: _Link) -> None:
    """Note a link of ours that joins no two places; refuse another one, such as a backbone that all routes share."""
    if link.kind in _SERIES:
        platform.notes.append(
            f"links of class {link.kind}, which limit transfers between GPUs through a processor, are left out"
        )
        return
    raise InputError(
        f"the link '{name[:40]}' is used by routes in both directions between the same places (a backbone): no cable "
        "is like that",
        got=name[:40],
        allowed="links between two places each",
    )


def _note_shared(platform: _Platform) -> None:
    shared = [name for name, link in platform.links.items() if link.policy == "SHARED" and not link.kind]
    if shared:
        platform.notes.append(
            f"{len(shared)} links are SHARED by both directions ({joined(shared)}); a cable here has its rate each way"
        )
    platform.notes = list(dict.fromkeys(platform.notes))


def _stated(platform: _Platform, src: str, dst: str, used: list[str]) -> StatedRoute:
    """Return the lowest rate and the whole delay of a route, without links that join no two places."""
    links = [platform.links[name] for name in used]
    between = [link for link in links if platform.root(link.ends[0]) != platform.root(link.ends[1])]
    rate = min([link.bytes_per_s for link in between], default=float("inf"))
    return StatedRoute(src, dst, rate, sum(link.delay_s for link in between))
