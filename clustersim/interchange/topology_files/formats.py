"""The formats of hosts and networks that become a topology file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.interchange.host_shape import HostShape
from clustersim.interchange.lstopo import looks_like_lstopo, read_lstopo
from clustersim.interchange.nccl_topo import read_nccl_topology
from clustersim.interchange.nvidia_topo import read_topo_matrix
from clustersim.interchange.rocm_topo import looks_like_rocm, read_rocm_topology
from clustersim.interchange.topology_files.assemble import ImportedTopology, assemble
from clustersim.interchange.topology_files.astra_network import looks_like_astra, read_astra_network
from clustersim.interchange.topology_files.fabric_shape import FabricShape
from clustersim.interchange.topology_files.ibnetdiscover import looks_like_ibnetdiscover, read_ibnetdiscover
from clustersim.interchange.topology_files.infragraph import looks_like_infragraph, read_infragraph
from clustersim.interchange.topology_files.simgrid_platform import looks_like_simgrid, read_simgrid_platform
from clustersim.interchange.topology_files.slurm_topology import looks_like_slurm, read_slurm_topology
from clustersim.reading import read_text
from clustersim.registry import Registry

MAX_BYTES = 32 << 20
_HEAD = 1 << 18  # characters by which a format is recognised


class TopologyFormat(NamedTuple):
    """A format: its title, whether a text looks like it, and what it says of a host or of a network."""

    title: str
    looks_like: Callable[[str], bool]
    read: Callable[[str], HostShape | FabricShape]


def _looks_like_nccl(text: str) -> bool:
    return "<system" in text[:10_000]


def _looks_like_matrix(text: str) -> bool:
    return any("GPU0" in line.split() for line in text.splitlines()[:1000])


FORMATS: Registry[TopologyFormat] = Registry(
    "topology format",
    {
        "nccl": TopologyFormat("NCCL's topology (NCCL_TOPO_DUMP_FILE)", _looks_like_nccl, read_nccl_topology),
        "lstopo": TopologyFormat("hwloc's XML (lstopo --whole-io)", looks_like_lstopo, read_lstopo),
        "rocm-smi": TopologyFormat("the output of `rocm-smi --showtopo`", looks_like_rocm, read_rocm_topology),
        "simgrid": TopologyFormat("a SimGrid platform", looks_like_simgrid, read_simgrid_platform),
        "ibnetdiscover": TopologyFormat("the output of ibnetdiscover", looks_like_ibnetdiscover, read_ibnetdiscover),
        "slurm": TopologyFormat("SLURM's topology.conf", looks_like_slurm, read_slurm_topology),
        "astra-sim": TopologyFormat("an ASTRA-sim network", looks_like_astra, read_astra_network),
        "infragraph": TopologyFormat("an InfraGraph", looks_like_infragraph, read_infragraph),
        "nvidia-smi": TopologyFormat("the matrix of `nvidia-smi topo -m`", _looks_like_matrix, read_topo_matrix),
    },
)


def import_topology(
    paths: Sequence[Path],
    gpu: str | None = None,
    num_hosts: int | None = None,
    link: str | None = None,
    format_name: str | None = None,
) -> ImportedTopology:
    """Return the topology of a host, of a network, or of hosts of that kind on that network.

    `gpu` is a GPU's sheet, `num_hosts` how many hosts of a host file there are, and `link` the link of cables without a
    rate. Raise InputError with the file for what cannot be read.
    """
    found = [(path, *_read(path, format_name if len(paths) == 1 else None)) for path in paths]
    hosts = [(path, shape) for path, _, shape in found if isinstance(shape, HostShape)]
    networks = [(path, shape) for path, _, shape in found if isinstance(shape, FabricShape)]
    for what, several in (("hosts", hosts), ("networks", networks)):
        if len(several) > 1:
            names = ", ".join(str(path) for path, _ in several)
            message = f"give one file of {what} (got {names}); one of a host and one of a network go together"
            raise InputError(message, got=names, allowed="one host and one network")
    if not found:
        raise InputError("give a file to import", got="nothing", allowed=", ".join(FORMATS))
    source = ", ".join(f"{path.name} ({name})" for path, name, _ in found)
    host = hosts[0][1] if hosts else None
    network = networks[0][1] if networks else None
    return assemble(host, network, source, gpu, num_hosts, link)


def _read(path: Path, format_name: str | None) -> tuple[str, HostShape | FabricShape]:
    """Return the name of a file's format, and what it says; every mistake names the file."""
    text = read_text(path, MAX_BYTES)
    try:
        name = format_name or _format_of(text)
        return name, FORMATS[name].read(text)
    except InputError as error:
        raise InputError([replace(mistake, file=mistake.file or str(path)) for mistake in error.mistakes]) from None


def _format_of(text: str) -> str:
    head = text[:_HEAD]
    name = next((name for name in FORMATS if FORMATS[name].looks_like(head)), None)
    if name is None:
        known = "; ".join(f"{name}: {each.title}" for name, each in FORMATS.items())
        raise InputError(
            f"this is no description of a host or a network known here ({known})",
            got=" ".join(text[:60].split()),
            allowed=", ".join(FORMATS),
        )
    return name
