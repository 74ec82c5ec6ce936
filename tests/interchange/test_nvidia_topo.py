"""Matrices of `nvidia-smi topo -m`, written by hand in its format, and the hosts that they give."""

from __future__ import annotations

import pytest

from clustersim.errors import InputError
from clustersim.interchange.host_of import host_of
from clustersim.interchange.host_shape import OTHER_SOCKET, SAME_SOCKET, SAME_SWITCH, HostShape
from clustersim.interchange.nvidia_topo import read_topo_matrix
from clustersim.topology import load_topology

LEGEND = (
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n"
)
COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


def matrix(
    cells: list[list[str]],
    sides: list[list[str]] | None = None,
    columns: tuple[str, ...] = COLUMNS,
    numa: list[str] | None = None,
    names: list[str] | None = None,
) -> str:
    """Return what the tool prints: the codes between GPUs, and from GPUs to cards `sides`, in its present form."""
    gpus = len(cells)
    cards = names or [f"NIC{number}" for number in range(len(sides[0]) if sides else 0)]
    labels = [*(f"GPU{number}" for number in range(gpus)), *cards]
    lines = ["\x1b[4m\t" + "\t".join([*labels, *columns]) + "\x1b[0m"]
    for a in range(gpus):
        tail = ["0-51,104-155", (numa or ["0"] * gpus)[a], "N/A"][: len(columns)]
        lines.append("\t".join([labels[a], *(f" {cell} " for cell in cells[a]), *(sides[a] if sides else []), *tail]))
    for number, card in enumerate(cards):
        near = [sides[a][number] for a in range(gpus)] if sides else []
        lines.append("\t".join([card, *near, *("X" if card == other else "SYS" for other in cards)]))
    return "\n".join(lines) + LEGEND


def alike(num_gpus: int, code: str) -> list[list[str]]:
    return [["X" if a == b else code for b in range(num_gpus)] for a in range(num_gpus)]


def groups(sizes: list[int], inside: str, outside: str) -> list[list[str]]:
    owner = [number for number, size in enumerate(sizes) for _ in range(size)]
    return [
        ["X" if a == b else inside if owner[a] == owner[b] else outside for b in range(len(owner))]
        for a in range(len(owner))
    ]


def dgx_sides(num_gpus: int, per_switch: int) -> list[list[str]]:
    """Return the codes of a DGX: a card for each GPU, so many of both on a switch, half of them on each socket."""
    half = num_gpus // 2
    return [
        [
            "PXB" if a // per_switch == b // per_switch else "NODE" if a // half == b // half else "SYS"
            for b in range(num_gpus)
        ]
        for a in range(num_gpus)
    ]


def nodes(shape: HostShape) -> dict[str, int]:
    return {kind: len(shape.of_kind(kind)) for kind in ("gpu", "socket", "plx", "nic")}


def test_links_paths_cards_and_names_are_read() -> None:
    shape = read_topo_matrix(matrix(alike(4, "NV12"), [["PXB", "SYS"]] * 2 + [["SYS", "PXB"]] * 2))
    assert nodes(shape) == {"gpu": 4, "socket": 2, "plx": 2, "nic": 2}
    assert [card.name for card in shape.nics] == ["mlx5_0", "mlx5_3"]
    assert shape.between("gpu0", "gpu3") == 12
    assert [shape.distance("gpu0", other) for other in ("gpu1", "gpu2", "mlx5_0")] == [
        SAME_SWITCH,
        OTHER_SOCKET,
        SAME_SWITCH,
    ]


def test_old_forms_give_the_same_host() -> None:
    """SOC instead of SYS, cards by their own names, no affinity, spaces instead of tabs, indented rows."""
    sides = [["PHB", "SYS"]] * 2 + [["SYS", "PHB"]] * 2
    text = matrix(groups([2, 2], "PIX", "SYS"), sides)
    shape = read_topo_matrix(text)
    old = matrix(groups([2, 2], "PIX", "SOC"), [[code.replace("SYS", "SOC") for code in row] for row in sides])
    named = matrix(groups([2, 2], "PIX", "SYS"), sides, ("CPU Affinity",), names=["mlx5_0", "mlx5_3"])
    spaced = "\n".join("  " + line.replace("\t", "   ") for line in text.splitlines())
    indented = "\n".join("\t" + line for line in text.splitlines())
    for other in (old, named, spaced, indented, "$ nvidia-smi topo -m\n" + text):
        assert read_topo_matrix(other) == shape


@pytest.mark.parametrize(
    ("text", "gpu", "host"),
    [
        (matrix(alike(8, "NV12"), dgx_sides(8, 2)), "a100", {"template": "dgx-a100", "num_gpus": 8, "nics": 8}),
        (matrix(alike(8, "NV18")), "h100", {"template": "dgx-h100", "num_gpus": 8}),
        (matrix(alike(16, "NV6")), "v100", {"template": "dgx-2", "num_gpus": 16}),
    ],
)
def test_a_template_is_taken_where_it_is_the_same(text: str, gpu: str, host: dict[str, object]) -> None:
    found = host_of(read_topo_matrix(text), gpu)
    assert {key: found.host[key] for key in host} == host


def test_the_mesh_of_a_dgx_1_is_the_template() -> None:
    doubled = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
    single = {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)}
    cells = [["X" if a == b else "SYS" if a // 4 != b // 4 else "NODE" for b in range(8)] for a in range(8)]
    for count, pairs in ((2, doubled), (1, single)):
        for a, b in pairs:
            cells[a][b] = cells[b][a] = f"NV{count}"
    sides = [["PIX" if a // 2 == b else "PHB" if a // 4 == b // 2 else "SYS" for b in range(4)] for a in range(8)]
    assert host_of(read_topo_matrix(matrix(cells, sides)), "v100").host["template"] == "dgx-1"
    cells[0][1] = cells[1][0] = "NV2"
    other = host_of(read_topo_matrix(matrix(cells, sides)), "v100")
    assert other.host["template"] == "explicit"
    assert "gpu0 has 7 links to others, and NVIDIA Tesla V100" in other.notes[0]


def test_a_switch_for_each_gpu_and_card_is_not_that_of_two() -> None:
    """As in a DGX H100: each card is PIX to one GPU only."""
    host = host_of(read_topo_matrix(matrix(alike(8, "NV18"), dgx_sides(8, 1))), "h100").host
    kinds = [node["kind"] for node in host["nodes"]]
    assert [kinds.count(kind) for kind in ("gpu", "nic", "plx", "socket", "nvswitch")] == [8, 8, 8, 2, 1]
    assert {(link["count"], link["b"]) for link in host["links"] if "count" in link} == {(18, "nvswitch0")}


@pytest.mark.parametrize(
    ("text", "gpu", "counts"),
    [
        (matrix(alike(2, "PHB")), "t4", {"gpu": 2, "socket": 1, "plx": 0, "nic": 0}),
        (matrix(alike(4, "PIX")), "t4", {"gpu": 4, "socket": 1, "plx": 1, "nic": 0}),
        (matrix(groups([4, 4], "PXB", "SYS"), numa=["0"] * 4 + ["1"] * 4), "k80", {"socket": 2, "plx": 2}),
        (matrix(groups([2, 2], "NODE", "SOC")), "t4", {"gpu": 4, "socket": 2, "plx": 0}),
        (matrix(groups([3, 1], "NODE", "SYS")), "t4", {"gpu": 4, "socket": 2}),
        (matrix(groups([1, 1, 1, 1], "PIX", "SYS"), numa=["0", "1", "2", "3"]), "t4", {"gpu": 4, "socket": 4}),
        (matrix(alike(1, "X")), "h100", {"gpu": 1, "socket": 1}),
    ],
)
def test_gpus_without_nvlink_are_at_their_sockets_and_switches(text: str, gpu: str, counts: dict[str, int]) -> None:
    shape = read_topo_matrix(text)
    assert {kind: nodes(shape)[kind] for kind in counts} == counts
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "1 GB/s", "host": host_of(shape, gpu).host})
    assert cluster.num_gpus == 2 * shape.num_gpus


def test_pix_pairs_below_a_common_switch_have_their_own() -> None:
    cells = [["X", "PIX", "PXB", "PXB"], ["PIX", "X", "PXB", "PXB"], ["PXB", "PXB", "X", "PIX"], ["PXB", "PXB", "PIX"]]
    shape = read_topo_matrix(matrix([*cells[:3], [*cells[3], "X"]]))
    assert nodes(shape)["plx"] == 3
    assert shape.above("gpu0") == ["plx1", "plx0", "socket0"]
    assert (shape.distance("gpu0", "gpu1"), shape.distance("gpu0", "gpu2")) == (SAME_SWITCH, 1)


def test_gpus_with_nvlink_only_are_placed_by_their_affinity() -> None:
    shape = read_topo_matrix(matrix(alike(4, "NV4"), numa=["0", "0", "1", "1"]))
    assert (nodes(shape)["socket"], shape.pcie_is_known) == (2, True)
    unknown = read_topo_matrix(matrix(alike(3, "NV4")))
    assert not unknown.pcie_is_known
    assert "not reported where the GPUs are on PCIe: they have one socket" in host_of(unknown, "a100").notes[-1]
    assert unknown.distance("gpu0", "gpu1") == SAME_SOCKET


def test_a_link_that_no_sheet_names_is_noted() -> None:
    found = host_of(read_topo_matrix(matrix(groups([2, 2], "NV2", "PHB"))), "rtx-2080-ti")
    assert any("has no NVLink: nvlink-2 is assumed" in note for note in found.notes)
    assert {"a": "gpu0", "b": "gpu1", "link": "nvlink-2", "count": 2} in found.host["links"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command not found", "not a matrix of `nvidia-smi topo -m`"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4", "no complete row for GPU1"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tY", "3: the cell of GPU1 and GPU1 is no connection .got Y"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV999\nGPU1\tNV999\tX", "2: the cell of GPU0 and GPU1 has NV999: 1 to 200"),
        (
            "\tGPU0\tGPU1\nGPU0\tX\tNV12\nGPU1\tNV4\tX",
            "3: the cell of GPU1 and GPU0 has NV4, that of GPU0 and GPU1 has NV12",
        ),
        ("\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tNV4\tX", "3: the cell of GPU1 and GPU0 has NV4, .* has SYS"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tPHB\tX", "3: the cell of GPU1 and GPU0 has PHB, .* has NV4"),
        ("\tGPU0\tGPU0\nGPU0\tX\tX", "one of them twice"),
        ("\t" + "\t".join(f"GPU{number}" for number in range(300)), "300 devices"),
    ],
)
def test_what_is_no_matrix_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_topo_matrix(text)
