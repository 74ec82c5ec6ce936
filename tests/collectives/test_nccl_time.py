"""What NCCL's choice of a protocol costs, as formulas and as played."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clustersim.collectives.nccl import (
    NcclRanks,
    NcclRates,
    hop_latencies,
    nccl_latency_us,
    nccl_tuning,
    protocols,
    tree_bus,
)
from clustersim.collectives.nccl_time import FITTED, nccl_cost, nvls_loop_bytes, one_host_seconds, p2p_cost
from clustersim.communicator.algorithm import nccl_rates, schedule_collective
from clustersim.hardware import load_transport
from clustersim.network import Environment
from clustersim.simulate import time_collective
from clustersim.simulate.build import build_network
from clustersim.topology import load_topology

MIB = 2.0**20
SIZES = [1024.0, 2.0**17, 2.0**20, 4 * MIB, 16 * MIB, 64 * MIB, 512 * MIB]
A100 = NcclRates(240e9, 240e9, num_channels=12, capability=80)
H100 = NcclRates(370.8e9, 370.8e9, 370.8e9, num_channels=12, capability=90, channel_bytes_per_s=30e9)


def cluster(template: str, num_hosts: int = 1, **host: Any) -> dict[str, Any]:
    link = {"link": "infiniband-hdr", "hop": "0 s"}
    return {"kind": "star", "num_hosts": num_hosts, **link, "host": {"template": template, **host}}


@pytest.mark.parametrize("template", ["dgx-a100", "dgx-h100", "dgx-b200"])
@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
@pytest.mark.parametrize("num_gpus", [2, 4, 8])
def test_what_is_played_costs_what_the_formula_says(template: str, op: str, num_gpus: int) -> None:
    rates = nccl_rates(load_topology(cluster(template)), np.arange(num_gpus), "nccl")
    for exact in (False, True):
        found = time_collective(op, cluster(template), "auto", num_gpus, SIZES, "nccl", exact=exact)
        expected = [one_host_seconds(op, size, num_gpus, rates) for size in SIZES]
        assert [row["time_s"] for row in found["rows"]] == pytest.approx(expected, rel=1e-9)


def test_compiled_kernels_play_the_same() -> None:
    given = "all-reduce", cluster("dgx-a100", 2), "auto", 16, SIZES[:5], "nccl"
    plain, compiled = (time_collective(*given, exact=True, numba_from_messages=limit) for limit in (None, 0))
    assert [row["time_s"] for row in compiled["rows"]] == pytest.approx(
        [row["time_s"] for row in plain["rows"]], rel=1e-9
    )


@pytest.mark.parametrize(
    ("op", "num_ranks", "rates", "first"),
    [
        ("all-reduce", 2, A100, {"Simple": 2.0**20}),
        ("all-gather", 2, A100, {"Simple": 2.0**21}),
        ("all-gather", 8, A100, {"LL128": 2.0**22, "Simple": 2.0**24}),
        ("reduce-scatter", 8, A100, {"LL128": 2.0**22, "Simple": 2.0**24}),
        ("all-reduce", 2, H100, {"Simple": 2.0**21}),
        ("all-gather", 4, H100, {"Simple": 2.0**22}),
        ("all-gather", 8, H100, {"LL128": 2.0**23, "Simple": 2.0**25}),
    ],
)
def test_protocols_change_at_the_sizes_where_measured_times_jump(
    op: str, num_ranks: int, rates: NcclRates, first: dict[str, float]
) -> None:
    """The tables of aiconfigurator-core 0.12.0 jump there, by up to a factor of 2."""
    found: dict[str, float] = {}
    for power in range(9, 30):
        found.setdefault(nccl_tuning(op, 2.0**power, NcclRanks(num_ranks, 1), rates).protocol, 2.0**power)
    assert found == {"LL": 2.0**9, **first}


def test_half_of_a_message_hides_the_latency_of_a_hop_with_simple() -> None:
    """Steps of a ring take max(c, c / 2 + L): with parts of 8 MB and 240 GB/s c / 2 is 16.7 us, more than L = 10.5."""
    eight, hop_us = NcclRanks(8, 1), FITTED[80].simple[1]
    tuning = nccl_tuning("all-gather", 64e6, eight, A100)
    assert tuning == ("ring", "Simple")
    assert nccl_cost("all-gather", tuning, 64e6, eight, A100).inside_us == 0
    part_us = 8e6 / 8 / 240e9 / 2 * 1e6
    assert nccl_cost("all-gather", tuning, 8e6, eight, A100).inside_us == pytest.approx(hop_us - part_us)


def test_ll_sends_twice_the_bytes_and_ll128_a_fifteenth_more() -> None:
    def sent(num_bytes: float) -> float:
        topology = load_topology(cluster("dgx-a100"))
        _, schedule = schedule_collective("all-gather", "auto", topology, np.arange(8), num_bytes, "nccl")
        return sum(transfer.num_bytes for transfer in schedule.transfers()) / (7 * num_bytes)

    assert [sent(size) for size in (1e6, 8e6, 64e6)] == pytest.approx([2.0, 128 / 120, 1.0])


def test_ll_between_hosts_is_limited_by_the_processors() -> None:
    """22.5 GB/s on two hosts whose rings have 192 GB/s: the rest of the time is a wait."""
    ranks, rates = NcclRanks(16, 2), NcclRates(192e9, 240e9, num_channels=8)
    cost = nccl_cost("all-gather", nccl_tuning("all-gather", 1e5, ranks, rates), 1e5, ranks, rates)
    sent = 15 / 16 * 1e5
    assert cost.wait_s == pytest.approx(6.6e-6 + sent / 22.5e9 - 2 * sent / 192e9)
    assert (cost.inside_us, cost.between_us, cost.wire_factor) == (1.0, 2.7, 2.0)


@pytest.mark.parametrize(
    ("op", "num_hosts", "latencies_us"),
    [
        ("all-gather", 1, (10.8, 27.3, 32.2)),
        ("reduce-scatter", 2, (23.3, 44.6, 70.0)),
        ("broadcast", 1, (7.2, 15.9, 11.8)),
    ],
)
def test_latencies_of_other_collectives_are_those_of_nccl(
    op: str, num_hosts: int, latencies_us: tuple[float, ...]
) -> None:
    """Eight GPUs a host behind NVLink: base + (s - k) max(inside, post) + k network; one hop of a broadcast."""
    ranks = NcclRanks(8 * num_hosts, num_hosts)
    found = [nccl_latency_us("ring", protocol, ranks, op) for protocol in ("LL", "LL128", "Simple")]
    assert found == pytest.approx(latencies_us)


def test_hops_over_pcie_are_slower_and_have_no_ll128() -> None:
    rates = NcclRates(20e9, 20e9, has_nvlink=False)
    assert protocols(NcclRanks(8, 1), rates) == ("LL", "Simple")
    assert protocols(NcclRanks(8, 8), rates) == ("LL", "LL128", "Simple")  # one GPU a host needs no NVLink
    assert protocols(NcclRanks(8, 1), A100._replace(capability=60)) == ("LL", "Simple")
    assert hop_latencies("ring", "Simple", NcclRanks(8, 1), has_nvlink=False) == (8.4, 5.7, 14.0)


def test_loops_of_a_reduction_in_the_switch_grow_with_the_buffer() -> None:
    """16 channels of Hopper and 8 heads with chunks of 16, 32 and 64 KiB; 24 channels of Blackwell."""
    assert [nvls_loop_bytes(size * MIB, 8, 90) / MIB for size in (4, 8, 64)] == [2, 4, 8]
    assert [nvls_loop_bytes(size * MIB, 8, 100) / MIB for size in (8, 64, 128)] == [3, 6, 12]


def test_small_direct_messages_are_sent_with_ll() -> None:
    eight = NcclRanks(8, 1)
    small, large = (p2p_cost(7, size, size, eight, H100) for size in (16384.0, 16385.0))
    assert (small.wire_factor, large.wire_factor) == (2.0, 1.0)
    assert small.wait_s + small.inside_us * 1e-6 < 0.7 * (large.wait_s + large.inside_us * 1e-6)


def test_an_nvlink_domain_of_72_gpus_reduces_in_its_switches() -> None:
    """835 GB/s of bus bandwidth at 8 GiB are measured on a GB200 NVL72 (coreweave/nccl-tests, pull request 43).

    The time of a loop with more than eight heads was assumed with this figure in sight.
    """
    found = time_collective("all-reduce", cluster("dgx-b200", num_gpus=72), "auto", 72, [8 * 2.0**30], "nccl")
    (row,) = found["rows"]
    assert row["algorithm"] == "nvls"
    assert row["busbw_bytes_per_s"] == pytest.approx(835e9, rel=0.05)


def test_hosts_with_one_card_reach_what_their_card_does() -> None:
    """24 GB/s for a card on a PCIe switch with a GPU, said by NCCL's author (NVIDIA/nccl, issue 412)."""
    twelve = cluster("dgx-a100", 12, gpu="a800", nics=1)
    (row,) = time_collective("all-reduce", twelve, "auto", 96, [8 * 2.0**30], "nccl")["rows"]
    assert row["busbw_bytes_per_s"] == pytest.approx(24e9, rel=0.05)


@pytest.mark.parametrize("name", ["nccl-1", "nccl-2.4"])
def test_older_versions_have_no_protocols(name: str) -> None:
    topology = load_topology(cluster("dgx-1"))
    _, schedule = schedule_collective("all-reduce", name, topology, np.arange(8), 1e6, "nccl")
    assert schedule.wait_s == 0
    assert schedule.relays is None or (schedule.relays.shares == 1).all()


def test_trees_between_hosts_whose_switches_reduce_have_other_limits() -> None:
    """NVLSTree on eight hosts: 45.5 GB/s for each of eight channels of Hopper, where trees have 36."""
    ranks, rates = NcclRanks(64, 8), NcclRates(384e9, 370e9, num_channels=8, capability=90)
    assert tree_bus("Simple", ranks, rates) == pytest.approx(8 * 36e9)
    assert tree_bus("Simple", ranks, rates._replace(has_nvls_trees=True)) == pytest.approx(8 * 45.5e9)
    assert tree_bus("LL128", ranks, rates._replace(has_nvls_trees=True)) == pytest.approx(8 * 29e9)


@pytest.mark.parametrize(("template", "has"), [("dgx-h100", True), ("dgx-a100", False)])
def test_switches_of_hopper_reduce_in_each_host(template: str, has: bool) -> None:
    topology = load_topology(cluster(template, 2))
    assert nccl_rates(topology, np.arange(16), "nccl").has_nvls_trees == has
    assert not nccl_rates(topology, np.array([0, 1, 8, 9]), "nccl").has_nvls_trees  # two GPUs of a host are too few


def test_a_collective_beside_other_traffic_shares_its_links() -> None:
    """Two all-gathers at once over the same NVLinks: the bytes take twice as long, and the waits as long as alone."""
    topology = load_topology(cluster("dgx-a100"))
    _, schedule = schedule_collective("all-gather", "auto", topology, np.arange(8), 64e6, "nccl")
    library = load_transport("nccl")

    def seconds(num: int) -> float:
        network = build_network(Environment(), topology, library, exact=True)
        ends = [network.play(schedule, range(8)) for _ in range(num)]
        network.env.run(network.env.all_of(ends))
        return float(network.env.now)

    wire_s = 7 / 8 * 64e6 / 240e9
    assert seconds(1) == pytest.approx(schedule.wait_s + wire_s)
    assert seconds(2) == pytest.approx(schedule.wait_s + 2 * wire_s)
