"""Reads an InfraGraph (Keysight): devices of components, their instances, and edges between them, in YAML or JSON.

Follows Keysight/infragraph, schema/*.yaml and src/infragraph/infragraph_service.py @2701fa5: an edge joins slices of
two instances' components, `one2one` in turn or `many2many` each with each; the same edge twice is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from math import isfinite
from typing import Any, NamedTuple

from clustersim.errors import InputError
from clustersim.interchange.host_shape import MAX_DEVICES, HostShape
from clustersim.interchange.topology_files.fabric_shape import (
    MAX_CABLES,
    FabricCable,
    FabricShape,
    check_size,
    joined,
    natural,
    rate_text,
)
from clustersim.interchange.topology_files.infragraph_host import Edge, host_shape
from clustersim.reading import Limits, TreeNode, check_extent, from_python, read_yaml

_LIMITS = Limits(num_bytes=8 << 20, num_events=60_000, num_values=200_000)
_SLICE = re.compile(r"([^\[\].]+)(?:\[(-?\d{1,9})?(:)?(-?\d{1,9})?(?::(-?\d{1,9})?)?\])?")
_RATES = {"gigabits_per_second": 1e9 / 8, "gigabytes_per_second": 1e9}
_DELAYS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_KEYS = {"name", "description", "devices", "links", "instances", "edges", "annotations"}
_MAX_LEVELS = 8


class _Device(NamedTuple):
    """The number of each component, what each is (such as xpu, or device), and where it is in the file."""

    counts: dict[str, int]
    choices: dict[str, str]
    node: TreeNode


class _Instance(NamedTuple):
    """Copies of a device."""

    device: str
    copies: int


Point = tuple[str, tuple[str, ...]]
"""A node of the network and the component of it at which a cable ends."""


def looks_like_infragraph(text: str) -> bool:
    """Return whether a text has the devices and instances of an InfraGraph."""
    return all(re.search(rf"""["']?\b{key}\b["']?\s*:""", text) is not None for key in ("devices", "instances"))


def read_infragraph(text: str) -> FabricShape:
    """Return an instance with xpus as a host, every other one as a switch, and a cable for each edge between them."""
    root = _tree(text)
    inside = root.child("infrastructure") if isinstance(root.value, dict) else None
    graph = inside or root
    _check_keys(graph)
    devices = {name: _device(node) for name, node in _named(graph, "devices")}
    instances = {name: _instance(node, devices) for name, node in _named(graph, "instances")}
    check_size(sum(instance.copies for instance in instances.values()), 0)
    links = {name: _link(node) for name, node in _named(graph, "links")}
    cables = list(_cables(graph, devices, instances, links))
    return _shape(devices, instances, cables)


def _tree(text: str) -> TreeNode:
    """Return the tree of a YAML or JSON text; that of JSON has no places."""
    if len(text) > _LIMITS.num_bytes or text.count(",") + text.count("\n") > _LIMITS.num_values:
        most = f"{_LIMITS.num_bytes >> 20} MiB and {_LIMITS.num_values:,} values"
        raise InputError(
            f"this InfraGraph is too large: at most {most} are read", got=f"{len(text)} bytes", allowed=most
        )
    if text.lstrip()[:1] == "{":
        try:
            read = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError):
            pass  # the reader of YAML says where the text is wrong
        else:
            root = from_python(read)
            check_extent(root, _LIMITS.num_values)
            return root
    root, mistakes = read_yaml(text, None, limits=_LIMITS)
    if mistakes:
        raise InputError(mistakes)
    return root


def _no_number(text: str) -> float:
    raise ValueError(f"a number must be finite (got {text})")


def _check_keys(graph: TreeNode) -> None:
    if not isinstance(graph.value, dict):
        raise _wrong(graph, "an InfraGraph", "a map with devices, instances and edges")
    for key, child in graph.children.items():
        if key not in _KEYS:
            place = child.key_place or child.place
            message = f"`{key[:40]}` of an InfraGraph is not read"
            raise InputError(place.mistake(message, key[:40], key[:40], ", ".join(sorted(_KEYS))))


def _wrong(node: TreeNode, what: str, allowed: str) -> InputError:
    got = (
        "a map" if isinstance(node.value, dict) else "a list" if isinstance(node.value, list) else str(node.value)[:40]
    )
    return InputError(node.place.mistake(f"{what} is {allowed} (got {got})", got=got, allowed=allowed))


def _rows(node: TreeNode, key: str) -> list[TreeNode]:
    """Return the maps of a list; none where the key is missing."""
    rows = node.child(key)
    if rows is None or rows.value is None:
        return []
    if not isinstance(rows.value, list):
        raise _wrong(rows, f"`{key}`", "a list")
    for row in rows.value:
        if not isinstance(row.value, dict):
            raise _wrong(row, f"an element of `{key}`", "a map")
    found: list[TreeNode] = rows.value
    return found


def _named(node: TreeNode, key: str) -> Iterator[tuple[str, TreeNode]]:
    seen: set[str] = set()
    for row in _rows(node, key):
        name = _text(row, "name")
        if name in seen:
            raise InputError(
                row.place.mistake(f"two of `{key}` are called '{name[:40]}'", got=name[:40], allowed="each once")
            )
        seen.add(name)
        yield name, row


def _text(row: TreeNode, key: str) -> str:
    child = row.child(key)
    if child is None or not isinstance(child.value, str) or not child.value:
        raise _wrong(child or row, f"`{key}`", "a text")
    return child.value


def _count(row: TreeNode) -> int:
    child = row.child("count")
    value = 1 if child is None else child.value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
        raise _wrong(child or row, "`count`", "a whole number up to 1,000,000")
    return value


def _device(node: TreeNode) -> _Device:
    counts: dict[str, int] = {}
    choices: dict[str, str] = {}
    for name, row in _named(node, "components"):
        counts[name] = _count(row)
        choices[name] = _text(row, "choice" if row.child("choice") else "type")
        custom = row.child("custom")
        if choices[name] == "custom" and custom is not None and isinstance(custom.value, dict) and custom.child("type"):
            choices[name] = _text(custom, "type")
    return _Device(counts, choices, node)


def _instance(node: TreeNode, devices: dict[str, _Device]) -> _Instance:
    device = _text(node, "device")
    if device not in devices:
        message = f"no device is called '{device[:40]}'"
        raise InputError(node.place.mistake(message, "device", device[:40], joined(devices, 8)))
    return _Instance(device, _count(node))


def _link(node: TreeNode) -> tuple[str | None, float | None]:
    """Return the rate and the delay of a link, None for each that it does not have."""
    physical = node.child("physical") or node
    rate, delay = (_physical(physical, key) for key in ("bandwidth", "latency"))
    value = next((rate[unit] * size for unit, size in _RATES.items() if unit in rate), None)
    delay_s = next((delay[unit] * size for unit, size in _DELAYS.items() if unit in delay), None)
    return None if value is None else rate_text(value), delay_s


def _physical(node: TreeNode, key: str) -> dict[str, float]:
    """Return the numbers of a bandwidth or a latency by their unit; the unit is `choice`, or the only one given."""
    child = node.child(key)
    if child is None or child.value is None:
        return {}
    if not isinstance(child.value, dict):
        raise _wrong(child, f"`{key}`", "a map")
    chosen = child.child("choice")
    found = {}
    for unit, number in child.children.items():
        if unit == "choice" or (chosen is not None and chosen.value != unit):
            continue
        value = number.value
        least = 1e-9 if key == "bandwidth" else 0.0
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not (isfinite(value) and least <= value <= 1e9)
        ):
            raise _wrong(number, f"`{unit}`", "a number above zero")
        found[unit] = float(value)
    return found


def _cables(
    graph: TreeNode,
    devices: dict[str, _Device],
    instances: dict[str, _Instance],
    links: dict[str, tuple[str | None, float | None]],
) -> Iterator[tuple[Point, Point, tuple[str | None, float | None]]]:
    seen: set[frozenset[Point]] = set()
    for row in _rows(graph, "edges"):
        link = _text(row, "link")
        if link not in links:
            raise InputError(row.place.mistake(f"no link is called '{link[:40]}'", "link", link[:40], joined(links, 8)))
        ends = [_points(_end(row, key), devices, instances) for key in ("ep1", "ep2")]
        for one, other in _pairs(row, *ends):
            pair = frozenset((one, other))
            if one[0] != other[0] and pair not in seen:
                seen.add(pair)
                yield one, other, links[link]


def _pairs(row: TreeNode, one: list[Point], other: list[Point]) -> Iterator[tuple[Point, Point]]:
    scheme = _text(row, "scheme") if row.child("scheme") else "one2one"
    if scheme == "many2many":
        check_size(0, len(one) * len(other), row.place.line)
        return iter(product(one, other))
    if scheme != "one2one":
        raise InputError(row.place.mistake("this `scheme` is not read", "scheme", scheme[:40], "one2one, many2many"))
    return zip(one, other, strict=False)


def _end(row: TreeNode, key: str) -> TreeNode:
    child = row.child(key)
    if child is None or not isinstance(child.value, dict):
        raise _wrong(child or row, f"`{key}`", "a map with instance and component")
    return child


def _points(end: TreeNode, devices: dict[str, _Device], instances: dict[str, _Instance]) -> list[Point]:
    """Return the components of a slice of instances, instance by instance."""
    name, indexes = _sliced(_text(end, "instance"), end)
    if name not in instances:
        raise InputError(
            end.place.mistake(f"no instance is called '{name[:40]}'", "instance", name[:40], joined(instances, 8))
        )
    numbers = _range(indexes, instances[name].copies, end)
    paths = _paths(end, instances[name].device, devices)
    check_size(0, len(numbers) * len(paths), end.place.line)
    return [(f"{name}{number}", path) for number in numbers for path in paths]


def _paths(end: TreeNode, device: str, devices: dict[str, _Device]) -> list[tuple[str, ...]]:
    """Return the components of a device that an end names, each by its path through devices within devices."""
    paths: list[tuple[str, ...]] = [()]
    for level, part in enumerate(_text(end, "component").split(".")):
        component, indexes = _sliced(part, end)
        if level >= _MAX_LEVELS or device not in devices or component not in devices[device].counts:
            raise InputError(end.place.mistake(f"no component is called '{component[:40]}'", "component", part[:40]))
        inner = [f"{component}.{number}" for number in _range(indexes, devices[device].counts[component], end)]
        check_size(0, len(paths) * len(inner), end.place.line)
        paths = [(*path, each) for path in paths for each in inner]
        device = component
    return paths


def _sliced(text: str, end: TreeNode) -> tuple[str, tuple[Any, ...]]:
    match = _SLICE.fullmatch(text.strip())
    if match is None:
        raise InputError(
            end.place.mistake("this is not a name with a slice", got=text[:40], allowed="host[0:4], port[2]")
        )
    return match[1], match.groups()[1:]


def _range(indexes: tuple[Any, ...], count: int, end: TreeNode) -> range:
    first, colon, last, step = indexes
    if first is not None and not colon:
        found = range(int(first), int(first) + 1)
    else:
        found = range(int(first or 0), count if last is None else int(last), int(step or 1) or 1)
    if len(found) > MAX_CABLES or (found and not (min(found[0], found[-1]) >= 0 and max(found[0], found[-1]) < count)):
        raise InputError(
            end.place.mistake(f"there are {count} of these", got=str(indexes), allowed=f"0 to {count - 1}")
        )
    return found


def _shape(
    devices: dict[str, _Device],
    instances: dict[str, _Instance],
    cables: list[tuple[Point, Point, tuple[str | None, float | None]]],
) -> FabricShape:
    of_devices = _num_xpus(devices)
    num_xpus = {name: of_devices[instance.device] for name, instance in instances.items()}
    used = {point[0] for one, other, _ in cables for point in (one, other)}
    names = {f"{name}{number}": name for name, each in instances.items() for number in range(each.copies)}
    if len(names) < sum(each.copies for each in instances.values()):
        raise InputError("two instances have one name with their numbers", allowed="names that do not end in a number")
    hosts = [name for name, instance in names.items() if num_xpus[instance] and name in used]
    switches = [name for name, instance in names.items() if not num_xpus[instance] and name in used]
    if not hosts:
        raise InputError("no instance has an xpu with a cable to another instance", got="no host", allowed="an edge")
    ordered = sorted(cables, key=lambda cable: (sorted(natural(point[0]) for point in cable[:2]), _places(cable)))
    notes = []
    unused = [name for name in names if name not in used]
    if unused:
        notes.append(f"{len(unused)} instances without an edge are left out: {joined(unused)}")
    devices_of_hosts = dict.fromkeys(instances[names[name]].device for name in hosts)
    first = next(iter(devices_of_hosts))
    if len(devices_of_hosts) > 1:
        notes.append(f"hosts are of several devices ({joined(devices_of_hosts)})")
    counts = {num_xpus[names[name]] for name in hosts}
    return FabricShape(
        tuple(sorted(hosts, key=natural)),
        tuple(switches),
        tuple(FabricCable(one[0], other[0], *link) for one, other, link in ordered),
        tuple(notes),
        gpus_per_host=counts.pop() if len(counts) == 1 else None,
        inside=_inside(first, devices) if len(devices_of_hosts) == 1 else None,
    )


def _inside(name: str, devices: dict[str, _Device]) -> HostShape | None:
    """Return the inside of a device as a host; None where nothing is joined there."""
    device = devices[name]
    rows = _rows(device.node, "edges")
    if not rows or sum(device.counts.values()) > MAX_DEVICES:
        return None
    links = {link: _link(row)[0] for link, row in _named(device.node, "links")}
    components = {
        f"{part}.{number}": _role(part, devices, device)
        for part, count in device.counts.items()
        for number in range(count)
    }
    edges = []
    for row in rows:
        ends = [_paths(_end(row, key), name, devices) for key in ("ep1", "ep2")]
        one, other = ([(path[0], path[1:]) for path in paths] for paths in ends)
        link = _text(row, "link")
        edges += [Edge(a, b, link, links.get(link)) for (a, _), (b, _) in _pairs(row, one, other)]
    return host_shape(components, edges)


def _role(part: str, devices: dict[str, _Device], device: _Device) -> str:
    """Return what a component is within a host: a device with ports is a card, one for cards is a slot."""
    choice = device.choices[part]
    if choice == "device":
        within = devices[part].choices.values() if part in devices else ()
        return "card" if {"port", "nic"} & set(within) else "device"
    return "slot" if "slot" in choice else choice


def _places(cable: tuple[Point, Point, Any]) -> list[list[tuple[int, int, str]]]:
    return [natural(".".join(point[1])) for point in cable[:2]]


def _num_xpus(devices: dict[str, _Device]) -> dict[str, int]:
    """Return the accelerators of each device, those of devices within it included."""
    found: dict[str, int] = {}
    for _ in range(_MAX_LEVELS):
        found = {name: sum(_xpus_in(device, part, found) for part in device.counts) for name, device in devices.items()}
    return found


def _xpus_in(device: _Device, part: str, within: dict[str, int]) -> int:
    each = {"xpu": 1, "device": within.get(part, 0)}.get(device.choices[part], 0)
    return min(device.counts[part] * each, 1_000_000)
