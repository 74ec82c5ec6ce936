"""Which GPUs of the cluster a job gets, and in which order of ranks."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from clustersim.errors import InputError
from clustersim.registry import Registry
from clustersim.seeding import stream
from clustersim.spec import Spec
from clustersim.topology.topology import Topology


class PlacementSpec(Spec):
    """A rule that assigns GPUs to ranks."""

    kind: str

    def gpus(self, topology: Topology, num_ranks: int, seed: int) -> np.ndarray:
        """Return the GPU numbers in rank order, at least [num_ranks] of them."""
        raise InputError(f"the placement '{self.kind}' gives no GPUs")


class Block(PlacementSpec):
    """Fills a host before it uses the next."""

    kind: Literal["block"] = "block"

    def gpus(self, topology: Topology, num_ranks: int, seed: int) -> np.ndarray:
        return np.arange(topology.num_gpus)


class Spread(PlacementSpec):
    """Assigns ranks to the hosts in turn; also called `round-robin`."""

    kind: Literal["spread", "round-robin"] = "spread"

    def gpus(self, topology: Topology, num_ranks: int, seed: int) -> np.ndarray:
        return np.asarray(np.lexsort((topology.gpu_hosts, _index_in_host(topology.gpu_hosts))))


class Random(PlacementSpec):
    """Draws GPUs from the whole cluster by the scenario's seed."""

    kind: Literal["random"] = "random"

    def gpus(self, topology: Topology, num_ranks: int, seed: int) -> np.ndarray:
        return stream(seed, "placement", "random").permutation(topology.num_gpus)


class Compact(PlacementSpec):
    """The most cubic block of a torus' routers with enough GPUs, all GPUs of a router one after another.

    Among the blocks that are large enough it is the one with the smallest sum of sides, then the one with the
    fewest routers, then the one longest along the last dimension.
    """

    kind: Literal["compact"] = "compact"

    def gpus(self, topology: Topology, num_ranks: int, seed: int) -> np.ndarray:
        """Return the GPUs of the block's routers, the last dimension fastest, at least [num_ranks] of them."""
        if topology.torus_dims is None:
            raise InputError(
                f"the placement 'compact' needs a torus, which '{topology.name}' is not; use 'block'",
                got="compact",
                allowed="block, spread, random, fragmented",
            )
        dims = topology.torus_dims
        per_router, rest = divmod(topology.num_gpus, prod(dims))
        if rest:
            raise InputError(
                f"the placement 'compact' needs equally many GPUs on every router of '{topology.name}'; use 'block'",
                got="compact",
                allowed="block, spread, random, fragmented",
            )
        sides = _most_cubic(dims, -(-num_ranks // per_router))
        routers = np.arange(prod(dims)).reshape(dims)[tuple(slice(side) for side in sides)].ravel()
        gpus: np.ndarray = routers[:, None] * per_router + np.arange(per_router)
        return gpus.ravel()


class Fragmented(PlacementSpec):
    """The GPUs that a batch scheduler assigns on a busy cluster: free hosts in its linear order of hosts.

    The order is that of the topology (`host_order`), or else of host numbers. Every host is free with probability
    `free`, by the scenario's seed; from a random host on, the job takes the free hosts in order, and continues at the
    first host after the last.
    """

    kind: Literal["fragmented"] = "fragmented"
    free: float = Field(default=0.1, gt=0, le=1, description="probability that a host is free")

    def gpus(self, topology: Topology, num_ranks: int, seed: int) -> np.ndarray:
        """Return the GPUs of all free hosts, from the random one on in the cluster's order."""
        rng = stream(seed, "placement", "fragmented")
        start = int(rng.integers(topology.num_hosts))
        free = rng.random(topology.num_hosts) < self.free
        index = np.arange(topology.num_hosts)
        if topology.host_order is not None:
            index[topology.host_order] = np.arange(topology.num_hosts)
        order = np.argsort((index[topology.gpu_hosts] - start) % topology.num_hosts, kind="stable")
        gpus: np.ndarray = order[free[topology.gpu_hosts[order]]]
        if len(gpus) < num_ranks:
            raise InputError(
                f"with {self.free:g} of the hosts free, '{topology.name}' has {len(gpus)} free GPUs for {num_ranks} "
                "ranks; raise `free` or use fewer GPUs",
                got=str(num_ranks),
                allowed=f"at most {len(gpus)}",
            )
        return gpus


class GivenPlaces(PlacementSpec):
    """GPU numbers, one for each rank; a job with fewer ranks uses the first of them."""

    kind: Literal["explicit"] = "explicit"
    numbers: list[Annotated[int, Field(ge=0)]] = Field(min_length=1, description="the GPU of every rank")

    def gpus(self, topology: Topology, num_ranks: int, seed: int) -> np.ndarray:
        """Return the listed GPUs; raise InputError for one that does not exist or is listed twice."""
        gpus = np.array(self.numbers, dtype=np.int64)
        if gpus.max() >= topology.num_gpus:
            raise InputError(
                f"there is no GPU {gpus.max()}: '{topology.name}' has {topology.num_gpus} GPUs, numbered from 0",
                got=str(gpus.max()),
                allowed=f"0 to {topology.num_gpus - 1}",
            )
        if len(np.unique(gpus)) < len(gpus):
            values, counts = np.unique(gpus, return_counts=True)
            twice = values[counts > 1][0]
            raise InputError(
                f"the placement gives GPU {twice} to more than one rank", got=str(twice), allowed="each GPU once"
            )
        if len(gpus) < num_ranks:
            raise InputError(
                f"the placement lists {len(gpus)} GPUs for {num_ranks} ranks",
                got=str(len(gpus)),
                allowed=f"at least {num_ranks} GPU numbers",
            )
        return gpus


PLACEMENTS: Registry[type[PlacementSpec]] = Registry(
    "placement",
    {
        "block": Block,
        "compact": Compact,
        "explicit": GivenPlaces,
        "fragmented": Fragmented,
        "random": Random,
        "round-robin": Spread,
        "spread": Spread,
    },
)


def _placement_mapping(value: Any) -> Any:
    """Read a placement's name or a list of GPU numbers as the equivalent mapping."""
    if isinstance(value, str):
        PLACEMENTS[value]
        return {"kind": value}
    if isinstance(value, list):
        return {"kind": "explicit", "numbers": value}
    if isinstance(value, dict) and "kind" in value:
        PLACEMENTS[str(value["kind"])]
    return value


if TYPE_CHECKING:
    Placement = PlacementSpec
else:
    _AnyPlacement = Annotated[Block | Spread | Random | Compact | Fragmented | GivenPlaces, Field(discriminator="kind")]
    Placement = Annotated[
        _AnyPlacement, BeforeValidator(_placement_mapping, json_schema_input_type=_AnyPlacement | str | list[int])
    ]
"""The value in a scenario: a placement's name, a mapping with its options, or a list of GPU numbers."""


def place(
    spec: PlacementSpec, topology: Topology, num_ranks: int, seed: int, taken: np.ndarray | None = None
) -> np.ndarray:
    """Return the GPU number of every rank [num_ranks], none of those in `taken` [num_taken]."""
    others = np.zeros(0, dtype=np.int64) if taken is None else taken
    num_left = topology.num_gpus - len(others)
    if num_ranks > num_left:
        has = f"{num_left} left of {topology.num_gpus}" if len(others) else str(topology.num_gpus)
        raise InputError(
            f"{num_ranks} GPUs are asked for, but the cluster '{topology.name}' has {has}",
            got=str(num_ranks),
            allowed=f"at most {num_left}",
            key="num_gpus",
        )
    gpus = _free(spec.gpus(topology, num_ranks, seed), others)
    if len(gpus) < num_ranks and len(others):
        gpus = _with_other_jobs(spec, topology, num_ranks, seed, others)
    return np.asarray(gpus[:num_ranks], dtype=np.int64)


def _with_other_jobs(
    spec: PlacementSpec, topology: Topology, num_ranks: int, seed: int, taken: np.ndarray
) -> np.ndarray:
    """Return the free GPUs of a placement that is large enough even if it contains all taken GPUs."""
    try:
        return _free(spec.gpus(topology, num_ranks + len(taken), seed), taken)
    except InputError:
        given = spec.gpus(topology, num_ranks, seed)
        raise InputError(
            f"the placement '{spec.kind}' has {len(given)} GPUs; the jobs before this one leave "
            f"{len(_free(given, taken))} of them for {num_ranks} ranks; use another placement",
            got=spec.kind,
            allowed="GPUs that no other job uses",
        ) from None


def _free(gpus: np.ndarray, taken: np.ndarray) -> np.ndarray:
    return gpus[~np.isin(gpus, taken)] if len(taken) else gpus


def _index_in_host(hosts: np.ndarray) -> np.ndarray:
    """Return the number of GPUs of the same host before each GPU [num_gpus]."""
    order = np.argsort(hosts, kind="stable")
    first = np.searchsorted(hosts[order], hosts[order])
    index = np.empty(len(hosts), dtype=np.int64)
    index[order] = np.arange(len(hosts)) - first
    return index


@lru_cache(maxsize=256)
def _most_cubic(dims: tuple[int, ...], num_routers: int) -> tuple[int, ...]:
    """Return the sides of the block, as described at `Compact`."""
    blocks = (sides for sides in product(*(range(1, size + 1) for size in dims)) if prod(sides) >= num_routers)
    return min(blocks, key=lambda sides: (sum(sides), prod(sides), sides))
