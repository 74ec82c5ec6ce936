"""Reads ASTRA-sim's network file (analytical backend): dimensions of rings, switches and full meshes of GPUs.

Follows astra-sim/astra-network-analytical, common/NetworkParser.cpp and common/NetworkFunction.cpp. A GB/s is 2**30
bytes per second there. GPUs are numbered with the first dimension fastest, and pass on messages of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite, prod
from typing import Any

from clustersim.errors import InputError
from clustersim.interchange.topology_files.fabric_shape import (
    FabricCable,
    FabricShape,
    check_size,
    rate_text,
)
from clustersim.reading import Limits, TreeNode, read_yaml

_GB = float(1 << 30)
_KEYS = ("topology", "npus_count", "bandwidth", "latency")
_BLOCKS = ("Ring", "FullyConnected", "Switch")
_LIMITS = Limits(num_events=20_000)
_MAX_DIMS = 12


def looks_like_astra(text: str) -> bool:
    """Return whether a text has ASTRA-sim's number of NPUs."""
    return re.search(r"""(?m)^[ \t{"]{0,40}npus_count["]?\s*:""", text) is not None


def read_astra_network(text: str) -> FabricShape:
    """Return the GPUs, switches and links of all dimensions."""
    root, mistakes = read_yaml(text, None, limits=_LIMITS)
    if mistakes:
        raise InputError(mistakes)
    names, counts, rates, delays = (_column(root, key) for key in _KEYS)
    _check_keys(root)
    _check_dims(root, names, counts, rates, delays)
    links = [(rate_text(rate * _GB), delay * 1e-9) for rate, delay in zip(rates, delays, strict=True)]
    dims = [(name, count, *link) for name, count, link in zip(names, counts, links, strict=True) if count > 1]
    return _expanded(dims, "a GB/s of ASTRA-sim is 2**30 bytes per second")


def _expanded(dims: list[tuple[str, int, str, float]], note: str) -> FabricShape:
    """Return GPUs `gpu0`, ... and a switch for each group of a dimension that has one; a GPU passes messages on."""
    num_gpus = prod(count for _, count, _, _ in dims)
    cables = sum(num_gpus * ((count - 1) / 2 if name == "FullyConnected" else 1) for name, count, _, _ in dims)
    check_size(num_gpus, int(cables))
    found: list[FabricCable] = []
    switches: list[str] = []
    stride = 1
    for number, (name, count, link, hop_s) in enumerate(dims):
        for group, members in enumerate(_groups(num_gpus, stride, count)):
            if name == "Switch":
                switches.append(f"switch{number}-{group}")
            ends = _ends(name, members, switches[-1] if switches else "")
            found += [FabricCable(a, b, link, hop_s) for a, b in ends]
        stride *= count
    gpus = tuple(f"gpu{number}" for number in range(num_gpus))
    return FabricShape(gpus, tuple(switches), tuple(found), (note,), are_gpus=True)


def _groups(num_gpus: int, stride: int, count: int) -> Iterator[list[str]]:
    """Yield the GPUs that differ only in one dimension."""
    for first in range(num_gpus):
        if first // stride % count == 0:
            yield [f"gpu{first + place * stride}" for place in range(count)]


def _ends(name: str, members: list[str], switch: str) -> Iterator[tuple[str, str]]:
    if name == "Switch":
        yield from ((member, switch) for member in members)
    elif name == "FullyConnected":
        yield from ((a, b) for number, a in enumerate(members) for b in members[number + 1 :])
    else:
        ring = members if len(members) > 2 else members[:1]
        yield from ((a, members[(number + 1) % len(members)]) for number, a in enumerate(ring))


def _column(root: TreeNode, key: str) -> list[Any]:
    """Return the list of a key; one value is a list of one."""
    node = root.child(key) if isinstance(root.value, dict) else None
    if node is None:
        raise InputError(f"an ASTRA-sim network has `{key}`", got="nothing", allowed=", ".join(_KEYS), key=key)
    values = [child.value for _, child in node.items()] if isinstance(node.value, list) else [node.value]
    if not 1 <= len(values) <= _MAX_DIMS:
        raise InputError(node.place.mistake(f"`{key}` has 1 to {_MAX_DIMS} values", key, str(len(values))))
    return values


def _check_keys(root: TreeNode) -> None:
    for key, child in root.children.items():
        if key not in _KEYS:
            message = (
                f"`{key[:40]}` of an ASTRA-sim network is not read: remove it, or write the cluster as a topology file"
            )
            raise InputError((child.key_place or child.place).mistake(message, key[:40], key[:40], ", ".join(_KEYS)))


def _check_dims(root: TreeNode, names: list[Any], counts: list[Any], rates: list[Any], delays: list[Any]) -> None:
    def wrong(key: str, got: Any, allowed: str) -> InputError:
        node = root.children[key]
        return InputError(
            node.place.mistake(f"`{key}` has {allowed} (got {str(got)[:40]})", key, str(got)[:40], allowed)
        )

    for key, column in zip(_KEYS[1:], (counts, rates, delays), strict=True):
        if len(column) != len(names):
            raise wrong(key, len(column), f"{len(names)} values, one for each dimension of `topology`")
    for name in names:
        if name not in _BLOCKS:
            raise wrong("topology", name, f"building blocks {', '.join(_BLOCKS)}")
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 1_000_000:
            raise wrong("npus_count", count, "whole numbers from 1 to 1,000,000")
    for key, column, least in (("bandwidth", rates, 1e-6), ("latency", delays, 0.0)):
        for value in column:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and isfinite(value) and least <= value <= 1e9):
                raise wrong(key, value, f"numbers from {least:g} to 1e9")
    if prod(counts) < 2:
        raise wrong("npus_count", prod(counts), "at least 2 NPUs in all")
