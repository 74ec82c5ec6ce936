"""Checks of stragglers and failures: whether the hosts, links and files that they name exist."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.failures import (
    DEFAULT_LENGTH_S,
    MOST_FAILURES,
    Failures,
    is_hopeless,
    job_mtbf_s,
    least_failures,
    never_ends,
)
from clustersim.reading.tree import Place
from clustersim.scenario.point import Point
from clustersim.stragglers import ComputeStraggler, LinkStraggler, LinkTable, OfHosts, TraceStraggler
from clustersim.topology import Topology
from clustersim.units import format_duration


def trace_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield the mistakes in files of measured times, each with its line."""
    for number, straggler in enumerate(point.stragglers):
        if isinstance(straggler, TraceStraggler):
            try:
                straggler.measured()
            except InputError as error:
                for mistake in error.mistakes:
                    is_wrong_column = mistake.key == "column" and straggler.column is not None
                    yield Place().located(mistake, f"stragglers.{number}.{'column' if is_wrong_column else 'file'}")


def straggler_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    """Yield the stragglers that name hosts or links which the job on `gpus` [num_ranks] does not have."""
    num_hosts = len(np.unique(topology.gpu_hosts[gpus]))
    for number, straggler in enumerate(point.stragglers):
        of = straggler.of if isinstance(straggler, ComputeStraggler | LinkStraggler) else None
        beyond = [host for host in of.hosts if host >= num_hosts] if isinstance(of, OfHosts) else []
        if beyond:
            allowed = f"0 to {num_hosts - 1}"
            message = f"the job is on {num_hosts} hosts, numbered {allowed} (got {beyond[0]})"
            yield Mistake(message, f"stragglers.{number}.of.hosts", got=str(beyond[0]), allowed=allowed)
        elif isinstance(straggler, LinkStraggler):
            try:
                straggler.selects(link_table(topology, gpus))
            except InputError as error:
                for mistake in error.mistakes:
                    yield Place().located(mistake, f"stragglers.{number}.of")


def failure_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    """Yield that checkpoints go to a host that does not exist, or that the training would never end.

    The length of the training is known before the run if the scenario gives `length`, or no length of the training.
    """
    failures = point.failures
    if failures is None:
        return
    yield from _host_mistakes(failures, topology)
    if failures.length is None and (point.epochs is not None or point.train_tokens is not None):
        return
    kinds = failures.lifetimes(len(gpus), len(np.unique(topology.gpu_hosts[gpus])))
    length_s = failures.length or DEFAULT_LENGTH_S
    given = "length" if failures.length is not None else "gpu" if failures.host is None else "host"
    num_failures = least_failures(kinds, length_s)
    if num_failures > MOST_FAILURES:
        message = (
            f"in {format_duration(length_s)} of training at least {num_failures:,.0f} failures are expected, and "
            f"at most {MOST_FAILURES:,} are simulated; give a shorter length, or a longer mtbf"
        )
        yield Mistake(message, f"failures.{given}", got=f"{num_failures:,.0f} failures", allowed=f"{MOST_FAILURES:,}")
        return
    write_s = failures.checkpoint.write or 0.0
    down_s = failures.detection + failures.restart + write_s
    if is_hopeless(length_s, write_s, down_s, job_mtbf_s(kinds)):
        often = max(kinds, key=lambda kind: kind[2] / kind[1].mtbf)
        message = str(never_ends(job_mtbf_s(kinds), down_s))
        got = format_duration(often[1].mtbf)
        yield Mistake(message, f"failures.{often[0]}.mtbf", got=got, allowed="a longer time between failures")


def _host_mistakes(failures: Failures, topology: Topology) -> Iterator[Mistake]:
    host = failures.checkpoint.host
    if host is not None and host not in topology.gpu_hosts:
        allowed = f"0 to {topology.num_hosts - 1}"
        message = f"the cluster '{topology.name}' has {topology.num_hosts} hosts, numbered {allowed} (got {host})"
        yield Mistake(message, "failures.checkpoint.host", got=str(host), allowed=allowed)


def link_table(topology: Topology, gpus: np.ndarray) -> LinkTable:
    """Return the links of a cluster for link stragglers of a job on `gpus` [num_ranks]."""
    links, hosts = topology.links, topology.gpu_hosts[gpus]
    src, dst = ([str(topology.node_names[node]) for node in ends.tolist()] for ends in (links.src, links.dst))
    of_job = list(dict.fromkeys(hosts.tolist()))
    return LinkTable(src, dst, links.kind, *_hosts_of_ends(topology), of_job)


def _hosts_of_ends(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Return the hosts of both ends of each link [num_links], -1 for a switch.

    NVLinks to the NVSwitch of several joined hosts are inside the host of their GPU.
    """
    links, domains = topology.links, topology.node_domains
    src, dst = topology.node_hosts[links.src], topology.node_hosts[links.dst]
    inside = (domains[links.src] == domains[links.dst]) & (domains[links.src] >= 0)
    return np.where(inside & (src < 0), dst, src), np.where(inside & (dst < 0), src, dst)
