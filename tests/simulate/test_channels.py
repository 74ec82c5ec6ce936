"""NCCL over all adapters of a host: every ring's share, the closed form, and what is chosen on which machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.collectives import COLLECTIVES
from clustersim.hardware import load_transport
from clustersim.simulate import time_collective
from clustersim.topology import Topology, load_topology

GIB = 1024.0**3
A100 = {"template": "dgx-a100"}
H100 = {"template": "dgx-h100"}


def star(num_hosts: int, host: dict[str, Any]) -> Topology:
    cluster = {"kind": "star", "num_hosts": num_hosts, "link": "100 Gbit/s", "hop": "1 us", "host": host}
    return load_topology(cluster)


def seconds(cluster: Topology, num_gpus: int, num_bytes: float, **asked: Any) -> float:
    asked = {"op": "all-reduce", "algorithm": "ring", "transport": "nccl"} | asked
    row = time_collective(topology=cluster, num_gpus=num_gpus, sizes=[num_bytes], **asked)["rows"][0]
    return float(row["time_s"])


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("op", "times_round"), [("all-reduce", 2), ("all-gather", 1), ("reduce-scatter", 1)])
@pytest.mark.parametrize("nics", [1, 4, 8])
def test_rings_over_k_adapters_take_the_closed_form(nics: int, op: str, times_round: int, exact: bool) -> None:
    """A step waits for the mean hop and crosses a host's border: L + b / (n k) / rate, n - 1 times, or twice as often.

    Inside a host the shares of the other rings go over faster links meanwhile. A100 have a plateau of 1.4,
    and Simple starts in 8.4 us, with hops of 3.4 us inside a host.
    """
    cluster, num_gpus, num_bytes = star(2, A100 | {"nics": nics}), 16, GIB
    nccl = load_transport("nccl")
    assert not nccl.adds  # or else adding what has crossed would come on top
    ends = [int(node) for node in cluster.gpus[[7, 8]]]
    outside_s = float(cluster.links.latency_s[cluster.route(*ends)].sum()) + nccl.overhead_s
    latency_s = 1.4 * (2 * outside_s + 14 * 3.4e-6) / num_gpus
    expected = times_round * (num_gpus - 1) * (latency_s + num_bytes / (num_gpus * nics) / 12.5e9) + 1.4 * 8.4e-6
    assert seconds(cluster, num_gpus, num_bytes, op=op, exact=exact) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["ring", "double-tree"])
@pytest.mark.parametrize(
    ("host", "num_hosts"),
    [(H100, 3), (A100 | {"nics": 4}, 2), ({"template": "dgx-1", "gpu": "v100"}, 1), ({"template": "dgx-1"}, 2)],
)
@pytest.mark.parametrize("num_bytes", [0.0, 3e5, 5e9])
def test_exact_gives_the_same_times_over_all_adapters(
    algorithm: str, host: dict[str, Any], num_hosts: int, num_bytes: float
) -> None:
    cluster = star(num_hosts, host)
    quick, exact = (
        seconds(cluster, 8 * num_hosts, num_bytes, algorithm=algorithm, exact=each) for each in (False, True)
    )
    assert quick == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce"])
def test_eight_adapters_are_nearly_eight_times_as_fast_as_one(op: str) -> None:
    one, eight = (seconds(star(2, H100 | {"nics": nics}), 16, 16 * GIB, op=op) for nics in (1, 8))
    assert 6 < one / eight <= 8 * (1 + 1e-9)


def test_the_rings_of_a_dgx_1_use_all_six_nvlinks_of_a_gpu() -> None:
    cluster = star(1, {"template": "dgx-1", "gpu": "v100"})
    (link,) = cluster.route(*(int(node) for node in cluster.gpus[[0, 1]])).tolist()
    one = float(cluster.links.bytes_per_s[link])
    busbw = 2 * 7 / 8 * 4 * GIB / seconds(cluster, 8, 4 * GIB)
    assert 0.85 * 6 * one < busbw < 6 * one


def test_other_transports_run_one_ring_in_the_order_of_ranks() -> None:
    cluster = star(2, H100)
    known = COLLECTIVES["all-reduce"]["ring"](16, 1e9)
    assert known.num_transfers() == 30 * 16
    slow = seconds(cluster, 16, GIB, transport="ideal")
    assert slow == pytest.approx(30 * GIB / 16 / 12.5e9, rel=1e-3)
    assert seconds(cluster, 16, GIB) < slow / 5


@pytest.mark.parametrize(
    ("host", "num_gpus", "num_bytes", "name"),
    [
        (H100, 8, GIB, "nvls"),
        (H100, 8, 1e3, "ring"),
        (H100, 2, GIB, "ring"),
        (A100, 8, GIB, "ring"),
        (A100, 16, GIB, "double-tree"),
        (A100, 24, GIB, "ring"),
        (A100, 24, 1e5, "double-tree"),
    ],
)
def test_auto_takes_what_nccl_would_on_such_a_machine(
    host: dict[str, Any], num_gpus: int, num_bytes: float, name: str
) -> None:
    document = time_collective("all-reduce", star(3, host), "auto", num_gpus, [num_bytes], transport="nccl")
    assert document["rows"][0]["algorithm"] == name


@pytest.mark.parametrize("algorithm", ["ring", "double-tree"])
def test_a_training_with_nccl_leaves_no_adapter_idle(algorithm: str) -> None:
    scenario = {
        "model": "resnet50",
        "num_gpus": 16,
        "batch": {"per_gpu": 32},
        "topology": {"kind": "star", "num_hosts": 2, "link": "infiniband-ndr", "host": "dgx-h100"},
        "software": "plain",
        "strategy": {"kind": "all-reduce", "algorithm": algorithm},
        "num_iterations": 3,
    }
    with_nccl, without = (clustersim.sweep(scenario | {"transport": name}) for name in ("nccl", "mpi-cuda"))
    assert with_nccl.runs[0].adapters == (8, 8)
    assert not any("network adapters" in warning for warning in with_nccl.warnings)
    assert without.runs[0].adapters != (8, 8)
    assert any("network adapters" in warning for warning in without.warnings)
    exact = clustersim.simulate(scenario | {"transport": "nccl"}, exact=True)
    assert with_nccl.runs[0].iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)


def test_ranks_dealt_to_hosts_in_turn_go_through_each_host_in_one_go() -> None:
    cluster = star(2, H100 | {"nics": 1})
    in_turn = np.arange(16).reshape(2, 8).T.ravel().tolist()
    scenario = {
        "model": "resnet50",
        "num_gpus": 16,
        "batch": {"per_gpu": 32},
        "topology": {"kind": "star", "num_hosts": 2, "link": "100 Gbit/s", "host": H100 | {"nics": 1}},
        "software": "plain",
        "transport": "nccl",
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "num_iterations": 3,
    }
    assert cluster.num_gpus == 16
    block, spread = (clustersim.simulate(scenario | {"placement": each}) for each in ("block", in_turn))
    assert spread.iteration_s == pytest.approx(block.iteration_s, rel=1e-9)
