"""What all kinds of topology have in common: a name, hosts, the delay of a hop."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clustersim.errors import InputError, unknown_name
from clustersim.reading import explain, from_python
from clustersim.spec import Spec
from clustersim.topology.host import Host
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.host_sheets import HOST_SHEETS, host_sheet
from clustersim.topology.host_table import HOSTS, AnyHost
from clustersim.topology.topology import Topology
from clustersim.topology.wire import GpuName
from clustersim.units import Duration


def _host_mapping(value: Any) -> Any:
    """Read a host's name, or a mapping that may leave the template out (then it is `single-socket`).

    A name is that of a template or of a host's sheet, whose options those of the mapping override.
    """
    if isinstance(value, str):
        value = {"template": value}
    if isinstance(value, dict):
        value = {"template": "single-socket", **value}
        name = str(value["template"])
        if sheet := host_sheet(name):
            value = {**sheet.options, **value, "template": sheet.template}
        elif name not in HOSTS:
            raise unknown_name("host template", name, [*HOSTS, *HOST_SHEETS])
    return value


HostChoice = Annotated[AnyHost, BeforeValidator(_host_mapping, json_schema_input_type=AnyHost | str)]
"""The name of a host template or of a host's sheet, or a mapping of a name and options."""


class TopologySpec(Spec):
    """A cluster in a scenario or file; `build` makes the topology."""

    kind: str
    name: str | None = Field(default=None, description="name of the cluster")
    description: str | None = Field(default=None, description="owner and machine, in a line")
    source: str | None = Field(default=None, description="source of the numbers")
    sharing: Literal["max-min", "proportional"] = Field(
        default="max-min",
        description="how flows share a link: `max-min` fairly, as with a queue for each flow, or `proportional`, about "
        "as TCP does if all share one queue (for small clusters: it is solved for all connected flows at once)",
    )

    def cluster(self) -> Topology:
        """Return the topology of `build`, with `sharing` set."""
        return replace(self.build(), sharing=self.sharing)

    def build(self) -> Topology:
        """Return the nodes, the links and the routing of this cluster."""
        raise InputError(f"the topology kind '{self.kind}' cannot be built")


class HostedSpec(TopologySpec):
    """A topology with hosts, with keys that override some of the template's."""

    hop: Duration | None = Field(
        default=None,
        description="delay of one link, such as '600 ns'; by default the sheet's, and none for a link given by rate",
    )
    host: HostChoice | None = Field(
        default=None,
        description="host template or host sheet (`clustersim list hosts`), by name or inline; by default every GPU "
        "hangs on its own network link",
    )
    gpu: GpuName | None = Field(default=None, description="overrides the GPU of the host template")
    num_gpus: int | None = Field(default=None, ge=1, le=256, description="overrides the template's GPUs in one host")
    nics: int | None = Field(default=None, ge=1, le=64, description="overrides the template's network cards in a host")

    @model_validator(mode="before")
    @classmethod
    def _link_of_the_host(cls, data: Any) -> Any:
        """Fill in the link of a card where a host's sheet says it and the topology does not."""
        if not isinstance(data, dict) or "link" not in cls.model_fields or data.get("link") is not None:
            return data
        host = data.get("host")
        sheet = host_sheet(host.get("template") if isinstance(host, dict) else host)
        return data if sheet is None else {**data, "link": sheet.link}

    def host_plan(self, host: Host | None, key: str) -> HostPlan:
        """Return the plan of one such host; its errors are reported at `key`, where the host is given."""
        try:
            return _planned(self.host_with_overrides(host))
        except InputError as error:
            raise InputError([replace(each, key=each.key or key) for each in error.mistakes]) from None

    def host_with_overrides(self, host: Host | None) -> Host:
        """Return this host (a bare one for None) with the topology's own keys of a host in it, such as `gpu`."""
        written = {"template": "bare"}
        if host is not None:
            written = {**host.model_dump(exclude_unset=True), "template": host.template}
        changes = {key: getattr(self, key) for key in ("gpu", "num_gpus", "nics") if getattr(self, key) is not None}
        template = HOSTS[written["template"]]
        for key, value in changes.items():
            if key not in template.model_fields:
                known = ", ".join(template.model_fields)
                message = f"the host template '{written['template']}' has no `{key}` to override"
                raise InputError(f"{message} (it has {known})", got=str(value), allowed=known, key=key)
        try:
            return template.model_validate(written | changes)
        except ValidationError as error:
            problems = explain(error, from_python(changes), template)
            raise InputError([each.mistake for each in problems]) from None


@lru_cache(maxsize=64)
def _planned(host: Host) -> HostPlan:
    """Return the plan of a host, read-only: a cluster asks for it when it is read, and when it is built."""
    return host.plan()
