"""NCCL topologies, written by hand in its format."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from clustersim.errors import InputError
from clustersim.interchange.host_of import host_of
from clustersim.interchange.host_shape import BELOW_SWITCH, OTHER_SOCKET, SAME_SOCKET, SAME_SWITCH, HostJoint, HostShape
from clustersim.interchange.nccl_topo import read_nccl_topology
from clustersim.topology import load_topology


def gpu(number: int, links: str = "", more: str = "") -> str:
    return (
        f'<pci busid="0000:{number:02x}:00.0" class="0x030200" {more}><gpu dev="{number}" sm="90" gdr="1">{links}</gpu>'
        "</pci>"
    )


def nic(bus: str, *nets: str, more: str = "") -> str:
    return f'<pci busid="0000:{bus}:00.0" class="0x020700" {more}><nic>{"".join(nets)}</nic></pci>'


def net(name: str, speed: int = 400_000) -> str:
    return f'<net name="{name}" dev="0" speed="{speed}" gdr="1"/>'


def bridge(bus: str, *below: str, more: str = "") -> str:
    return f'<pci busid="0000:{bus}:00.0" class="0x060400" {more}>{"".join(below)}</pci>'


def system(*cpus: str, about: str = "") -> str:
    found = "".join(f'<cpu numaid="{number}" {about}>{cpu}</cpu>' for number, cpu in enumerate(cpus))
    return f'<system version="1">{found}</system>'


def switched(num_gpus: int, count: int, cards: int = 1) -> str:
    """Return two sockets, a PCIe switch with network cards for every two GPUs, and NVLinks to two NVSwitches."""
    links = "".join(
        f'<nvlink target="0000:{bus}:00.0" count="{count // 2}" tclass="0x068000"/>' for bus in ("f0", "f1")
    )
    pairs = [
        bridge(
            f"{pair + 8}0",
            gpu(2 * pair, links if count else ""),
            gpu(2 * pair + 1, links if count else ""),
            *(nic(f"{pair + 8}{9 - card}", net(f"mlx5_{cards * pair + card}")) for card in range(cards)),
        )
        for pair in range(num_gpus // 2)
    ]
    half = num_gpus // 4
    return system("".join(pairs[:half]), "".join(pairs[half:]))


def kinds(shape: HostShape) -> Counter[str]:
    return Counter(device.kind for device in shape.devices)


def distances(shape: HostShape, of: str, others: str) -> list[int | None]:
    return [shape.distance(of, other) for other in others.split()]


def test_a_host_on_nvswitch_is_read_whole() -> None:
    shape = read_nccl_topology(switched(8, 18))
    assert kinds(shape) == {"gpu": 8, "socket": 2, "plx": 4, "nic": 4, "nvswitch": 1}
    assert (shape.gpudirect, shape.gpu, shape.cpu) == (True, "h100", None)
    assert [shape.between(name, "nvswitch0") for name in shape.gpus] == [18] * 8
    assert distances(shape, "gpu0", "gpu1 gpu2 gpu4 mlx5_0") == [SAME_SWITCH, SAME_SOCKET, OTHER_SOCKET, SAME_SWITCH]
    assert [card.bytes_per_s for card in shape.nics] == [50e9] * 4


def test_a_dgx_is_the_template_with_the_rate_of_its_cards() -> None:
    found = host_of(read_nccl_topology(switched(8, 18, cards=2)), "h100")
    assert found.host == {"template": "dgx-h100", "gpu": "h100", "num_gpus": 8, "nics": 8, "gpudirect": True}
    assert found.link == "400 Gbit/s"


def test_direct_links_count_towards_the_gpu_they_end_at() -> None:
    both = '<c2c bw="44700" count="10"/><nvlink target="0000:{}:00.0" count="4" tclass="0x030200"/>'
    shape = read_nccl_topology(system(gpu(0, both.format("01")) + gpu(1, both.format("00"))))
    assert shape.between("gpu0", "gpu1") == 4
    assert HostJoint("gpu0", "socket0", "c2c", 10, "44.7 GB/s") in shape.joints
    assert kinds(shape) == {"gpu": 2, "socket": 1}


def test_nvlinks_to_a_processor_lead_to_its_socket() -> None:
    shape = read_nccl_topology(system(gpu(0, '<nvlink target="0004:00:00.0" count="3" tclass="0x068001"/>')))
    assert HostJoint("gpu0", "socket0", "nvlink", 3) in shape.joints


def test_bridges_are_switches_where_they_have_several_devices() -> None:
    """A root port is part of the link below it; a switch below a switch is one of its own."""
    lower = bridge("20", gpu(0), gpu(1))
    shape = read_nccl_topology(system(bridge("00", bridge("10", lower, nic("30", net("mlx5_0")))) + bridge("01")))
    assert kinds(shape) == {"gpu": 2, "socket": 1, "plx": 2, "nic": 1}
    assert distances(shape, "gpu0", "gpu1 mlx5_0") == [SAME_SWITCH, BELOW_SWITCH]


def test_slots_have_their_speed_and_width_and_a_root_port_may_be_the_slower_one() -> None:
    quick, slow = 'link_speed="32.0 GT/s PCIe" link_width="16"', 'link_speed="16.0 GT/s" link_width="8"'
    text = system(
        gpu(0, more=quick) + bridge("10", gpu(1, more=quick), more=slow) + gpu(2, more='link_speed="" link_width="0"')
    )
    links = {joint.a: joint.link for joint in read_nccl_topology(text).joints if joint.kind == "pcie"}
    assert links == {"gpu0": "pcie-5-x16", "gpu1": "pcie-4-x8", "gpu2": None}


def test_ports_of_one_card_share_its_slot() -> None:
    shape = read_nccl_topology(system(gpu(0) + nic("20", net("mlx5_0"), net("mlx5_1", 200_000))))
    assert [(card.name, card.bytes_per_s) for card in shape.nics] == [("mlx5_0", 50e9), ("mlx5_1", 25e9)]
    assert shape.above("mlx5_0") == shape.above("mlx5_1") == ["plx0", "socket0"]


def test_cards_without_pcie_and_files_by_hand_are_read() -> None:
    text = system(
        '<nic><net name="eth0" speed="-1"/></nic><pci busid="1" class="0x030200"/><pci busid="2" class="0x020000"/>'
    )
    shape = read_nccl_topology(text)
    assert [(card.name, card.bytes_per_s) for card in shape.nics] == [("eth0", 1.25e9), ("nic1", None)]
    assert (shape.num_gpus, shape.gpudirect) == (1, None)


def test_nvlinks_that_a_file_by_hand_does_not_have_are_the_usual_ones_and_noted() -> None:
    """As in the files of AWS's plugin for p4d: PCI devices only."""
    pci = '<pci busid="0000:{:02x}:00.0" class="0x030200"/>'
    text = system(*("".join(pci.format(4 * cpu + number) for number in range(4)) for cpu in range(2)))
    shape = read_nccl_topology(text)
    assert not shape.nvlinks_are_known
    found = host_of(shape, "a100")
    assert [link["count"] for link in found.host["links"] if link["b"] == "nvswitch0"] == [12] * 8
    assert any("all 12 of each are at NVSwitches, as in dgx-a100" in note for note in found.notes)
    assert "the file says nothing of links between GPUs: there are none" in host_of(shape, "a100-pcie").notes
    assert not any("links between GPUs" in note for note in host_of(shape, "t4").notes)


def test_gpus_without_nvlink_are_at_their_sockets_and_switches() -> None:
    found = host_of(read_nccl_topology(switched(8, 0)), "t4")
    nodes = Counter(node["kind"] for node in found.host["nodes"])
    assert nodes == {"gpu": 8, "socket": 2, "plx": 4, "nic": 4}


def test_xgmi_stands_for_nvlink() -> None:
    links = '<xgmi target="0000:{}:00.0" count="2" tclass="0x120000"/>'
    text = system(gpu(0, links.format("01")) + gpu(1, links.format("00")))
    assert HostJoint("gpu0", "gpu1", "xgmi", 2) in read_nccl_topology(text).joints


def test_the_number_of_units_of_an_amd_gpu_is_no_compute_capability() -> None:
    amd = '<pci busid="0" class="0x038000"><gpu dev="0" sm="{}" gcn="{}"/></pci>'
    assert read_nccl_topology(system(amd.format(120, "908"))).gpu is None
    assert read_nccl_topology(system(amd.format(104, "910"))).gpu == "mi250x"


def test_sockets_of_a_processor_without_a_link_between_sockets_have_one_that_is_noted() -> None:
    found = host_of(read_nccl_topology(system(gpu(0), gpu(1))), "mi250x")
    assert found.host["interconnect"] == "xgmi-2"
    assert any("epyc-7a53 has no link between sockets: xgmi-2 is assumed" in note for note in found.notes)


def test_switches_with_a_link_of_their_own_are_joined() -> None:
    one = bridge("10", gpu(0), gpu(1), '<pcilink target="0000:20:00.0"/>')
    other = bridge("20", gpu(2), gpu(3), '<pcilink target="0000:10:00.0"/>')
    assert HostJoint("plx0", "plx1", "bridge") in read_nccl_topology(system(one + other)).joints


@pytest.mark.parametrize(
    ("about", "sheet"),
    [
        ('vendor="GenuineIntel" familyid="6" modelid="143"', "xeon-platinum-8480c"),
        ('vendor="GenuineIntel" familyid="6" modelid="79"', "xeon-e5-2698-v4"),
        ('vendor="AuthenticAMD" familyid="143" modelid="49"', "epyc-7742"),
        ('vendor="Unknown" familyid="1" modelid="1"', None),
    ],
)
def test_the_generation_of_the_processor_gives_its_sheet(about: str, sheet: str | None) -> None:
    shape = read_nccl_topology(system(gpu(0), gpu(1), about=about))
    assert shape.cpu == sheet
    assert host_of(shape, "h100").host["cpu"] == (sheet or "xeon-platinum-8480c")


def test_equal_hosts_of_a_dump_are_one_nvlink_domain() -> None:
    link = '<nvlink target="0000:f0:00.0" count="18" tclass="0x068000"/>'
    hosts = "".join(f'<cpu host_hash="{number}">{gpu(0, link)}{gpu(1, link)}</cpu>' for number in range(3))
    shape = read_nccl_topology(f"<system>{hosts}</system>")
    assert (shape.num_gpus, shape.num_hosts) == (2, 3)
    host = host_of(shape, "gb200").host
    assert host["nvlink_domain"] == 3
    cluster = load_topology({"kind": "star", "num_hosts": 6, "link": "400 Gbit/s", "host": host})
    kinds = [cluster.node_kinds[cluster.links.dst[link]] for link in cluster.route(*cluster.gpus[[0, 5]].tolist())]
    assert (kinds, cluster.num_gpus) == (["nvswitch", "gpu"], 12)
    assert len(cluster.route(*cluster.gpus[[0, 6]].tolist())) > 2
    apart = f'<system><cpu host_hash="1">{gpu(0)}</cpu><cpu host_hash="2">{gpu(0)}{gpu(1)}</cpu></system>'
    first = read_nccl_topology(apart)
    assert (first.num_gpus, first.num_hosts) == (1, 1)
    assert first.notes == (
        "of 2 hosts, 1 are not like the first, which is taken for all",
        "the dump has 2 hosts; the first is taken",
    )


def test_gpus_are_numbered_by_dev_and_what_is_not_represented_is_noted() -> None:
    text = system(gpu(1, '<nvlink target="0000:00:00.0" count="1"/>') + gpu(0, "<fan/>"))
    shape = read_nccl_topology(text)
    assert shape.between("gpu0", "gpu1") == 1
    assert shape.notes == ("<fan> in <gpu> is left out",)
    assert read_nccl_topology(text.replace("<fan/>", "")) == replace(shape, notes=())


def test_gpus_of_several_kinds_keep_their_sheets_and_another_gpu_is_noted() -> None:
    ids = 'vendor="0x10de" device="0x{}"'
    shape = read_nccl_topology(system(gpu(0, more=ids.format("20b2")) + gpu(1, more=ids.format("2330"))))
    found = host_of(shape, "a100")
    assert [node.get("gpu") for node in found.host["nodes"] if node["kind"] == "gpu"] == ["a100", "h100"]
    assert "the GPUs are of several kinds (a100, h100)" in found.notes
    same = read_nccl_topology(system(gpu(0, more=ids.format("20b2"))))
    assert any(note.startswith("the GPUs of the file are NVIDIA A100") for note in host_of(same, "h100").notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<system><cpu></system>", "not XML: mismatched tag"),
        ("<graphs/>", "not a NCCL topology"),
        ("<system><cpu/></system>", "has no GPU"),
        ('<!DOCTYPE s [<!ENTITY a "b">]><system/>', "declares entities"),
        ('<system><cpu><pci><gpu dev="x"/></pci></cpu></system>', "dev of <gpu> is not a whole number"),
        (system(gpu(0, '<nvlink count="0"/>')), "count of <nvlink> is not a number of links"),
        (system(gpu(0, '<nvlink count="1e99"/>')), "count of <nvlink> is not a whole number"),
        (f"<system><cpu>{'<pci>' * 50}{'</pci>' * 50}</cpu></system>", "is too large: at most 40 levels"),
        (system("".join(gpu(number) for number in range(300))), "300 GPUs"),
    ],
)
def test_what_is_no_topology_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_nccl_topology(text)
