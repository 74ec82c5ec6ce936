"""The network between hosts as a tool describes it: hosts, switches, and the cables between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.interchange.host_shape import HostShape
from clustersim.topology.wire import wire
from clustersim.units import parse

MAX_NODES = 50_000
MAX_CABLES = 50_000
"""Limits of a network, so that its topology file can be read again in seconds."""

MAX_STATED = 2_000
"""Routes of a file that are compared with ours."""


@dataclass(frozen=True)
class FabricCable:
    """A cable between two nodes, each way.

    `link` is a sheet's name or a rate, None where the file has no rate; `times` is how many such cables it stands for.
    `hop_s` is its delay, where the file has one.
    """

    a: str
    b: str
    link: str | None = None
    hop_s: float | None = None
    times: float = 1.0

    @property
    def numbers(self) -> tuple[float, float]:
        """Its rate (bytes/s) and its delay (s)."""
        assert self.link is not None  # `with_link` has given it one
        found = wire(self.link, "link", self.hop_s)
        return found.bytes_per_s * self.times, found.latency_s


class StatedRoute(NamedTuple):
    """What a file says of the route from one host to another: its lowest rate and its whole delay."""

    src: str
    dst: str
    bytes_per_s: float
    delay_s: float


@dataclass(frozen=True)
class FabricShape:
    """Hosts, switches and cables. The cables of a host are in the order of its network cards.

    `gpus_per_host` is known where the file has the GPUs of a host, and `gpu`, their sheet, where it names it. With
    `are_gpus` the hosts are GPUs themselves, which pass on messages of others. `routes` are some that the file states,
    and `inside` is what it says of a host. Without `cards_are_known` the file has one cable for each host, whatever the
    number of its network cards.
    """

    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    cables: tuple[FabricCable, ...]
    notes: tuple[str, ...] = ()
    gpus_per_host: int | None = None
    are_gpus: bool = False
    gpu: str | None = None
    routes: tuple[StatedRoute, ...] = ()
    inside: HostShape | None = None
    cards_are_known: bool = True

    @cached_property
    def known_hosts(self) -> frozenset[str]:
        """The names of the hosts."""
        return frozenset(self.hosts)

    def with_cards(self, num_cards: int) -> FabricShape:
        """Return the shape with a cable for each of a host's cards, and links between switches that much wider."""
        check_size(0, len(self.hosts) * num_cards)
        cables: list[FabricCable] = []
        for cable in self.cables:
            at_host = {cable.a, cable.b} & self.known_hosts
            cables += [cable] * num_cards if at_host else [replace(cable, times=cable.times * num_cards)]
        return replace(self, cables=tuple(cables), cards_are_known=True)

    def with_link(self, link: str | None, what: str) -> FabricShape:
        """Return the shape with a rate for every cable: `link` where the file has none.

        Raise InputError where a rate is missing and not given, or given and not missing.
        """
        missing = [cable for cable in self.cables if cable.link is None]
        if missing and link is None:
            ends = f"{missing[0].a} - {missing[0].b}"
            raise InputError(
                f"{what} has no rates: give the link of its cables, such as --link infiniband-ndr or "
                f"--link '400 Gbit/s' (the first without a rate is {ends})",
                got="no rate",
                allowed="--link LINK",
                key="link",
            )
        if link is not None and not missing:
            message = (
                f"{what} has the rate of every cable: leave --link out, or change `link` in the file that is written"
            )
            raise InputError(message, got=link, allowed="no --link", key="link")
        return replace(self, cables=tuple(replace(c, link=link) if c.link is None else c for c in self.cables))


def check_size(num_nodes: int, num_cables: int, line: int | None = None) -> None:
    """Refuse a network that is too large for a topology file."""
    for what, number, most in (("nodes", num_nodes, MAX_NODES), ("cables", num_cables, MAX_CABLES)):
        if number > most:
            where = f" (line {line})" if line is not None else ""
            message = f"the network would have {number:,} {what}{where}; at most {most:,} are read"
            raise InputError(message, got=f"{number:,}", allowed=f"at most {most:,}")


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts names with numbers as people do.

    >>> sorted(["n10", "n9", "a"], key=natural)
    ['a', 'n9', 'n10']
    """
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part[:30]), part) if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts]


def rate_text(bytes_per_s: float) -> str:
    """Return a rate as a topology file has it; reading it gives the same number.

    >>> rate_text(12.5e9), rate_text(1e6 / 3)
    ('12.5 GB/s', '0.0003333333333333333 GB/s')
    """
    for unit, size in (("GB/s", 1e9), ("B/s", 1.0)):
        text = f"{bytes_per_s / size!r}"
        if "e" not in text and float(text) * size == bytes_per_s:
            return f"{text.removesuffix('.0')} {unit}"
    return f"{bytes_per_s:.6f} B/s"


def delay_text(delay_s: float) -> str:
    """Return a delay as a topology file has it, to twelve digits.

    >>> delay_text(5e-7), delay_text(0.0), delay_text(0.0025)
    ('500 ns', '0 ns', '2.5 ms')
    """
    for unit in ("s", "ms", "us", "ns"):
        value = delay_s / parse(f"1 {unit}", "duration")
        text = f"{value:.12g} {unit}"
        if (
            (value >= 1 or unit == "ns")
            and "e" not in text
            and isclose(parse(text, "duration"), delay_s, rel_tol=1e-12)
        ):
            return text
    return f"{delay_s!r} s"


def joined(names: Iterable[str], most: int = 3) -> str:
    """Return the first few names as text.

    >>> joined(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    listed = list(names)
    rest = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + rest
