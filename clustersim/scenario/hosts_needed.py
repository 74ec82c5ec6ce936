"""The number of hosts of a cluster that states none: as many as its jobs and their servers need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from clustersim.errors import InputError, Mistake
from clustersim.reading import TreeNode
from clustersim.spec import union_of
from clustersim.topology import TOPOLOGIES
from clustersim.topology.network_spec import NetworkSpec


def with_hosts(root: TreeNode) -> TreeNode:
    """Return the tree of a scenario with the number of hosts, if the network has no limit and none is given.

    A tree with mistakes in its topology or its numbers of GPUs is returned as it is.
    """
    topology = root.child("topology")
    if topology is None or not isinstance(topology.value, dict) or {"num_hosts", "hosts"} & set(topology.value):
        return root
    gpus_per_host = _gpus_per_host(topology)
    jobs = list(_jobs(root))
    if gpus_per_host is None or not all(isinstance(gpus, int) and gpus > 0 for gpus, _ in jobs):
        return root
    num_hosts = -(-sum(gpus for gpus, _ in jobs) // gpus_per_host) + sum(servers for _, servers in jobs)
    return root.put(
        ("topology",), topology.with_value({**topology.value, "num_hosts": TreeNode(num_hosts, topology.place)})
    )


def domain_mistakes(root: TreeNode) -> Iterator[Mistake]:
    """Yield which hosts have an NVLink domain, written with them, of more hosts than the scenario says there are."""
    topology = root.child("topology")
    if topology is None:
        return
    groups = topology.at(("hosts",))
    places: list[tuple[tuple[str | int, ...], str]] = [((), "num_hosts")]
    if groups is not None and isinstance(groups.value, list):
        places += [(("hosts", number), "count") for number in range(len(groups.value))]
    for path, count in places:
        num, domain = (topology.at((*path, *key)) for key in ((count,), ("host", "nvlink_domain")))
        given = [each.value if each is not None and type(each.value) is int else None for each in (num, domain)]
        num_hosts, size = given
        if num_hosts is not None and size is not None and 1 <= num_hosts < size:
            message = f"an NVLink domain of {size} hosts is larger than its cluster, which has {num_hosts} such hosts"
            key = ".".join(map(str, ("topology", *path, "host", "nvlink_domain")))
            yield Mistake(message, key, got=str(size), allowed=f"at most {num_hosts}")


def _gpus_per_host(topology: TreeNode) -> int | None:
    """Return the number of GPUs in a host; None for a network that says itself how many hosts it has, or is wrong."""
    try:
        plain = json.dumps(topology.plain() | {"num_hosts": 1})
        spec = _reader().validate_json(plain, strict=True)
    except (ValidationError, InputError):
        return None
    if not isinstance(spec, NetworkSpec) or spec.max_hosts(1.0) is not None:
        return None
    return len(spec.host_plan(spec.host, "host").gpus)


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[Any]:
    return TypeAdapter(union_of(TOPOLOGIES))


TOPOLOGIES.on_register(_reader.cache_clear)


def _jobs(root: TreeNode) -> Iterator[tuple[int, int]]:
    """Yield the number of GPUs and of servers on hosts of their own, for each job."""
    jobs = root.child("jobs")
    if jobs is not None and isinstance(jobs.value, list):
        yield from (_needs(job) for job in jobs.value)
    else:
        copies = jobs.value if jobs is not None and isinstance(jobs.value, int) else 1
        yield from [_needs(root)] * max(1, copies)


def _needs(job: TreeNode) -> tuple[int, int]:
    num_gpus, servers = job.child("num_gpus"), job.at(("strategy", "servers"))
    keys = servers.children if servers is not None else {}
    on, num = keys.get("on"), keys.get("num")
    own = on is not None and on.value == "own-hosts"
    count = num.value if num is not None and isinstance(num.value, int) else 1
    return (num_gpus.value if num_gpus is not None else 0), count if own else 0
