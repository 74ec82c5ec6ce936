"""The algorithm of a collective on a cluster."""

import numpy as np
import pytest

from clustersim.communicator.algorithm import algorithm_name, check_algorithm, schedule_collective
from clustersim.errors import InputError
from clustersim.simulate.collective import time_collective
from clustersim.topology import load_topology

PCIE = {"template": "dual-socket", "gpu": "rtx-2080-ti", "num_gpus": 4}


def named(host, num_hosts: int, num_bytes: float, op: str = "all-reduce") -> str:
    cluster = load_topology({"kind": "star", "num_hosts": num_hosts, "link": "100 Gbit/s", "host": host})
    return algorithm_name(op, "nccl-2.4", cluster, np.arange(cluster.num_gpus), num_bytes, "nccl")


def test_nccl_of_2019_takes_trees_between_two_hosts_where_there_is_nvlink():
    assert (named(PCIE, 2, 1e5), named(PCIE, 2, 1e6)) == ("double-tree", "ring")
    assert (named("dgx-1", 2, 1e9), named("dgx-2", 2, 1e9)) == ("double-tree", "double-tree")


def test_nccl_of_2019_has_rings_inside_a_host_and_for_other_collectives():
    assert named("dgx-1", 1, 1e3) == "ring"
    assert named(PCIE, 2, 1e3, "all-gather") == "ring"


def test_a_choice_of_nccl_needs_nccl():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "100 Gbit/s", "host": PCIE})
    with pytest.raises(InputError, match=r"nccl-2\.4 is how NCCL chooses; with the transport tcp write auto"):
        check_algorithm("all-reduce", "nccl-2.4", cluster, np.arange(8), "tcp")


@pytest.mark.parametrize(("num_bytes", "name"), [(9e3, "doubling"), (1e6, "ring"), (1e8, "segmented-ring")])
def test_open_mpi_adds_in_rings_where_mpich_halves_and_doubles(num_bytes, name):
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "100 Gbit/s", "host": PCIE})
    assert algorithm_name("all-reduce", "open-mpi-4.0", cluster, np.arange(8), num_bytes, "mpi") == name
    assert algorithm_name("all-reduce", "auto", cluster, np.arange(8), num_bytes, "mpi") == "halving-doubling"
    assert algorithm_name("all-reduce", "open-mpi-4.1", cluster, np.arange(8), num_bytes, "mpi") == "halving-doubling"
    assert algorithm_name("broadcast", "open-mpi-4.0", cluster, np.arange(8), 1e3, "mpi") == "tree"


def test_a_choice_of_open_mpi_needs_mpi():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "100 Gbit/s", "host": PCIE})
    with pytest.raises(InputError, match=r"open-mpi-4\.0 is how Open MPI chooses; with the transport nccl write auto"):
        check_algorithm("all-reduce", "open-mpi-4.0", cluster, np.arange(8), "nccl")


@pytest.mark.parametrize("transport", ["nccl", "nccl-sockets", "nccl-one-socket", "nccl-roce", "nccl-omni-path"])
def test_nccl_2_4_is_available_with_all_transports_of_nccl(transport):
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "10 Gbit/s", "host": PCIE})
    check_algorithm("all-reduce", "nccl-2.4", cluster, np.arange(8), transport)


@pytest.mark.parametrize("gpus", [range(8), (5, 0, 4, 2)])
def test_nccl_1_has_one_ring_in_the_order_of_gpus_whatever_nvlinks_there_are(gpus):
    cluster, own = load_topology("dgx-1"), np.array(gpus)
    name, schedule = schedule_collective("all-reduce", "nccl-1", cluster, own, 1e9, "nccl")
    hops = {(int(own[transfer.src]), int(own[transfer.dst])) for transfer in schedule.transfers()}
    order = sorted(gpus)
    assert name == "ring"
    assert hops == set(zip(order, [*order[1:], order[0]], strict=True))
    assert schedule.num_steps == 2 * (len(own) - 1)


@pytest.mark.parametrize("op", ["all-gather", "reduce-scatter", "broadcast", "reduce"])
def test_all_collectives_of_nccl_1_go_along_its_ring(op):
    cluster = load_topology("dgx-1")
    name, schedule = schedule_collective(op, "nccl-1", cluster, np.arange(8), 1e9, "nccl")
    hops = {frozenset((transfer.src, transfer.dst)) for transfer in schedule.transfers()}
    assert name == "ring"
    assert hops <= {frozenset((rank, (rank + 1) % 8)) for rank in range(8)}


def test_nccl_1_does_not_leave_a_host():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "100 Gbit/s", "host": PCIE})
    check_algorithm("all-reduce", "nccl-1", cluster, np.arange(4), "nccl")
    with pytest.raises(InputError, match=r"NCCL 1 is for the GPUs of one host, and the 8 GPUs are on 2"):
        check_algorithm("all-reduce", "nccl-1", cluster, np.arange(8), "nccl")
    with pytest.raises(InputError, match=r"nccl-1 is how NCCL chooses; with the transport cuda-copies write auto"):
        check_algorithm("all-reduce", "nccl-1", cluster, np.arange(4), "cuda-copies")


def taken_s(cluster, num_gpus: int, transport: str) -> float:
    """Return how long an all-reduce of 4 GB takes."""
    return time_collective("all-reduce", cluster, "auto", num_gpus, [4e9], transport)["rows"][0]["time_s"]


@pytest.mark.parametrize(("gpus_of_host", "measured_s"), [(8, 1.530), (4, 1.505)])
def test_omni_path_has_one_way_out_of_a_host(gpus_of_host, measured_s):
    """4 GB round four hosts of Jean Zay (BigScience, experiments/bandwidth): the rate of a connection, not of adapters.

    A connection carries 2 (n - 1) / n of all bytes, and with four channels each of the four would a quarter of them.
    """
    host = {"template": "dgx-a100", "num_gpus": gpus_of_host, "nics": 4}
    cluster, num = {"kind": "star", "num_hosts": 4, "link": "100 Gbit/s", "host": host}, 4 * gpus_of_host
    one, several = (taken_s(cluster, num, each) for each in ("nccl-omni-path", "nccl"))
    assert one == pytest.approx(4e9 * 2 * (num - 1) / num / 5.06e9, rel=1e-2)
    assert one == pytest.approx(measured_s, rel=2e-2)
    assert several < one / 5


def test_on_omni_path_the_rate_of_the_one_way_chooses_between_rings_and_trees():
    """One adapter of 12.5 GB/s, and not four: rings from fewer bytes on, since trees count on a channel's 17.8 GB/s."""
    host = {"template": "dgx-a100", "nics": 4}
    cluster = {"kind": "star", "num_hosts": 4, "link": "100 Gbit/s", "host": host}
    sizes = [float(2**power) for power in range(16, 32)]

    def chosen(cluster, transport):
        topology = load_topology(cluster)
        return [algorithm_name("all-reduce", "auto", topology, np.arange(32), size, transport) for size in sizes]

    one_adapter = {**cluster, "host": {**host, "nics": 1}}
    assert chosen(cluster, "nccl-omni-path") == chosen(one_adapter, "nccl") != chosen(cluster, "nccl")


def test_omni_path_changes_nothing_inside_a_host():
    host = {"template": "dgx-a100", "nics": 4}
    cluster = {"kind": "star", "num_hosts": 4, "link": "100 Gbit/s", "host": host}
    assert taken_s(cluster, 8, "nccl-omni-path") == taken_s(cluster, 8, "nccl")
