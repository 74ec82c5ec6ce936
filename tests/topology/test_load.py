"""From names, files, mappings and graphs to clusters."""

import sys
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim.hardware
from clustersim.data import shipped_files
from clustersim.errors import InputError
from clustersim.topology import describe, load_topology, topology_spec

SHIPPED = {
    "titan": (19200, "k20x"),
    "cots-hpc": (64, "gtx-680"),
    "ec2-p2-16xlarge": (256, "k80"),
    "gce-k80": (8, "k80"),
    "dgx-1": (8, "p100"),
    "big-basin-50g": (352, "p100"),
    "k80-10gbe": (8, "k80"),
    "ethernet-1g": (32, "gtx-1080-ti"),
    "dgx-h100-ndr": (1024, "h100"),
    "ec2-g4dn-12xlarge": (16, "t4"),
    "ec2-g4dn-12xlarge-pods": (16, "t4"),
    "ec2-p2-8xlarge": (64, "k80"),
    "hkbu-2080ti-100gib": (64, "rtx-2080-ti"),
    "hkbu-2080ti-10gbe": (64, "rtx-2080-ti"),
    "k20-pcie": (8, "k20"),
    "ec2-p4d-24xlarge": (128, "a100-40gb"),
    "ec2-p4de-24xlarge": (128, "a100"),
    "ec2-p5-48xlarge": (256, "h100"),
    "ec2-p5en-48xlarge": (256, "h200"),
    "gce-a3-mega": (256, "h100"),
    "dgx-h100-roce": (512, "h100"),
    "gb200-nvl72": (288, "gb200"),
    "azure-nd-mi300x": (128, "mi300x"),
    "frontier-cabinet": (1024, "mi250x"),
    "gce-a4": (256, "b200"),
    "tpu-v4-512": (512, "tpu-v4"),
    "tpu-v5e-256": (256, "tpu-v5e"),
    "tpu-v5p-512": (512, "tpu-v5p"),
    "tpu-v6e-256": (256, "tpu-v6e"),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_cluster_has_its_gpus_and_its_owner(name):
    topology = load_topology(name)
    assert (topology.name, topology.num_gpus, set(topology.gpu_sheets)) == (name, SHIPPED[name][0], {SHIPPED[name][1]})
    spec = topology_spec(name)
    assert spec.description
    assert spec.source
    assert shipped_files("topologies")[name].read_text().startswith("# ")


def test_every_shipped_cluster_is_known_here():
    assert set(shipped_files("topologies")) == set(SHIPPED)


def test_the_default_name_is_that_of_the_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("kind: star\nnum_hosts: 3\nlink: 10 Gbit/s\n")
    assert (load_topology(path).name, load_topology(str(path)).num_gpus) == ("mine", 3)
    path.write_text("kind: star\nname: ours\nnum_hosts: 3\nlink: 10 Gbit/s\n")
    assert load_topology(path).name == "ours"


def test_a_topology_is_itself():
    topology = load_topology("dgx-1")
    assert load_topology(topology) is topology
    assert load_topology(topology_spec("dgx-1")).num_gpus == 8


def test_mistakes_in_a_file_have_their_lines(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("kind: star\nnum_hosts: 0\nlink: 10 Gb/s\nhost:\n  template: dgx-1\n  gpus: 8\n")
    with pytest.raises(InputError) as caught:
        load_topology(path)
    found = [(mistake.key, mistake.line, mistake.column) for mistake in caught.value.mistakes]
    assert found == [("num_hosts", 2, 12), ("link", 3, 7), ("host.gpus", 6, 3)]
    assert all(mistake.file == str(path) for mistake in caught.value.mistakes)


@pytest.mark.parametrize(
    ("content", "line", "key", "message"),
    [
        (b"kind: [star", 1, None, "a '[' that is never closed"),
        (b"\xff\xfe\x00", 1, None, "this is not text in UTF-8"),
        (b"- star\n", 1, None, "a topology is a list of 'key: value' lines (got a list)"),
        (b"", None, None, "the file is empty; a topology is a list of 'key: value' lines"),
        (b"# mine\nkind: torsu\n", 2, "kind", "no topology is called 'torsu'; did you mean 'torus'?"),
        (b"num_hosts: 3\n", 1, "kind", "this key is missing: the kind of topology (known: dragonfly, explicit,"),
        (b"kind: star\nlink: 1 GB/s\nhosts: [{count: 1, host: dgx}]", 3, "hosts.0.host", "did you mean 'dgx-2'?"),
        (b"kind: star\nnum_hosts: 2\nnum_hosts: 3\n", 3, "num_hosts", "the key is given twice (first in line 2)"),
        (
            b"kind: star\nnum_hosts: 1\nlink: 1 GB/s\nhost: {gpu: k80, nics: 1, gpudirect: 3}\n",
            4,
            "host.gpudirect",
            "expected true or false (got 3)",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_line_and_key(tmp_path, content, line, key, message):
    path = tmp_path / "wrong.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_topology(path)
    (mistake,) = caught.value.mistakes
    assert message in mistake.message
    assert (mistake.file, mistake.line, mistake.key) == (str(path), line, key)


_TORUS = "kind: torus\ndims: [2, 2]\nlink: 1 GB/s\n"


@pytest.mark.parametrize(
    ("content", "line", "column", "key", "message"),
    [
        (f"{_TORUS}num_hosts: 9\n", 4, 12, "num_hosts", "the network has places for 4 hosts with 1 ports each (got 9)"),
        (f"{_TORUS}hosts: [{{count: 5, host: bare}}]\n", 4, 8, "hosts", "places for 4 hosts with 1 ports each"),
        (f"{_TORUS}hosts: [{{count: 1, host: dual-socket}}]\n", 4, 26, "hosts.0.host", "needs a gpu"),
        (f"{_TORUS}host: single-socket\n", 4, 7, "host", "needs a gpu, such as {template: single-socket, gpu: k80}"),
        (f"{_TORUS}host: {{gpu: k80}}\nhosts: [{{count: 1, host: bare}}]\n", 4, 7, "host", "not both"),
        (f"{_TORUS}host_order: x\n", 4, 13, "host_order", "does not visit every router of 2 x 2 once"),
        (f"{_TORUS}host: dgx-1\nnum_gpus: 200\n", 5, 11, "num_gpus", "expected a number of at most 8 (got 200)"),
        (f"{_TORUS}nics: 3\n", 4, 7, "nics", "the host template 'bare' has no `nics`"),
        ("kind: torus\ndims: [2, 0]\nlink: 1 B/s\n", 2, 7, "dims", "at least one router (got [2, 0])"),
        ("kind: torus\ndims: [2, 2]\nlink: [1 B/s]\n", 3, 7, "link", "2 dimensions and 1 links"),
        ("kind: explicit\nnodes: [gpu0, gpu0]\nlinks: []\n", 2, 15, "nodes.1", "two nodes are called 'gpu0'"),
        ("kind: explicit\nnodes: [a, b]\nlinks: []\n", 2, 8, "nodes", "the topology has no GPU"),
        (
            "kind: explicit\nnodes: [gpu0, gpu1]\nlink: 1 B/s\nlinks: [{a: gpu0, b: gpu2}]\n",
            4,
            22,
            "links.0.b",
            "no node of this topology is called 'gpu2'; did you mean 'gpu1'?",
        ),
        (
            "kind: explicit\nnodes: [gpu0, s]\nlinks: [{a: gpu0, b: s}]\n",
            3,
            9,
            "links.0",
            "the link from 'gpu0' to 's' has no rate",
        ),
        (
            "kind: explicit\nnodes: [{name: s, kind: switch, host: dgx-1}, gpu0]\nlinks: []\n",
            2,
            39,
            "nodes.0.host",
            "the node 's' is a switch",
        ),
        (
            "kind: explicit\nnodes: [{name: h, kind: host, host: dual-socket}]\nlinks: []\n",
            2,
            37,
            "nodes.0.host",
            "the host template 'dual-socket' needs a gpu",
        ),
    ],
)  # fmt: skip
def test_the_error_of_parts_that_do_not_match_is_at_the_one_to_change(tmp_path, content, line, column, key, message):
    path = tmp_path / "wrong.yaml"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        load_topology(path)
    (mistake,) = caught.value.mistakes
    assert message in mistake.message
    assert (mistake.line, mistake.column, mistake.key) == (line, column, key)
    assert mistake.allowed


def test_a_sheet_is_named_as_seen_from_the_topology_file(tmp_path, monkeypatch):
    folder = tmp_path / "cluster"
    folder.mkdir()
    sheet = Path(clustersim.hardware.__file__).parent / "gpus" / "k80.yaml"
    (folder / "mine.yaml").write_text(sheet.read_text().replace("name: k80", "name: mine", 1))
    (folder / "cluster.yaml").write_text("kind: star\nnum_hosts: 2\nlink: 1 GB/s\ngpu: mine.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert load_topology("cluster/cluster.yaml").gpu_sheets[0] == "cluster/mine.yaml"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("titn", "did you mean 'titan'"),
        ("nowhere/at-all.yaml", "there is no file 'nowhere/at-all.yaml'"),
        (42, "got a value of type int"),
    ],
)
def test_an_invalid_cluster_is_refused(where, message):
    with pytest.raises(InputError, match=message):
        load_topology(where)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: star\nx: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
        ), "including those that an alias"),
        ("kind: " + "[" * 3000, "nested more than 40 levels deep"),
        ("#" * (16 * 2**20 + 1), "the file is too large"),
    ],
    ids=["alias bomb", "nested", "large"],
)  # fmt: skip
def test_a_file_that_would_fill_the_memory_is_refused(tmp_path, content, message):
    path = tmp_path / "bomb.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        load_topology(path)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(InputError, match="this is a directory"):
        load_topology(tmp_path)


def test_building_makes_as_many_python_calls_for_many_hosts_as_for_few():
    def num_calls(num_hosts):
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event == "call"

        spec = topology_spec({"kind": "torus", "dims": [num_hosts], "link": "1 Gbit/s", "host": {"gpu": "k80"}})
        spec.build()
        sys.setprofile(count)
        spec.build()
        sys.setprofile(None)
        return calls

    assert num_calls(2000) == num_calls(20)


def ring(num_gpus, graph):
    graph.add_nodes_from(range(num_gpus), kind="gpu")
    for node in range(num_gpus):
        graph.add_edge(node, (node + 1) % num_gpus, bytes_per_s=1e9, latency_s=1e-6)
    return graph


def test_an_undirected_graph_has_links_in_both_directions_and_a_directed_one_does_not():
    assert len(load_topology(ring(5, nx.Graph())).links) == 10
    one_way = load_topology(ring(5, nx.DiGraph()))
    assert len(one_way.route(one_way.node(0), one_way.node(4))) == 4


def test_gpus_of_a_graph_are_numbered_in_node_order_and_hosts_may_be_gpus():
    graph = nx.DiGraph()
    for name, kind in (("s", "switch"), ("b", "gpu"), ("a", "gpu")):
        graph.add_node(name, kind=kind)
    for name in "ab":
        graph.add_edge(name, "s", bytes_per_s=1e9, latency_s=0)
        graph.add_edge("s", name, bytes_per_s=1e9, latency_s=0)
    topology = load_topology(graph)
    assert [topology.node_names[gpu] for gpu in topology.gpus] == ["b", "a"]
    nx.set_node_attributes(graph, {"a": "host", "b": "host"}, "kind")
    assert load_topology(graph).num_gpus == 2


def test_a_name_that_is_a_number_takes_precedence_over_a_gpus_number():
    graph = nx.Graph()
    graph.add_node(1, kind="gpu")
    graph.add_node(0, kind="gpu")
    graph.add_edge(0, 1, bytes_per_s=1e9, latency_s=1e-6)
    topology = load_topology(graph)
    assert topology.node_names[topology.node(1)] == 1
    assert topology.node_names[topology.gpus[1]] == 0


def test_the_route_has_the_least_delay_then_the_fewest_links():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from("ab", kind="gpu")
    graph.add_nodes_from("xyz", kind="switch")
    for a, b, latency in (("a", "x", 1), ("x", "b", 1), ("a", "b", 3), ("a", "y", 1), ("y", "z", 0), ("z", "b", 1)):
        graph.add_edge(a, b, bytes_per_s=1e9, latency_s=latency)
    topology = load_topology(graph)
    route = topology.route(topology.node("a"), topology.node("b"))
    assert [topology.link_name(link) for link in route] == ["a->x", "x->b"]


def test_equal_cost_routes_of_a_graph_are_all_used():
    graph = nx.Graph()
    graph.add_nodes_from((f"g{number}" for number in range(32)), kind="gpu")
    graph.add_nodes_from((f"s{number}" for number in range(4)), kind="switch")
    graph.add_nodes_from(("left", "right"), kind="switch")
    for number in range(32):
        graph.add_edge(f"g{number}", "left" if number < 16 else "right", bytes_per_s=1e9, latency_s=1e-6)
    for number in range(4):
        for side in ("left", "right"):
            graph.add_edge(side, f"s{number}", bytes_per_s=1e9, latency_s=1e-6)
    topology = load_topology(graph)
    middles = {int(topology.links.dst[topology.route(src, dst)[1]]) for src in range(16) for dst in range(16, 32)}
    assert middles == {topology.node(f"s{number}") for number in range(4)}


@settings(max_examples=60, deadline=None)
@given(
    num_nodes=st.integers(2, 9),
    edges=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 4)), max_size=30),
)
def test_routes_of_any_graph_are_as_short_as_networkx_says(num_nodes, edges):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(num_nodes), kind="gpu")
    for a, b, latency in edges:
        if a < num_nodes and b < num_nodes:
            graph.add_edge(a, b, bytes_per_s=1e9, latency_s=latency * 1e-6)
    topology = load_topology(graph)
    shortest = dict(nx.all_pairs_dijkstra_path_length(graph, weight="latency_s"))
    for src in range(num_nodes):
        for dst in range(num_nodes):
            if dst in shortest[src]:
                route = topology.route(src, dst)
                assert topology.links.latency_s[route].sum() == pytest.approx(shortest[src][dst], abs=1e-15)
                ends = [src, *topology.links.dst[route].tolist()]
                assert ends[-1] == dst
                assert topology.links.src[route].tolist() == ends[:-1]
            else:
                with pytest.raises(InputError, match="there is no route"):
                    topology.route(src, dst)


def test_all_mistakes_of_a_graph_are_reported_together():
    graph = nx.DiGraph()
    graph.add_node("a")
    graph.add_node("b", kind="gpu")
    graph.add_edge("a", "b", latency_s=-1)
    with pytest.raises(InputError) as caught:
        load_topology(graph)
    text = str(caught.value)
    for part in ("'a' has no `kind`", "needs `bytes_per_s`", "(got nothing)", "needs `latency_s`", "(got -1)"):
        assert part in text


def test_a_graph_without_gpus_is_refused():
    graph = nx.Graph()
    graph.add_node("s", kind="switch")
    with pytest.raises(InputError, match="no GPU"):
        load_topology(graph)
    with pytest.raises(InputError, match="number of its host"):
        load_topology(nx.relabel_nodes(_with_host("three"), {}))


def _with_host(host):
    graph = nx.Graph()
    graph.add_node("a", kind="gpu", host=host)
    return graph


def test_an_unknown_node_is_refused():
    topology = load_topology({"kind": "star", "num_hosts": 2, "link": "1 Gbit/s"})
    for where in ("unknown", 2, -1, True, 0.5):
        with pytest.raises(InputError, match="has no node called"):
            topology.node(where)


EXPLICIT = {
    "kind": "explicit",
    "nodes": [{"name": "h0", "kind": "host"}, {"name": "h1", "kind": "host"}, {"name": "s", "kind": "switch"}],
    "links": [{"a": "h0", "b": "s", "link": "10 Gbit/s", "hop": "1 us"}, {"a": "s", "b": "h1"}],
    "link": "1 Gbit/s",
    "hop": "2 us",
}


def test_an_explicit_network_has_the_links_it_lists():
    topology = load_topology(EXPLICIT)
    route = topology.route(topology.node("h0"), topology.node("h1"))
    assert [topology.link_name(link) for link in route] == ["h0->s", "s->h1"]
    assert topology.links.bytes_per_s[route].tolist() == [1.25e9, 1.25e8]
    assert topology.links.latency_s[route].tolist() == [1e-6, 2e-6]
    assert describe(topology)["num_links"] == 4


@pytest.mark.parametrize("nodes", [{"h0": "host", "h1": {"kind": "host"}, "s": "switch"}, ["h0", "h1", "s"]])
def test_nodes_have_short_forms(nodes):
    written = {**EXPLICIT, "nodes": nodes}
    if isinstance(nodes, list):
        renamed = {"h0": "host0", "h1": "host1", "s": "s"}
        links = [{**link, "a": renamed[link["a"]], "b": renamed[link["b"]]} for link in EXPLICIT["links"]]
        written = {**EXPLICIT, "nodes": [renamed[node] for node in nodes], "links": links}
    topology = load_topology(written)
    assert (topology.num_gpus, topology.node_kinds[-1]) == (2, "switch")


def test_hosts_of_an_explicit_network_may_have_a_template():
    topology = load_topology({**EXPLICIT, "host": "dgx-1"})
    assert topology.num_gpus == 16
    route = topology.route(topology.node(0), topology.node(8))
    names = [topology.link_name(link) for link in route]
    assert names[0] == "h0/gpu0->h0/plx0"
    assert names[-1] == "h1/plx0->h1/gpu0"
    assert describe(topology)["diameter_hops"] == max(
        len(topology.route(a, b)) for a in topology.gpus.tolist() for b in topology.gpus.tolist() if a != b
    )


def test_nodes_of_an_explicit_network_may_have_gpus_of_different_kinds():
    nodes = [
        {"name": "h0", "kind": "host", "host": {"gpu": "k80", "num_gpus": 2}},
        {"name": "h1", "kind": "gpu", "gpu": "p100"},
        {"name": "s", "kind": "switch"},
    ]
    topology = load_topology({**EXPLICIT, "nodes": nodes})
    assert topology.gpu_sheets == ["k80", "k80", "p100"]
    assert topology.node_names[topology.memory[0]] == "h0/memory0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"links": [{"a": "h0", "b": "h9"}]}, "no node of this topology is called 'h9'"),
        ({"nodes": ["host0", "host0"], "links": []}, "two nodes are called 'host0'"),
        ({"nodes": ["s"], "links": []}, "the topology has no GPU"),
        ({"link": None}, "has no rate"),
        ({"nodes": [{"name": "h0", "kind": "host", "host": "dgx-1", "gpu": "k80"}], "links": []}, "has a template"),
        ({"nodes": [{"name": "h0", "kind": "gpu", "host": "dgx-1"}], "links": []}, "only a node of kind `host`"),
    ],
)  # fmt: skip
def test_a_wrong_explicit_network_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        load_topology({**EXPLICIT, **change})


def test_a_large_graphs_diameter_is_found_without_every_route():
    graph = ring(200, nx.Graph())
    assert describe(load_topology(graph))["diameter_hops"] == 100


def test_pods_of_two_servers_share_one_tunnel_and_those_of_one_server_the_kernel():
    """EC2 limits one flow between two instances; of 32.83 Gbit/s, 31.4 are data in frames of 1,514 bytes."""
    pods = load_topology("ec2-g4dn-12xlarge-pods")
    rates, gpus = pods.links.bytes_per_s, pods.gpus.tolist()
    inside, tunnel, back = (pods.route(gpus[src], gpus[dst]) for src, dst in [(0, 1), (0, 4), (5, 1)])
    assert rates[inside].min() * 1448 / 1514 == pytest.approx(31.4e9 / 8, rel=1e-3)
    assert rates[tunnel].min() == 5e9 / 8
    assert set(tunnel[1:-1]) == set(pods.route(gpus[3], gpus[6])[1:-1])
    assert not set(tunnel) & set(back)
    assert len(set(pods.gpu_hosts.tolist())) == 16
