"""A network given node by node and link by link."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.spec import Spec
from clustersim.topology.assemble import host_columns
from clustersim.topology.flow_hash import flow_hash
from clustersim.topology.host import Bare
from clustersim.topology.host_plan import HostPlan, HostRange, number_hosts
from clustersim.topology.hosted_spec import HostChoice, HostedSpec
from clustersim.topology.node_list import node_list
from clustersim.topology.nvlink_domain import check_alone
from clustersim.topology.shortest_path import ShortestPathRouter
from clustersim.topology.topology import Links, Topology
from clustersim.topology.wire import Cable, GpuName, LinkName, wire
from clustersim.units import Duration


class ExplicitNode(Spec):
    """One node of an explicit network."""

    name: str = Field(min_length=1, description="its name in `links`")
    kind: str = Field(min_length=1, description="`gpu`, `host`, or another kind: `switch`, `router`, ...")
    host: HostChoice | None = Field(default=None, description="host template of this `host`")
    gpu: GpuName | None = Field(default=None, description="sheet of this `gpu`, or of a `host` without a template")


class ExplicitLink(Spec):
    """A cable between two nodes: a link each way."""

    a: str = Field(description="one end")
    b: str = Field(description="the other end")
    link: LinkName | None = Field(default=None, description="rate each way or a link's sheet; default the topology's")
    hop: Duration | None = Field(default=None, description="delay of this link; default the topology's or the sheet's")


def _node_list(value: Any) -> Any:
    return node_list(value, ("gpu", "host"), other="switch")


class Explicit(HostedSpec):
    """Explicit nodes and links; routes have the least delay, then the fewest links.

    Every `gpu` is a GPU, and so is every `host` without a template. A host with a template has the template's devices;
    its links end at its network cards in turn, and it does not forward between them.
    """

    kind: Literal["explicit"] = "explicit"
    nodes: Annotated[list[ExplicitNode], BeforeValidator(_node_list, json_schema_input_type=Any)] = Field(
        min_length=1,
        description="nodes: [{name: h0, kind: host}, ...] or {h0: host, ...}; a name alone (gpu0) implies its kind",
    )
    links: list[ExplicitLink] = Field(description="cables: [{a: h0, b: s, link: 10 Gbit/s, hop: 1 us}, ...]")
    link: LinkName | None = Field(default=None, description="link of every cable without a link of its own")

    @model_validator(mode="after")
    def _check(self) -> Explicit:
        mistakes = [*self._duplicate_names(), *self._invalid_cables(), *self._misplaced()]
        if mistakes:
            raise InputError(mistakes)
        if not self._plans:
            message = "the topology has no GPU: give it nodes of kind `gpu` or `host`"
            got = ", ".join(dict.fromkeys(node.kind for node in self.nodes))
            raise InputError(message, got=got, allowed="gpu, host", key="nodes")
        return self

    def _duplicate_names(self) -> Iterator[Mistake]:
        seen: set[str] = set()
        for number, node in enumerate(self.nodes):
            if node.name in seen:
                message = f"two nodes are called '{node.name}'"
                yield Mistake(message, f"nodes.{number}", got=node.name, allowed="each name once")
            seen.add(node.name)

    def _invalid_cables(self) -> Iterator[Mistake]:
        """Yield the cables that end at no node, or have no rate."""
        names = {node.name for node in self.nodes}
        for number, cable in enumerate(self.links):
            for key, end in (("a", cable.a), ("b", cable.b)):
                if end not in names:
                    yield replace(
                        unknown_name("node of this topology", end, names).mistakes[0], key=f"links.{number}.{key}"
                    )
            if cable.link is None and self.link is None:
                message = f"the link from '{cable.a}' to '{cable.b}' has no rate: give `link`"
                yield Mistake(message, f"links.{number}", got="nothing", allowed="a rate, or a link's sheet")

    def _misplaced(self) -> Iterator[Mistake]:
        """Yield the nodes with keys that only other nodes may have."""
        for number, node in enumerate(self.nodes):
            if node.gpu is not None and (node.host or (self.host if node.kind == "host" else None)) is not None:
                message = f"the host '{node.name}' has a template: give its GPU there"
                yield Mistake(message, f"nodes.{number}.gpu", got=node.gpu, allowed="a gpu in the host's template")
            if node.host is not None and node.kind != "host":
                message = f"the node '{node.name}' is a {node.kind}: only a node of kind `host` has a template"
                yield Mistake(message, f"nodes.{number}.host", got=node.kind, allowed="host")

    def build(self) -> Topology:
        """Return the nodes in their order, those within hosts first, and a link in each direction for every cable."""
        ranges = number_hosts([(plan, 1) for plan in self._plans.values()])
        places = dict(zip(self._plans, ranges, strict=True))
        others = [node for node in self.nodes if node.name not in places]
        first_other = ranges[-1].next_node
        names = [_name(node, plan, local) for node, plan in self._plans.items() for local in plan.names]
        names += [node.name for node in others]
        parts = [host_columns(hosts) for hosts in ranges]
        cables = self._cables(places, {node.name: first_other + number for number, node in enumerate(others)})
        return Topology(
            name=self.name or self.kind,
            node_names=names,
            node_kinds=[kind for plan in self._plans.values() for kind in plan.kinds] + [node.kind for node in others],
            node_hosts=np.concatenate([*(part.node_hosts for part in parts), np.full(len(others), -1)]),
            links=Links(
                src=np.concatenate([*(part.src for part in parts), cables.src]),
                dst=np.concatenate([*(part.dst for part in parts), cables.dst]),
                bytes_per_s=np.concatenate([*(part.bytes_per_s for part in parts), cables.bytes_per_s]),
                latency_s=np.concatenate([*(part.latency_s for part in parts), cables.latency_s]),
                kind=[kind for part in parts for kind in part.link_kinds] + list(cables.kind),
            ),
            gpus=np.concatenate([part.gpus for part in parts]),
            gpu_sheets=[sheet for plan in self._plans.values() for sheet in plan.gpu_sheets],
            memory=np.concatenate([part.memory for part in parts]),
            adders={node: link for part in parts for node, link in part.adders},
            router=ExplicitRouter(ranges, names, cables),
            host_sheets=[plan.cpu for plan in self._plans.values()],
        )

    @cached_property
    def _plans(self) -> dict[str, HostPlan]:
        """The plan of every node with GPUs, in the order of the nodes."""
        plans: dict[str, HostPlan] = {}
        cables = Counter(end for cable in self.links for end in (cable.a, cable.b))
        for number, node in enumerate(self.nodes):
            if node.kind == "gpu":
                plans[node.name] = Bare(gpu=node.gpu or self.gpu).plan()
            elif node.kind == "host":
                template = node.host or self.host
                bare = template is None and node.gpu is not None
                key = "host" if node.host is None else f"nodes.{number}.host"
                plan = Bare(gpu=node.gpu).plan() if bare else self.host_plan(template, key)
                check_alone(plan, key)
                used = min(len(plan.ports), max(1, cables[node.name]))
                ports = [plan.ports[number * len(plan.ports) // used] for number in range(used)]
                plans[node.name] = replace(plan, ports=ports)
        return plans

    def _wire(self, cable: ExplicitLink) -> Cable:
        link = cable.link or self.link
        assert link is not None  # see `_invalid_cables`
        return wire(link, "link", self.hop if cable.hop is None else cable.hop)

    def _cables(self, hosts: dict[str, HostRange], others: dict[str, int]) -> Links:
        """Return the cables as links, in both directions, between the nodes at their ends."""
        num_used = dict.fromkeys(hosts, 0)

        def end(name: str) -> int:
            if name in others:
                return others[name]
            ports = hosts[name].plan.ports
            num_used[name] += 1
            return hosts[name].node + ports[(num_used[name] - 1) % len(ports)]

        ends = np.array([(end(cable.a), end(cable.b)) for cable in self.links], dtype=np.int64).reshape(-1, 2)
        wires = [self._wire(cable) for cable in self.links for _ in range(2)]
        return Links(
            src=ends.ravel(),
            dst=ends[:, ::-1].ravel(),
            bytes_per_s=np.array([wire.bytes_per_s for wire in wires], dtype=float),
            latency_s=np.array([wire.latency_s for wire in wires], dtype=float),
            kind=[wire.kind for wire in wires],
        )


def _name(node: str, plan: HostPlan, local: str) -> str:
    return node if plan.bare and len(plan.names) == 1 else f"{node}/{local}"


class ExplicitRouter:
    """Routes out of the host, over the cables by shortest paths, and into the other host."""

    def __init__(self, ranges: list[HostRange], names: list[str], cables: Links):
        self._ranges = ranges
        self._starts = [hosts.node for hosts in ranges]
        self._first_other = ranges[-1].next_node
        self._first_cable = ranges[-1].link + len(ranges[-1].plan.src)
        self._between = ShortestPathRouter(names, cables)

    def __call__(self, src: int, dst: int) -> list[int]:
        start, end = self._host(src), self._host(dst)
        if start is not None and start is end:
            inside = start.plan.route_inside(src - start.node, dst - start.node)
            if inside is not None:
                return [start.link + link for link in inside]
        choice = flow_hash(src, dst) >> 32
        up: list[int] = []
        down: list[int] = []
        if start is not None:
            port, links = start.plan.route_out(src - start.node, choice)
            src, up = start.node + start.plan.ports[port], [start.link + link for link in links]
        if end is not None:
            port, links = end.plan.route_in(dst - end.node, choice)
            dst, down = end.node + end.plan.ports[port], [end.link + link for link in links]
        return up + [self._first_cable + cable for cable in self._between(src, dst)] + down

    def _host(self, node: int) -> HostRange | None:
        return self._ranges[bisect_right(self._starts, node) - 1] if node < self._first_other else None
