"""A host given node by node and link by link: NVLink meshes, bridged pairs, uneven sockets, cards of several rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.hardware import load_cpu, load_gpu
from clustersim.spec import Spec
from clustersim.topology.host import HostOfDevices, add_gpu
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.node_list import node_list
from clustersim.topology.wire import Cable, GpuName, LinkName, wire

NodeKind = Literal["gpu", "socket", "plx", "nvswitch", "nic"]
_ON_NVLINK = ("gpu", "nvswitch")
MAX_NODES, MAX_LINKS, MAX_GPUS = 2000, 10_000, 256
_MOST_NAMED = 5


class HostNode(Spec):
    """A device of a host."""

    name: str = Field(min_length=1, max_length=200, description="its name in `links`")
    kind: NodeKind = Field(description="`gpu`, `socket` (with its memory), `plx` (PCIe switch), `nvswitch` or `nic`")
    gpu: GpuName | None = Field(default=None, description="sheet of this `gpu`; by default the host's")
    link: LinkName | None = Field(
        default=None, description="rate of this `nic`, or a link's sheet; by default its slot and the network limit it"
    )


class HostLink(Spec):
    """A connection of two devices, in both directions."""

    a: str = Field(description="one end")
    b: str = Field(description="the other end")
    link: LinkName | None = Field(
        default=None,
        description="rate each way or a link's sheet; by default the GPU's NVLink between GPUs and NVSwitches, the "
        "processor's link between sockets, `pcie` for the rest",
    )
    count: int = Field(default=1, ge=1, le=1000, description="how many such links are bonded, such as NVLinks")


def _read_nodes(value: Any) -> Any:
    return _frozen(node_list(value, get_args(NodeKind)))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _checked_nodes(nodes: tuple[HostNode, ...], info: ValidationInfo) -> tuple[HostNode, ...]:
    if mistakes := list(_wrong_nodes(nodes, info.data.get("gpu"))):
        raise InputError(mistakes)
    return nodes


def _wrong_nodes(nodes: Sequence[HostNode], gpu: str | None) -> Iterator[Mistake]:
    seen: set[str] = set()
    for number, node in enumerate(nodes):
        at = str(number)
        if node.name in seen or node.name.startswith("memory"):
            allowed = "each name once; names with `memory` are for the sockets' memories"
            yield Mistake(f"no other node may be called '{node.name}'", at, got=node.name, allowed=allowed)
        seen.add(node.name)
        if node.gpu is not None and node.kind != "gpu":
            message = f"the node '{node.name}' is a {node.kind}: only a node of kind `gpu` has a GPU's sheet"
            yield Mistake(message, f"{at}.gpu", got=node.kind, allowed="gpu")
        if node.kind == "gpu" and node.gpu is None and gpu is None:
            message = f"the GPU '{node.name}' has no sheet: give `gpu` for it or for the host"
            yield Mistake(message, at, got="nothing", allowed="the name of a GPU's sheet")
        if node.link is not None and node.kind != "nic":
            message = f"the node '{node.name}' is a {node.kind}: only a node of kind `nic` has a rate"
            yield Mistake(message, f"{at}.link", got=node.kind, allowed="nic")
    num_gpus = sum(node.kind == "gpu" for node in nodes)
    if not 1 <= num_gpus <= MAX_GPUS:
        message = f"a host has 1 to {MAX_GPUS} nodes of kind `gpu` (got {num_gpus})"
        yield Mistake(message, got=str(num_gpus), allowed=f"1 to {MAX_GPUS}")


def _checked_link(link: HostLink, info: ValidationInfo) -> HostLink:
    """Refuse a link whose ends are no two devices of the host that it may connect; not if the nodes are wrong."""
    if "nodes" in info.data and (mistakes := list(_wrong_link(link, info.data["nodes"], info.data.get("gpu")))):
        raise InputError(mistakes)
    return link


def _wrong_link(link: HostLink, nodes: Sequence[HostNode], gpu: str | None) -> Iterator[Mistake]:
    kinds = {node.name: node.kind for node in nodes}
    missing = [(key, end) for key, end in (("a", link.a), ("b", link.b)) if end not in kinds]
    for key, end in missing:
        yield replace(unknown_name("node of this host", end, kinds).mistakes[0], key=key)
    if missing:
        return
    ends = {kinds[link.a], kinds[link.b]}
    if link.a == link.b:
        yield Mistake(f"a link from '{link.a}' to itself", got=link.a, allowed="two different nodes")
    elif "nvswitch" in ends and not ends <= set(_ON_NVLINK):
        message = f"an NVSwitch has links to GPUs only (got one from '{link.a}' to '{link.b}')"
        yield Mistake(message, got=" and ".join(sorted(ends)), allowed="gpu and nvswitch")
    elif link.link is None and ends <= set(_ON_NVLINK):
        by_name = {node.name: node for node in nodes}
        if _nvlink_of((by_name[link.a], by_name[link.b]), gpu) is None:
            message = f"the GPUs of the link from '{link.a}' to '{link.b}' have no NVLink: give its `link`"
            yield Mistake(message, got="nothing", allowed="a rate, or a link's sheet")


def _nvlink_of(ends: Sequence[HostNode], gpu: str | None) -> str | None:
    """Return the NVLink of the first GPU at the ends of a link; `gpu` is the host's."""
    sheets = (node.gpu or gpu for node in ends if node.kind == "gpu")
    return next((load_gpu(name).nvlink for name in sheets if name), None)


class ExplicitHost(HostOfDevices):
    """Nodes and links as given. A message takes the fewest links, of these the widest; GPUs do not forward.

    Each `nic` is a port of the network; without one, the network's links end at the sockets, or at the GPUs if there
    are none. All NVSwitches that connect the same GPUs are one node.
    """

    template: Literal["explicit"] = "explicit"
    gpudirect: bool = Field(
        default=True, description="whether NICs read GPU memory; if not, messages pass through host memory"
    )
    nodes: Annotated[
        tuple[HostNode, ...],
        BeforeValidator(_read_nodes, json_schema_input_type=Any),
        AfterValidator(_checked_nodes),
    ] = Field(
        min_length=1,
        max_length=MAX_NODES,
        description="devices: [{name: gpu0, kind: gpu}, ...] or {gpu0: gpu, ...}; a name alone (gpu0) implies its kind",
    )
    links: Annotated[tuple[Annotated[HostLink, AfterValidator(_checked_link)], ...], BeforeValidator(_frozen)] = Field(
        default=(), max_length=MAX_LINKS, description="links: [{a: gpu0, b: gpu1, link: nvlink-3, count: 4}, ...]"
    )

    nvlink_domain: int = Field(
        default=1,
        ge=1,
        le=64,
        description="hosts whose GPUs one layer of NVSwitches joins: this host's one `nvswitch` is that of all of them",
    )

    @model_validator(mode="after")
    def _check(self) -> ExplicitHost:
        if mistakes := list(self._unconnected()):
            raise InputError(mistakes)
        return self

    def _unconnected(self) -> Iterator[Mistake]:
        """Yield the mistake of devices that no links lead to from the host's ports of the network; GPUs do not forward.

        Where the GPUs themselves are the ports, all are connected.
        """
        kinds = {node.name: node.kind for node in self.nodes}
        ports = [name for kind in ("nic", "socket") for name in kinds if kinds[name] == kind]
        if not ports:
            return
        is_port = kinds[ports[0]]
        others = self._neighbours()
        reached = {name for name in ports if kinds[name] == is_port and others.get(name)}
        waiting = list(reached)
        while waiting:
            for name in others[waiting.pop()] - reached:
                reached.add(name)
                if kinds[name] != "gpu":
                    waiting.append(name)
        apart = [name for name, kind in kinds.items() if name not in reached and (kind == "gpu" or name not in others)]
        if apart:
            title = "network card" if is_port == "nic" else "processor"
            named = ", ".join(f"'{name}'" for name in apart[:_MOST_NAMED]) + (", ..." if apart[_MOST_NAMED:] else "")
            allowed = "links of every device that lead on, through switches and processors"
            message = f"no links lead from {named} to a {title}; GPUs do not forward messages of others"
            yield Mistake(message, "links", got=named, allowed=allowed)

    def _neighbours(self) -> dict[str, set[str]]:
        """Return the devices at the other ends of each device's links; none of a device without links."""
        found: dict[str, set[str]] = {}
        for link in self.links:
            found.setdefault(link.a, set()).add(link.b)
            found.setdefault(link.b, set()).add(link.a)
        return found

    def plan(self) -> HostPlan:
        """Return the nodes in their order, with the memories after the last socket, and the links.

        The memory of a GPU's messages is that of the nearest socket, and the GPU's own if there is no socket. A card's
        own rate limits its slot.
        """
        plan = HostPlan(gpudirect=self.gpudirect, cpu=self.cpu, domain=self.nvlink_domain)
        last = max((number for number, node in enumerate(self.nodes) if node.kind == "socket"), default=-1)
        numbers = {node.name: plan.add(node.name, node.kind) for node in self.nodes[: last + 1]}
        sockets = self._of_kind(numbers, "socket")
        memories = [self._memory_of(plan, socket, number) for number, socket in enumerate(sockets)]
        numbers |= {node.name: plan.add(node.name, node.kind) for node in self.nodes[last + 1 :]}
        for link in self.links:
            plan.cable(numbers[link.a], numbers[link.b], self._cable(link))
        for node in self.nodes:
            if node.kind == "gpu":
                own = numbers[node.name]
                near = self._nearest(plan, own, sockets)
                memory = own if near is None else memories[near]
                add_gpu(plan, own, node.gpu or str(self.gpu), self._slot_of(plan, own), memory)
        plan.ports += self._of_kind(numbers, "nic") or sockets or plan.gpus
        if (share := load_cpu(self.cpu).peer_share) is not None:
            plan.limit_peers(share)
        return plan

    def _of_kind(self, numbers: dict[str, int], kind: NodeKind) -> list[int]:
        return [numbers[node.name] for node in self.nodes if node.kind == kind and node.name in numbers]

    def _nearest(self, plan: HostPlan, gpu: int, sockets: list[int]) -> int | None:
        """Return the index of the socket with the fewest links to a GPU, None if no socket is connected to it."""
        paths = [(len(path), number) for number, end in enumerate(sockets) if (path := plan.path(gpu, end)) is not None]
        return min(paths)[1] if paths else None

    def _slot_of(self, plan: HostPlan, gpu: int) -> int | None:
        """Return the switch or socket of a GPU's slot."""
        ends = zip(plan.src, plan.dst, strict=True)
        return next((dst for src, dst in ends if src == gpu and plan.kinds[dst] in ("plx", "socket")), None)

    def _node(self, name: str) -> HostNode:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, HostNode]:
        return {node.name: node for node in self.nodes}

    def _cable(self, link: HostLink) -> Cable:
        """Return the numbers of a link, of all that are bonded together; with a card, at most the card's rate."""
        ends = [self._node(link.a), self._node(link.b)]
        kinds = {node.kind for node in ends}
        if kinds <= set(_ON_NVLINK):
            one = wire(str(link.link or _nvlink_of(ends, self.gpu)), "nvlink")
        elif kinds == {"socket"}:
            one = wire(link.link, "interconnect") if link.link else self._between_sockets()
        else:
            one = wire(link.link or self._slot(ends), "nic" if "nic" in kinds else "pcie")
        cable = one._replace(bytes_per_s=link.count * one.bytes_per_s)
        for node in ends:
            if node.link is not None:
                card = wire(node.link, "nic", 0.0)
                cable = card if card.bytes_per_s < cable.bytes_per_s else cable
        return cable

    def _slot(self, ends: list[HostNode]) -> str:
        """Return the link of a slot: the host's, or that of the sheet of the GPU in it, or of the host's first GPU."""
        of_ends = next((node.gpu for node in ends if node.gpu), None)
        first = self.gpu or next(node.gpu for node in self.nodes if node.kind == "gpu")
        return self.pcie or load_gpu(str(of_ends or first)).pcie
