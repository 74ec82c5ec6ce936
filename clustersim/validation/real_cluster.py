"""The cluster of a run file: built from what its nodes report, and from measurements of the run for the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.errors import ClustersimError, InputError
from clustersim.hardware import LINKS
from clustersim.interchange.host_of import host_of
from clustersim.interchange.host_shape import HostShape
from clustersim.interchange.nccl_topo import read_nccl_topology
from clustersim.interchange.nvidia_topo import read_topo_matrix
from clustersim.simulate import time_collective
from clustersim.units import format_duration
from clustersim.validation.real_file import AllReducePhase, Facts, RealRun, SweepRow
from clustersim.validation.real_gpu import sheet_of

_INFINIBAND = {56: "infiniband-fdr", 100: "infiniband-edr", 200: "infiniband-hdr", 400: "infiniband-ndr"}
_UNUSED_LINK = "100 Gbit/s"  # for a single host or a single rank

Build = Callable[[str, str], dict[str, Any]]
"""Returns a topology for the rate (or sheet) and the delay of its network links."""


@dataclass(frozen=True)
class RunCluster:
    """The cluster on which trainings of the run are simulated.

    `topology` is None if the link between ranks is known neither by name nor from an all-reduce. `is_fitted` is true if
    its rate and delay were fitted to the run's all-reduces, which then calibrate. `servers_on` is the place of rank 0.
    """

    title: str
    gpu: str
    topology: dict[str, Any] | None
    transport: str
    servers_on: str
    is_fitted: bool
    notes: tuple[str, ...]


def cluster_of(run: RealRun, folder: Path) -> RunCluster:
    """Return the cluster of a run; new sheets are written to `folder`."""
    facts = run.facts
    gpu, notes = sheet_of(facts.ranks[0], folder)
    others = {rank.device.name for rank in facts.ranks} - {facts.ranks[0].device.name}
    if others:
        notes += (f"ranks have different devices; all are simulated as {facts.ranks[0].device.name}",)
    notes += _of_clocks(facts)
    is_cpu = facts.ranks[0].device.kind != "cuda"
    link, hop = (None, "0 s") if is_cpu else _network_link(facts)
    if is_cpu or len(facts.ranks) == 1:
        build, about = _star_of_ranks(gpu, len(facts.ranks)), _of_cores(facts)
    else:
        build, about = _star_of_hosts(facts, gpu)
    transport = _transport(facts)
    if link is None and (len(facts.ranks) == 1 or (not is_cpu and facts.num_hosts == 1)):
        link = _UNUSED_LINK
    is_fitted = link is None
    if link is None:
        link, hop, more = _fitted(run, build, transport)
        about += more
    return RunCluster(
        title=_title(facts),
        gpu=gpu,
        topology=None if link is None else build(link, hop),
        transport=transport,
        servers_on="own-hosts" if is_cpu else "host-memory",
        is_fitted=is_fitted,
        notes=notes + about,
    )


def _title(facts: Facts) -> str:
    """Return the devices and the software of the run, in one line."""
    kinds = Counter(rank.device.name for rank in facts.ranks)
    devices = ", ".join(f"{count} x {name}" for name, count in kinds.items())
    hosts = f"{facts.num_hosts} host{'s' if facts.num_hosts > 1 else ''}"
    return f"{devices} in {hosts}, {facts.backend}, torch {facts.software.get('torch', 'of an unknown version')}"


def _of_clocks(facts: Facts) -> tuple[str, ...]:
    """Return a note on the clock error between hosts, which limits how waiting and communication are separated."""
    if facts.num_hosts == 1:
        return ()
    worst_s = max(rank.clock_error_s for rank in facts.ranks)
    return (f"clocks of the hosts were aligned to within {format_duration(worst_s)}",)


def _star_of_ranks(gpu: str, num_ranks: int) -> Build:
    """Return a cluster in which every rank has its own link to one switch: processes on CPUs."""
    return lambda link, hop: {"kind": "star", "num_hosts": num_ranks, "gpu": gpu, "link": link, "hop": hop}


def _of_cores(facts: Facts) -> tuple[str, ...]:
    """Return a note if ranks on CPUs share cores, which makes times vary."""
    ranks = Counter(rank.host for rank in facts.ranks)
    crowded = [
        number
        for number, host in enumerate(facts.hosts)
        if host is not None and host.num_cores is not None and ranks[number] > host.num_cores
    ]
    if not crowded:
        return ()
    return (f"host {crowded[0]} has more ranks than cores: its ranks share cores, which is not simulated",)


def _star_of_hosts(facts: Facts, gpu: str) -> tuple[Build, tuple[str, ...]]:
    """Return hosts of GPUs on one switch, with the inside that the tools of the first host report."""
    ranks = Counter(rank.host for rank in facts.ranks)
    about: tuple[str, ...] = ()
    if len(set(ranks.values())) > 1:
        about = ("hosts have different numbers of ranks; here ranks fill the hosts one after the other",)
    shape, more = _shape(facts)
    if shape is None or shape.num_gpus < max(ranks.values()):
        host: dict[str, Any] = {"template": "single-socket", "gpu": gpu, "num_gpus": max(ranks.values())}
    else:
        found = host_of(shape, gpu)
        host, more = found.host, (*more, *found.notes)
    num_hosts = facts.num_hosts
    return (
        lambda link, hop: {"kind": "star", "num_hosts": num_hosts, "host": host, "link": link, "hop": hop},
        about + more,
    )


def _shape(facts: Facts) -> tuple[HostShape | None, tuple[str, ...]]:
    """Return the inside of the first host, from NCCL's topology or else from nvidia-smi's matrix, and notes."""
    notes: list[str] = []
    matrix = next((host.nvidia_smi_topo for host in facts.hosts if host is not None and host.nvidia_smi_topo), None)
    for what, text, read in (
        ("NCCL's topology", facts.nccl_topology, read_nccl_topology),
        ("nvidia-smi's matrix", matrix, read_topo_matrix),
    ):
        if text:
            try:
                return read(text), tuple(notes)
            except InputError as error:
                notes.append(f"{what} cannot be read ({error})")
    notes.append("the run file does not say how the GPUs of a host are connected; one shared PCIe root is assumed")
    return None, tuple(notes)


def _network_link(facts: Facts) -> tuple[str | None, str]:
    """Return the link between hosts from their adapters, None if the file has none."""
    host = next((host for host in facts.hosts if host is not None), None)
    if host is None or facts.num_hosts == 1:
        return None, "0 s"
    for port in host.infiniband:
        match = re.match(r"\s*(\d+)", str(port.get("rate", "")))
        if match and port.get("layer") == "InfiniBand" and int(match[1]) in _INFINIBAND:
            return _INFINIBAND[int(match[1])], "250 ns"
        if match:
            return f"{match[1]} Gbit/s", "1 us"
    speeds = [int(each["mbit_per_s"]) for each in host.interfaces if str(each.get("mbit_per_s", "")).isdecimal()]
    if not speeds:
        return None, "0 s"
    name = f"ethernet-{max(speeds) // 1000}g"
    return (name if name in LINKS else f"{max(speeds)} Mbit/s"), "10 us"


def _transport(facts: Facts) -> str:
    """Return the message library: NCCL uses sockets between hosts without InfiniBand and RoCE."""
    if facts.backend != "nccl":
        return "gloo"
    has_verbs = any(host is not None and host.infiniband for host in facts.hosts)
    return "nccl" if facts.num_hosts == 1 or has_verbs else "nccl-sockets"


def _fitted(run: RealRun, build: Build, transport: str) -> tuple[str | None, str, tuple[str, ...]]:
    """Return the rate and the delay of the link, fitted to the times of the run's all-reduces, and a note."""
    sweep = run.phase("all-reduce")
    if not isinstance(sweep, AllReducePhase):
        note = "the rate of the link between ranks is not known, and there is no complete all-reduce phase to fit it to"
        return None, "0 s", (note,)
    try:
        rate, hop_s = fit_link(build, sweep.rows, len(run.facts.ranks), transport)
    except ClustersimError as error:
        return None, "0 s", (f"no link could be fitted to the run's all-reduces: {error}",)
    note = (
        f"the link between ranks was fitted to the run's {len(sweep.rows)} all-reduces, which calibrate and are not "
        f"scored: {rate / 1e9:.3g} GB/s, {hop_s * 1e6:.3g} us"
    )
    return f"{rate / 1e9:.9g} GB/s", f"{hop_s * 1e6:.9g} us", (note,)


def fit_link(build: Build, rows: Sequence[SweepRow], num_ranks: int, transport: str) -> tuple[float, float]:
    """Return the rate (bytes/s) and delay (s) of a link with the least squares of log(simulated / measured).

    Their limits are 1 TB/s and 1 ns, which no network reaches: a link cannot make up for library costs that are higher
    than the measured times.
    """
    from scipy.optimize import least_squares

    measured = np.array([row.time_s for row in rows])
    sizes = [row.num_bytes for row in rows]

    def residuals(logs: np.ndarray) -> np.ndarray:
        topology = build(f"{exp(logs[0]) / 1e9:.12g} GB/s", f"{exp(logs[1]) * 1e6:.12g} us")
        document = time_collective("all-reduce", topology, "auto", num_ranks, sizes, transport)
        found: np.ndarray = np.log([row["time_s"] for row in document["rows"]]) - np.log(measured)
        return found

    bounds = ([log(1e4), log(1e-9)], [log(1e12), log(1.0)])
    found = least_squares(residuals, [log(1e9), log(1e-5)], bounds=bounds, diff_step=np.array([1e-4]))
    return exp(found.x[0]), exp(found.x[1])
