"""NCCL topologies, written by hand in its format."""

from __future__ import annotations

import pytest

from clustersim.errors import InputError
from clustersim.interchange.host_shape import nearest_template
from clustersim.interchange.nccl_topo import read_nccl_topology


def gpu(number: int, links: str = "") -> str:
    return (
        f'<pci busid="0000:{number:02x}:00.0" class="0x030200"><gpu dev="{number}" sm="90" gdr="1">{links}</gpu></pci>'
    )


def switched(num_gpus: int, count: int) -> str:
    """Return two sockets, a PCIe switch with a network card for every two GPUs, and NVLinks to two NVSwitches."""
    links = "".join(
        f'<nvlink target="0000:{bus}:00.0" count="{count // 2}" tclass="0x068000"/>' for bus in ("f0", "f1")
    )
    cards = "".join(
        f'<pci busid="0000:{pair:x}0:00.0" class="0x060400">{gpu(2 * pair, links)}{gpu(2 * pair + 1, links)}'
        f'<pci busid="0000:{pair:x}9:00.0" class="0x020700"><nic><net name="mlx5_{pair}" dev="{pair}" speed="400000" '
        'gdr="1"/></nic></pci></pci>' + ("</cpu><cpu numaid='1' host_hash='0x1'>" if pair == num_gpus // 4 - 1 else "")
        for pair in range(num_gpus // 2)
    )
    return f'<system version="1"><cpu numaid="0" host_hash="0x1">{cards}</cpu></system>'


def test_a_host_on_nvswitch_is_read_whole() -> None:
    shape = read_nccl_topology(switched(8, 18))
    assert (shape.num_gpus, shape.num_nics, shape.switched, shape.gpudirect) == (8, 4, True, True)
    assert shape.nvlinks[0] == [0] + [18] * 7
    assert shape.pcie[0] == ["X", "PIX", "PHB", "PHB", "SYS", "SYS", "SYS", "SYS"]
    assert shape.sockets == (0, 0, 0, 0, 1, 1, 1, 1)
    assert shape.nic_bytes_per_s == (50e9,) * 4
    found = nearest_template(shape, "h100")
    assert (found.host["template"], found.host["nics"], found.notes) == ("dgx-h100", 4, ())


def test_direct_links_count_towards_the_gpu_they_end_at() -> None:
    bridge = '<c2c bw="44700" count="10"/><nvlink target="0000:{}:00.0" count="4" tclass="0x030200"/>'
    text = f"<system><cpu>{gpu(0, bridge.format('01'))}{gpu(1, bridge.format('00'))}</cpu></system>"
    shape = read_nccl_topology(text)
    assert shape.nvlinks == [[0, 4], [4, 0]]
    assert (shape.switched, shape.num_nics, shape.gpudirect) == (False, 0, None)
    assert shape.pcie[0] == ["X", "PHB"]


def test_gpus_without_nvlink_hang_on_sockets_and_switches() -> None:
    found = nearest_template(read_nccl_topology(switched(8, 0)), "t4")
    assert (found.host["template"], found.host["plx_per_socket"], found.host["nics"]) == ("dual-socket", 2, 4)
    assert found.notes == ()


def test_of_several_hosts_in_a_dump_the_first_counts() -> None:
    text = f'<system><cpu host_hash="1">{gpu(0)}</cpu><cpu host_hash="2">{gpu(1)}</cpu></system>'
    assert read_nccl_topology(text).num_gpus == 1


def test_a_card_of_unknown_speed_has_10_gbit() -> None:
    text = f'<system><cpu>{gpu(0)}<nic><net dev="0" speed="-1"/></nic></cpu></system>'
    assert read_nccl_topology(text).nic_bytes_per_s == (1.25e9,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<system><cpu></system>", "not an NCCL topology: mismatched tag"),
        ("<graphs/>", "not an NCCL topology"),
        ("<system><cpu/></system>", "has no GPU"),
        ('<!DOCTYPE s [<!ENTITY a "b">]><system/>', "declares a document type"),
        ('<system><cpu><pci><gpu dev="x"/></pci></cpu></system>', "dev of <gpu> is not a whole number"),
    ],
)
def test_what_is_no_topology_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_nccl_topology(text)
