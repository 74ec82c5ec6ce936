"""The drawing of a cluster: all of a small one, two hosts and the routes between them of a large one."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from clustersim.report import write_topology
from clustersim.report.cluster import MAX_NODES, cluster_data, draw_cluster
from clustersim.topology import Topology, load_topology
from tests.report.page_parts import about, unpacked

STAR = {"kind": "star", "num_hosts": 4, "link": "8 Gbit/s", "hop": "1 us"}


def test_a_small_cluster_is_drawn_whole() -> None:
    data = cluster_data(load_topology(STAR))
    assert len(data.places) == 5
    assert [cable.num_links for cable in data.cables] == [2, 2, 2, 2]
    assert {(cable.bytes_per_s, cable.latency_s) for cable in data.cables} == {(1e9, 1e-6)}
    assert data.note == ""


@pytest.mark.parametrize("name", ["titan", "dgx-h100-ndr", "big-basin-50g", "ec2-p2-16xlarge"])
def test_of_a_large_cluster_two_hosts_and_the_routes_between_them_are_drawn(name: str) -> None:
    topology = load_topology(name)
    assert len(topology.node_names) > MAX_NODES
    data = cluster_data(topology)
    assert len(data.boxes) == 2
    assert "Two of " in data.note
    drawn = {frozenset((cable.a, cable.b)) for cable in data.cables}
    first, other = int(topology.gpus[0]), int(topology.gpus[topology.num_gpus // 2])
    for ends in [(first, other), (other, first)]:
        assert route_cables(topology, *ends) <= drawn


def route_cables(topology: Topology, src: int, dst: int) -> set[frozenset[str]]:
    links = topology.route(src, dst)
    nodes = [src, *topology.links.dst[links].tolist()]
    return {frozenset(str(topology.node_names[node]) for node in ends) for ends in pairwise(nodes)}


def test_a_cable_is_all_links_of_a_kind_between_two_nodes_and_memory_that_adds_is_none() -> None:
    topology = load_topology("dgx-1")
    links = topology.links
    data = cluster_data(topology)
    assert sum(cable.num_links for cable in data.cables) == int((links.src != links.dst).sum())
    assert len(data.cables) == len({(frozenset((cable.a, cable.b)), cable.kind) for cable in data.cables})


def test_lines_inside_a_row_are_arcs_and_all_others_straight() -> None:
    figure = draw_cluster(cluster_data(load_topology("dgx-1")))
    lines = {trace["name"].split()[0]: trace for trace in figure.traces if trace["mode"] == "lines"}
    assert len(lines["nvlink-1"]["x"]) > 3 * 16  # sixteen NVLinks of a cube mesh, each more than two ends and a gap
    assert len(set(lines["nvlink-1"]["y"])) > 2
    assert len(lines["infiniband-edr"]["x"]) == 3 * 4


def test_every_kind_of_link_has_a_line_of_its_own_look() -> None:
    figure = draw_cluster(cluster_data(load_topology("dgx-1")))
    looks = [(trace["line"]["color"], trace["line"]["dash"]) for trace in figure.traces if trace["mode"] == "lines"]
    assert len(looks) == len(set(looks)) == 5


def test_the_page_is_one_file_that_names_the_cluster_and_escapes_it(tmp_path: Path) -> None:
    topology = load_topology({**STAR, "name": "<b>lab</b>"})
    text = write_topology(topology, tmp_path / "lab.html").read_text()
    assert "<title>&lt;b&gt;lab&lt;/b&gt;: cluster</title>" in text
    assert "<b>lab</b>" not in text
    assert [panel["name"] for panel in about(text)["panels"]] == ["cluster"]
    assert list(json.loads(unpacked(text, "figures"))) == ["cluster"]
