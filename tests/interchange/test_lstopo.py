"""hwloc's XML, written by hand in its format."""

from __future__ import annotations

import pytest

from clustersim.errors import InputError
from clustersim.interchange.host_of import host_of
from clustersim.interchange.host_shape import OTHER_SOCKET, SAME_SOCKET, SAME_SWITCH, HostJoint
from clustersim.interchange.lstopo import looks_like_lstopo, read_lstopo

GEN4, GEN3, IDLE = "31.507692", "15.753846", "4.000000"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'


def pci(number: int, kind: str, speed: str, below: str = "", more: str = "") -> str:
    return (
        f'<object type="PCIDev" gp_index="{100 + number}" pci_busid="0000:{number:02x}:00.0" '
        f'pci_type="{kind} [0000:0000] a1 00" pci_link_speed="{speed}" {more}>{below}</object>'
    )


def osdev(name: str, number: int, index: int = 0, infos: str = "") -> str:
    return f'<object type="OSDev" gp_index="{index}" name="{name}" osdev_type="{number}">{infos}</object>'


def gpu(number: int, speed: str = GEN4, kind: str = "0302 [10de:20b0]") -> str:
    model = '<info name="GPUModel" value="NVIDIA A100-SXM4-40GB"/>'
    return pci(number, kind, speed, osdev(f"nvml{number}", 12, 200 + number, model))


def card(number: int, name: str, is_v2: bool = False) -> str:
    ports = osdev(f"ib{number}", 2 if is_v2 else 16) + osdev(name, 3 if is_v2 else 48)
    return pci(number, "0207 [15b3:101b]", GEN4, ports)


def port(*below: str, bus: int = 0x80, speed: str = GEN4) -> str:
    return (
        f'<object type="Bridge" bridge_type="1-1" pci_busid="0000:{bus:02x}:00.0" pci_type="0604 [1000:c010]" '
        f'pci_link_speed="{speed}">{"".join(below)}</object>'
    )


def root_complex(*below: str) -> str:
    return f'<object type="Bridge" bridge_type="0-1">{"".join(below)}</object>'


def package(number: int, *below: str, model: str = "AMD EPYC 7742 64-Core Processor") -> str:
    mask = f"0x{1 << number:08x}"
    return (
        f'<object type="Package" gp_index="{900 + number}" nodeset="{mask}"><info name="CPUModel" value="{model}"/>'
        f'<object type="NUMANode" os_index="{number}" cpuset="{mask}" nodeset="{mask}" local_memory="270000000000"/>'
        f"{''.join(below)}</object>"
    )


def topology(*packages: str, version: str = "3.0", matrices: str = "") -> str:
    machine = f'<object type="Machine" nodeset="0x00000003">{"".join(packages)}</object>'
    return f'{_HEAD}<topology version="{version}">{machine}{matrices}</topology>'


def matrix(names: list[str], values: list[list[int]], name: str = "NVLinkBandwidth") -> str:
    rows = "".join(f"<u64values>{' '.join(map(str, row))} </u64values>" for row in values)
    return (
        f'<distances2hetero nbobjs="{len(names)}" kind="25" name="{name}"><indexes>{" ".join(names)} </indexes>{rows}'
        "</distances2hetero>"
    )


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_nodes_switches_gpus_and_cards_are_read(version: str) -> None:
    """A switch is a bridge with ports below it; a port with one device is part of that device's link."""
    is_v2 = version == "2.0"
    switch = port(port(gpu(0)), port(gpu(1, GEN3)), port(card(9, "mlx5_0", is_v2)))
    disk = port(pci(7, "0108 [144d:a80a]", GEN4, osdev("nvme0n1", 0 if is_v2 else 1)))
    text = topology(
        package(0, root_complex(switch, disk), root_complex(gpu(2))), package(1, root_complex(gpu(3))), version=version
    )
    shape = read_lstopo(text)
    assert (shape.gpus, [each.name for each in shape.nics]) == (("gpu0", "gpu1", "gpu2", "gpu3"), ["mlx5_0"])
    assert [shape.distance("gpu0", other) for other in ("gpu1", "mlx5_0", "gpu2", "gpu3")] == [
        SAME_SWITCH,
        SAME_SWITCH,
        SAME_SOCKET,
        OTHER_SOCKET,
    ]
    links = {joint.a: joint.link for joint in shape.joints if joint.kind == "pcie"}
    assert links["gpu0"] == "pcie-4-x16"
    assert links["gpu1"] == "pcie-3-x16"
    assert (shape.gpu, shape.cpu, shape.memory_bytes) == ("a100-40gb", "epyc-7742", 540e9)
    assert looks_like_lstopo(text)
    assert host_of(shape, "a100-40gb").host["memory"] == "540000000000 B"


def test_nvlinks_are_counted_by_their_rate() -> None:
    names = ["OSDev:200", "OSDev:201", "PCIDev:150", "Package:900"]
    values = [[1_000_000, 100_000, 200_000, 0], [100_000, 1_000_000, 200_000, 25_000], [0] * 4, [0] * 4]
    switch = pci(50, "0680 [10de:1af1]", GEN3, more='subtype="NVSwitch"')
    shape = read_lstopo(topology(package(0, root_complex(gpu(0), gpu(1), switch)), matrices=matrix(names, values)))
    assert HostJoint("gpu0", "gpu1", "nvlink", 4) in shape.joints
    assert HostJoint("gpu0", "nvswitch0", "nvlink", 8) in shape.joints
    assert HostJoint("gpu1", "socket0", "nvlink", 1) in shape.joints


def test_without_a_matrix_the_usual_nvlinks_are_taken_and_noted() -> None:
    """lstopo has the matrix only if it was built with NVML."""
    shape = read_lstopo(topology(package(0, root_complex(gpu(0), gpu(1)))))
    assert not shape.nvlinks_are_known
    assert any("as in dgx-a100" in note for note in host_of(shape, "a100-40gb").notes)


def test_xgmi_and_a_matrix_of_one_type_are_read() -> None:
    amd = "1200 [1002:ffff]"
    links = '<distances2 type="OSDev" nbobjs="2" name="XGMIBandwidth" indexing="gp"><indexes>200 201 </indexes>'
    links += "<u64values>0 50000 50000 0</u64values></distances2>"
    shape = read_lstopo(topology(package(0, root_complex(gpu(0, kind=amd), gpu(1, kind=amd))), matrices=links))
    assert HostJoint("gpu0", "gpu1", "xgmi", 2) in shape.joints


def test_a_display_of_the_board_and_ports_without_rdma_are_no_devices_of_training() -> None:
    bmc = pci(5, "0300 [1a03:2000]", "0.0", osdev("card0", 4))
    ethernet = pci(6, "0200 [8086:1563]", GEN3, osdev("eth0", 16))
    shape = read_lstopo(topology(package(0, root_complex(gpu(0), bmc, ethernet, card(9, "mlx5_0")))))
    assert ([each.name for each in shape.nics], shape.num_gpus) == (["mlx5_0"], 1)
    alone = read_lstopo(topology(package(0, root_complex(gpu(0), ethernet))))
    assert [each.name for each in alone.nics] == ["eth0"]


def test_links_of_idle_gpus_are_those_of_the_sheet() -> None:
    shape = read_lstopo(topology(package(0, root_complex(gpu(0, IDLE), gpu(1)))))
    assert {joint.a: joint.link for joint in shape.joints} == {"gpu0": None, "gpu1": "pcie-4-x16"}
    assert "2.5 GT/s" in shape.notes[0]


def test_memory_without_cores_is_no_socket_and_gpus_of_the_machine_are_noted() -> None:
    far = '<object type="NUMANode" os_index="7" cpuset="0x0" local_memory="96000000000" subtype="GPUMemory"/>'
    shape = read_lstopo(topology(package(0, far), package(1), root_complex(gpu(0))))
    assert (shape.of_kind("socket"), shape.memory_bytes) == (("socket0", "socket1"), 540e9)
    assert shape.notes == ("devices of a Machine with 2 NUMA nodes are at the first of these",)
    assert shape.above("gpu0") == ["socket0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<topology version="1.0"><object/></topology>', "has another version"),
        ('<topology version="2.0"/>', "has no machine"),
        (topology(package(0)), "has no GPU"),
        ("<system/>", "not a hwloc topology"),
        (
            topology(package(0, root_complex(gpu(0))), matrices=matrix(["OSDev:200"], [[1, 2]])),
            "1 objects and 2 values",
        ),
        (
            topology(package(0, root_complex(gpu(0))), matrices=matrix(["OSDev:200"], [[-1]])),
            "has a value that is no number",
        ),
    ],
)
def test_what_is_no_topology_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_lstopo(text)
