"""The algorithm that a transport chooses, and bus bandwidth."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import COLLECTIVES, busbw_factor, choose
from clustersim.collectives.choose import RULES
from clustersim.collectives.nccl import (
    PROTOCOLS,
    NcclRanks,
    NcclRates,
    nccl_all_reduce_seconds,
    nccl_latency_us,
    nccl_nvls_seconds,
)
from clustersim.errors import InputError
from clustersim.hardware import TRANSPORTS, load_transport

MIB = 1024.0**2


@settings(deadline=None)
@given(
    transport=st.sampled_from(list(RULES)),
    op=st.sampled_from(list(COLLECTIVES)),
    num_ranks=st.integers(1, 5000),
    num_bytes=st.floats(0, 1e12),
    ranks_per_host=st.integers(1, 16),
)
def test_the_choice_exists(transport: str, op: str, num_ranks: int, num_bytes: float, ranks_per_host: int) -> None:
    assert choose(op, transport, num_ranks, num_bytes, ranks_per_host) in COLLECTIVES[op]


@pytest.mark.parametrize("transport", RULES)
def test_every_transport_has_a_rule_for_every_collective(transport: str) -> None:
    assert set(RULES[transport]) == set(COLLECTIVES)


@pytest.mark.parametrize(
    ("num_hosts", "algorithm", "latencies_us"),
    [
        (1, "tree", (15.2, 31.5, 64.4)),
        (1, "ring", (15.0, 40.6, 56.0)),
        (2, "tree", (25.2, 48.5, 92.4)),
        (2, "ring", (40.0, 75.2, 131.6)),
        (16, "tree", (55.2, 99.5, 176.4)),
        (16, "ring", (311.6, 559.6, 1190.0)),
    ],
)
def test_latencies_are_those_of_nccl(num_hosts: int, algorithm: str, latencies_us: tuple[float, ...]) -> None:
    """Eight GPUs a host behind NVLink, computed by hand from NCCL's formulas."""
    ranks = NcclRanks(8 * num_hosts, num_hosts)
    assert [nccl_latency_us(algorithm, protocol, ranks) for protocol in PROTOCOLS] == pytest.approx(latencies_us)


def test_a_large_nccl_ring_runs_at_the_bus_rate() -> None:
    seconds = nccl_all_reduce_seconds("ring", 1e12, NcclRanks(16, 2), NcclRates(12e9))
    assert 1e12 * 2 * 15 / 16 / seconds == pytest.approx(12e9, rel=1e-3)


@pytest.mark.parametrize(
    ("num_hosts", "capability", "gb_per_s"),
    [(2, 70, 18.5), (3, 70, 10.0), (2, 80, 23.6), (4, 80, 17.8), (2, 90, 41.4), (1, 75, 26.5), (2, 100, 42.8)],
)
def test_a_large_tree_runs_at_half_of_what_its_channels_carry(num_hosts: int, capability: int, gb_per_s: float) -> None:
    rates = NcclRates(1e15, num_channels=3, capability=capability)
    seconds = nccl_all_reduce_seconds("tree", 1e15, NcclRanks(8 * num_hosts, num_hosts), rates)
    assert 1e15 / seconds == pytest.approx(3 * gb_per_s * 1e9 / 2, rel=1e-3)


def test_a_tree_of_hosts_with_one_gpu_has_a_lower_rate() -> None:
    one, two = (nccl_all_reduce_seconds("tree", 1e15, NcclRanks(4 * each, 4), NcclRates(10e9)) for each in (1, 2))
    assert two / one == pytest.approx(0.85, rel=1e-3)


def test_two_hosts_have_trees_with_few_adapters_and_rings_with_many() -> None:
    """NCCL's authors: with eight adapters trees struggle to be better than rings (NVIDIA/nccl-tests, issue 196)."""
    few, many = (
        choose("all-reduce", "nccl", 16, 1e9, 8, num * rate, 240e9, None, 1.4, num, 80)
        for num, rate in ((4, 12e9), (8, 24e9))
    )
    assert (few, many) == ("double-tree", "ring")


def test_gpus_of_another_maker_count_as_the_oldest() -> None:
    assert choose("all-reduce", "nccl", 16, 1e9, 8, 50e9, 240e9, num_channels=4, capability=0) == "double-tree"


def test_nccl_takes_trees_for_small_buffers_on_many_hosts_and_rings_for_large_ones() -> None:
    assert choose("all-reduce", "nccl", 128, 1024, 8) == "double-tree"
    assert choose("all-reduce", "nccl", 128, 10_000 * MIB, 8) == "ring"


@settings(deadline=None)
@given(num_hosts=st.integers(3, 500), power=st.integers(0, 33))
def test_more_hosts_never_bring_nccl_back_from_tree_to_ring(num_hosts: int, power: int) -> None:
    """Except from two hosts, between which trees have twice the rate."""
    once, twice = (choose("all-reduce", "nccl", 8 * hosts, 2.0**power, 8) for hosts in (num_hosts, 4 * num_hosts))
    assert (once, twice) != ("double-tree", "ring")


@pytest.mark.parametrize(
    ("op", "num_ranks", "num_bytes", "name"),
    [
        ("all-reduce", 16, 2048, "doubling"),
        ("all-reduce", 16, 2049, "halving-doubling"),
        ("all-reduce", 4096, 8192, "doubling"),
        ("broadcast", 64, 1024, "tree"),
        ("broadcast", 7, MIB, "tree"),
        ("broadcast", 8, MIB, "scatter-all-gather"),
        ("reduce", 8, 2048, "tree"),
        ("reduce", 8, 4096, "scatter-gather"),
        ("all-gather", 8, 100_000, "doubling"),
        ("all-gather", 9, 50_000, "bruck"),
        ("all-gather", 9, 100_000, "ring"),
        ("all-gather", 8, MIB, "ring"),
        ("reduce-scatter", 8, MIB, "pairwise"),
        ("reduce-scatter", 8, 1024, "halving"),
        ("all-to-all", 8, 8 * 32768, "linear"),
        ("all-to-all", 8, 8 * 32769, "pairwise"),
    ],
)
def test_mpi_follows_the_sizes_of_mpich(op: str, num_ranks: int, num_bytes: float, name: str) -> None:
    assert choose(op, "mpi", num_ranks, num_bytes, 1) == name


@pytest.mark.parametrize("transport", ["tcp", "ideal"])
def test_the_others_reduce_in_rings(transport: str) -> None:
    assert {choose("all-reduce", transport, 64, size, 8) for size in (8.0, 1e9)} == {"ring"}


def test_an_unknown_transport_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no transport is called 'mpich'; that is mpi \(known: "):
        choose("all-reduce", "mpich", 8, 8.0, 1)


def test_an_impossible_rate_or_host_is_refused() -> None:
    with pytest.raises(InputError, match=r"a rate must be above 0 \(got bytes_per_s = 0.0\)"):
        choose("all-reduce", "nccl", 8, 8.0, 1, bytes_per_s=0.0)
    with pytest.raises(InputError, match=r"ranks_per_host must be a whole number of at least 1 \(got 0\)"):
        choose("all-reduce", "nccl", 8, 8.0, 0)


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all-reduce", 1.75),
        ("all-gather", 0.875),
        ("reduce-scatter", 0.875),
        ("all-to-all", 0.875),
        ("gather", 0.875),
        ("scatter", 0.875),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("send-recv", 1.0),
        ("barrier", 0.0),
    ],
)
def test_bus_bandwidth_counts_as_nccl_tests_does(op: str, factor: float) -> None:
    assert busbw_factor(op, 8) == factor


def test_every_collective_has_a_bus_bandwidth() -> None:
    assert all(busbw_factor(op, 4) >= 0 for op in COLLECTIVES)


def test_bus_bandwidth_of_no_ranks_or_an_unknown_collective_is_refused() -> None:
    with pytest.raises(InputError, match=r"num_ranks must be a whole number of at least 1 \(got 0\)"):
        busbw_factor("all-reduce", 0)
    with pytest.raises(InputError, match="no collective is called 'allreduce'; did you mean 'all-reduce'"):
        busbw_factor("allreduce", 4)


def test_every_transport_chooses():
    assert set(RULES) == {load_transport(name).library for name in TRANSPORTS}


@pytest.mark.parametrize(
    ("num_hosts", "rates", "name"),
    [
        (2, (50e9, 240e9), "double-tree"),
        (3, (50e9, 240e9), "ring"),
        (2, (50e9, 50e9), "ring"),
        (1, (360e9, 360e9, 370e9, 1.4, 12, 90), "nvls"),
        (1, (360e9, 360e9, None), "ring"),
        (2, (360e9, 720e9, 306e9), "double-tree"),
    ],
)
def test_nccl_chooses_the_algorithm_with_the_fewest_crossings_of_the_narrowest_link(
    num_hosts: int, rates: tuple[float, ...], name: str
) -> None:
    assert choose("all-reduce", "nccl", 8 * num_hosts, 4e9, 8, *rates) == name


def test_nccl_reduces_in_the_switch_for_large_buffers() -> None:
    rates = (360e9, 360e9, 370e9, 1.4, 12, 90)
    names = [choose("all-reduce", "nccl", 8, 2.0**power, 8, *rates) for power in range(10, 34)]
    first = names.index("nvls")
    assert 15 < 10 + first < 25
    assert set(names[first:]) == {"nvls"}
    assert choose("all-reduce", "nccl", 2, 1e9, 8, *rates) != "nvls"  # NCCL has none for two GPUs
    assert choose("all-reduce", "nccl", 4, 1e9, 8, *rates) == "ring"  # four channels of 60 GB/s are fewer than a ring's


def test_nccl_nvls_estimate_counts_the_bytes_of_a_switch_reduction() -> None:
    """Nine channels of 40 GB/s fit on a link of 370 GB/s; both ways 85 % of 40, of which 7 / 8, which are 59.5 GB/s."""
    rates = NcclRates(370e9, 370e9, 370e9, capability=90)
    assert nccl_nvls_seconds(1e9, 8, rates) == pytest.approx(25e-6 + 1e9 * 1.75 / (8 * 59.5e9))
    blackwell = rates._replace(switch_bytes_per_s=720e9, capability=100)  # at most the quickest channel, of 90 GB/s
    assert nccl_nvls_seconds(1e9, 8, blackwell) == pytest.approx(25e-6 + 1e9 * 1.75 / 720e9)


@pytest.mark.parametrize("rates", [(0.0,), (1e9, -1.0), (1e9, 1e9, 0.0)])
def test_a_rate_of_zero_is_refused(rates: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="a rate must be above 0"):
        choose("all-reduce", "nccl", 8, 1e9, 8, *rates)
