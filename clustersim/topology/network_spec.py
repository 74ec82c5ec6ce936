"""The keys of all switched networks: how many hosts, of one kind or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.spec import Spec
from clustersim.topology.assemble import assemble
from clustersim.topology.fabric import Fabric
from clustersim.topology.host_plan import HostPlan, number_hosts
from clustersim.topology.hosted_spec import HostChoice, HostedSpec
from clustersim.topology.nvlink_domain import in_domains
from clustersim.topology.topology import Topology

MAX_GPUS = 1_000_000
MAX_LINKS = 10_000_000
"""Limits of a cluster, so that a typing mistake does not exhaust the memory."""


Routing = Annotated[
    Literal["hashed", "adaptive"],
    Field(
        description="which of the equal shortest paths a message takes: `hashed`, one by a hash of the two ends (ECMP, "
        "and InfiniBand's static routes), or `adaptive`, all of them, packet by packet"
    ),
]


class HostGroup(Spec):
    """Hosts of one kind in a cluster of several kinds."""

    count: int = Field(ge=1, description="number of such hosts")
    host: HostChoice = Field(description="the host template, by name or inline")


class NetworkSpec(HostedSpec):
    """A network of switches with hosts on it."""

    num_hosts: int | None = Field(
        default=None,
        ge=1,
        description="number of hosts, on the first ports of the network; by default as many as fit, and on a star as "
        "many as the jobs need",
    )

    def fabric(self, port_host: np.ndarray) -> Fabric:
        """Return the network for these ports; `port_host` [num_ports] is the host of each."""
        raise InputError(f"the topology kind '{self.kind}' has no fabric")

    def max_hosts(self, ports_per_host: float) -> int | None:
        """Return how many hosts with so many ports the network can have; None if there is no limit."""
        return None

    def num_inner_links(self) -> int:
        """Return about how many links there are between switches, if that number may be large."""
        return 0

    def host_groups(self) -> Sequence[HostGroup] | None:
        """Return the hosts of several kinds, if the cluster lists them."""
        return None

    def build(self) -> Topology:
        ranges = number_hosts([part for plan, count in self._groups() for part in in_domains(plan, count)])
        port_host = np.concatenate([hosts.hosts_of_nodes(hosts.plan.ports).ravel() for hosts in ranges])
        return assemble(self.name or self.kind, ranges, self.fabric(port_host))

    @model_validator(mode="after")
    def _check(self) -> NetworkSpec:
        """Raise the errors of `build` early, and refuse clusters that are too large to simulate."""
        num_gpus = sum(count * len(plan.gpus) for plan, count in self._groups())
        for what, number, limit in (("GPUs", num_gpus, MAX_GPUS), ("links", self.num_inner_links(), MAX_LINKS)):
            if number > limit:
                message = f"the cluster would have {number} {what}; at most {limit} are simulated"
                raise InputError(message, got=str(number), allowed=f"at most {limit}")
        return self

    def _groups(self) -> list[tuple[HostPlan, int]]:
        """Return the plan of each kind of host and the number of such hosts."""
        listed = self.host_groups()
        if listed is None:
            plan = self.host_plan(self.host, "host")
            return [(plan, self._count(plan))]
        if self.host is not None:
            raise InputError("give `host` or `hosts`, not both", got="both", allowed="host or hosts", key="host")
        groups = [
            (self.host_plan(group.host, f"hosts.{number}.host"), group.count) for number, group in enumerate(listed)
        ]
        total = sum(count for _, count in groups)
        if self.num_hosts not in (None, total):
            message = f"num_hosts is {self.num_hosts}, but the list of hosts has {total}"
            raise InputError(message, got=str(self.num_hosts), allowed=str(total), key="num_hosts")
        self._check_max_hosts(total, sum(len(plan.ports) * count for plan, count in groups) / total)
        return groups

    def _count(self, plan: HostPlan) -> int:
        max_hosts = self.max_hosts(len(plan.ports))
        if self.num_hosts is not None:
            self._check_max_hosts(self.num_hosts, len(plan.ports))
            return self.num_hosts
        if max_hosts is None:
            message = "the number of hosts is missing: give `num_hosts` or `hosts`"
            raise InputError(message, got="nothing", allowed="num_hosts or hosts", key="num_hosts")
        self._check_max_hosts(max(1, max_hosts), len(plan.ports))
        return max_hosts

    def _check_max_hosts(self, num_hosts: int, ports_per_host: float) -> None:
        max_hosts = self.max_hosts(ports_per_host)
        if max_hosts is not None and num_hosts > max_hosts:
            message = (
                f"the network has places for {max_hosts} hosts with {ports_per_host:g} ports each (got {num_hosts})"
            )
            key = "hosts" if self.host_groups() else "num_hosts" if self.num_hosts is not None else None
            raise InputError(message, got=str(num_hosts), allowed=f"at most {max_hosts}", key=key)


class MixedNetworkSpec(NetworkSpec):
    """A network whose hosts may be of several kinds, given by `hosts`."""

    hosts: list[HostGroup] | None = Field(
        default=None, min_length=1, description="hosts of several kinds: [{count: 4, host: dgx-1}, ...]"
    )

    def host_groups(self) -> Sequence[HostGroup] | None:
        return self.hosts
