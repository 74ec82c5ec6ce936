"""Copies of a host, and where their numbers start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.topology.host_plan import HostPlan


@dataclass(frozen=True)
class HostRange:
    """`num_hosts` copies of one host, and where their numbers start."""

    plan: HostPlan
    num_hosts: int
    host: int
    node: int
    link: int
    gpu: int
    port: int

    @property
    def next_node(self) -> int:
        return self.node + self.num_hosts * len(self.plan.names)


def number_hosts(groups: Sequence[tuple[HostPlan, int]]) -> list[HostRange]:
    """Number hosts, nodes, links, GPUs and ports of the groups, one group after another."""
    ranges: list[HostRange] = []
    host = node = link = gpu = port = 0
    for plan, count in groups:
        ranges.append(HostRange(plan, count, host, node, link, gpu, port))
        host += count
        node += count * len(plan.names)
        link += count * len(plan.src)
        gpu += count * len(plan.gpus)
        port += count * len(plan.ports)
    return ranges
