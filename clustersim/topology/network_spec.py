"""What every kind of network takes: hosts of one or several kinds, a link, the delay of a hop."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from clustersim.errors import InputError
from clustersim.spec import Spec
from clustersim.topology.assemble import assemble, number_hosts
from clustersim.topology.fabric import Fabric
from clustersim.topology.host import Host
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.host_table import HOSTS, AnyHost
from clustersim.topology.topology import Topology
from clustersim.topology.wire import GpuName
from clustersim.units import Duration

MAX_GPUS = 1_000_000
MAX_LINKS = 10_000_000
"""The largest cluster anybody may ask for; a typing mistake should not fill the memory."""


def _host_mapping(value: Any) -> Any:
    """Read a template's name, or a mapping that may leave the template out (then it is `single-socket`)."""
    if isinstance(value, str):
        return {"template": HOSTS[value].model_fields["template"].default}
    if isinstance(value, dict) and "template" not in value:
        return {"template": "single-socket", **value}
    if isinstance(value, dict):
        HOSTS[value["template"]]
    return value


HostChoice = Annotated[AnyHost, BeforeValidator(_host_mapping, json_schema_input_type=AnyHost | str)]
"""A host template's name, or its name and knobs inline."""


class HostGroup(Spec):
    """Hosts of one kind in a cluster of several kinds."""

    count: int = Field(ge=1, description="how many such hosts")
    host: HostChoice = Field(description="the host template, by name or inline")


class TopologySpec(Spec):
    """A cluster as a user writes it; `build` makes it."""

    kind: str
    name: str | None = Field(default=None, description="what to call the cluster")
    description: str | None = Field(default=None, description="whose machine it is, in a line")
    source: str | None = Field(default=None, description="where the figures come from")

    def build(self) -> Topology:
        """Return the nodes, the links and the routing of this cluster."""
        raise InputError(f"the topology kind '{self.kind}' cannot be built")


class NetworkSpec(TopologySpec):
    """A network of switches with hosts on it."""

    hop: Duration | None = Field(
        default=None,
        description="delay of one link, such as '600 ns'; by default the sheet's, and none for a link given by rate",
    )
    host: HostChoice | None = Field(
        default=None, description="host template, by name or inline; by default every GPU hangs on its own network link"
    )
    num_hosts: int | None = Field(
        default=None, ge=1, description="hosts that are there; by default every place is taken"
    )
    gpu: GpuName | None = Field(default=None, description="overrides the GPU of the host template")
    num_gpus: int | None = Field(default=None, ge=1, le=256, description="overrides the template's GPUs in one host")
    nics: int | None = Field(
        default=None, ge=1, le=64, description="overrides the template's network cards in one host"
    )

    def fabric(self, port_host: np.ndarray) -> Fabric:
        """Return the network for these ports; `port_host` [num_ports] is the host of each."""
        raise InputError(f"the topology kind '{self.kind}' has no fabric")

    def places(self, ports_per_host: int) -> int | None:
        """Return how many hosts of so many ports the network holds; None where it grows with them."""
        return None

    def num_inner_links(self) -> int:
        """Return about how many links there are between switches, where that may grow out of hand."""
        return 0

    def host_groups(self) -> list[HostGroup] | None:
        """Return the hosts of several kinds, where the cluster lists them."""
        return None

    @model_validator(mode="after")
    def _check(self) -> NetworkSpec:
        groups = self._groups()
        num_gpus = sum(count * len(plan.gpus) for plan, count in groups)
        if num_gpus > MAX_GPUS:
            raise InputError(
                f"the cluster would have {num_gpus} GPUs; at most {MAX_GPUS} are simulated",
                got=str(num_gpus),
                allowed=f"at most {MAX_GPUS}",
            )
        if self.num_inner_links() > MAX_LINKS:
            raise InputError(
                f"the network would have {self.num_inner_links()} links; at most {MAX_LINKS} are simulated",
                got=str(self.num_inner_links()),
                allowed=f"at most {MAX_LINKS}",
            )
        return self

    def build(self) -> Topology:
        ranges = number_hosts(self._groups())
        port_host = np.concatenate(
            [np.repeat(hosts.host + np.arange(hosts.num_hosts), len(hosts.plan.ports)) for hosts in ranges]
        )
        return assemble(self.name or self.kind, ranges, self.fabric(port_host))

    def _groups(self) -> list[tuple[HostPlan, int]]:
        """Return the inside of each kind of host and how many there are of it."""
        listed = self.host_groups()
        if listed is None:
            plan = self._override(self.host).plan()
            return [(plan, self._count(plan))]
        if self.host is not None:
            raise InputError("give `host` or `hosts`, not both")
        groups = [(self._override(group.host).plan(), group.count) for group in listed]
        total = sum(count for _, count in groups)
        if self.num_hosts not in (None, total):
            raise InputError(
                f"num_hosts is {self.num_hosts}, but the list of hosts has {total}", got=str(self.num_hosts)
            )
        self._check_places(total, max(len(plan.ports) for plan, _ in groups))
        return groups

    def _count(self, plan: HostPlan) -> int:
        places = self.places(len(plan.ports))
        if self.num_hosts is None and places is None:
            raise InputError("how many hosts are there? Give `num_hosts` or `hosts`", allowed="a number of hosts")
        if places == 0:
            raise InputError(f"a host with {len(plan.ports)} network ports has no place in this network")
        count = self.num_hosts or places
        assert count is not None
        self._check_places(count, len(plan.ports))
        return count

    def _check_places(self, num_hosts: int, ports_per_host: int) -> None:
        places = self.places(ports_per_host)
        if places is not None and num_hosts > places:
            raise InputError(
                f"the network has places for {places} hosts (got {num_hosts})",
                got=str(num_hosts),
                allowed=f"at most {places}",
            )

    def _override(self, host: Host | None) -> Host:
        """Return the host template with what the network's own `gpu`, `num_gpus` and `nics` change in it."""
        written = (
            {"template": "bare"} if host is None else {"template": host.template, **host.model_dump(exclude_unset=True)}
        )
        changes = {key: getattr(self, key) for key in ("gpu", "num_gpus", "nics") if getattr(self, key) is not None}
        template = HOSTS[written["template"]]
        for key in changes:
            if key not in template.model_fields:
                raise InputError(f"the host template '{written['template']}' has no `{key}`", got=str(changes[key]))
        return template.model_validate(written | changes)


class MixedNetworkSpec(NetworkSpec):
    """A network whose hosts may be of several kinds, given by `hosts`."""

    hosts: list[HostGroup] | None = Field(
        default=None, min_length=1, description="hosts of several kinds: [{count: 4, host: dgx-1}, ...]"
    )

    def host_groups(self) -> list[HostGroup] | None:
        return self.hosts
