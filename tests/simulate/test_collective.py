"""Timing a collective on an idle cluster gives its closed form, in nccl-tests' terms."""

from __future__ import annotations

import sys

import pytest

from clustersim.collectives import closed_form
from clustersim.communicator.algorithm import schedule_collective
from clustersim.errors import InputError
from clustersim.simulate import time_collective
from clustersim.topology import load_topology, place
from clustersim.topology.hosted_spec import _planned
from clustersim.topology.placement import Block

STAR = {"kind": "star", "num_hosts": 8, "link": "7 GB/s", "hop": "1 us"}


def test_bus_bandwidth_of_a_long_ring_is_the_link():
    document = time_collective("all-reduce", STAR, "ring", 8, [1e6, 1e9])
    small, large = document["rows"]
    assert large["time_s"] == pytest.approx(closed_form("all-reduce", "ring", 8, 1e9, 2e-6, 7e9), rel=1e-9)
    assert large["busbw_bytes_per_s"] == pytest.approx(7e9, rel=1e-3)
    assert small["algbw_bytes_per_s"] == pytest.approx(1e6 / small["time_s"])


@pytest.mark.parametrize(("num_gpus", "bytes_per_s"), [(4, 18e9), (8, 6e9)], ids=["one NVLink each", "over QPI"])
def test_nccl_1_on_a_dgx_1_is_as_slow_as_the_slowest_hop_of_its_one_ring(num_gpus, bytes_per_s):
    """GPUs 3 and 4, and 7 and 0, have no NVLink; four have one each way round, of which NCCL 2 takes two or three."""
    cluster = {"kind": "star", "num_hosts": 1, "link": "infiniband-edr", "host": {"template": "dgx-1", "gpu": "p100"}}
    (row,) = time_collective("all-reduce", cluster, "nccl-1", num_gpus, [2.0**30], transport="nccl")["rows"]
    assert row["busbw_bytes_per_s"] == pytest.approx(bytes_per_s, rel=1e-2)


@pytest.mark.parametrize(("link", "bytes_per_s"), [("ethernet-1g", 0.95 * 125e6), ("ethernet-25g", 0.625e9)])
def test_old_open_mpi_sends_5_gbit_over_a_connection_where_the_network_has_as_much(link, bytes_per_s):
    """2 (n - 1) / n b over the connection, and 3 (n - 1) / n b through a core's memory to add it; copies aside."""
    cluster = {"kind": "star", "num_hosts": 4, "link": link, "host": {"template": "single-socket", "gpu": "k40"}}
    num_bytes, times = 2.0**30, {}
    for transport in ("open-mpi-tcp", "tcp"):
        (row,) = time_collective("all-reduce", cluster, "ring", 4, [num_bytes], transport)["rows"]
        times[transport] = row["time_s"]
    wire_s = 2 * 3 / 4 * num_bytes / bytes_per_s
    assert times["open-mpi-tcp"] == pytest.approx(wire_s, rel=0.3)
    assert times["open-mpi-tcp"] > wire_s
    assert (times["open-mpi-tcp"] > 1.5 * times["tcp"]) == (link == "ethernet-25g")


def test_staging_copies_out_and_in():
    cluster = {**STAR, "host": {"gpu": "k20x"}}
    staged = time_collective("all-reduce", cluster, "tree", 2, [6e9], transport="mpi")["rows"][0]["time_s"]
    direct = time_collective("all-reduce", cluster, "tree", 2, [6e9], transport="mpi-cuda")["rows"][0]["time_s"]
    assert staged > direct + 1.9  # 6 GB out and in at 6 GB/s


def test_a_size_of_nothing_has_no_bandwidth():
    row = time_collective("barrier", STAR, "dissemination", 1, [0.0])["rows"][0]
    assert (row["time_s"], row["algbw_bytes_per_s"]) == (0.0, None)


def test_a_barrier_carries_nothing():
    row = time_collective("barrier", STAR, "dissemination", 5, [1e6])["rows"][0]
    assert row["time_s"] == pytest.approx(3 * 2e-6, rel=1e-9)


def test_auto_says_what_it_chose():
    row = time_collective("all-reduce", STAR, "auto", 8, [8.0], transport="mpi")["rows"][0]
    assert row["algorithm"] == "doubling"


def test_more_gpus_than_there_are_is_refused():
    with pytest.raises(InputError, match="has 8"):
        time_collective("all-reduce", STAR, "ring", 9, [1.0])


@pytest.mark.parametrize("algorithm", ["ring", "tree", "halving-doubling", "double-tree"])
def test_exact_gives_the_same_times(algorithm):
    quick = time_collective("all-reduce", {**STAR, "num_hosts": 24}, algorithm, 24, [1e3, 1e8])["rows"]
    exact = time_collective("all-reduce", {**STAR, "num_hosts": 24}, algorithm, 24, [1e3, 1e8], exact=True)["rows"]
    assert [row["time_s"] for row in quick] == pytest.approx([row["time_s"] for row in exact], rel=1e-9)


@pytest.mark.parametrize("algorithm", ["doubling", "double-tree", "halving-doubling", "hierarchical", "ring", "tree"])
def test_schedule_and_routes_of_16384_gpus_take_a_few_calls_a_rank(algorithm: str) -> None:
    def prepare(num_gpus: int) -> tuple[int, int]:
        cluster = {"kind": "fat-tree", "k": 32, "host": "dgx-1", "link": "100 Gbit/s", "num_hosts": num_gpus // 8}
        topology = load_topology(cluster)
        _planned.cache_clear()  # so that both pay for a host's inside, whatever was asked before
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            gpus = place(Block(), topology, num_gpus, seed=0)
            _, schedule = schedule_collective("all-reduce", algorithm, topology, gpus, 1e8, "nccl")
            first = {schedule.pattern(number): number for number in reversed(range(schedule.num_steps))}
            for number in first.values():
                step = schedule.step(number)
                topology.routes(topology.gpus[gpus[step.src]], topology.gpus[gpus[step.dst]])
        finally:
            sys.setprofile(None)
        return calls, len(first)

    (few, few_patterns), (many, many_patterns) = prepare(1024), prepare(16384)
    assert many_patterns < 2 * few_patterns
    assert many < 10 * 16384 + 2 * few
