"""A cluster as a SimGrid platform: the same rates where it is read again, and the same times in SimGrid."""

from __future__ import annotations

import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange.simgrid_export import MAX_GPUS, simgrid_platform
from clustersim.interchange.topology_files import import_topology
from clustersim.network import Network
from clustersim.topology import Topology, load_topology
from tests.benchmarks.simgrid.programs import run_program, why_missing

CABLES = {"link": "10 Gbit/s", "hop": "1 us"}
CLUSTERS: dict[str, dict[str, Any]] = {
    "star": {"kind": "star", "num_hosts": 5, "link": "infiniband-hdr"},
    "leaf-spine": {"kind": "leaf-spine", "num_leaves": 3, "hosts_per_leaf": 4, "oversubscription": 2, **CABLES},
    "fat-tree": {"kind": "fat-tree", "k": 4, **CABLES},
    "torus": {"kind": "torus", "dims": [3, 4], **CABLES},
    "pcie": {
        "kind": "star",
        "num_hosts": 2,
        **CABLES,
        "host": {"template": "dual-socket", "gpu": "titan-x-pascal", "num_gpus": 4, "plx_per_socket": 1},
    },
}
MESH = {"kind": "star", "num_hosts": 1, "link": "1 GB/s", "host": "dgx-1"}


def read_again(topology: Topology, tmp_path: Path) -> tuple[str, tuple[str, ...], Topology]:
    """Return the kind, the notes and the cluster of a platform that was written and imported."""
    path = tmp_path / "platform.xml"
    path.write_text(simgrid_platform(topology), encoding="utf-8")
    found = import_topology([path])
    return found.mapping["kind"], found.notes, load_topology(found.mapping)


def rate_and_delay(topology: Topology, src: int, dst: int) -> tuple[float, float]:
    route = topology.route(int(topology.gpus[src]), int(topology.gpus[dst]))
    return float(topology.links.bytes_per_s[route].min()), float(topology.links.latency_s[route].sum())


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_pair_has_the_same_rate_and_delay_when_it_is_read_again(name: str, tmp_path: Path) -> None:
    topology = load_topology(CLUSTERS[name])
    kind, notes, again = read_again(topology, tmp_path)
    assert again.num_gpus == topology.num_gpus
    assert not any("routes of the file" in note for note in notes)
    for pair in permutations(range(topology.num_gpus), 2):
        assert rate_and_delay(again, *pair) == pytest.approx(rate_and_delay(topology, *pair))
    if name in ("star", "leaf-spine", "fat-tree", "torus"):
        assert kind == name
        assert len(again.links) == len(topology.links)


def test_sheets_of_gpus_are_read_again_and_other_routes_are_noted(tmp_path: Path) -> None:
    topology = load_topology(MESH)
    _, notes, again = read_again(topology, tmp_path)
    assert set(again.gpu_sheets) == set(topology.gpu_sheets)
    same = [
        rate_and_delay(again, *pair) == pytest.approx(rate_and_delay(topology, *pair))
        for pair in permutations(range(8), 2)
    ]
    assert any(f"{same.count(False)} of the first 56 routes of the file have another rate" in note for note in notes)


def test_too_many_gpus_are_refused() -> None:
    with pytest.raises(InputError, match=f"at most {MAX_GPUS} GPUs"):
        simgrid_platform(load_topology({"kind": "star", "num_hosts": MAX_GPUS + 1, **CABLES}))
    assert simgrid_platform(load_topology({"kind": "star", "num_hosts": MAX_GPUS, **CABLES})).count("<route ") == 16256


def test_the_command_writes_a_platform(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.xml"
    assert main(["topology", "export", "dgx-1", "--format", "simgrid", "-o", str(out)]) == 0
    assert out.read_text(encoding="utf-8").count("<host ") == 8
    assert main(["topology", "export", "dgx-1", "--format", "dot"]) == 3
    assert "known: json, nccl-xml, simgrid" in capsys.readouterr().err


@pytest.mark.skipif(why_missing() is not None, reason="SimGrid is not installed")
@pytest.mark.parametrize("name", CLUSTERS)
def test_simgrid_reads_it_and_gives_the_same_times(name: str) -> None:
    """Messages of all pairs, one after the other, and then of all GPUs at once to their neighbours."""
    topology = load_topology(CLUSTERS[name])
    num = topology.num_gpus
    alone = [(1e4 * turn, *pair) for turn, pair in enumerate(list(permutations(range(num), 2))[:40])]
    start_s = 1e4 * len(alone)
    rows = alone + [(start_s, src, (src + 1) % num) for src in range(num)]
    with tempfile.TemporaryDirectory() as folder:
        platform, flows = Path(folder) / "platform.xml", Path(folder) / "flows.txt"
        platform.write_text(simgrid_platform(topology))
        names = [str(topology.node_names[gpu]) for gpu in topology.gpus]
        flows.write_text("".join(f"{at!r} {names[src]} {names[dst]} 1000000000\n" for at, src, dst in rows))
        told = run_program("flows", [str(platform), str(flows)]).end_s
    env = simpy.Environment()
    network = Network(env, topology, exact=True)
    sent = network.transfers(
        [src for _, src, _ in rows], [dst for _, _, dst in rows], 1e9, start_s=[at for at, _, _ in rows]
    )
    env.run(sent)
    ours = np.asarray(sent.value.end_s)
    assert np.asarray(told) == pytest.approx(ours, rel=1e-9, abs=1e-6)
