"""Routers in a torus of any dimensions, with hosts on each."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.topology.fabric import Fabric
from clustersim.topology.network_spec import MAX_GPUS, MixedNetworkSpec
from clustersim.topology.routes import Routes
from clustersim.topology.topology import Topology
from clustersim.topology.wire import Cable, LinkName, wire


class TorusFabric(Fabric):
    """Routers numbered with the last dimension fastest, as numpy does.

    A ring of three or more has a link in each direction at every router; a ring of two is one cable, with two links; a
    ring of one has no link. Routes are in dimension order, the first dimension first, in the shorter direction; the +
    direction at equal distance.
    """

    is_symmetric = True

    def __init__(self, dims: tuple[int, ...], port_switch: np.ndarray, access: Cable, wires: list[Cable]):
        names = ["router-" + "-".join(map(str, place)) for place in product(*(range(size) for size in dims))]
        super().__init__(names, "router", port_switch, access)
        self.torus_dims = self.dims = dims
        self._strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
        self._first = [self._add_ring(axis, wires[axis]) for axis in range(len(dims))]

    def _add_ring(self, axis: int, wire: Cable) -> int:
        """Add the links of one dimension: at 2 router + 0 the one to +, at 2 router + 1 the one to -."""
        dims = self.dims
        router = np.arange(prod(dims))
        place = router // self._strides[axis] % dims[axis]
        ahead = router + ((place + 1) % dims[axis] - place) * self._strides[axis]
        behind = router + ((place - 1) % dims[axis] - place) * self._strides[axis]
        if dims[axis] == 1:
            return len(self.wires)
        if dims[axis] == 2:
            return self.wires.add(router, ahead, wire)
        return self.wires.add(np.repeat(router, 2), np.stack([ahead, behind], axis=1).ravel(), wire)

    def route(self, src: int, dst: int, choice: int) -> list[int]:
        """Return the links from router to router, dimension by dimension; `choice` is not used."""
        links: list[int] = []
        for size, stride, first in zip(self.dims, self._strides, self._first, strict=True):
            here, there = src // stride % size, dst // stride % size
            forward = (there - here) % size
            up = forward <= size - forward
            for _ in range(forward if up else size - forward):
                links.append(first + (src if size == 2 else 2 * src + (not up)))
                then = (here + 1 if up else here - 1) % size
                src += (then - here) * stride
                here = then
        return links

    def edge_routes(self, src: np.ndarray, dst: np.ndarray, choice: np.ndarray) -> Routes:
        rings = []
        for axis, stride in enumerate(self._strides):
            rings.append(self._ring_routes(axis, src, dst))
            size = self.dims[axis]
            src = src + (dst // stride % size - src // stride % size) * stride
        return Routes.join(len(src), rings)

    def _ring_routes(self, axis: int, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the links along one dimension, from each of `src` to the coordinate of each of `dst`."""
        size, stride, first = self.dims[axis], self._strides[axis], self._first[axis]
        here = src // stride % size
        forward = (dst // stride - here) % size
        up = forward <= size - forward
        hops = np.where(up, forward, size - forward)
        routes = Routes.of_lengths(hops, np.empty(0, dtype=np.int64))
        done = np.arange(routes.first[-1]) - np.repeat(routes.first[:-1], hops)
        place, upwards = np.repeat(here, hops), np.repeat(up, hops)
        place = (place + np.where(upwards, done, -done)) % size
        router = np.repeat(src - here * stride, hops) + place * stride
        return routes._replace(links=first + (router if size == 2 else 2 * router + ~upwards))

    def hops(self, src: int) -> np.ndarray:
        total = np.zeros(len(self.switch_names), dtype=np.int64)
        router = np.arange(len(total))
        for size, stride in zip(self.dims, self._strides, strict=True):
            forward = (router // stride - src // stride) % size
            total += np.minimum(forward, size - forward)
        return total


def router_order(dims: tuple[int, ...], order: str) -> np.ndarray:
    """Return router numbers [num_routers] in an order such as 'y2 z x y', the fastest part first.

    A part is a dimension (x, y, z, w) and, for a part of the dimension only, its length.

    >>> router_order((2, 4), "y2 x y").tolist()
    [0, 1, 4, 5, 2, 3, 6, 7]
    """
    letters = "xyzw"[: len(dims)]
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    done = [1] * len(dims)
    numbers = np.zeros(1, dtype=np.int64)
    for part in order.split():
        axis, extent = letters.find(part[0]), part[1:]
        if axis < 0 or not (extent.isdecimal() or not extent):
            raise _wrong_order(dims, order)
        size = int(extent) if extent else dims[axis] // done[axis]
        numbers = (np.arange(size)[:, None] * strides[axis] * done[axis] + numbers).ravel()
        done[axis] *= size
        if size < 1 or done[axis] > dims[axis]:
            raise _wrong_order(dims, order)
    if tuple(done) != dims:
        raise _wrong_order(dims, order)
    return numbers


def _wrong_order(dims: tuple[int, ...], order: str) -> InputError:
    letters = " ".join(reversed("xyzw"[: len(dims)]))
    shape = " x ".join(map(str, dims))
    return InputError(
        f"host_order '{order}' does not visit every router of {shape} once; give each dimension with its length, "
        f"such as '{letters}'",
        got=order,
        allowed=f"parts whose sizes multiply to {shape}",
        key="host_order",
    )


class Torus(MixedNetworkSpec):
    """Routers in a torus, each with one or more hosts; hosts are numbered router by router."""

    kind: Literal["torus"] = "torus"
    dims: list[int] = Field(
        min_length=1, max_length=12, description="routers along each dimension, such as [25, 16, 24]"
    )
    hosts_per_router: int = Field(default=1, ge=1, description="hosts on each router")
    link: LinkName | list[LinkName] = Field(description="link between routers: one for all dimensions, or one for each")
    injection: LinkName | None = Field(
        default=None,
        description="link between a host and its router; by default as `link`, the fastest if there are several",
    )

    host_order: str | None = Field(
        default=None,
        description="the batch system's order of hosts, fastest dimension first, such as 'y2 z x y': pairs "
        "of routers along y, then z, then x, then the pairs along y; by default the last dimension is the fastest",
    )

    @model_validator(mode="before")
    @classmethod
    def _check_dims(cls, data: object) -> object:
        """Raise InputError for dimensions that would exhaust the memory, before anything is built."""
        dims = data.get("dims") if isinstance(data, dict) else None
        if isinstance(dims, list) and all(isinstance(size, int) for size in dims):
            if any(size < 1 for size in dims):
                raise InputError(
                    f"every dimension of a torus has at least one router (got {dims})",
                    got=str(dims),
                    allowed="numbers of at least 1",
                    key="dims",
                )
            if prod(dims) > MAX_GPUS:
                raise InputError(
                    f"the torus would have {prod(dims)} routers; at most {MAX_GPUS} are simulated",
                    got=str(dims),
                    allowed=f"at most {MAX_GPUS} routers",
                    key="dims",
                )
        return data

    @model_validator(mode="after")
    def _check_links(self) -> Torus:
        if isinstance(self.link, list) and len(self.link) != len(self.dims):
            raise InputError(
                f"the torus has {len(self.dims)} dimensions and {len(self.link)} links: give one link for each",
                got=str(len(self.link)),
                allowed=f"{len(self.dims)} links",
                key="link",
            )
        if self.host_order is not None:
            router_order(tuple(self.dims), self.host_order)
        return self

    def build(self) -> Topology:
        topology = super().build()
        if self.host_order is None:
            return topology
        routers = router_order(tuple(self.dims), self.host_order)
        hosts = (routers[:, None] * self.hosts_per_router + np.arange(self.hosts_per_router)).ravel()
        return replace(topology, host_order=hosts[hosts < topology.num_hosts])

    def max_hosts(self, ports_per_host: float) -> int:
        return prod(self.dims) * self.hosts_per_router

    def fabric(self, port_host: np.ndarray) -> Fabric:
        links = self.link if isinstance(self.link, list) else [self.link] * len(self.dims)
        letters = "xyzw" if len(links) <= 4 else [str(axis) for axis in range(len(links))]
        wires = [wire(link, f"torus-{letters[axis]}", self.hop) for axis, link in enumerate(links)]
        fastest = max(links, key=lambda link: wire(link, "access", self.hop).bytes_per_s)
        access = wire(self.injection or fastest, "access", self.hop)
        return TorusFabric(tuple(self.dims), port_host // self.hosts_per_router, access, wires)
