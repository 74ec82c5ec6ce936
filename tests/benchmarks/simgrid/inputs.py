"""The files that the SimGrid programs read, made from our clusters and the same numbers that we play."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clustersim.topology import Topology

from .platforms import host_name, platform_xml


class Message(NamedTuple):
    """A message between two nodes, by number, that starts at a given time. Bytes are whole: SimGrid counts them so."""

    start_s: float
    src: int
    dst: int
    num_bytes: int


def write_flows(folder: Path, cluster: Topology, messages: Iterable[Message]) -> list[str]:
    """Write what `flows` reads, except where its results go; return its arguments. Starts must not go back."""
    messages = list(messages)
    platform, flows = folder / "platform.xml", folder / "flows.txt"
    platform.write_text(platform_xml(cluster, dict.fromkeys((one.src, one.dst) for one in messages)))
    flows.write_text(
        "".join(f"{one.start_s!r} {host_name(one.src)} {host_name(one.dst)} {one.num_bytes}\n" for one in messages)
    )
    return [str(platform), str(flows)]


def write_ring(
    folder: Path,
    cluster: Topology,
    nodes: Sequence[int],
    chunk_bytes: int,
    num_steps: int,
    delay_s: np.ndarray | None = None,
    bucket_s: Sequence[float] | None = None,
) -> list[str]:
    """Write what `ring` reads, except where its results go; return its arguments.

    `nodes` are those of ranks 0, 1, ...; `delay_s` [ranks, num_steps]; rings begin not before `bucket_s`.
    """
    following = [*nodes[1:], nodes[0]]
    platform, hosts = folder / "platform.xml", folder / "hosts.txt"
    platform.write_text(platform_xml(cluster, zip(nodes, following, strict=True)))
    hosts.write_text("".join(f"{host_name(node)}\n" for node in nodes))
    delays = buckets = "-"
    if delay_s is not None:
        delays = str(folder / "delays.bin")
        np.ascontiguousarray(delay_s[:, :num_steps], dtype=np.float64).tofile(delays)
    if bucket_s is not None:
        buckets = str(folder / "buckets.txt")
        Path(buckets).write_text("".join(f"{time_s!r}\n" for time_s in bucket_s))
    return [str(platform), str(hosts), str(chunk_bytes), str(num_steps), delays, buckets]
