"""NCCL 1's single thread block: its memory traffic limits a ring if it takes longer than the links."""

from __future__ import annotations

import numpy as np
import pytest

import clustersim
from clustersim.collectives.nccl_1 import block_moves
from clustersim.communicator.algorithm import schedule_collective
from clustersim.communicator.pauses import pauses_s
from clustersim.errors import InputError
from clustersim.hardware import load_gpu, load_link
from clustersim.simulate import time_collective
from clustersim.topology import load_topology

HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 8, "plx_per_socket": 2, "cpu": "xeon-e5-2680-v3"}
CLUSTER = {"kind": "star", "num_hosts": 1, "host": HOST, "link": "10 Gbit/s"}
BLOCK = (load_gpu("k80").l2_bytes_per_s or 0) / load_gpu("k80").num_multiprocessors
PCIE = load_link("pcie-3-x16").bytes_per_s


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("processes", [False, True])
def test_a_block_reads_and_writes_what_the_kernel_of_nccl_1_does(num_ranks: int, processes: bool) -> None:
    """A copy, n - 2 sums, a sum that is kept and sent, n - 2 forwarded chunks, which processes also keep."""
    moves = block_moves(num_ranks, processes)
    assert len(moves) == 2 * (num_ranks - 1)
    reads_and_writes = 2 + 3 * (num_ranks - 2) + 4 + (3 if processes else 2) * (num_ranks - 2)
    assert moves.sum() == reads_and_writes


@pytest.mark.parametrize(
    ("algorithm", "seconds"),
    [
        ("nccl-1", lambda half: max(2 * half / BLOCK, half / PCIE) + 4 * half / BLOCK),
        ("nccl-1-processes", lambda half: max(2 * half / BLOCK, half / PCIE) + 4 * half / BLOCK + 2 * half / BLOCK),
        ("ring", lambda half: 2 * half / PCIE),
    ],
)
def test_two_dies_of_a_board_take_the_time_of_their_blocks(algorithm: str, seconds: object) -> None:
    assert 25e9 < BLOCK < 26e9
    assert callable(seconds)
    (row,) = time_collective("all-reduce", CLUSTER, algorithm, 2, [1e9], "nccl")["rows"]
    assert row["time_s"] == pytest.approx(seconds(0.5e9), rel=1e-3)


@pytest.mark.parametrize("algorithm", ["nccl-1", "nccl-1-processes"])
@pytest.mark.parametrize("num_gpus", [2, 4, 8])
def test_every_message_played_takes_as_long_as_the_shortcut(algorithm: str, num_gpus: int) -> None:
    given = ("all-reduce", CLUSTER, algorithm, num_gpus, [4096, 1e6, 3e8], "nccl")
    rows = [[row["time_s"] for row in time_collective(*given, exact=exact)["rows"]] for exact in (False, True)]
    assert rows[0] == pytest.approx(rows[1], rel=1e-9)


def test_a_gpu_without_a_known_block_rate_has_no_pauses() -> None:
    assert load_gpu("titan-x-maxwell").l2_bytes_per_s is None
    cluster = load_topology(CLUSTER | {"host": HOST | {"gpu": "titan-x-maxwell", "num_gpus": 4}})
    gpus = np.arange(4)
    _, schedule = schedule_collective("all-reduce", "nccl-1", cluster, gpus, 1e9, "nccl")
    assert pauses_s(schedule, cluster, gpus, "nccl", "all-reduce", "nccl-1") is None


def test_other_collectives_of_nccl_1_and_other_choices_have_no_pauses() -> None:
    cluster, gpus = load_topology(CLUSTER), np.arange(4)
    for op, algorithm in (("broadcast", "nccl-1"), ("all-gather", "nccl-1"), ("all-reduce", "auto")):
        _, schedule = schedule_collective(op, algorithm, cluster, gpus, 1e9, "nccl")
        assert pauses_s(schedule, cluster, gpus, "nccl", op, algorithm) is None


def test_training_with_a_process_for_each_gpu_waits_longer() -> None:
    scenario = {
        "model": "alexnet",
        "num_gpus": 4,
        "batch": {"per_gpu": 128},
        "topology": CLUSTER,
        "software": "plain",
        "transport": "nccl",
        "num_iterations": 2,
    }
    exposed = {
        name: clustersim.simulate(
            scenario | {"strategy": {"kind": "all-reduce", "algorithm": name, "overlap": False, "buckets": "tensor"}}
        ).breakdown_s["communication_exposed"]
        for name in ("ring", "nccl-1", "nccl-1-processes")
    }
    assert exposed["ring"] < exposed["nccl-1"] < exposed["nccl-1-processes"]


def test_more_hosts_than_one_are_refused_by_either_name() -> None:
    for algorithm in ("nccl-1", "nccl-1-processes"):
        with pytest.raises(InputError, match="NCCL 1 is for the GPUs of one host"):
            time_collective("all-reduce", CLUSTER | {"num_hosts": 2}, algorithm, 16, [1e6], "nccl")
