"""Which algorithm a collective runs on a cluster."""

import numpy as np
import pytest

from clustersim.errors import InputError
from clustersim.strategies.algorithm import algorithm_name, check_algorithm
from clustersim.topology import load_topology

PCIE = {"template": "dual-socket", "gpu": "rtx-2080-ti", "num_gpus": 4}


def named(host, num_hosts: int, num_bytes: float, op: str = "all-reduce") -> str:
    cluster = load_topology({"kind": "star", "num_hosts": num_hosts, "link": "100 Gbit/s", "host": host})
    return algorithm_name(op, "nccl-2.4", cluster, np.arange(cluster.num_gpus), num_bytes, "nccl")


def test_nccl_of_2019_takes_trees_between_two_hosts_where_there_is_nvlink():
    assert (named(PCIE, 2, 1e5), named(PCIE, 2, 1e6)) == ("double-tree", "ring")
    assert (named("dgx-1", 2, 1e9), named("dgx-2", 2, 1e9)) == ("double-tree", "double-tree")


def test_nccl_of_2019_has_rings_inside_a_host_and_for_what_is_no_all_reduce():
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
