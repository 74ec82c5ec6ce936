"""All-reduce in a switch: the sum is right, ranks send and receive the buffer about once, and a DGX has its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clustersim
from clustersim.collectives import IN_SWITCH, nvls_all_reduce_cost, play
from clustersim.errors import InputError
from clustersim.network import Environment, Network
from clustersim.simulate import time_collective
from clustersim.topology import Node

NVLS = IN_SWITCH["all-reduce"]["nvls"]
HOST = {"kind": "star", "num_hosts": 2, "host": "dgx-h100", "link": "50 GB/s"}


@given(num_ranks=st.integers(2, 12), width=st.integers(0, 40), num_chunks=st.integers(1, 9), seed=st.integers(0, 99))
def test_every_rank_ends_with_the_sum_for_any_numbers(num_ranks: int, width: int, num_chunks: int, seed: int) -> None:
    buffers = np.random.default_rng(seed).integers(-1000, 1000, (num_ranks, width))
    with_switch = np.vstack([buffers, np.zeros((1, width), dtype=int)])
    result = play(NVLS(num_ranks, 8.0, num_chunks=num_chunks), with_switch)
    assert np.array_equal(result[:num_ranks], np.tile(buffers.sum(axis=0), (num_ranks, 1)))


@pytest.mark.parametrize("num_chunks", [1, 5])
@pytest.mark.parametrize("num_ranks", [2, 8])
def test_a_rank_sends_and_receives_the_buffer_once_and_its_part_once(num_ranks: int, num_chunks: int) -> None:
    messages = list(NVLS(num_ranks, 960.0, num_chunks=num_chunks).transfers())
    assert {num_ranks} < {end for each in messages for end in (each.src, each.dst)}
    for rank in range(num_ranks):
        sent = sum(each.num_bytes for each in messages if each.src == rank)
        received = sum(each.num_bytes for each in messages if each.dst == rank)
        assert (sent, received) == pytest.approx((960 * (1 + 1 / num_ranks), 960 * (1 + 1 / num_ranks)))


def test_equal_steps_have_one_pattern() -> None:
    schedule = NVLS(4, 64.0, num_chunks=9)
    assert len({schedule.pattern(step) for step in range(schedule.num_steps)}) == 7
    for step in range(3, 9):
        assert np.array_equal(schedule.step(step).src, schedule.step(3).src)


@pytest.mark.parametrize("num_bytes", [1e5, 8e6, 64e6, 1e9])
def test_the_number_of_pieces_is_fast_with_nccl_over_nvlink(num_bytes: float) -> None:
    def seconds(num_chunks: int | None) -> float:
        return nvls_all_reduce_cost(8, num_bytes, num_chunks).seconds(4e-6, 400e9)

    assert seconds(None) <= 1.08 * min(seconds(num_chunks) for num_chunks in range(1, 100))


def test_a_single_rank_sends_nothing() -> None:
    assert NVLS(1, 8.0).num_steps == 0
    assert NVLS(1, 8.0).num_ranks == 1
    assert nvls_all_reduce_cost(1, 8.0).num_bytes == 0


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("num_chunks", [1, 2, 3, 4, 24])
def test_a_dgx_takes_the_closed_form(num_chunks: int, exact: bool) -> None:
    cluster = clustersim.load_topology(HOST)
    switch = Node([str(kind) for kind in cluster.node_kinds].index("nvswitch"))
    network = Network(Environment(), cluster, exact=exact)
    network.env.run(network.play(NVLS(8, 1e9, num_chunks=num_chunks), [*range(8), switch]))
    (link,) = cluster.route(cluster.node(0), switch).tolist()
    rate, latency_s = float(cluster.links.bytes_per_s[link]), float(cluster.links.latency_s[link])
    expected_s = nvls_all_reduce_cost(8, 1e9, num_chunks=num_chunks).seconds(latency_s, rate)
    assert network.env.now == pytest.approx(expected_s, rel=1e-9)


def test_with_many_pieces_the_time_is_that_of_the_buffer_and_a_part_and_beats_a_ring() -> None:
    cluster, num_bytes = clustersim.load_topology(HOST), 1e9
    cost = nvls_all_reduce_cost(8, num_bytes, num_chunks=10_000)
    assert cost.num_bytes == pytest.approx(num_bytes * (1 + 1 / 8), rel=1e-3)
    rows = {name: time_collective("all-reduce", cluster, name, 8, [num_bytes])["rows"][0] for name in ("nvls", "ring")}
    ideal = 2 * (7 / 8) / (1 + 1 / 8)
    assert 1.3 < rows["ring"]["time_s"] / rows["nvls"]["time_s"] < ideal
    for row in rows.values():  # busbw as in nccl-tests, for any algorithm
        assert row["busbw_bytes_per_s"] == pytest.approx(num_bytes / row["time_s"] * 2 * 7 / 8)


@pytest.mark.parametrize(
    ("changes", "num_gpus", "transport", "words"),
    [
        ({}, 16, "nccl", "the 16 GPUs are on 2 hosts, and the switch is in one"),
        ({"host": "dgx-a100"}, 8, "nccl", "the NVSwitches of a100 do not add"),
        ({"host": "dgx-1", "gpu": "v100"}, 8, "nccl", "the hosts of 'star' have no NVSwitch"),
        ({"host": {"gpu": "h100"}}, 1, "nccl", None),
        ({}, 8, "mpi", "the transport mpi has its messages in host memory, and not in the GPUs'"),
        ({}, 8, "nccl", None),
        ({"host": "dgx-b200"}, 5, "ideal", None),
    ],
)
def test_a_host_without_such_a_switch_is_refused(
    changes: dict[str, object], num_gpus: int, transport: str, words: str | None
) -> None:
    if words is None:
        assert time_collective("all-reduce", HOST | changes, "nvls", num_gpus, [1e6], transport)["rows"]
        return
    with pytest.raises(InputError) as caught:
        time_collective("all-reduce", HOST | changes, "nvls", num_gpus, [1e6], transport)
    (mistake,) = caught.value.mistakes
    assert words in mistake.message
    assert mistake.key == "algorithm"
    assert mistake.allowed == "GPUs of one host with NVSwitch, Hopper or newer, as in dgx-h100"


def test_other_collectives_do_not_have_it() -> None:
    with pytest.raises(InputError, match="no all-gather algorithm is called 'nvls'"):
        time_collective("all-gather", HOST, "nvls", 8, [1e6])


def test_training_may_reduce_in_the_switch_or_gets_an_error_at_its_line() -> None:
    scenario = {
        "model": "resnet50",
        "num_gpus": 8,
        "batch": {"per_gpu": 32},
        "topology": HOST | {"hop": "1 us"},
        "software": "plain",
        "transport": "nccl",
        "strategy": {"kind": "all-reduce", "algorithm": "nvls"},
        "num_iterations": 3,
    }
    in_switch, by_ring = (
        clustersim.simulate(scenario | {"strategy": {"kind": "all-reduce", "algorithm": name, "overlap": False}})
        for name in ("nvls", "ring")
    )
    assert [algorithm for _, _, algorithm in in_switch.buckets] == ["nvls"] * len(in_switch.buckets)
    assert 0 < in_switch.breakdown_s["communication_exposed"] < by_ring.breakdown_s["communication_exposed"]
    assert clustersim.simulate(scenario, exact=True).iteration_s == pytest.approx(
        clustersim.simulate(scenario).iteration_s, rel=1e-9
    )
    with pytest.raises(InputError) as caught:
        clustersim.load_scenario(scenario | {"num_gpus": 16})
    assert [mistake.key for mistake in caught.value.mistakes] == ["strategy.algorithm"]
