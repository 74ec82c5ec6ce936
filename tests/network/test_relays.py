"""Schedules whose ranks send ahead: a chunk waits on each hop of its way for that hop alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clustersim.collectives import COLLECTIVES, Schedule, Transfer
from clustersim.collectives.nccl import NcclRanks, nccl_latency_us
from clustersim.communicator.algorithm import schedule_collective
from clustersim.errors import InputError
from clustersim.topology import Topology, load_topology

from .clusters import make_network

WAYS = [{"engine": "python", "exact": True}, {"engine": "numba", "exact": True}, {"engine": "python", "exact": False}]
COSTS: dict[str, Any] = {"overhead_s": 14e-6, "host_overhead_s": 4e-6, "adds": False}


def dgx(num_hosts: int, nics: int = 8) -> Topology:
    """Return DGX A100 between which a message waits for nothing but its overhead."""
    host = {"template": "dgx-a100", "num_gpus": 8, "nics": nics}
    return load_topology({"kind": "star", "num_hosts": num_hosts, "link": "25 GB/s", "hop": "0 s", "host": host})


def seconds(
    cluster: Topology, schedule: Schedule, engine: str = "python", exact: bool = True, costs: dict[str, Any] = COSTS
) -> float:
    network = make_network(cluster, engine=engine, exact=exact, **costs)
    return float(network.env.run(network.play(schedule, range(cluster.num_gpus))).end_s.max())


def nccl(op: str, name: str, cluster: Topology, num_bytes: float) -> Schedule:
    return schedule_collective(op, name, cluster, np.arange(cluster.num_gpus), num_bytes, "nccl")[1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nics", [1, 8])
def test_a_ring_waits_for_the_hops_of_a_chunk_and_not_for_the_slowest_in_each_step(way, nics):
    """Of 32 hops 4 leave a host; a chunk goes over 31, whichever it begins with. Hops of LL take 2.7 and 1 us."""
    schedule = nccl("all-gather", "ring", dgx(4, nics), 0.0)
    waits_s = 6.6e-6 + 31 / 32 * (4 * 2.7e-6 + 28 * 1e-6)
    assert seconds(dgx(4, nics), schedule, **way) == pytest.approx(waits_s, rel=1e-9)


def test_a_ring_of_large_messages_between_hosts_has_a_plateau():
    """Simple has 1.4 times the latency with A100, 1.9 with V100; inside a host half of a large part hides it."""

    def latencies_us(cluster: Topology) -> set[float]:
        """Return the latencies of a hop within and between hosts."""
        schedule, num_rings = nccl("all-reduce", "ring", cluster, 8e9), 8 if cluster.num_gpus > 16 else 4
        relays, inside = schedule.relays, schedule.relays.src // 8 == schedule.relays.dst // 8
        times = relays.times / schedule.num_steps * cluster.num_gpus * (len(relays.src) / cluster.num_gpus)
        assert len(relays.src) == cluster.num_gpus * (num_rings if cluster.num_gpus > 8 else 1)
        return {*np.round(times * relays.shares * np.where(inside, 4.0, 14.0), 9).tolist()}

    assert latencies_us(dgx(4)) == {round(1.4 * 3.4, 9), round(1.4 * 14, 9)}
    older = load_topology({"kind": "star", "num_hosts": 2, "link": "25 GB/s", "hop": "0 s", "host": "dgx-1"})
    assert latencies_us(older) == {round(1.9 * 3.4, 9), round(1.9 * 14, 9)}
    assert latencies_us(dgx(1)) == {0.0}


@pytest.mark.parametrize("way", WAYS)
def test_a_double_tree_waits_for_the_way_of_its_deepest_rank(way):
    """Up and down 7 hops of LL inside a host and 2 between the four hosts."""
    schedule = nccl("all-reduce", "double-tree", dgx(4), 0.0)
    assert seconds(dgx(4), schedule, **way) == pytest.approx(6.8e-6 + 2 * (2 * 5e-6 + 7 * 0.6e-6), rel=1e-9)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", ["broadcast", "reduce"])
def test_a_chain_in_pieces_waits_for_its_hops_once(op, way):
    """28 hops inside and 3 between hosts, or one more where the first rank is not a host's first."""
    cluster = dgx(4)
    schedule = nccl(op, "ring", cluster, 16e9)
    pieces = schedule.num_steps - 30
    waits_s = sum(
        times * share * (14e-6 if src // 8 != dst // 8 else 4e-6)
        for src, dst, times, share in zip(*schedule.relays, strict=True)
    )
    assert 30 * 3.4e-6 + 14e-6 < waits_s < 28 * 3.4e-6 + 4 * 14e-6
    wire_s = seconds(cluster, schedule, **way, costs={"adds": False})
    assert wire_s > pieces / (pieces + 30) * 16e9 / 8 / 25e9
    assert seconds(cluster, schedule, **way) == pytest.approx(waits_s + wire_s, rel=1e-9)


@pytest.mark.parametrize("num_hosts", [2, 4, 16])
def test_latencies_are_those_that_nccl_counts_on(num_hosts):
    """NCCL has a chunk leave each host but one twice; here it is the mean over the ranks where a chunk begins."""
    cluster, ranks = dgx(num_hosts), NcclRanks(8 * num_hosts, num_hosts)
    ring_s, tree_s = (seconds(cluster, nccl("all-reduce", name, cluster, 0.0)) for name in ("ring", "double-tree"))
    mean_s = (2.7e-6 + 7 * 1e-6) / 8
    assert ring_s - 2 * (2.7e-6 - mean_s) == pytest.approx(nccl_latency_us("ring", "LL", ranks) * 1e-6)
    assert tree_s == pytest.approx(nccl_latency_us("tree", "LL", ranks) * 1e-6)


def test_relays_of_schedules_one_after_another_are_joined():
    one = COLLECTIVES["broadcast"]["ring"](2, 8.0, rings=[[0, 1]])
    both = Schedule.concatenate([one, Schedule.idle(2), one])
    assert [column.tolist() for column in both.relays] == [[0, 0], [1, 1], [1.0, 1.0], [1.0, 1.0]]
    assert Schedule.concatenate([Schedule.idle(2), Schedule.idle(2)]).relays is None
    plain = Schedule.from_transfers([Transfer(0, 0, 1, 8.0)])
    with pytest.raises(InputError, match="all have relays or none"):
        Schedule.concatenate([one, plain])


def test_an_order_of_ranks_of_ones_own_has_relays_and_the_plain_algorithm_none():
    for op, name in (("all-reduce", "ring"), ("reduce-scatter", "ring"), ("all-gather", "ring"), ("reduce", "ring")):
        algorithm = COLLECTIVES[op][name]
        assert algorithm(4, 8.0).relays is None
        relays = algorithm(4, 8.0, rings=[[0, 1, 2, 3], [3, 1, 0, 2]]).relays
        assert relays.times.sum() == pytest.approx({"all-reduce": 6}.get(op, 3))
