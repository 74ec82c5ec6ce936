"""Hierarchical all-reduce: within each host, between hosts, and within each host again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.collectives.checks import Cost, check_at_least_one, check_collective
from clustersim.collectives.schedule import Schedule, Step
from clustersim.errors import InputError

Groups = Sequence[Sequence[int]]
"""The ranks of each host, in the order of the ring within it."""

RanksPerHost = int | Sequence[int] | None
"""Number of consecutive ranks of each host: one number for all, with the rest on the last host, or one for each."""


def hierarchical_all_reduce(
    num_ranks: int, num_bytes: float, ranks_per_host: RanksPerHost = None, groups: Groups | None = None
) -> Schedule:
    """Schedule an all-reduce within hosts, between hosts, and within hosts again, each part by rings.

    The buffer is divided into as many shards as the smallest host has ranks. A ring in each host reduces shard j to the
    host's rank j, a ring through all hosts' ranks j all-reduces it, and a ring in each host all-gathers it: 2 (g - 1) +
    2 (h - 1) steps for h hosts of at most g ranks. With s shards a rank j < s sends 2 (g - 1) / s of the buffer within
    its host (a little less if g > s) and 2 (h - 1) / (h s) between hosts. With hosts of equal size: Mikami et al.,
    "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", 2018.

    Hosts are given as `ranks_per_host` if their ranks are consecutive (one number, with the rest on the last host, or
    one for each host), otherwise as `groups`. One host, by default, is a plain ring.
    """
    check_collective(num_ranks, num_bytes)
    hosts = hosts_of(num_ranks, ranks_per_host, groups)
    shards, largest = min(map(len, hosts)), max(map(len, hosts))
    inside = Inside(hosts, shards, num_bytes)
    chunks = shards * len(hosts)
    return Schedule.concatenate(
        [
            Schedule(num_ranks, largest - 1, inside.reduce_scatter, chunks, inside.pattern),
            between(num_ranks, hosts, shards, num_bytes),
            Schedule(num_ranks, largest - 1, inside.all_gather, chunks, inside.pattern),
        ]
    )


def hierarchical_all_reduce_cost(
    num_ranks: int, num_bytes: float, ranks_per_host: RanksPerHost = None, groups: Groups | None = None
) -> Cost:
    """Return 2 (g - 1) messages of b / s bytes within the largest host and 2 (h - 1) of b / (h s) between hosts."""
    hosts = hosts_of(num_ranks, ranks_per_host, groups)
    shards, largest, num_hosts = min(map(len, hosts)), max(map(len, hosts)), len(hosts)
    inside = Cost(2 * (largest - 1), 2 * (largest - 1) * num_bytes / shards)
    return inside.plus(Cost(2 * (num_hosts - 1), 2 * (num_hosts - 1) * num_bytes / (num_hosts * shards)))


def hosts_of(num_ranks: int, ranks_per_host: RanksPerHost, groups: Groups | None) -> list[np.ndarray]:
    """Return the ranks of each host, in the order of its ring."""
    if groups is None:
        return _consecutive(num_ranks, num_ranks if ranks_per_host is None else ranks_per_host)
    if ranks_per_host is not None:
        raise InputError("an all-reduce takes ranks_per_host or groups, not both", got="both", allowed="one of them")
    hosts = [np.asarray(group, dtype=np.int64) for group in groups]
    all_ranks = np.sort(np.concatenate([*hosts, np.empty(0, dtype=np.int64)]))
    if not np.array_equal(all_ranks, np.arange(num_ranks)) or any(len(host) == 0 for host in hosts):
        raise InputError(
            f"groups must hold each rank from 0 to {num_ranks - 1} once, and none may be empty",
            got=str([list(map(int, host)) for host in hosts])[:60],
        )
    return hosts


def _consecutive(num_ranks: int, ranks_per_host: int | Sequence[int]) -> list[np.ndarray]:
    if not isinstance(ranks_per_host, Sequence):
        check_at_least_one("ranks_per_host", ranks_per_host)
        return np.array_split(np.arange(num_ranks), range(ranks_per_host, num_ranks, ranks_per_host))
    for size in ranks_per_host:
        check_at_least_one("ranks_per_host", size)
    if sum(ranks_per_host) != num_ranks:
        raise InputError(
            f"ranks_per_host must add up to the {num_ranks} ranks (got {sum(ranks_per_host)})",
            got=str(sum(ranks_per_host)),
            allowed=str(num_ranks),
        )
    return np.array_split(np.arange(num_ranks), np.cumsum(ranks_per_host)[:-1])


class Inside:
    """The rings within hosts. Shard j ends and starts on the host's rank j; a host with one rank has no steps."""

    def __init__(self, hosts: list[np.ndarray], shards: int, num_bytes: float):
        sizes = np.array([len(host) for host in hosts])
        start = np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._rank = np.concatenate(hosts)
        self._size = np.repeat(sizes, sizes)
        self._place = np.arange(len(self._rank)) - start
        self._next = self._rank[start + (self._place + 1) % self._size]
        self._shards = shards
        self._chunks = len(hosts)
        self._shard_bytes = num_bytes / shards
        self._all_send = shards == int(self._size.max())

    def pattern(self, step: int) -> int:
        """Return 0 for all steps if hosts have equal sizes: then every rank sends a shard in each step."""
        return 0 if self._all_send else step

    def reduce_scatter(self, step: int) -> Step:
        return self._pass_on(step, (self._place - 1 - step) % self._size, reduce=True)

    def all_gather(self, step: int) -> Step:
        return self._pass_on(step, (self._place - step) % self._size, reduce=False)

    def _pass_on(self, step: int, shard: np.ndarray, reduce: bool) -> Step:
        """Send each rank's shard of this step to the next rank, if it has one and the ring is not done."""
        sends = (shard < self._shards) & (step < self._size - 1)
        return Step.of(
            self._rank[sends],
            self._next[sends],
            self._shard_bytes,
            shard[sends] * self._chunks,
            self._chunks,
            reduce,
        )


def between(num_ranks: int, hosts: list[np.ndarray], shards: int, num_bytes: float) -> Schedule:
    """Schedule the rings between hosts: one for each shard, through the ranks that have it."""
    num_hosts = len(hosts)
    host, shard = (axis.ravel() for axis in np.meshgrid(np.arange(num_hosts), np.arange(shards), indexing="ij"))
    src = np.array([ranks[:shards] for ranks in hosts])
    dst = np.roll(src, -1, axis=0).ravel()
    src = src.ravel()
    chunks = num_hosts * shards

    def adds(number: int) -> bool:
        return number < num_hosts - 1

    def step(number: int) -> Step:
        chunk = shard * num_hosts + (host - number) % num_hosts
        return Step.of(src, dst, num_bytes / chunks, chunk, reduce=adds(number))

    return Schedule(num_ranks, 2 * (num_hosts - 1), step, chunks, pattern=adds)
