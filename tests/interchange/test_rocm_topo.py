"""Outputs of `rocm-smi --showtopo`, written by hand in its format."""

from __future__ import annotations

import pytest

from clustersim.errors import InputError
from clustersim.interchange.host_of import host_of
from clustersim.interchange.host_shape import OTHER_SOCKET
from clustersim.interchange.rocm_topo import looks_like_rocm, read_rocm_topology


def matrix(title: str, cells: list[list[str]]) -> str:
    names = [f"GPU{number}" for number in range(len(cells))]
    rows = [f"{name:<7}" + "".join(f"{cell:<13}" for cell in row) for name, row in zip(names, cells, strict=True)]
    return "\n".join(
        [f"{'=' * 20} {title} {'=' * 20}", "       " + "".join(f"{name:<13}" for name in names), *rows, ""]
    )


def output(types: list[list[str]], weights: list[list[str]], nodes: list[int], form: str = "GPU[{}]\t\t") -> str:
    affinities = "".join(
        f"{form.format(gpu)}: (Topology) Numa Node: {node}\n{form.format(gpu)}: (Topology) Numa Affinity: {node}\n"
        for gpu, node in enumerate(nodes)
    )
    parts = [
        f"{'=' * 10} ROCm System Management Interface {'=' * 10}",
        matrix("Weight between two GPUs", weights),
        matrix("Link Type between two GPUs", types),
        f"{'=' * 10} Numa Nodes {'=' * 10}\n{affinities}",
        f"{'=' * 10} End of ROCm SMI Log {'=' * 10}\n",
    ]
    return "\n".join(parts)


def square(number: int, cell: str) -> list[list[str]]:
    return [["0" if a == b else cell for b in range(number)] for a in range(number)]


@pytest.mark.parametrize("form", ["GPU[{}]\t\t", "GPU {}          "])
def test_every_pair_of_eight_mi300x_has_a_link(form: str) -> None:
    text = output(square(8, "XGMI"), square(8, "15"), [0] * 4 + [1] * 4, form)
    shape = read_rocm_topology(text)
    assert looks_like_rocm(text)
    assert sum(joint.kind == "xgmi" for joint in shape.joints) == 28
    assert shape.distance("gpu0", "gpu4") == OTHER_SOCKET
    assert "one in each pair" in host_of(shape, "mi300x").notes[0]


def test_gpus_that_xgmi_reaches_over_others_have_no_link() -> None:
    weights = [["0", "15", "30"], ["15", "0", "15"], ["30", "15", "0"]]
    shape = read_rocm_topology(output(square(3, "XGMI"), weights, [0, 0, 0]))
    assert [shape.between(*pair) for pair in (("gpu0", "gpu1"), ("gpu1", "gpu2"), ("gpu0", "gpu2"))] == [1, 1, 0]


def test_gpus_on_pcie_have_none_and_no_note() -> None:
    shape = read_rocm_topology(output(square(2, "PCIE"), square(2, "40"), [0, 1]))
    assert (shape.notes, shape.between("gpu0", "gpu1")) == ((), 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "not the output of `rocm-smi --showtopo`"),
        (matrix("Link Type between two GPUs", [["0", "XGMI"], ["QPI", "0"]]), "the row of GPU1 has 2 cells"),
        (matrix("Link Type between two GPUs", [["0", "XGMI"], ["XGMI"]]), "the row of GPU1 has 1 cells for 2 GPUs"),
    ],
)
def test_what_is_no_output_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_rocm_topology(text)
