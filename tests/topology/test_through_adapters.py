"""Messages between host memories of one host through its adapter."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.simulate.collective import time_collective
from clustersim.topology import load_topology
from clustersim.topology.adapters import through_adapters

HOST = {"template": "dual-socket", "gpu": "v100-pcie", "num_gpus": 4, "nics": 1, "cpu": "xeon-e5-2680-v3"}
CLUSTER = {"kind": "star", "num_hosts": 2, "link": "2 GB/s", "hop": "1 us", "host": HOST}


def test_memories_of_a_host_exchange_through_the_adapter_and_other_routes_are_unchanged():
    plain = load_topology(CLUSTER)
    looped = through_adapters(plain)
    first, same, other, far = (int(plain.memory[gpu]) for gpu in (0, 1, 2, 4))
    assert first == same != other
    kinds = [plain.links.kind[link] for link in looped.route(first, same).tolist()]
    assert kinds == ["memory", "pcie-3-x16", "access", "access", "pcie-3-x16", "memory"]
    ends = [(plain.links.src[link], plain.links.dst[link]) for link in looped.route(other, first).tolist()]
    assert (ends[0][0], ends[-1][1]) == (other, first)
    assert all(one[1] == following[0] for one, following in pairwise(ends))
    gpu = int(plain.gpus[0])
    for pair in ((first, far), (gpu, first), (gpu, int(plain.gpus[1])), (gpu, gpu)):
        assert looped.route(*pair).tolist() == plain.route(*pair).tolist()
    src, dst = np.meshgrid(*[np.unique(np.concatenate([plain.memory, plain.gpus]))] * 2)
    many = looped.routes(src.ravel(), dst.ravel())
    one_by_one = [looped.route(*pair).tolist() for pair in zip(src.ravel().tolist(), dst.ravel().tolist(), strict=True)]
    assert many.links.tolist() == [link for route in one_by_one for link in route]
    assert many.lengths.tolist() == [len(route) for route in one_by_one]


def test_two_ranks_of_a_socket_exchange_halves_at_the_rate_of_the_adapters_port():
    cluster = load_topology(CLUSTER)
    own, by_adapter = (
        time_collective("all-gather", cluster, "ring", 2, [2e9], transport=name)["rows"][0]["time_s"]
        for name in ("mpi", "mpi-adapter")
    )
    assert by_adapter - own == pytest.approx(2e9 / 2e9, rel=0.01)  # both halves go out, and both come in


def test_training_on_one_host_is_slower_by_the_adapter():
    scenario = {
        "model": "resnet50",
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": {**CLUSTER, "num_hosts": 1},
        "software": "plain",
        "strategy": {"kind": "all-reduce", "overlap": False},
    }
    own, by_adapter = (
        clustersim.sweep(scenario | {"transport": name}).runs[0].breakdown_s["communication_exposed"]
        for name in ("mpi", "mpi-adapter")
    )
    assert by_adapter > 1.5 * own


def test_a_graph_has_no_adapters():
    graph = load_topology({"kind": "torus", "dims": [4], "link": "1 GB/s", "hop": "1 us"}).graph
    with pytest.raises(InputError, match="was not built from hosts"):
        through_adapters(load_topology(graph))


def test_a_scenario_without_adapters_is_refused_at_its_transport():
    pair = {"kind": "explicit", "nodes": ["gpu0", "gpu1"], "gpu": "k20", "link": "1 GB/s"}
    scenario = {
        "model": "resnet50",
        "num_gpus": 2,
        "batch": {"per_gpu": 8},
        "topology": pair | {"links": [{"a": "gpu0", "b": "gpu1"}]},
        "software": "plain",
        "transport": "mpi-adapter",
        "strategy": {"kind": "all-reduce"},
    }
    with pytest.raises(InputError, match="was not built from hosts") as refused:
        clustersim.sweep(scenario)
    assert [mistake.key for mistake in refused.value.mistakes] == ["transport"]


def test_in_host_is_for_buffers_in_host_memory_only(tmp_path):
    assert load_transport("mpi-adapter").in_host == "adapter"
    assert load_transport("mpi").in_host is None
    shipped = Path(clustersim.__file__).parent / "hardware" / "transports" / "mpi-adapter.yaml"
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        shipped.read_text()
        .replace("name: mpi-adapter", "name: mine\nlibrary: mpi")
        .replace("value: host", "value: gpu")
    )
    with pytest.raises(InputError, match="in_host applies to messages between host memories"):
        load_transport(mine)
