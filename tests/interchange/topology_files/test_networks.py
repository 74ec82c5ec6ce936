"""Networks of other tools become the topology that they are, and what is not as there is said."""

from __future__ import annotations

import gc
import json
import re
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from ruamel.yaml import YAML

from clustersim.errors import InputError
from clustersim.hardware import load_link
from clustersim.interchange.simgrid_export import simgrid_platform
from clustersim.interchange.topology_files import FORMATS, import_topology, topology_text
from clustersim.interchange.topology_files.torus_structure import torus_places
from clustersim.topology import Topology, describe, load_topology
from tests.interchange.topology_files import samples
from tests.mutations import check_mutations

GB = 1e9


def imported(tmp_path: Path, *texts: str, **options: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the keys and notes of an import; what is written is read again as the same cluster."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_text(text, encoding="utf-8")
    found = import_topology(paths, **options)
    written = tmp_path / "written.yaml"
    written.write_text(topology_text(found), encoding="utf-8")
    again, direct = load_topology(written), load_topology(found.mapping)
    assert list(again.node_names) == list(direct.node_names)
    assert (again.links.bytes_per_s == direct.links.bytes_per_s).all()
    assert (again.links.latency_s == direct.links.latency_s).all()
    return {key: value for key, value in found.mapping.items() if key != "description"}, found.notes


def route(cluster: Topology, src: str, dst: str) -> tuple[int, float, float]:
    """Return how many links there are from one node to another, their lowest rate in GB/s, and their delay in us."""
    found = describe(cluster, (src, dst))["route"]
    return len(found["links"]), found["bottleneck_bytes_per_s"] / GB, found["latency_s"] * 1e6


class TestIbnetdiscover:
    def test_two_tiers_are_a_leaf_spine_with_their_oversubscription(self, tmp_path: Path) -> None:
        found, _ = imported(tmp_path, samples.two_tiers(4, 4, 2, speed="4xEDR"))
        assert found == {
            "kind": "leaf-spine",
            "num_hosts": 16,
            "link": "infiniband-edr",
            "num_leaves": 4,
            "hosts_per_leaf": 4,
            "spines": 2,
            "oversubscription": 2.0,
        }

    def test_one_switch_is_a_star(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.two_tiers(1, 8, 0, speed="4xXDR"), gpu="b200")
        host = {"template": "bare", "gpu": "b200"}
        assert found == {"kind": "star", "num_hosts": 8, "link": "100 GB/s", "host": host}
        assert "4xXDR is 800 Gbit/s of data" in notes[0]

    @pytest.mark.parametrize(
        ("speed", "link"),
        [("4xFDR", "infiniband-fdr"), ("4xHDR", "infiniband-hdr"), ("4xNDR", "infiniband-ndr"), ("2xHDR", "12.5 GB/s"),
         ("4xQDR", "4 GB/s"), ("8xNDR", "100 GB/s")],
    )  # fmt: skip
    def test_widths_and_speeds(self, tmp_path: Path, speed: str, link: str) -> None:
        assert imported(tmp_path, samples.two_tiers(1, 3, 0, speed=speed))[0]["link"] == link

    def test_cards_that_name_a_host_are_its_cards(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.two_tiers(2, 4, 2, cards=2))
        assert (found["num_hosts"], found["host"]) == (8, {"template": "bare", "num_gpus": 2})
        assert "one GPU for each of its 2 network cards" in notes[0]

    def test_a_card_of_each_host_on_each_leaf_is_a_rail(self, tmp_path: Path) -> None:
        found, _ = imported(tmp_path, samples.two_tiers(4, 6, 3, cards=4, rails=True))
        assert (found["rails"], found["num_leaves"], found["hosts_per_leaf"]) == (True, 4, 6)
        assert found["oversubscription"] == 2.0
        cluster = load_topology(found)
        assert (cluster.num_hosts, cluster.num_gpus) == (6, 24)
        assert route(cluster, "gpu1", "gpu21")[0] == 2
        assert route(cluster, "gpu1", "gpu22")[0] == 4

    def test_a_missing_cable_makes_it_explicit(self, tmp_path: Path) -> None:
        lines = samples.two_tiers(2, 4, 2).splitlines()
        cut = [line for line in lines if not ("leaf00" in line and "spine01" in line) or line.startswith("Switch")]
        one = '[6]\t"S-b8599f03ff000001"[1]'
        cut = [line for line in lines if not line.startswith(one) and '"S-b8599f0300000000"[6]' not in line]
        assert len(cut) == len(lines) - 2
        found, _ = imported(tmp_path, "\n".join(cut))
        assert found["kind"] == "explicit"
        cluster = load_topology(found)
        assert len(cluster.links) == 2 * (8 + 3)
        assert route(cluster, "node000", "node007") == (4, pytest.approx(24.6), pytest.approx(1.0))

    def test_a_fat_tree_of_three_tiers(self, tmp_path: Path) -> None:
        found, _ = imported(tmp_path, three_tiers())
        assert found == {"kind": "fat-tree", "num_hosts": 16, "link": "infiniband-hdr", "k": 4}

    def test_hosts_of_another_order_than_the_switches_are_noted(self, tmp_path: Path) -> None:
        text = samples.two_tiers(2, 2, 1, card=lambda host, _: f"n{(2, 0, 1, 3)[host]} HCA-1")
        found, notes = imported(tmp_path, text)
        assert found["kind"] == "leaf-spine"
        assert "hosts are numbered switch by switch: 0 is n0, the last n3" in notes

    def test_cards_without_a_host_are_hosts_and_those_of_switches_none(self, tmp_path: Path) -> None:
        names = ["n0 mlx5_0", "MT4123 ConnectX6   Mellanox Technologies", "Mellanox Technologies Aggregation Node"]
        found, notes = imported(tmp_path, samples.two_tiers(1, 3, 0, card=lambda host, _: names[host]))
        assert found["num_hosts"] == 2
        assert "1 cards do not name their host" in " ".join(notes)
        assert "cables that are left out: 1 to cards of switches" in " ".join(notes)

    def test_a_file_that_is_cut_off_is_told_with_its_line(self, tmp_path: Path) -> None:
        text = samples.two_tiers(2, 2, 1)
        with pytest.raises(InputError, match=r"0\.txt:\d+: .* which has no block"):
            imported(tmp_path, text[: text.index('Ca\t1 "H-0c42a10300000003"')])
        with pytest.raises(InputError, match=r"0\.txt:8: this is not a port"):
            imported(tmp_path, text.replace("[1]\t", "[1]\tx", 1))
        with pytest.raises(InputError, match="no rates: give the link"):
            imported(tmp_path, text.replace("4xHDR", ""))
        assert imported(tmp_path, text.replace("4xHDR", ""), link="1 GB/s")[0]["link"] == "1 GB/s"
        with pytest.raises(InputError, match="has the rate of every cable"):
            imported(tmp_path, text, link="1 GB/s")

    def test_two_networks_in_one_file_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="in 2 parts: no cables lead from 'node000' to 'node002'"):
            imported(tmp_path, samples.two_tiers(2, 2, 0))


class TestTorus:
    @pytest.mark.parametrize("dims", [(3,), (5,), (2, 3), (4, 3), (4, 4), (3, 2, 5), (4, 4, 4), (2, 6, 3)])
    def test_a_torus_of_switches_has_its_lengths_and_every_route(self, tmp_path: Path, dims: tuple[int, ...]) -> None:
        wanted = {"kind": "torus", "dims": list(dims), "hosts_per_router": 2, "link": "8 Gbit/s", "hop": "1 us"}
        cluster = load_topology(wanted)
        found, notes = imported(tmp_path, simgrid_platform(cluster))
        assert (found["kind"], found["dims"], found["hosts_per_router"]) == ("torus", list(dims), 2)
        again = load_topology(found)
        for src, dst in [(0, n) for n in range(1, cluster.num_gpus)] + [(cluster.num_gpus - 1, 3)]:
            ways = [[each.link_name(link) for link in route_of(each, src, dst)] for each in (cluster, again)]
            assert ways[0] == ways[1]
        assert not any("routes of the file" in note for note in notes)

    def test_links_of_other_rates_along_one_dimension_keep_their_rates(self, tmp_path: Path) -> None:
        wanted = {"kind": "torus", "dims": [3, 4], "link": ["2 GB/s", "1 GB/s"], "injection": "4 GB/s", "hop": "1 us"}
        found, _ = imported(tmp_path, simgrid_platform(load_topology(wanted)))
        assert {key: found[key] for key in ("dims", "link", "injection", "hop")} == {
            "dims": [3, 4], "link": ["2 GB/s", "1 GB/s"], "injection": "4 GB/s", "hop": "1 us"
        }  # fmt: skip

    def test_a_twist_or_a_missing_link_is_no_torus(self) -> None:
        grid = nx.grid_graph([4, 5], periodic=True)
        neighbours = {str(node): {str(other) for other in grid[node]} for node in grid}
        assert torus_places(neighbours) is not None
        a, b, c, d = (str(node) for node in ((0, 0), (0, 1), (2, 2), (2, 3)))
        twisted = {name: set(others) for name, others in neighbours.items()}
        for one, other, new in ((a, b, c), (b, a, d), (c, d, a), (d, c, b)):
            twisted[one] = (twisted[one] - {other}) | {new}
        assert torus_places(twisted) is None
        assert (
            torus_places({name: set(others) for name, others in nx.relabel_nodes(nx.petersen_graph(), str).adjacency()})
            is None
        )


def route_of(cluster: Topology, src: int, dst: int) -> list[int]:
    return [int(link) for link in cluster.route(int(cluster.gpus[src]), int(cluster.gpus[dst]))]


def three_tiers() -> str:
    """Return ibnetdiscover of the fat tree of 4 pods."""
    names, cables = {}, []
    used: dict[str, int] = {}

    def node(tier: int, number: int, name: str) -> str:
        guid = f"{'H' if tier == 9 else 'S'}-{tier:02x}{number:014x}"
        names[guid] = name
        return guid

    def cable(a: str, b: str) -> None:
        for end in (a, b):
            used[end] = used.get(end, 0) + 1
        cables.append((a, used[a], b, used[b], "4xHDR"))

    edges = [node(1, number, f"e{number}") for number in range(8)]
    above = [node(2, number, f"a{number}") for number in range(8)]
    cores = [node(3, number, f"c{number}") for number in range(4)]
    for host in range(16):
        cable(edges[host // 2], node(9, host, f"n{host} mlx5_0"))
    for pod in range(4):
        for one in range(2):
            for other in range(2):
                cable(edges[2 * pod + one], above[2 * pod + other])
                cable(above[2 * pod + one], cores[2 * one + other])
    return samples.ibnetdiscover(cables, names)


class TestSlurm:
    def test_a_tree_of_two_tiers(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.SLURM_TREE, link="infiniband-ndr")
        assert (found["kind"], found["num_leaves"], found["hosts_per_leaf"]) == ("leaf-spine", 2, 8)
        assert (found["link"], found["oversubscription"], found["num_hosts"]) == ("infiniband-ndr", 1.0, 16)
        assert any("LinkSpeed has no unit" in note for note in notes)
        assert any("no oversubscription" in note for note in notes)

    def test_without_a_link_it_is_asked_for(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"has no rates: give the link of its cables.*node001 - s0"):
            imported(tmp_path, samples.SLURM_TREE)

    def test_blocks(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.SLURM_BLOCKS, link="400 Gbit/s")
        assert (found["kind"], found["num_leaves"], found["hosts_per_leaf"]) == ("leaf-spine", 2, 18)
        assert "2 blocks are leaves" in notes[0]

    def test_three_tiers_are_explicit_with_links_of_all_hosts_below(self, tmp_path: Path) -> None:
        text = "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-5]\nSwitchName=m Switches=a\n"
        found, _ = imported(tmp_path, text + "SwitchName=top \\\n  Switches=m,b\n", link="1 GB/s")
        rates = {(link["a"], link["b"]): link.get("link", found["link"]) for link in found["links"]}
        assert rates["n0", "a"] == "1 GB/s"
        assert (rates["a", "m"], rates["m", "top"], rates["b", "top"]) == ("4 GB/s", "4 GB/s", "2 GB/s")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("SwitchName=a Nodes=n[1-3", r"0\.txt:1: this is not a list of names"),
            ("SwitchName=a Nodes=n[1-999999999]", "at most 50,000 names are read"),
            ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", r"0\.txt:2: the switch 'a' is given twice"),
            ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "no switch has nodes"),
            ("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a", "is above itself"),
            ("SwitchName=a Nodes=n1 Children=b", "'children' is not read"),
            ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "both switches and blocks"),
            ("SwitchName=a Nodes=n1\nSwitchName=t Switches=a,c", r"0\.txt:2: .*above 'c', which has no line"),
            ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2", "in 2 parts"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_line(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            imported(tmp_path, text, link="1 GB/s")


class TestAstraSim:
    def test_a_switch_is_a_star_of_gpus(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.ASTRA_SWITCH)
        assert found == {"kind": "star", "num_hosts": 8, "link": "53.6870912 GB/s", "hop": "500 ns"}
        assert "2**30" in notes[0]

    def test_three_dimensions(self, tmp_path: Path) -> None:
        found, _ = imported(tmp_path, samples.ASTRA_THREE, gpu="h100")
        cluster = load_topology(found)
        gib = 2**30 / GB
        assert cluster.num_gpus == 64
        assert set(cluster.gpu_sheets) == {"h100"}
        assert route(cluster, "gpu0", "gpu1") == (1, pytest.approx(200 * gib), pytest.approx(0.05))
        assert route(cluster, "gpu0", "gpu14") == (1, pytest.approx(100 * gib), pytest.approx(0.5))
        assert route(cluster, "gpu0", "gpu16") == (2, pytest.approx(50 * gib), pytest.approx(4.0))
        assert route(cluster, "gpu0", "gpu63") == (4, pytest.approx(50 * gib), pytest.approx(4.55))
        cables = 32 + 8 * 28 + 64
        assert len(found["links"]) == cables

    def test_rings(self, tmp_path: Path) -> None:
        text = "topology: [Ring, Ring]\nnpus_count: [4, 3]\nbandwidth: [10, 20]\nlatency: [0, 0]\n"
        cluster = load_topology(imported(tmp_path, text)[0])
        assert len(cluster.links) == 2 * 2 * 12
        assert route(cluster, "gpu0", "gpu3")[0] == 1
        assert route(cluster, "gpu0", "gpu10")[0] == 3

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("Switch", "Mesh2D", r"0\.txt:1:11: topology: `topology` has building blocks .*got Mesh2D"),
            ("[ 8 ]", "[ 0 ]", "npus_count.*whole numbers from 1"),
            ("[ 8 ]", "[ 8, 2 ]", "1 values, one for each dimension"),
            ("50.0", "-1", "bandwidth"),
            ("latency", "delay", "has `latency`"),
            ("latency: [ 500.0 ]", "latency: [ 500.0 ]\nlinks: []", "`links` of an ASTRA-sim network is not read"),
        ],
    )
    def test_what_is_wrong_is_told(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            imported(tmp_path, samples.ASTRA_SWITCH.replace(old, new))


class TestSimGrid:
    def test_a_fat_tree_of_two_levels_is_a_leaf_spine(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.SIMGRID_FAT_TREE)
        assert (found["kind"], found["num_leaves"], found["spines"]) == ("leaf-spine", 4, 2)
        assert (found["link"], found["hop"], found["oversubscription"]) == ("0.125 GB/s", "50 us", 1.0)
        assert "D mod k" in notes[0]

    def test_a_fat_tree_of_three_levels(self, tmp_path: Path) -> None:
        text = samples.simgrid_cluster('topology="FAT_TREE" topo_parameters="3;2,2,4;1,2,2;1,1,1"')
        assert imported(tmp_path, text)[0]["kind"] == "fat-tree"

    def test_a_torus(self, tmp_path: Path) -> None:
        text = samples.simgrid_cluster('topology="TORUS" topo_parameters="4,2,2"')
        found, notes = imported(tmp_path, text)
        cluster = load_topology(found)
        assert len(cluster.links) == 2 * (16 + 8 + 8)
        assert route(cluster, "node-0.lab", "node-3.lab")[0] == 1
        assert route(cluster, "node-0.lab", "node-14.lab")[0] == 4
        assert "dimension by dimension" in notes[0]

    def test_a_flat_cluster_is_a_star_with_half_the_delay_of_its_backbone(self, tmp_path: Path) -> None:
        found, _ = imported(tmp_path, samples.simgrid_cluster('bb_bw="2GBps" bb_lat="100us"'))
        assert (found["kind"], found["num_hosts"], found["hop"]) == ("star", 16, "100 us")
        with pytest.raises(
            InputError,
            match="bb_bw: '1GBps' of a SimGrid <cluster> is not read; expected a backbone of at least 2 GB/s",
        ):
            imported(tmp_path, samples.simgrid_cluster('bb_bw="1GBps"'))

    def test_hosts_links_and_routes(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.SIMGRID_HOSTS)
        cluster = load_topology(found)
        assert route(cluster, "A", "B") == (2, pytest.approx(0.125), pytest.approx(100.0))
        assert route(cluster, "B", "C") == (2, pytest.approx(0.125), pytest.approx(1050.0))
        assert len(cluster.links) == 6
        assert "2 links are SHARED by both directions (l1, l3)" in notes[0]

    def test_a_route_that_is_not_the_shortest_is_noted(self, tmp_path: Path) -> None:
        longer = samples.SIMGRID_HOSTS.replace(
            '<route src="A" dst="C">', '<link id="l4" bandwidth="1Gbps" latency="1us"/><route src="A" dst="C">'
        ).replace("</zone>", '<route src="C" dst="A" symmetrical="NO"><link_ctn id="l4"/></route></zone>')
        notes = imported(tmp_path, longer)[1]
        assert any(
            "2 of the first 4 routes of the file have another rate or delay here (A - C, B - C)" in note
            for note in notes
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (samples.simgrid_cluster('topology="DRAGONFLY" topo_parameters="3,4;4,3;5,1;2"'), "DRAGONFLY"),
            (samples.simgrid_cluster('topology="FAT_TREE" topo_parameters="2;4,4;1,2"'), "children;parents;ports"),
            (samples.simgrid_cluster('topology="TORUS" topo_parameters="4,2"'), "8 hosts for topo_parameters"),
            (samples.simgrid_cluster('sharing_policy="SHARED"'), "sharing_policy: 'SHARED' of a SimGrid <cluster>"),
            (samples.simgrid_cluster('limiter_link="1"'), "`limiter_link` of a <cluster> is not read"),
            (samples.SIMGRID_HOSTS.replace('<link_ctn id="l3"/>', '<link_ctn id="l9"/>'), "unknown link"),
            (samples.SIMGRID_HOSTS.replace("1Gbps", "1 furlong"), "bandwidth is not a rate"),
            (samples.SIMGRID_HOSTS.replace('routing="Full"', 'routing="Vivaldi"'), "routing 'Vivaldi' of a zone"),
            (samples.SIMGRID_HOSTS.replace("<host", "<peer", 1), "<peer> of a SimGrid platform is not read"),
            (samples.SIMGRID_HOSTS.replace(' "https', ' [<!ENTITY a "b">] "https'), "declares entities"),
        ],
    )  # fmt: skip
    def test_what_is_not_read_is_refused_by_name(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            imported(tmp_path, text)

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("SPLITDUPLEX", "FATPIPE", r":6: sharing_policy: the link 'l2' has sharing_policy FATPIPE"),
            ('bandwidth="10Gbps"', 'bandwidth="1 furlong"', r":7: bandwidth: bandwidth is not .* .got '1 furlong'."),
            ('latency="1ms"', 'latency="-3s"', r":7: latency: latency is not a time.* .got '-3s'."),
            ('dst="C"><link_ctn id="l1"', 'dst="C"><link_ctn id="l9"', r":9: link_ctn: .* unknown link 'l9'"),
            ('src="B"', 'src="Z"', r":10: src: .* .got 'Z'."),
            ('id="l3" b', 'id="l2" b', r":7: id: a <link> has no name of its own .got 'l2'."),
        ],
    )
    def test_a_mistake_has_the_line_and_the_value(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        text = samples.SIMGRID_HOSTS.replace(old, new, 1)
        first = text[: text.index("<host")].count("\n") - 3  # lines before the hosts, which are on the fourth
        with pytest.raises(InputError) as error:
            imported(tmp_path, text)
        mistake = error.value.mistakes[0]
        assert re.search(message, f":{(mistake.line or 0) - first}: {mistake.key}: {mistake.message}")
        assert mistake.file is not None

    def test_a_backbone_that_all_share_is_refused(self, tmp_path: Path) -> None:
        links = "".join(f'<link id="{name}" bandwidth="1Gbps" latency="1us"/>' for name in ("a", "b", "c", "bb"))
        hosts = "".join(f'<host id="{name.upper()}" speed="1Gf"/>' for name in "abc")
        pairs = [("a", "b"), ("b", "c"), ("a", "c")]
        routes = "".join(
            f'<route src="{one.upper()}" dst="{other.upper()}">'
            f'<link_ctn id="{one}"/><link_ctn id="bb"/><link_ctn id="{other}"/></route>'
            for one, other in pairs
        )
        text = f'<platform version="4.1"><zone id="z" routing="Full">{hosts}{links}{routes}</zone></platform>'
        with pytest.raises(InputError, match="'bb' is used by routes in both directions"):
            imported(tmp_path, text)


class TestInfraGraph:
    def test_instances_and_edges(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.INFRAGRAPH)
        assert (found["kind"], found["num_leaves"], found["hosts_per_leaf"], found["num_hosts"]) == (
            "leaf-spine",
            2,
            2,
            4,
        )
        assert (found["link"], found["hop"], found["oversubscription"]) == ("12.5 GB/s", "1 us", 1.0)
        assert any("the inside of a host is left out: give the GPU's sheet" in note for note in notes)
        assert any("the file has 4 GPUs a host" in note for note in notes)

    def test_the_inside_of_a_device_is_the_host(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.INFRAGRAPH, gpu="h100")
        host = found["host"]
        kinds = {node["name"]: node["kind"] for node in host["nodes"]}
        assert kinds == {
            **{f"cpu.{n}": "socket" for n in range(2)},
            **{f"nic.{n}": "nic" for n in range(2)},
            **{f"pciesw.{n}": "plx" for n in range(2)},
            **{f"xpu.{n}": "gpu" for n in range(4)},
            "nvsw.0": "nvswitch",
        }
        links = {(link["a"], link["b"]): (link.get("link"), link.get("count", 1)) for link in host["links"]}
        assert links["xpu.3", "nvsw.0"] == ("nvlink-4", 18)
        assert links["xpu.3", "pciesw.1"] == links["nic.1", "pciesw.1"] == links["pciesw.1", "cpu.1"] == (None, 1)
        assert links["cpu.0", "cpu.1"] == ("20 GB/s", 1)
        assert len(links) == 4 + 4 + 2 + 2 + 1
        assert any("all 18 links of its sheet" in note for note in notes)
        assert any("no training traffic are left out: bmc" in note for note in notes)
        cluster = load_topology(found)
        assert cluster.num_gpus == 16
        assert route(cluster, "host0/xpu.0", "host0/xpu.3")[:2] == (2, pytest.approx(18 * 20.6, rel=0.3))

    def test_json_and_many_to_many(self, tmp_path: Path) -> None:
        text = samples.INFRAGRAPH.replace(
            'ep2: {instance: spinesw, component: "port[0:2]"}\n    scheme: one2one',
            'ep2: {instance: spinesw, component: "port[0:2]"}\n    scheme: many2many',
        )
        found, _ = imported(tmp_path, text)
        assert found["oversubscription"] == 0.5
        as_json = json.dumps(YAML(typ="safe").load(text))
        assert imported(tmp_path, as_json)[0] == found
        with pytest.raises(InputError, match="a number above zero"):
            imported(tmp_path, as_json.replace("400", "NaN"))

    def test_a_link_without_a_bandwidth_takes_that_of_the_option(self, tmp_path: Path) -> None:
        text = samples.INFRAGRAPH.replace(", physical: {bandwidth: {gigabits_per_second: 400}, latency: {us: 1}}", "")
        with pytest.raises(InputError, match="no rates"):
            imported(tmp_path, text)
        assert imported(tmp_path, text, link="1 GB/s")[0]["kind"] == "explicit"

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("scheme: many2many", "scheme: x", "this `scheme` is not read"),
            ("scheme: one2one", "scheme: ring", r"0\.txt:\d+:\d+: scheme: this `scheme` is not read"),
            ("link: spine-link", "link: other", "no link is called 'other'"),
            ("host[0:2]", "host[0:9]", "there are 4 of these"),
            ("instance: leafsw,", "instance: leaf,", "no instance is called 'leaf'"),
            ("component: nic}", "component: nic.x}", "no component is called 'x'"),
            ("choice: xpu", "choice: cpu", "no instance has an xpu"),
            ("gigabits_per_second: 100", "gigabits_per_second: .nan", "finite"),
            ("edges:\n  - ep1", "connections: []\nedges:\n  - ep1", "`connections` of an InfraGraph is not read"),
        ],
    )
    def test_what_is_wrong_is_told(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        text = samples.INFRAGRAPH.replace(old, new)
        assert text != samples.INFRAGRAPH
        with pytest.raises(InputError, match=message):
            imported(tmp_path, text)


class TestHostsOnNetworks:
    def test_a_host_file_gives_the_hosts_of_a_network(self, tmp_path: Path) -> None:
        found, _ = imported(tmp_path, samples.two_tiers(2, 4, 2, cards=2), samples.MATRIX, gpu="a100")
        assert (found["kind"], found["num_hosts"], found["host"]["gpu"]) == ("leaf-spine", 8, "a100")
        cluster = load_topology(found)
        assert (cluster.num_hosts, cluster.num_gpus) == (8, 16)

    def test_the_cables_of_the_network_count_where_cards_differ(self, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, samples.two_tiers(2, 4, 2, cards=1), samples.MATRIX, gpu="a100")
        assert any("2 network ports and 1 cables" in note for note in notes)
        assert load_topology(found).num_gpus == 16

    @pytest.mark.parametrize("text", [samples.SLURM_TREE, samples.SLURM_BLOCKS])
    def test_slurm_names_no_cards_so_all_of_a_host_are_on_its_leaf(self, text: str, tmp_path: Path) -> None:
        found, notes = imported(tmp_path, text, samples.MATRIX, gpu="a100", link="infiniband-hdr")
        assert any("each of the 2 is on its leaf" in note for note in notes)
        cluster = load_topology(found)
        kinds = np.asarray(cluster.link_kinds[0])[cluster.link_kinds[1]]
        at_host = [
            link
            for link in np.flatnonzero(kinds == "infiniband-hdr").tolist()
            if cluster.node_hosts[cluster.links.src[link]] == 0
        ]
        assert len(at_host) == 2
        rate = load_link("infiniband-hdr").bytes_per_s
        up = cluster.links.bytes_per_s[
            (cluster.node_hosts[cluster.links.src] < 0) & (cluster.node_hosts[cluster.links.dst] < 0)
        ]
        assert up.min() >= 2 * rate

    def test_one_host_alone_and_several_on_a_switch(self, tmp_path: Path) -> None:
        alone, notes = imported(tmp_path, samples.MATRIX, gpu="a100")
        assert load_topology(alone).num_gpus == 2
        assert any("one host without a network" in note for note in notes)
        several, _ = imported(tmp_path, samples.MATRIX, gpu="a100", num_hosts=4, link="infiniband-hdr")
        assert (several["kind"], several["num_hosts"], several["link"]) == ("star", 4, "infiniband-hdr")
        with pytest.raises(InputError, match="no rate of the network cards"):
            imported(tmp_path, samples.MATRIX, gpu="a100", num_hosts=4)

    def test_what_does_not_go_together(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="does not name the GPU"):
            imported(tmp_path, samples.MATRIX)
        with pytest.raises(InputError, match="one file of networks"):
            imported(tmp_path, samples.SLURM_TREE, samples.SLURM_BLOCKS)
        with pytest.raises(InputError, match="nodes of this network are GPUs"):
            imported(tmp_path, samples.ASTRA_SWITCH, samples.MATRIX, gpu="a100")
        with pytest.raises(InputError, match="the network has 16 hosts"):
            imported(tmp_path, samples.SLURM_TREE, link="1 GB/s", num_hosts=3)

    def test_an_unknown_format_lists_the_known_ones(self, tmp_path: Path) -> None:
        with pytest.raises(InputError) as caught:
            imported(tmp_path, "hello")
        assert all(f"{name}: " in str(caught.value) for name in FORMATS)


@pytest.mark.parametrize(
    ("text", "link"),
    [
        (samples.two_tiers(2, 2, 1, cards=2), None),
        (samples.SLURM_TREE, "1 GB/s"),
        (samples.SLURM_BLOCKS, "1 GB/s"),
        (samples.ASTRA_THREE, None),
        (samples.SIMGRID_FAT_TREE, None),
        (samples.SIMGRID_HOSTS, None),
        (samples.INFRAGRAPH, None),
    ],
    ids=["ibnetdiscover", "slurm", "slurm-blocks", "astra-sim", "simgrid-cluster", "simgrid", "infragraph"],
)
def test_mutated_files_are_refused_clearly_or_read(text: str, link: str | None, tmp_path: Path) -> None:
    was_read, refused = check_mutations(
        lambda path: import_topology([path], link=link), text.encode(), tmp_path / "file", count=500
    )
    assert was_read + refused == 500
    assert refused > 50


_ZONE = '<platform version="4.1"><zone id="z" routing="Full">'
LARGE = {
    "switches of InfiniBand": "".join(f'Switch 41 "S-{n:x}" # "s{n}" base port 0\n' for n in range(100_000)),
    "switches of SLURM": "".join(f"SwitchName=s{n} Nodes=n{n}\n" for n in range(150_000)),
    "a list of SLURM": "SwitchName=s Nodes=n[" + "1," * 1_500_000 + "1]",
    "a continued line": "SwitchName=s \\\n" * 200_000,
    "a flat XML": "<platform>" + "<a/>" * 1_000_000,
    "a deep XML": "<platform>" + "<zone>" * 500_000,
    "hosts of SimGrid": _ZONE + "".join(f'<host id="{n}"/>' for n in range(150_000)) + "</zone></platform>",
    "a radical": f'{_ZONE}<cluster id="a" radical="{"0-49999," * 300_000}1" bw="1Bps" lat="0s"/></zone></platform>',
    "a list of InfraGraph": '{"devices": [], "instances": [' + "{}," * 1_000_000 + "{}]}",
    "a deep InfraGraph": "devices:\ninstances: " + "[" * 2_000_000,
    "lists of ASTRA-sim": "npus_count: [" + "1," * 1_500_000 + "1]",
    "nothing known": "\n" * 3_000_000,
}


def refused_s(path: Path) -> float:
    """Return the CPU seconds until a file is refused."""
    gc.collect()
    gc.freeze()  # what other tests keep alive is not walked through again and again, as in a process of its own
    try:
        start = time.process_time()
        with pytest.raises(InputError):
            import_topology([path], link="1 GB/s")
        return time.process_time() - start
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("name", LARGE)
def test_a_large_file_is_refused_in_time(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(LARGE[name], encoding="utf-8")
    assert refused_s(path) < 2 + len(LARGE[name]) / 1e7
