"""Whether stragglers and failures of a point meet something that exists: hosts, links, files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.reading.tree import Place
from clustersim.scenario.point import Point
from clustersim.stragglers import ComputeStraggler, LinkStraggler, LinkTable, OfHosts, Trace
from clustersim.topology import Topology


def trace_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what is wrong with the files of measured times, each with its line."""
    for number, straggler in enumerate(point.stragglers):
        if isinstance(straggler, Trace):
            try:
                straggler.measured()
            except InputError as error:
                for mistake in error.mistakes:
                    yield Place().told(mistake, f"stragglers.{number}.file")


def straggler_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    """Yield which stragglers name hosts or links that the job, on `gpus` [num_ranks] of the cluster, does not have."""
    num_hosts = len(np.unique(topology.gpu_hosts[gpus]))
    for number, straggler in enumerate(point.stragglers):
        of = straggler.of if isinstance(straggler, ComputeStraggler | LinkStraggler) else None
        beyond = [host for host in of.hosts if host >= num_hosts] if isinstance(of, OfHosts) else []
        if beyond:
            message = f"the job is on {num_hosts} hosts, numbered from 0 (got {beyond[0]})"
            allowed = f"0 to {num_hosts - 1}"
            yield Mistake(message, f"stragglers.{number}.of.hosts", got=str(beyond[0]), allowed=allowed)
        elif isinstance(straggler, LinkStraggler):
            try:
                straggler.chooses(link_table(topology, gpus))
            except InputError as error:
                for mistake in error.mistakes:
                    yield Place().told(mistake, f"stragglers.{number}.of")


def failure_mistakes(point: Point, topology: Topology) -> Iterator[Mistake]:
    """Yield whether checkpoints are written to a host that the cluster does not have."""
    host = None if point.failures is None else point.failures.checkpoint.host
    if host is not None and host not in topology.gpu_hosts:
        message = f"the cluster '{topology.name}' has {topology.num_hosts} hosts, numbered from 0 (got {host})"
        allowed = f"0 to {topology.num_hosts - 1}"
        yield Mistake(message, "failures.checkpoint.host", got=str(host), allowed=allowed)


def link_table(topology: Topology, gpus: np.ndarray) -> LinkTable:
    """Return a cluster's links as stragglers look at them, for a job on `gpus` [num_ranks]."""
    links, hosts = topology.links, topology.gpu_hosts[gpus]
    src, dst = ([str(topology.node_names[node]) for node in ends.tolist()] for ends in (links.src, links.dst))
    of_job = list(dict.fromkeys(hosts.tolist()))
    return LinkTable(src, dst, links.kind, topology.node_hosts[links.src], topology.node_hosts[links.dst], of_job)
