"""Clusters to compare: a text such as `h100:512@2.5` to the settings that make a scenario one for that cluster."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from clustersim.arguments import check_number, check_texts
from clustersim.data import shipped_files
from clustersim.errors import InputError, unknown_name
from clustersim.hardware import GPUS
from clustersim.hardware.gpu_name import split_name
from clustersim.hardware.price import price_setting
from clustersim.hardware.sheet_catalogue import is_path
from clustersim.scenario import Point, build_topology
from clustersim.topology import HOST_SHEETS, HOSTS, load_topology
from clustersim.topology.host_sheets import host_sheet
from clustersim.topology.hosted_spec import HostedSpec

OWN = "scenario"
"""Name of the scenario's own cluster."""

_ALLOWED = "NAME[:GPUS][@DOLLARS] [KEY=VALUE]..."
_TEXT = re.compile(r"(?P<name>[^@]+?)(?::(?P<sizes>[0-9, ]*))?(?:@(?P<price>[^@]*))?")


@dataclass(frozen=True)
class ClusterOption:
    """A cluster to plan for: `num_gpus` of what `name` says, at a price of a GPU for an hour, with further settings.

    `name` is a GPU, a host, a shipped cluster, a topology file, or `scenario` for the scenario's own cluster.
    """

    name: str
    num_gpus: int
    dollars_per_hour: float | None = None
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_number("num_gpus", self.num_gpus, least=1, is_whole=True)
        if self.dollars_per_hour is not None:
            check_number("dollars_per_hour", self.dollars_per_hour, above=0)
        check_texts("settings", self.settings, "a list of texts such as 'precision=amp-fp8'")

    @property
    def label(self) -> str:
        """The cluster in few words, such as `512 h100`."""
        return ", ".join([f"{self.num_gpus} {self.name}", *self.settings])


def read_clusters(text: str, num_gpus: Sequence[int] = ()) -> list[ClusterOption]:
    """Return the clusters of a text: a name, its numbers of GPUs, a price, and settings for it alone.

    Without numbers those of `num_gpus` are taken.

    >>> read_clusters("h100:512@2.5")
    [ClusterOption(name='h100', num_gpus=512, dollars_per_hour=2.5, settings=())]
    >>> [each.label for each in read_clusters("b200:256,384 precision=amp-fp8")]
    ['256 b200, precision=amp-fp8', '384 b200, precision=amp-fp8']
    """
    try:
        first, *settings = shlex.split(text) or [""]
    except ValueError:
        raise _wrong(text, "a text without open quotes") from None
    match = _TEXT.fullmatch(first)
    if match is None or not all("=" in setting for setting in settings):
        raise _wrong(text, "a name, and after spaces KEY=VALUE")
    sizes = list(num_gpus) if match["sizes"] is None else _sizes(text, match["sizes"])
    if not sizes:
        raise _wrong(text, "a number of GPUs after the name, as in h100:512, or --gpus")
    price = None if match["price"] is None else _price(text, match["price"])
    return [ClusterOption(match["name"], size, price, tuple(settings)) for size in sizes]


def _sizes(text: str, sizes: str) -> list[int]:
    parts = [part.strip() for part in sizes.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise _wrong(text, "numbers of GPUs from 1 on")
    return [int(part) for part in parts]


def _price(text: str, price: str) -> float:
    try:
        dollars = float(price)
    except ValueError:
        dollars = 0.0
    if not 0 < dollars < float("inf"):
        raise _wrong(text, "dollars above zero after @, the price of one GPU for an hour")
    return dollars


def _wrong(text: str, allowed: str) -> InputError:
    message = f"expected a cluster as {_ALLOWED}, such as h100:512@2.5 (got '{text[:60]}'): {allowed}"
    return InputError(message, got=text[:60], allowed=_ALLOWED, key="--cluster")


def cluster_settings(option: ClusterOption, point: Point) -> list[str]:
    """Return the texts of --set that make the scenario of `point` one for a cluster; without its number of GPUs.

    A GPU is the scenario's own cluster if that has such GPUs, and enough of them. Otherwise it is as many hosts as
    needed, on one switch: of the template that has this GPU, or of the scenario's with this GPU in it. Network cards
    have the link of the host's sheet, else that of the scenario's network.
    """
    topology = _topology(option, point)
    found = [] if topology is None else [f"topology={json.dumps(topology)}"]
    if option.dollars_per_hour is not None:
        cluster = build_topology(point.topology) if topology is None else load_topology(topology)
        found.append(price_setting(f"{split_name(str(cluster.gpu_sheets[0]))[0]}={option.dollars_per_hour!r}"))
    return [*found, *option.settings]


def _topology(option: ClusterOption, point: Point) -> str | dict[str, Any] | None:
    """Return the value of `topology` for a cluster; None if it is the scenario's own."""
    name = option.name
    shipped = shipped_files("topologies")
    if name == OWN:
        return None
    if name in shipped and (name not in (*HOSTS, *HOST_SHEETS) or load_topology(name).num_gpus >= option.num_gpus):
        return name
    if name in HOSTS or name in HOST_SHEETS:
        return _star(option, point, name)
    if is_path(name):
        load_topology(name)
        return name
    if split_name(name)[0] not in GPUS:
        raise unknown_name("cluster, host or GPU", name, sorted({OWN, *shipped, *HOSTS, *HOST_SHEETS, *GPUS}))
    try:
        return _of_gpus(option, point)
    except InputError as error:
        reason = error.mistakes[0].message
        message = f"the scenario's hosts cannot have {name} ({reason}); name a host or a topology file instead"
        raise InputError(message, key="--cluster", got=name, allowed="a GPU that fits the hosts") from None


def _of_gpus(option: ClusterOption, point: Point) -> dict[str, Any] | None:
    """Return hosts with a kind of GPU; None if the scenario's own cluster has enough of them."""
    own = build_topology(point.topology)
    is_own = str(own.gpu_sheets[0]) == option.name
    if is_own and own.num_gpus >= option.num_gpus:
        return None
    templates = [name for name, host in HOSTS.items() if host.model_fields["gpu"].default == option.name]
    if templates and not is_own:
        return _star(option, point, templates[0])
    spec = point.topology
    host = spec.host_with_overrides(spec.host) if isinstance(spec, HostedSpec) else None
    written = {"template": "bare"} if host is None else {**_written(host), "template": host.template}
    return _star(option, point, written | {"gpu": option.name})


def _written(host: Any) -> dict[str, Any]:
    return {key: value for key, value in host.model_dump(mode="json", exclude_unset=True).items() if value is not None}


def _star(option: ClusterOption, point: Point, host: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return as many hosts as the GPUs need, on one switch, with the network's link."""
    link = {} if isinstance(host, str) and host_sheet(host) else _link(option, point)
    one = {"kind": "star", "num_hosts": 1, "host": host, **link}
    return one | {"num_hosts": ceil(option.num_gpus / load_topology(one).num_gpus)}


def _link(option: ClusterOption, point: Point) -> dict[str, str]:
    """Return link and delay of a network card: those of the cluster's settings, else of the scenario's network."""
    given = [text.partition("=")[2] for text in option.settings if text.startswith("topology.link=")]
    if given:
        return {"link": given[-1]}
    link, hop = (getattr(point.topology, key, None) for key in ("link", "hop"))
    if isinstance(link, str):
        return {"link": link} if hop is None else {"link": link, "hop": f"{1e9 * hop:.10g} ns"}
    raise InputError(
        f"the network cards of {option.name} need a link, and the scenario's network has not one for all; "
        f"add it: --cluster '{option.name}:{option.num_gpus} topology.link=infiniband-ndr', "
        "or name a host that has its own (clustersim list hosts)",
        key="--cluster",
        got=option.name,
        allowed="a cluster with a link",
    )
