"""Knobs of the cluster: how many GPUs and which, the rates of links, and network cards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from clustersim.errors import ClustersimError
from clustersim.hardware import GPUS, LINKS, load_gpu, load_link
from clustersim.topology.host import Host
from clustersim.topology.host_table import HOSTS
from clustersim.topology.hosted_spec import HostedSpec
from clustersim.topology.wire import wire
from clustersim.what_if.base import SIZES, Base
from clustersim.what_if.knob import Knob, Stop
from clustersim.what_if.scale import choices, knob, numbers, powers

_LARGER = 8
"""Times the scenario's GPUs that are offered at most."""

_FACTORS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
_NEAR = 1.3
"""Factor within which a link's sheet stands for a multiple of a rate."""

_ENOUGH = 3
"""Sheets of a family that are a range of rates."""

_BITS = 8 / 1e9
_CARD = "card"


def size_knobs(base: Base) -> Iterator[Knob]:
    """Yield the number of GPUs: powers of two that the cluster has, and the scenario's own."""
    now, most = base.point.num_gpus, base.most_gpus()
    limit = _LARGER * max(now, *base.sizes) if most is None else min(most, _LARGER * now)
    values = {*powers(limit), *base.sizes, now}
    yield numbers(base, SIZES, "GPUs", values, now)


def gpu_knobs(base: Base) -> Iterator[Knob]:
    """Yield the GPU: sheets of the same maker and board with which the host can be built."""
    spec, host = base.point.topology, _host(base)
    if not isinstance(spec, HostedSpec) or host is None or host.gpu is None:
        return
    has_slots = type(host) is not HOSTS["bare"]
    fits = [name for name in GPUS if _is_alike(name, host.gpu, has_slots) and _can_be_built(spec, name)]
    yield choices(base, "topology.gpu", "GPU", fits, host.gpu)


def link_knobs(base: Base) -> Iterator[Knob]:
    """Yield the link of the network: sheets of the same family, and multiples of its rate at the same delay."""
    link = getattr(base.point.topology, "link", None)
    if isinstance(link, str):
        stops = _of_network(link, base.written("topology.hop") is not None)
    elif isinstance(link, list | tuple) and all(isinstance(each, str) for each in link):
        stops = _of_dimensions(list(link), base.written("topology.hop") is not None)
        link = list(link)
    else:
        return
    if "topology.link" not in base.listed:
        yield knob(base, "topology.link", "Link of the network", stops, link, "number", unit="Gbit/s")


def card_knobs(base: Base) -> Iterator[Knob]:
    """Yield the number of network cards of a host."""
    host = _host(base)
    cards = getattr(host, "nics", None)
    if isinstance(base.point.topology, HostedSpec) and cards is not None:
        yield numbers(base, "topology.nics", "Network cards of a host", powers(max(8, cards)), cards)


def host_link_knobs(base: Base) -> Iterator[Knob]:
    """Yield the links inside a host, NVLink and PCIe: sheets of the family of the present one."""
    host = _host(base)
    if host is None or host.gpu is None or getattr(host, "num_gpus", 1) < 2:
        return
    gpu, written = load_gpu(host.gpu), base.written("topology.host")
    before = () if isinstance(written, Mapping) else (("topology.host", {"template": written}),)
    for field, label, sheet in (("nvlink", "NVLink", gpu.nvlink), ("pcie", "PCIe", gpu.pcie)):
        now = str(getattr(host, field, None) or sheet)
        if field in type(host).model_fields and now in LINKS:
            num = gpu.num_nvlinks if field == "nvlink" else 0
            stops = [_sheet(name, num) for name in _family(now)]
            key = f"topology.host.{field}"
            yield knob(base, key, label, stops, now, "number", unit="Gbit/s", before=before)


def _host(base: Base) -> Host | None:
    """Return the host of the cluster, with the topology's own keys in it; None for hosts of several kinds."""
    spec = base.point.topology
    if not isinstance(spec, HostedSpec) or getattr(spec, "hosts", None) is not None:
        return None
    return spec.host_with_overrides(spec.host)


def _can_be_built(spec: HostedSpec, gpu: str) -> bool:
    try:
        spec.host_with_overrides(spec.host).model_copy(update={"gpu": gpu}).plan()
    except (ClustersimError, ValueError):
        return False
    return True


def _is_alike(name: str, present: str, has_slots: bool) -> bool:
    """Return whether one GPU can replace another: of the same maker and, where a host has slots, of the same board.

    >>> _is_alike("b200", "h100", True), _is_alike("gb200", "h100", True), _is_alike("h100-pcie", "h100", True)
    (True, False, False)
    >>> _is_alike("h100-pcie", "h100", False), _is_alike("mi300x", "h100", False), _is_alike("v100", "p100", True)
    (True, False, True)
    """
    other, gpu = load_gpu(name), load_gpu(present)
    maker, board = (of(other.title) == of(gpu.title) for of in (lambda title: title.split()[0], _board))
    is_module = _board(gpu.title) != _CARD
    return maker and (not has_slots or (board and (not is_module or other.pcie == gpu.pcie)))


def _board(title: str) -> str:
    """Return what carries a GPU by the title of its sheet: a module (SXM), a superchip beside its processor, a card."""
    found = re.search(r"\b(SXM|G[BH][23]00)", title)
    return found[1] if found and not title.startswith("AMD") else _CARD


def _of_network(link: str, gives_hop: bool) -> list[Stop]:
    """Return the sheets of a link's family by rate, with twice and four times the highest; else multiples of its rate.

    A rate has the delay of the present link.
    """
    cable = wire(link, "access")
    family = _family(link) if link in LINKS else []
    stops = [_sheet(name) for name in family] or [Stop(link, link, cable.bytes_per_s * _BITS)]
    rates = [factor * cable.bytes_per_s for factor in _FACTORS]
    if len(family) >= _ENOUGH:
        rates = [factor * load_link(family[-1]).bytes_per_s for factor in (2, 4)]
    also = () if gives_hop or not cable.latency_s else (("topology.hop", _seconds(cable.latency_s)),)
    for rate in map(_rounded, rates):
        if not any(1 / _NEAR < rate * _BITS / (stop.number or 1.0) < _NEAR for stop in stops):
            stops.append(Stop(_rate(rate), _shown(rate), rate * _BITS, also))
    return sorted(stops, key=lambda stop: stop.number or 0.0)


def _rounded(bytes_per_s: float) -> float:
    """Return a rate of two digits, in bits."""
    return float(f"{bytes_per_s * _BITS:.2g}") / _BITS


def _of_dimensions(links: list[str], gives_hop: bool) -> list[Stop]:
    """Return multiples of the rates of a torus, whose dimensions have a link each."""
    cables = [wire(link, "torus") for link in links]
    delays = {cable.latency_s for cable in cables}
    if not gives_hop and len(delays) > 1:
        return [Stop(links, "as it is", cables[0].bytes_per_s * _BITS)]
    also = () if gives_hop or delays == {0.0} else (("topology.hop", _seconds(delays.pop())),)
    stops = []
    for factor in _FACTORS:
        rates = [_rounded(factor * cable.bytes_per_s) for cable in cables]
        label = " x ".join(map(_shown, rates))
        stop = Stop([_rate(rate) for rate in rates], label, rates[0] * _BITS, also)
        stops.append(replace(stop, value=links, also=()) if factor == 1 else stop)
    return stops


def _family(link: str) -> list[str]:
    """Return the link sheets that differ from one in their generation only, the slowest first."""
    alike = (each for each in LINKS if _without_generation(each) == _without_generation(link))
    return sorted(alike, key=lambda each: load_link(each).bytes_per_s)


def _without_generation(link: str) -> tuple[str, str, str]:
    """Return the name of a link without its generation: a number in the second word, or a word of letters.

    >>> _without_generation("pcie-3-x16"), _without_generation("ethernet-10g"), _without_generation("infiniband-ndr")
    (('pcie', '#', 'x16'), ('ethernet', '#g', ''), ('infiniband', 'word', ''))
    """
    family, _, rest = link.partition("-")
    generation, _, width = rest.partition("-")
    return family, "word" if generation.isalpha() else re.sub(r"\d+", "#", generation), width


def _sheet(name: str, num_links: int = 0) -> Stop:
    rate = load_link(name).bytes_per_s
    several = f" a link, {num_links} links" if num_links > 1 else ""
    return Stop(name, f"{name}, {_shown(rate)}{several}", rate * _BITS)


def _rate(bytes_per_s: float) -> str:
    """Return a rate as a scenario writes it, exact.

    >>> _rate(12.5e9), _rate(6.1e9)
    ('100 Gbit/s', '48.8 Gbit/s')
    """
    return f"{_number(bytes_per_s * _BITS)} Gbit/s"


def _shown(bytes_per_s: float) -> str:
    return f"{bytes_per_s * _BITS:.4g} Gbit/s"


def _seconds(seconds: float) -> str:
    return f"{_number(seconds * 1e9)} ns"


def _number(value: float) -> str:
    return f"{value:.12g}"
