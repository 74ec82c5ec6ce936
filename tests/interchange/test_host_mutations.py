"""Mutated descriptions of hosts are read, or refused clearly and quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

from clustersim.interchange.host_of import host_of
from clustersim.interchange.nccl_topo import read_nccl_topology
from clustersim.interchange.topology_files.formats import import_topology
from clustersim.topology import topology_spec
from tests.interchange import test_lstopo as lstopo
from tests.interchange import test_rocm_topo as rocm
from tests.mutations import check_mutations

FILES = Path(__file__).parent / "topo"


def lstopo_document() -> str:
    switch = lstopo.port(lstopo.port(lstopo.gpu(0)), lstopo.port(lstopo.gpu(1)), lstopo.card(9, "mlx5_0"))
    links = lstopo.matrix(["OSDev:200", "OSDev:201"], [[1_000_000, 100_000], [100_000, 1_000_000]])
    return lstopo.topology(lstopo.package(0, lstopo.root_complex(switch)), lstopo.package(1), matrices=links)


DOCUMENTS = {
    "nccl": (FILES / "h100-8x400g-2x25g.nccl.xml").read_bytes(),
    "nvidia-smi": (FILES / "h100-4-of-8-have-nic-plus-2.topo.txt").read_bytes(),
    "lstopo": lstopo_document().encode(),
    "rocm-smi": rocm.output(rocm.square(8, "XGMI"), rocm.square(8, "15"), [0] * 4 + [1] * 4).encode(),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_mutations_of_a_host_are_read_or_refused(name: str, tmp_path: Path) -> None:
    def read(path: Path) -> object:
        return import_topology([path], "h100", 2, "100 Gbit/s", name)

    was_read, refused = check_mutations(read, DOCUMENTS[name], tmp_path / "host.txt")
    assert was_read > 20
    assert refused > 20


def test_mutations_of_a_host_given_node_by_node_are_read_or_refused(tmp_path: Path) -> None:
    host = host_of(read_nccl_topology((FILES / "mi300x-xgmi-4gpu.nccl.xml").read_text()), "mi300x").host
    rows = [f"  {key}: {value}".replace("'", '"') for key, value in host.items()]
    document = "\n".join(["kind: star", "num_hosts: 2", "link: 100 Gbit/s", "host:", *rows, ""]).encode()
    was_read, refused = check_mutations(lambda path: topology_spec(path).build(), document, tmp_path / "host.yaml")
    assert was_read > 5
    assert refused > 100
