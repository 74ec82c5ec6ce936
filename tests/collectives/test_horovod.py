"""Horovod's hierarchical all-reduce: the sum is right, and MPI's part is between host memories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clustersim
from clustersim.collectives import ALL_REDUCE, IN_HOST_MEMORY, play
from clustersim.communicator.algorithm import schedule_collective
from clustersim.communicator.extra_ranks import extra_ranks
from clustersim.communicator.pauses import pauses_s
from clustersim.errors import InputError
from clustersim.hardware import load_cpu, load_transport
from clustersim.simulate import time_collective
from clustersim.topology import load_topology
from tests.simulate.shortcut_checks import check_is_exact

HOROVOD = IN_HOST_MEMORY["all-reduce"]["horovod-hierarchical"]
HOST = {"template": "dual-socket", "gpu": "v100-pcie", "num_gpus": 4, "nics": 1, "cpu": "xeon-e5-2686-v4"}
CLUSTER = {"kind": "star", "num_hosts": 4, "host": HOST, "link": "1 GB/s"}


@given(sizes=st.lists(st.integers(1, 5), min_size=2, max_size=5), width=st.integers(0, 40), seed=st.integers(0, 99))
def test_every_gpu_ends_with_the_sum_for_any_numbers(sizes: list[int], width: int, seed: int) -> None:
    num_ranks = sum(sizes)
    buffers = np.random.default_rng(seed).integers(-1000, 1000, (num_ranks, width))
    with_memories = np.vstack([buffers, np.full((num_ranks, width), 77)])
    result = play(HOROVOD(num_ranks, 8.0, ranks_per_host=sizes), with_memories)
    assert np.array_equal(result[:num_ranks], np.tile(buffers.sum(axis=0), (num_ranks, 1)))


def test_messages_between_hosts_use_host_memory_and_each_gpu_copies_its_shard() -> None:
    num_ranks, num_bytes = 8, 960.0
    messages = list(HOROVOD(num_ranks, num_bytes, ranks_per_host=4).transfers())
    copies = {(each.src, each.dst, each.num_bytes) for each in messages if abs(each.src - each.dst) == num_ranks}
    assert copies == {ends for gpu in range(8) for ends in ((gpu, gpu + 8, 240.0), (gpu + 8, gpu, 240.0))}
    assert not [each for each in messages if each.src < 8 and each.dst < 8 and each.src // 4 != each.dst // 4]
    plain = [each for each in ALL_REDUCE["hierarchical"](8, num_bytes, ranks_per_host=4).transfers()]
    assert len(messages) - 16 == len(plain)


def test_on_unequal_hosts_one_gpu_of_each_copies_all() -> None:
    messages = HOROVOD(5, 960.0, ranks_per_host=[3, 2]).transfers()
    assert {(each.src, each.dst, each.num_bytes) for each in messages if each.dst >= 5 > each.src} == {
        (0, 5, 960.0),
        (3, 8, 960.0),
    }


def test_hosts_of_one_gpu_take_the_copies_and_a_ring_that_adds_on_a_core() -> None:
    """b / PCIe twice, 2 (n - 1) of b / n over the link, and (n - 1) sums of 3 b / n at a core's rate."""
    cluster = load_topology(CLUSTER | {"host": HOST | {"num_gpus": 1}})
    gpus, num_bytes, ring_s = np.arange(4), 4e8, 2 * 3 * 4e8 / 4 / 1e9
    _, schedule = schedule_collective("all-reduce", "horovod-hierarchical", cluster, gpus, num_bytes, "nccl")
    pcie = cluster.links.bytes_per_s[cluster.route(int(cluster.gpus[0]), int(cluster.memory[0]))].min()
    cpu = load_cpu("xeon-e5-2686-v4")
    sums_s = 3 * 3 * num_bytes / 4 / min(cpu.core_bytes_per_s, cpu.memory_bytes_per_s)
    found = {
        transport: time_collective("all-reduce", cluster, "horovod-hierarchical", 4, [num_bytes], transport)["rows"][0]
        for transport in ("nccl", "ideal")
    }
    assert found["ideal"]["time_s"] == pytest.approx(2 * num_bytes / pcie + ring_s, rel=1e-3)
    assert found["nccl"]["time_s"] - found["ideal"]["time_s"] == pytest.approx(sums_s, rel=1e-2)
    assert [cluster.node_kinds[node] for node in extra_ranks(schedule, cluster, gpus)] == ["memory"] * 4


def test_ranks_of_one_memory_share_its_rate_when_they_add() -> None:
    cluster = load_topology(CLUSTER | {"host": HOST | {"num_gpus": 16}})
    gpus = np.arange(64)
    _, schedule = schedule_collective("all-reduce", "horovod-hierarchical", cluster, gpus, 64e6, "nccl")
    delay_s = pauses_s(schedule, cluster, gpus, "nccl", "all-reduce", "horovod-hierarchical")
    assert delay_s is not None
    cpu = load_cpu("xeon-e5-2686-v4")
    assert cpu.memory_bytes_per_s / 8 < cpu.core_bytes_per_s
    assert delay_s.max() == pytest.approx(3 * 64e6 / 16 / 4 / (cpu.memory_bytes_per_s / 8))
    assert (delay_s[:64] == 0).all()
    assert (np.count_nonzero(delay_s[64:], axis=1) == 3).all()


def test_every_message_played_takes_as_long_as_the_shortcut() -> None:
    given = ("all-reduce", CLUSTER, "horovod-hierarchical", 16, [1e6, 3e7], "nccl-sockets")
    rows = [[row["time_s"] for row in time_collective(*given, exact=exact)["rows"]] for exact in (False, True)]
    assert rows[0] == pytest.approx(rows[1], rel=1e-9)


def test_on_one_host_it_is_a_ring_of_nccl() -> None:
    rows = [
        time_collective("all-reduce", CLUSTER, name, 4, [1e7], "nccl")["rows"]
        for name in ("horovod-hierarchical", "ring")
    ]
    assert rows[0] == rows[1]
    assert rows[0][0]["algorithm"] == "ring"


def test_a_transport_whose_messages_begin_in_host_memory_is_refused() -> None:
    assert load_transport("tcp").buffers == "host"
    with pytest.raises(InputError, match="copies between GPUs and host memory by itself") as caught:
        time_collective("all-reduce", CLUSTER, "horovod-hierarchical", 8, [1e6], "tcp")
    (mistake,) = caught.value.mistakes
    assert (mistake.key, mistake.got) == ("algorithm", "tcp")


def test_training_by_it_is_slower_than_where_nothing_is_copied() -> None:
    scenario = {
        "model": "resnet50",
        "num_gpus": 8,
        "batch": {"per_gpu": 32},
        "topology": CLUSTER,
        "software": "plain",
        "transport": "nccl-sockets",
        "num_iterations": 2,
    }
    seconds = {
        name: clustersim.simulate(
            scenario | {"strategy": {"kind": "all-reduce", "algorithm": name, "overlap": False}}
        ).iteration_s
        for name in ("horovod-hierarchical", "hierarchical")
    }
    assert seconds["horovod-hierarchical"] > 1.02 * seconds["hierarchical"]
    exact = clustersim.simulate(
        scenario | {"strategy": {"kind": "all-reduce", "algorithm": "horovod-hierarchical", "overlap": False}},
        exact=True,
    )
    assert exact.iteration_s == pytest.approx(seconds["horovod-hierarchical"], rel=1e-9)


def test_replicas_of_a_split_model_use_it() -> None:
    scenario = {
        "model": "gpt2-small",
        "num_gpus": 8,
        "batch": {"per_gpu": 2},
        "topology": CLUSTER,
        "software": "plain",
        "transport": "nccl-sockets",
        "parallelism": {"tensor": 2, "sharding": "none"},
        "num_iterations": 2,
    }
    strategy = {"kind": "all-reduce", "overlap": False, "buckets": "whole"}
    horovod, plain, exact = (
        clustersim.simulate(scenario | {"strategy": strategy | {"algorithm": name}}, exact=exact).iteration_s
        for name, exact in (
            ("horovod-hierarchical", False),
            ("hierarchical", False),
            ("horovod-hierarchical", True),
        )
    )
    assert horovod > 1.02 * plain
    assert exact == pytest.approx(horovod, rel=1e-9)


def test_ranks_with_shared_memory_are_not_folded() -> None:
    """On a DGX-1 two GPUs behind a switch have an adapter, and all four of a socket one memory."""
    check_is_exact(
        {
            "model": "gpt-4x512x8-seq256",
            "num_gpus": 16,
            "batch": {"global": 32},
            "topology": {"kind": "star", "num_hosts": 2, "host": "dgx-1", "link": "10 Gbit/s"},
            "software": "plain",
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "horovod-hierarchical", "buckets": "4 MiB"},
            "parallelism": {"tensor": 4, "micro_batches": 8},
            "num_iterations": 2,
            "memory_check": False,
        }
    )
