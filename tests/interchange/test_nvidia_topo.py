"""Matrices of `nvidia-smi topo -m`, written by hand in its format, and their templates."""

from __future__ import annotations

import pytest

from clustersim.errors import InputError
from clustersim.interchange.host_shape import HostShape, nearest_template
from clustersim.interchange.nvidia_topo import read_topo_matrix
from clustersim.topology import load_topology

LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"


def matrix(cells: list[list[str]], nics: int = 0, affinity: bool = True) -> str:
    """Return what the tool prints for GPUs that hang together like this; network cards lie with GPUs in turn."""
    gpus = len(cells)
    names = [f"GPU{number}" for number in range(gpus)] + [f"NIC{number}" for number in range(nics)]
    lines = ["\x1b[4m\t" + "\t".join(names) + ("\tCPU Affinity\tNUMA Affinity" if affinity else "") + "\x1b[0m"]
    for a in range(gpus):
        sides = ["PXB" if a * nics // gpus == nic else "SYS" for nic in range(nics)]
        lines.append("\t".join([names[a], *cells[a], *sides, *(["0-51,104-155", "0"] if affinity else [])]))
    for nic in range(nics):
        lines.append("\t".join([names[gpus + nic], *["SYS"] * gpus, *["X"] * nics]))
    return "\n".join(lines) + LEGEND


def alike(num_gpus: int, code: str) -> list[list[str]]:
    return [["X" if a == b else code for b in range(num_gpus)] for a in range(num_gpus)]


def groups(sizes: list[int], inside: str, outside: str) -> list[list[str]]:
    owner = [number for number, size in enumerate(sizes) for _ in range(size)]
    return [
        ["X" if a == b else inside if owner[a] == owner[b] else outside for b in range(len(owner))]
        for a in range(len(owner))
    ]


def test_links_paths_and_cards_are_read_and_the_rest_left_aside() -> None:
    shape = read_topo_matrix(matrix(alike(4, "NV12"), nics=2))
    assert (shape.num_gpus, shape.num_nics, shape.sockets) == (4, 2, (0, 0, 1, 1))
    assert shape.nvlinks[0] == [0, 12, 12, 12]
    assert shape.pcie[0] == ["X", "NODE", "NODE", "NODE"]
    assert read_topo_matrix(matrix(alike(4, "NV12"), nics=2, affinity=False)) == shape


@pytest.mark.parametrize(
    ("text", "gpu", "host"),
    [
        (matrix(alike(8, "NV18"), nics=8), "h100", {"template": "dgx-h100", "num_gpus": 8, "nics": 8}),
        (matrix(alike(8, "NV12")), "a100", {"template": "dgx-a100", "num_gpus": 8}),
        (matrix(alike(16, "NV6")), "v100", {"template": "dgx-2", "num_gpus": 16}),
        (matrix(alike(4, "NV4")), "a100", {"template": "dgx-a100", "num_gpus": 4}),
        (matrix(alike(2, "PHB")), "t4", {"template": "single-socket", "num_gpus": 2}),
        (matrix(alike(4, "PIX")), "t4", {"template": "single-root", "num_gpus": 4, "num_switches": 1}),
        (matrix(groups([4, 4], "PXB", "SYS")), "k80", {"template": "dual-socket", "num_gpus": 8, "plx_per_socket": 1}),
        (matrix(groups([2, 2], "NODE", "SOC")), "t4", {"template": "dual-socket", "num_gpus": 4, "plx_per_socket": 0}),
        (matrix(alike(1, "X")), "h100", {"template": "single-socket", "num_gpus": 1}),
    ],
)
def test_the_nearest_template_is_found_and_can_be_built(text: str, gpu: str, host: dict[str, object]) -> None:
    found = nearest_template(read_topo_matrix(text), gpu)
    assert {key: found.host[key] for key in host} == host
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": found.host, "link": "100 Gbit/s"})
    assert len(cluster.gpus) == 2 * int(str(host["num_gpus"]))


def test_a_mesh_of_direct_links_is_a_switch_with_the_links_a_gpu_uses() -> None:
    found = nearest_template(read_topo_matrix(matrix(alike(3, "NV4"))), "a100")
    whole = nearest_template(read_topo_matrix(matrix(alike(8, "NV12"))), "a100")
    one, other = (
        load_topology({"kind": "star", "num_hosts": 1, "host": each.host, "link": "1 GB/s"}) for each in (found, whole)
    )
    rates = [topology.links.bytes_per_s[topology.route(*topology.gpus[:2])].min() for topology in (one, other)]
    assert rates[0] == pytest.approx(rates[1] * 8 / 12, rel=1e-5)
    assert "4 NVLinks join every pair of GPUs directly" in found.notes[0]
    assert not whole.notes


def test_the_mesh_of_a_dgx_1_is_known() -> None:
    mesh = [[("X" if a == b else "NV1" if abs(a - b) < 4 else "SYS") for b in range(8)] for a in range(8)]
    assert nearest_template(read_topo_matrix(matrix(mesh)), "v100").host["template"] == "dgx-1"


def test_what_no_template_has_is_noted() -> None:
    bridged = [["X", "NV4", "SYS"], ["NV4", "X", "SYS"], ["SYS", "SYS", "X"]]
    found = nearest_template(read_topo_matrix(matrix(bridged)), "a100")
    assert found.host["template"] == "dual-socket"
    assert "NVLinks 0 or 4 to a pair of GPUs follow no template" in found.notes[0]
    assert "unevenly" in found.notes[1]
    three = nearest_template(read_topo_matrix(matrix(groups([1, 1, 1], "PIX", "SYS"))), "t4")
    assert "3 groups of GPUs are a socket apart" in three.notes[0]
    shape = HostShape(12, [[18 * (a != b) for b in range(12)] for a in range(12)], alike(12, "NODE"))
    assert "follows no template, is left out" in nearest_template(shape, "h100").notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command not found", "not a matrix of `nvidia-smi topo -m`"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV", "no complete row for GPU1"),
    ],
)
def test_what_is_no_matrix_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_topo_matrix(text)
