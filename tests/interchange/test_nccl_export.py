"""Hosts written as NCCL's topology are the same hosts when they are read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange.host_of import host_of
from clustersim.interchange.nccl_topo import read_nccl_topology
from clustersim.interchange.nccl_topo_write import nccl_topology_xml
from clustersim.interchange.nvidia_topo import read_topo_matrix
from clustersim.topology import HOSTS, Topology, load_topology
from clustersim.topology.host_sheets import HOST_SHEETS, host_sheet

FILES = Path(__file__).parent / "topo"
BRIDGED = host_of(read_topo_matrix((FILES / "a100-pcie-nvlink-pairs.topo.txt").read_text()), "a100-pcie").host
GRACE = {
    "template": "explicit",
    "gpu": "gh200",
    "nodes": ["gpu0", "socket0", "plx0", {"name": "slow", "kind": "nic", "link": "25 Gbit/s"}],
    "links": [
        {"a": "plx0", "b": "socket0", "link": "pcie-5-x16"},
        {"a": "gpu0", "b": "plx0", "link": "pcie-5-x8"},
        {"a": "slow", "b": "plx0", "link": "pcie-4-x16"},
        {"a": "gpu0", "b": "socket0", "link": "400 GB/s"},
    ],
}


def star(host: Any, num_hosts: int = 2) -> Topology:
    return load_topology({"kind": "star", "num_hosts": num_hosts, "link": "infiniband-ndr", "host": host})


def rates(cluster: Topology) -> list[list[tuple[float, float]]]:
    """Return the narrowest link from each GPU to each GPU of two hosts, and to its memory."""
    nodes = cluster.gpus.tolist()
    found = []
    for number, src in enumerate(nodes[: len(nodes) // 2]):
        ends = [(src, dst) for dst in nodes if dst != src] + [(src, int(cluster.memory[number]))]
        found.append([float(cluster.links.bytes_per_s[cluster.route(*pair)].min(initial=1e15)) for pair in ends])
    return found


@pytest.mark.parametrize(
    ("host", "gpu"),
    [
        ({"template": "dgx-h100"}, "h100"),
        ({"template": "dgx-b200", "nvlink_domain": 2}, "b200"),
        ({"template": "dgx-a100", "nics": 2, "gpudirect": False}, "a100"),
        ({"template": "dgx-1", "gpu": "v100"}, "v100"),
        ({"template": "dual-socket", "gpu": "v100-pcie", "num_gpus": 4, "plx_per_socket": 1, "nics": 2}, "v100-pcie"),
        (BRIDGED, "a100-pcie"),
        (GRACE, "gh200"),
    ],
    ids=lambda value: value["template"] if isinstance(value, dict) else value,
)
def test_a_host_that_is_written_and_read_has_the_same_rates(host: dict[str, Any], gpu: str) -> None:
    cluster = star(host)
    read = read_nccl_topology(nccl_topology_xml(cluster))
    found = host_of(read, gpu)
    domain = {key: host[key] for key in ("nvlink_domain",) if key in host}
    assert rates(star({**found.host, "cpu": cluster.host_sheets[0], **domain})) == rates(cluster)
    if host["template"] in ("dgx-h100", "dgx-1"):
        assert found.host["template"] == host["template"]


@pytest.mark.parametrize("name", [name for name in (*HOSTS, *HOST_SHEETS) if name not in ("bare", "explicit")])
def test_every_template_and_sheet_is_read_as_it_was_written(name: str) -> None:
    """But for the rates that a note names, those of an MI250X to its processor, which are its sheet's when read."""
    sheet = host_sheet(name)
    host: dict[str, Any] = {"template": name}
    if sheet is None and HOSTS[name].model_fields["gpu"].default is None:
        host["gpu"] = "h100-pcie"
    cluster = star(host)
    text = nccl_topology_xml(cluster)
    read = read_nccl_topology(text)
    found = host_of(read, str(cluster.gpu_sheets[0])).host
    options = {} if sheet is None else sheet.options
    domain = {key: options[key] for key in ("nvlink_domain",) if key in options}
    assert rates(star({**found, "cpu": cluster.host_sheets[0], **domain})) == rates(cluster)
    assert ("(`nvlink_domain`), which are not written" in text) == bool(domain)
    assert ("links of class xgmi-cpu-mi250 below" in text) == (cluster.gpu_sheets[0] == "mi250x")


def test_a_superchip_is_below_its_arm_processor() -> None:
    root = ElementTree.fromstring(nccl_topology_xml(star({"template": "superchip"}, 1)))
    assert {cpu.get("arch") for cpu in root.iter("cpu")} == {"arm64"}
    assert all(cpu.find("./pci/gpu/c2c") is not None for cpu in root.iter("cpu"))
    assert read_nccl_topology(nccl_topology_xml(star({"template": "superchip"}, 1))).cpu == "grace"


def test_the_document_has_what_nccl_reads() -> None:
    root = ElementTree.fromstring(nccl_topology_xml(star({"template": "dgx-h100"}, 1)))
    (gpu, *others) = root.iter("gpu")
    assert (gpu.attrib, len(others)) == ({"dev": "0", "rank": "0", "gdr": "1", "sm": "90"}, 7)
    assert [link.attrib["count"] for link in gpu.findall("nvlink")] == ["18"]
    assert [net.attrib["speed"] for net in root.iter("net")] == ["400000"] * 8
    cpus = root.findall("cpu")
    assert [(cpu.attrib["vendor"], cpu.attrib["modelid"]) for cpu in cpus] == [("GenuineIntel", "143")] * 2
    buses = [pci.attrib["busid"] for pci in root.iter("pci")]
    assert len(set(buses)) == len(buses)


def test_what_is_not_represented_is_a_comment() -> None:
    host = {"template": "dual-socket", "gpu": "k80", "pcie": "5 GB/s", "cpu": "opteron-6274", "interconnect": "1 GB/s"}
    text = nccl_topology_xml(star(host, 3))
    for note in ("PCIe links that are given by a rate", "of the processor opteron-6274 is not known", "host 0 of 3"):
        assert note in text.partition("<system")[0]
    assert read_nccl_topology(text).num_gpus == 1


def test_hosts_without_processors_are_refused() -> None:
    with pytest.raises(InputError, match="have no processors"):
        nccl_topology_xml(star({"template": "bare", "gpu": "h100"}))


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "host.xml"
    assert main(["topology", "export", "dgx-1", "--format", "nccl-xml", "-o", str(path)]) == 0
    assert read_nccl_topology(path.read_text()).num_gpus == 8
