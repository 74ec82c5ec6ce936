"""The table of host templates."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from clustersim.registry import Registry
from clustersim.topology.amd import Mi250x, Mi300x
from clustersim.topology.dgx import Dgx1, Dgx2, DgxA100, DgxB200, DgxH100, Superchip
from clustersim.topology.explicit_host import ExplicitHost
from clustersim.topology.host import Bare, DualSocket, Host, SingleRoot, SingleSocket

HOSTS: Registry[type[Host]] = Registry(
    "host template",
    {
        "bare": Bare,
        "single-socket": SingleSocket,
        "dual-socket": DualSocket,
        "single-root": SingleRoot,
        "dgx-1": Dgx1,
        "dgx-2": Dgx2,
        "dgx-a100": DgxA100,
        "dgx-h100": DgxH100,
        "dgx-b200": DgxB200,
        "superchip": Superchip,
        "mi250x": Mi250x,
        "mi300x": Mi300x,
        "explicit": ExplicitHost,
    },
)

if TYPE_CHECKING:
    AnyHost = Host
else:
    AnyHost = Annotated[reduce(or_, HOSTS.values()), Field(discriminator="template")]
