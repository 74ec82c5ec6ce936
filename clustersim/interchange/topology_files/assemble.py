"""Joins a network and a kind of host to the keys of a topology file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

from clustersim.errors import InputError
from clustersim.interchange.host_of import HostTemplate, host_of
from clustersim.interchange.host_shape import HostShape
from clustersim.interchange.topology_files.fabric_shape import (
    FabricCable,
    FabricShape,
    delay_text,
    joined,
    natural,
    rate_text,
)
from clustersim.interchange.topology_files.infragraph_host import with_all_nvlinks
from clustersim.interchange.topology_files.structure import regular_structure
from clustersim.topology.explicit import Explicit
from clustersim.topology.host_table import HOSTS
from clustersim.topology.hosted_spec import HostedSpec
from clustersim.topology.load import topology_spec
from clustersim.topology.topology import Topology
from clustersim.topology.wire import wire

_CALLED = 0.1
"""By how much the rate of a link's sheet differs from the one that it is called by: InfiniBand NDR is 400 Gbit/s."""


@dataclass(frozen=True)
class ImportedTopology:
    """The keys of a topology file; `notes` say everything that is not as in the files it was made from."""

    mapping: dict[str, Any]
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return one line: the kind of network, hosts and GPUs."""
        built = topology_spec(self.mapping).build()
        hosts, num_links = "hosts" if built.num_hosts > 1 else "host", len(built.links)
        return f"{self.mapping['kind']}: {built.num_hosts} {hosts}, {built.num_gpus} GPUs, {num_links} directed links"


def assemble(
    host: HostShape | None,
    network: FabricShape | None,
    source: str,
    gpu: str | None,
    num_hosts: int | None,
    link: str | None,
) -> ImportedTopology:
    """Return hosts of a kind on a network; either may be missing. Raise InputError for what is needed and not given."""
    notes: list[str] = []
    found_host = None
    if host is None and network is not None and network.inside is not None:
        host = network.inside if gpu is None else with_all_nvlinks(network.inside, gpu)
        if gpu is None:
            notes.append("what the file says of the inside of a host is left out: give the GPU's sheet by --gpu")
            host = None
    if host is not None:
        if gpu is None and host.gpu is not None:
            notes.append(f"the GPU is taken as {host.gpu}, which fits the file: --gpu names another")
        gpu = gpu or host.gpu
        if gpu is None:
            raise InputError(
                "the file does not name the GPU: give its sheet, such as --gpu h100 (clustersim list gpus)",
                got="no gpu",
                allowed="--gpu SHEET",
                key="gpu",
            )
        found_host = host_of(host, gpu)
        notes += found_host.notes
    described = None if found_host is None else found_host.host
    order: tuple[str, ...] = ()
    if network is None:
        assert found_host is not None  # one of the two has been read
        mapping = _alone(found_host, num_hosts, link, notes)
    else:
        if num_hosts not in (None, len(network.hosts)):
            message = f"the network has {len(network.hosts)} hosts: leave --hosts out"
            raise InputError(message, got=str(num_hosts), allowed=str(len(network.hosts)), key="hosts")
        notes += network.notes
        mapping, order = _on_network(network.with_link(link, "the network"), described, gpu, notes)
    found = {"kind": mapping.pop("kind"), "description": f"imported from {source}", **mapping}
    topology = topology_spec(found).build()
    if network is not None and topology.num_gpus == len(order):
        _compare_routes(network, dict(zip(order, topology.gpus.tolist(), strict=True)), topology, notes)
    return ImportedTopology(found, tuple(dict.fromkeys(notes)))


def _compare_routes(network: FabricShape, gpu: dict[str, int], topology: Topology, notes: list[str]) -> None:
    """Note the routes of the file that have another rate or delay here; `gpu` has the node of each host's GPU."""
    other = []
    for stated in network.routes:
        route = topology.route(gpu[stated.src], gpu[stated.dst])
        rate = float(topology.links.bytes_per_s[route].min(initial=float("inf")))
        delay_s = float(topology.links.latency_s[route].sum())
        if not (isclose(rate, stated.bytes_per_s, rel_tol=1e-6) and isclose(delay_s, stated.delay_s, abs_tol=1e-12)):
            other.append(f"{stated.src} - {stated.dst}")
    if other:
        notes.append(
            f"{len(other)} of the first {len(network.routes)} routes of the file have another rate or delay here "
            f"({joined(other)}): routes here are those of least delay"
        )


def _alone(found: HostTemplate, num_hosts: int | None, link: str | None, notes: list[str]) -> dict[str, Any]:
    """Return a host alone, or several on a switch: as many as an NVLink domain has, unless a number is given."""
    domain = found.host.get("nvlink_domain", 1)
    if num_hosts is None and domain > 1:
        num_hosts = domain
        notes.append(f"{domain} hosts are one NVLink domain, as in the file")
    if num_hosts in (None, 1) and link is None:
        if num_hosts is None:
            notes.append("one host without a network: give --hosts N and --link LINK for several on one switch")
        return {
            "kind": "explicit",
            "host": found.host,
            "nodes": [{"name": "host0", "kind": "host"}],
            "links": [],
        }
    if link is None and found.link is None:
        message = "the file has no rate of the network cards: give their link, such as --link infiniband-ndr"
        raise InputError(message, got="no link", allowed="--link LINK", key="link")
    if link is None:
        link = found.link
        notes.append(f"the link of a network card is {link}, the rate in the file, without a delay")
    elif found.link is not None:
        notes += _other_rate(found.host, link, found.link)
    notes.append(f"{num_hosts or 1} hosts are on one switch that holds no message back")
    return {"kind": "star", "num_hosts": num_hosts or 1, "link": link, "host": found.host}


def _other_rate(host: dict[str, Any], link: str, of_file: str) -> Iterator[str]:
    """Yield a note where a given link has another rate than the cards of the file, by which a link is also called."""
    if isclose(wire(link, "link").bytes_per_s, wire(of_file, "link").bytes_per_s, rel_tol=_CALLED):
        return
    if any("link" in node for node in host.get("nodes", ()) if node["kind"] == "nic"):
        yield f"--link {link} instead of the file's {of_file}: the host's cards keep theirs, and the slower one counts"
    else:
        yield f"--link {link} instead of the file's {of_file} of a network card"


def _on_network(
    network: FabricShape, described: dict[str, Any] | None, gpu: str | None, notes: list[str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the keys of a network, and its hosts in their order.

    It is a regular one where it is exactly one whose ports the hosts fill, and otherwise given cable by cable.
    """
    gpu = gpu or network.gpu
    if network.are_gpus:
        if described is not None:
            raise InputError(
                "the nodes of this network are GPUs: it has no place for a host",
                got="a host",
                allowed="a network of hosts",
            )
        notes.append("each node is a GPU" + ("" if gpu else "; give its sheet by --gpu"))
    _check_connected(network)
    if described is not None and any({c.a, c.b} <= network.known_hosts for c in network.cables):
        message = "hosts of this network pass on messages of others, which a host with devices does not"
        raise InputError(message, got="a host", allowed="a network without cables from host to host")
    if described is not None and not network.cards_are_known and (num_cards := _num_ports(described)) > 1:
        network = network.with_cards(num_cards)
        notes.append(
            f"the network's file does not say how many cards a host has: each of the {num_cards} is on its leaf"
        )
    counts = Counter(end for cable in network.cables for end in (cable.a, cable.b))
    cards = {host: counts[host] for host in network.hosts}
    usual = Counter(cards.values()).most_common(1)[0][0]
    regular = regular_structure(network)
    if network.are_gpus:
        host: dict[str, Any] = {"template": "bare"}
    elif described is None:
        host = _bare(network, usual, notes)
    else:
        host = _with_cards(described, usual, notes)
    if gpu is not None and described is None:
        host = {**host, "gpu": gpu}
    if regular is not None and _num_ports(host) == usual:
        if list(regular.hosts) != sorted(network.hosts, key=natural):
            notes.append(f"hosts are numbered switch by switch: 0 is {regular.hosts[0]}, the last {regular.hosts[-1]}")
        plain = host == {"template": "bare"}
        return {**regular.mapping, **({} if plain else {"host": host})}, regular.hosts
    return _explicit(network, host, cards, usual, notes), network.hosts


def _bare(network: FabricShape, usual: int, notes: list[str]) -> dict[str, Any]:
    """Return a host of a GPU for each card, since the network does not say what is inside."""
    if network.gpus_per_host == 1:
        usual = 1
    inside = "" if network.gpus_per_host in (None, usual) else f" (the file has {network.gpus_per_host} GPUs a host)"
    advice = "give a file of the host too, such as the output of `nvidia-smi topo -m`"
    if usual == 1 and not inside:
        notes.append(f"a host is one GPU: {advice}")
    else:
        notes.append(f"a host is one GPU for each of its {usual} network cards, without links inside{inside}: {advice}")
    return {"template": "bare", "num_gpus": usual} if usual > 1 else {"template": "bare"}


def _with_cards(described: dict[str, Any], usual: int, notes: list[str]) -> dict[str, Any]:
    """Return the host with as many network cards as it has cables in the network."""
    cards = _num_ports(described)
    if cards == usual:
        return described
    has_number = "nics" in HOSTS[str(described.get("template"))].model_fields
    changed = {**described, "nics": usual} if has_number else described
    if has_number and _num_ports(changed) == usual:
        notes.append(
            f"the host has {cards} network cards in its file and {usual} cables in the network's: it has {usual}"
        )
        return changed
    notes.append(f"the host has {cards} network ports and {usual} cables: the cables are at some of its ports")
    return described


def _num_ports(host: dict[str, Any]) -> int:
    spec = topology_spec({"kind": "star", "num_hosts": 1, "link": "1 GB/s", "host": host})
    assert isinstance(spec, HostedSpec)
    chosen = spec.host
    return len(spec.host_plan(chosen, "host").ports)


def _check_connected(network: FabricShape) -> None:
    """Refuse a network without cables, or in which some hosts cannot reach others."""
    if not network.cables:
        raise InputError("the network has no cable", got="no cable", allowed="at least one cable")
    joined: dict[str, str] = {}

    def root(name: str) -> str:
        while joined.setdefault(name, name) != name:
            joined[name] = name = joined[joined[name]]
        return name

    for cable in network.cables:
        joined[root(cable.a)] = root(cable.b)
    parts = Counter(root(host) for host in network.hosts)
    if len(parts) > 1:
        apart = next(host for host in network.hosts if root(host) != root(network.hosts[0]))
        raise InputError(
            f"the network is in {len(parts)} parts: no cables lead from '{network.hosts[0][:40]}' to '{apart[:40]}'. "
            "Import the part of one job, or add the switch above",
            got=f"{len(parts)} parts",
            allowed="one network",
        )


def _explicit(
    network: FabricShape, host: dict[str, Any], cards: dict[str, int], usual: int, notes: list[str]
) -> dict[str, Any]:
    """Return nodes and cables one by one; values that most share are given once."""
    if len(set(cards.values())) > 1 and network.gpus_per_host != 1:
        notes.append(f"hosts have different numbers of cables ({', '.join(map(str, sorted(set(cards.values()))))})")
    others = {name: {**host, "num_gpus": number} for name, number in cards.items() if number != usual and number > 0}
    bare = host["template"] == "bare" and network.gpus_per_host != 1
    nodes = [_node(name, network, host, others if bare else {}) for name in [*network.hosts, *network.switches]]
    trunks = [_one(cable) for cable in network.cables]
    link = Counter(cable.link for cable in trunks).most_common(1)[0][0]
    hop_s = Counter(cable.hop_s for cable in trunks).most_common(1)[0][0]
    mapping: dict[str, Any] = {"kind": "explicit", "link": link}
    if hop_s is not None:
        mapping["hop"] = delay_text(hop_s)
    if not network.are_gpus:
        mapping["host"] = host
    mapping["nodes"] = nodes
    mapping["links"] = [
        {
            "a": cable.a,
            "b": cable.b,
            **({"link": cable.link} if cable.link != link else {}),
            **({"hop": delay_text(cable.hop_s or 0.0)} if cable.hop_s != hop_s else {}),
        }
        for cable in trunks
    ]
    assert Explicit.model_fields.keys() >= mapping.keys()
    return mapping


def _node(name: str, network: FabricShape, host: dict[str, Any], others: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if name not in network.known_hosts:
        return {"name": name, "kind": "switch"}
    if network.are_gpus:
        return {"name": name, "kind": "gpu", **({"gpu": host["gpu"]} if "gpu" in host else {})}
    return {"name": name, "kind": "host", **({"host": others[name]} if name in others else {})}


def _one(cable: FabricCable) -> FabricCable:
    """Return a cable that stands for itself: several are one of their sum."""
    if cable.times == 1.0:
        return cable
    rate, delay_s = cable.numbers
    return replace(cable, link=rate_text(rate), hop_s=delay_s, times=1.0)
