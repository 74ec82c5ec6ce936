"""Hosts of real machines, from files in the formats of the tools, and what collectives reach on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.interchange.host_of import HostTemplate, host_of
from clustersim.interchange.host_shape import HostDevice, HostJoint, HostShape
from clustersim.interchange.nccl_topo import read_nccl_topology
from clustersim.interchange.nccl_topo_write import nccl_topology_xml
from clustersim.interchange.nvidia_topo import read_topo_matrix
from clustersim.interchange.topology_files.formats import import_topology
from clustersim.interchange.training_cards import with_training_cards
from clustersim.simulate import time_collective
from clustersim.topology import load_topology

FILES = Path(__file__).parent / "topo"


def matrix_host(name: str, gpu: str) -> HostTemplate:
    return host_of(read_topo_matrix((FILES / f"{name}.topo.txt").read_text()), gpu)


def nccl_host(name: str, gpu: str) -> HostTemplate:
    return host_of(read_nccl_topology((FILES / f"{name}.nccl.xml").read_text()), gpu)


def busbw(host: HostTemplate, num_gpus: int, num_hosts: int = 1, algorithm: str = "auto", size: int = 1 << 30) -> float:
    """Return the bus rate of an all-reduce in GB/s, on hosts with NDR cards on one switch."""
    cluster = {"kind": "star", "num_hosts": num_hosts, "link": "infiniband-ndr", "host": host.host}
    (row,) = time_collective("all-reduce", cluster, algorithm, num_gpus, [size], "nccl")["rows"]
    return float(row["busbw_bytes_per_s"]) / 1e9


def of_kind(host: HostTemplate, kind: str) -> list[dict[str, Any]]:
    return [node for node in host.host["nodes"] if node["kind"] == kind]


def test_two_gpus_of_a_mesh_have_the_links_between_them_and_four_have_all() -> None:
    """NVIDIA/nccl-tests, issue 331: 4 x 25 GB/s in a pair at most, 72 measured; 12 x 25 among four."""
    host = matrix_host("a100-4gpu-nv4-mesh", "a100")
    assert busbw(host, 2) == pytest.approx(72, rel=0.1)
    assert 200 < busbw(host, 4) < 12 * 25
    assert not of_kind(host, "nvswitch")


def test_a_bridged_pair_is_quick_and_a_third_gpu_makes_it_pcie() -> None:
    """NVIDIA/nccl-tests, issue 178: 208 GB/s measured in a pair, 20 among three GPUs of which two are bridged."""
    host = matrix_host("a100-pcie-nvlink-pairs", "a100-pcie")
    assert busbw(host, 2) == pytest.approx(208, rel=0.1)
    assert busbw(host, 3) == pytest.approx(20, rel=0.05)
    assert len(of_kind(host, "socket")) == 2


def test_cards_that_are_near_no_gpu_carry_no_training() -> None:
    """NVIDIA/nccl, issue 1357: six cards, of which two are SYS to every GPU; 4 x 48 GB/s is the most."""
    host = matrix_host("h100-4-of-8-have-nic-plus-2", "h100")
    assert [card["name"] for card in of_kind(host, "nic")] == ["NIC0", "NIC1", "NIC2", "NIC3"]
    assert "the cards NIC4, NIC5 are nearer to no GPU" in host.notes[0]
    assert busbw(host, 16, 2, "ring") == pytest.approx(188, rel=0.01)


def test_slow_cards_of_a_dump_are_left_out_and_the_others_have_their_rate() -> None:
    """After NVIDIA/nccl, issues 1505 and 1453: eight cards of 400 Gbit/s and two bonds of 25."""
    host = nccl_host("h100-8x400g-2x25g", "h100")
    cards = of_kind(host, "nic")
    assert [card["link"] for card in cards] == ["400 Gbit/s"] * 8
    assert host.link == "400 Gbit/s"
    assert "mlx5_bond_0, mlx5_bond_1 are" in host.notes[0]
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "1 TB/s", "host": host.host})
    first = cluster.route(*cluster.gpus[[0, 8]].tolist())
    assert cluster.links.bytes_per_s[first].min() == 50e9


def shape_of(nics: list[tuple[str, float | None]]) -> HostShape:
    """Return two GPUs, each on a switch of a socket, a third socket, and cards below these."""
    devices = [
        HostDevice(name, name[:-1]) for name in ("gpu0", "gpu1", "plx0", "plx1", "socket0", "socket1", "socket2")
    ]
    joints = [HostJoint(f"gpu{number}", f"plx{number}", "pcie") for number in (0, 1)]
    joints += [HostJoint(f"plx{number}", f"socket{number}", "pcie") for number in (0, 1)]
    for number, (above, rate) in enumerate(nics):
        devices.append(HostDevice(f"nic{number}", "nic", rate))
        joints.append(HostJoint(f"nic{number}", above, "pcie"))
    return HostShape(tuple(devices), tuple(joints))


@pytest.mark.parametrize(
    ("nics", "kept"),
    [
        ([("plx0", 50e9), ("plx1", 50e9), ("socket0", 50e9)], [0, 1]),  # one is farther from every GPU
        ([("plx0", 50e9), ("socket1", 50e9), ("socket2", 50e9)], [0, 1]),  # one is on no GPU's socket
        ([("socket2", 50e9), ("socket2", 50e9)], [0, 1]),  # no card is on a GPU's socket
        ([("plx0", 50e9), ("plx0", 3e9), ("plx1", 50e9)], [0, 2]),  # 2 x 50 is more than 3 x 3
        ([("plx0", 50e9), ("plx1", 25e9)], [0, 1]),  # 2 x 25 is as much as 50
        ([("plx0", None), ("plx1", 25e9)], [0, 1]),  # of one the rate is not known
    ],
)
def test_cards_of_training_are_the_nearest_and_of_a_speed_that_makes_most_of_them(
    nics: list[tuple[str, float | None]], kept: list[int]
) -> None:
    shape, notes = with_training_cards(shape_of(nics))
    assert [card.name for card in shape.nics] == [f"nic{number}" for number in kept]
    assert bool(notes) == (len(kept) < len(nics))


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("a100-4gpu-nv4-mesh.topo.txt", "a100"),
        ("a100-pcie-nvlink-pairs.topo.txt", "a100-pcie"),
        ("h100-8x400g-2x25g.nccl.xml", None),
        ("mi300x-xgmi-4gpu.nccl.xml", None),
    ],
)
def test_the_command_makes_a_topology_file_of_each(name: str, gpu: str | None, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    told = [] if gpu is None else ["--gpu", gpu]
    command = ["import", "topology", str(FILES / name), *told, "--hosts", "2", "--link", "400 Gbit/s", "-o", str(path)]
    assert main(command) == 0
    cluster = load_topology(path)
    assert cluster.num_hosts == 2
    found = import_topology([FILES / name], gpu, 2, "400 Gbit/s").mapping
    assert cluster.num_gpus == 2 * sum(node["kind"] == "gpu" for node in found["host"]["nodes"])


@pytest.mark.parametrize(
    ("link", "note"),
    [
        ("200 Gbit/s", "--link 200 Gbit/s instead of the file's 400 Gbit/s of a network card"),
        ("infiniband-hdr", "--link infiniband-hdr instead of the file's 400 Gbit/s of a network card"),
        ("infiniband-ndr", None),
        ("400 Gbit/s", None),
    ],
)
def test_a_link_beside_the_rate_of_the_file_is_noted(link: str, note: str | None, tmp_path: Path) -> None:
    cluster = load_topology({"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "400 Gbit/s"})
    path = tmp_path / "host.xml"
    path.write_text(nccl_topology_xml(cluster))
    found = import_topology([path], num_hosts=2, link=link)
    assert found.mapping["link"] == link
    assert [each for each in found.notes if "--link" in each] == ([] if note is None else [note])


def test_cards_of_an_explicit_host_keep_their_rate_beside_a_link() -> None:
    path = FILES / "h100-8x400g-2x25g.nccl.xml"
    found = import_topology([path], num_hosts=2, link="800 Gbit/s")
    assert any("--link 800 Gbit/s instead of the file's 400 Gbit/s: the host's cards keep" in n for n in found.notes)
    cluster = load_topology(found.mapping)
    route = cluster.route(int(cluster.gpus[0]), int(cluster.gpus[8]))
    assert cluster.links.bytes_per_s[route].min() == pytest.approx(50e9)


def test_xgmi_joins_gpus_as_nvlink_does() -> None:
    """ROCm/rccl, pull request 889: every pair of MI300X has one xGMI link."""
    host = nccl_host("mi300x-xgmi-4gpu", "mi300x")
    cluster = load_topology({"kind": "star", "num_hosts": 1, "link": "1 GB/s", "host": host.host})
    for a in range(4):
        for b in range(4):
            if a != b:
                (link,) = cluster.route(*cluster.gpus[[a, b]].tolist()).tolist()
                assert cluster.links.bytes_per_s[link] == 48e9
    assert busbw(host, 2) == pytest.approx(48, rel=0.01)
    assert busbw(host, 4) == pytest.approx(3 * 48, rel=0.01)
