"""The nodes and links within a host."""

from collections import Counter

import pytest

from clustersim.hardware import load_cpu, load_gpu, load_link
from clustersim.topology import HOSTS, load_topology


def build(host, **more):
    return load_topology({"kind": "star", "num_hosts": 2, "link": "10 Gbit/s", "host": host, **more})


def cables(topology, kind):
    """Return the pairs of nodes of host 0 that a cable of this class connects."""
    names, links = topology.node_names, topology.links
    pairs = {
        tuple(sorted((names[src].removeprefix("host0/"), names[dst].removeprefix("host0/"))))
        for src, dst, link_kind in zip(links.src.tolist(), links.dst.tolist(), links.kind, strict=True)
        if link_kind == kind and src != dst and topology.node_hosts[src] == topology.node_hosts[dst] == 0
    }
    return sorted(pairs)


@pytest.mark.parametrize(
    ("template", "num_gpus", "counts"),
    [
        ({"template": "single-socket", "gpu": "k80", "num_gpus": 4}, 4, {"socket": 1, "memory": 1, "nic": 1}),
        ({"template": "dual-socket", "gpu": "k80", "num_gpus": 8}, 8, {"socket": 2, "memory": 2, "nic": 1}),
        (
            {"template": "dual-socket", "gpu": "k80", "plx_per_socket": 2, "nics": 2},
            1,
            {"socket": 2, "plx": 4, "nic": 2},
        ),
        ({"template": "single-root", "gpu": "k80", "num_gpus": 10}, 10, {"socket": 1, "plx": 2, "nic": 1}),
        ("dgx-1", 8, {"socket": 2, "plx": 4, "nic": 4}),
        ("dgx-2", 16, {"socket": 2, "nvswitch": 1, "nic": 8}),
        ("dgx-a100", 8, {"socket": 2, "nvswitch": 1, "nic": 8}),
        ("dgx-h100", 8, {"socket": 2, "nvswitch": 1, "nic": 8}),
        ("dgx-b200", 8, {"socket": 2, "nvswitch": 1, "nic": 8}),
        ("superchip", 4, {"socket": 2, "nvswitch": 1, "nic": 4}),
        ("mi300x", 8, {"socket": 2, "plx": 8, "nvswitch": 0, "nic": 8}),
        ("mi250x", 8, {"socket": 1, "plx": 4, "nvswitch": 0, "nic": 4}),
    ],
)
def test_a_template_has_its_parts(template, num_gpus, counts):
    topology = build(template)
    kinds = Counter(kind for kind, host in zip(topology.node_kinds, topology.node_hosts, strict=True) if host == 0)
    assert kinds["gpu"] == num_gpus
    assert {part: kinds[part] for part in counts} == counts


NEEDED = {"explicit": {"nodes": ["gpu0", "socket0"], "links": [{"a": "gpu0", "b": "socket0"}]}}


@pytest.mark.parametrize("template", [name for name in HOSTS if name != "bare"])
def test_every_memory_can_add_at_its_sheets_rate(template):
    topology = build({"template": template, "gpu": "v100", **NEEDED.get(template, {})})
    links = topology.links
    for node, link in topology.adders.items():
        assert links.src[link] == links.dst[link] == node
        if topology.node_kinds[node] == "gpu":
            expected = ("gpu-memory", load_gpu("v100").memory_bytes_per_s)
        else:
            cpu = load_cpu(topology.host_sheets[0])
            expected = ("cpu-add", cpu.memory_bytes_per_s)
            assert topology.core_bytes_per_s(node) == cpu.core_bytes_per_s
        assert (links.kind[link], links.bytes_per_s[link]) == expected
    assert {topology.node_kinds[node] for node in topology.adders} == {"gpu", "memory"}
    assert len(topology.adders) == topology.num_gpus + topology.node_kinds.count("memory")


def test_gpus_are_split_over_the_sockets_and_staged_in_their_own_memory():
    topology = build({"template": "dual-socket", "gpu": "k80", "num_gpus": 8})
    staged = [topology.node_names[node] for node in topology.memory[:8]]
    assert staged == ["host0/memory0"] * 4 + ["host0/memory1"] * 4


def test_transfers_to_a_gpu_without_peer_access_have_the_rate_of_its_sheet():
    """From GPUs of its host; copies from host memory or from other hosts have the rate of the links."""
    topology = build({"template": "dual-socket", "gpu": "rtx-2080-ti", "num_gpus": 4})
    rates, gpus = topology.links.bytes_per_s, [topology.node(gpu) for gpu in range(8)]
    slowest = {dst: min(rates[topology.route(gpus[0], gpus[dst])]) for dst in (1, 2, 3, 4)}
    assert slowest == {1: 4e9, 2: 4e9, 3: 4e9, 4: 1.25e9}
    assert len(topology.route(gpus[0], gpus[4])) == len(topology.route(gpus[4], gpus[0]))
    assert min(rates[topology.route(int(topology.memory[0]), gpus[0])]) == load_link("pcie-3-x16").bytes_per_s
    last = {int(topology.route(gpus[src], gpus[1])[-1]) for src in (0, 2, 3)}
    assert len(last) == 1
    many = topology.routes(topology.gpus[[0, 2, 4]], topology.gpus[[1, 1, 1]])
    assert many.links.tolist() == [link for src in (0, 2, 4) for link in topology.route(gpus[src], gpus[1])]


def test_transfers_through_host_memory_go_up_from_the_switch_and_down():
    """Direct transfers between GPUs turn at the switch that both are plugged into."""
    host = {"template": "dual-socket", "num_gpus": 4, "plx_per_socket": 1}
    staged, direct = build({**host, "gpu": "rtx-2080-ti"}), build({**host, "gpu": "p40"})

    def kinds(topology, dst: int) -> list[str]:
        way = topology.route(topology.node(0), topology.node(dst))
        return [topology.node_kinds[topology.links.src[link]] for link in way]

    assert kinds(direct, 1) == ["gpu", "plx"]
    assert kinds(staged, 1) == ["gpu", "plx", "socket", "plx", "gpu"]
    assert kinds(staged, 2) == ["gpu", "plx", "socket", "socket", "plx", "gpu"]
    assert staged.route(staged.node(0), staged.node(1))[1] == staged.route(staged.node(1), staged.node(0))[1]


def test_gpus_with_nvlink_have_peer_access_where_others_do_not():
    """Two RTX 3090: over a bridge at the rate of its links, without a bridge through host memory."""
    bridged = build({"template": "dgx-1", "gpu": "rtx-3090", "num_gpus": 2, "nvlink": "48 GB/s"})
    apart = build({"template": "single-socket", "gpu": "rtx-3090", "num_gpus": 2})

    by_one = build({"template": "dgx-1", "gpu": "rtx-3090", "num_gpus": 2})

    def way(topology) -> tuple[list[str], float]:
        links = topology.route(topology.node(0), topology.node(1))
        return [topology.links.kind[link] for link in links], float(min(topology.links.bytes_per_s[links]))

    assert way(bridged) == (["nvlink"], 48e9)
    assert way(by_one) == (["nvlink-3-ga102"], 12e9)
    assert way(apart) == (["pcie-4-x16", "pcie-4-x16", "staging"], 8.4e9)


def test_gpus_of_one_board_share_the_rate_of_transfers_through_host_memory():
    """In either direction, since both use the board's lanes; transfers to another board share that board's."""
    template = {"template": "single-root", "gpu": "m60-azure", "num_gpus": 4, "num_switches": 2}
    topology = build(template)
    kinds, rates = topology.links.kind, topology.links.bytes_per_s

    def staging(src: int, dst: int) -> list[int]:
        way = topology.route(topology.node(src), topology.node(dst)).tolist()
        return [link for link in way if kinds[link] == "staging"]

    ways = {(src, dst): staging(src, dst) for src in range(4) for dst in range(4) if src != dst}
    assert {tuple(rates[way]) for way in ways.values()} == {(5.26e9, 5.47e9)}
    assert {own for own, _ in ways.values()} == {ways[(dst + 1) % 4, dst][0] for dst in range(4)}
    assert ways[0, 1][1] == ways[1, 0][1] == ways[2, 0][1] == ways[3, 1][1]
    assert ways[2, 3][1] == ways[3, 2][1] == ways[0, 2][1] == ways[1, 3][1] != ways[0, 1][1]
    memory = topology.route(int(topology.memory[0]), topology.node(0)).tolist()
    assert "staging" not in [kinds[link] for link in memory]


def test_gpus_behind_a_plx_share_its_uplink():
    topology = build({"template": "single-root", "gpu": "k80", "num_gpus": 10, "num_switches": 2})
    uplinks = {int(topology.route(topology.node(gpu), int(topology.memory[gpu]))[1]) for gpu in range(10)}
    assert len(uplinks) == 2


def test_risers_are_narrower_than_the_uplink_that_they_share():
    topology = build(
        {"template": "single-root", "gpu": "gtx-1070", "num_gpus": 6, "pcie": "pcie-3-x1", "uplink": "pcie-3-x16"}
    )
    rates = topology.links.bytes_per_s
    way = topology.route(topology.node(0), int(topology.memory[0]))
    assert [rates[link] for link in way[:2]] == [load_link(name).bytes_per_s for name in ("pcie-3-x1", "pcie-3-x16")]


@pytest.mark.parametrize(("gpu", "doubled"), [("p100", 0), ("v100", 8)])
def test_the_cube_mesh_uses_every_nvlink_of_every_gpu(gpu, doubled):
    topology = build("dgx-1", gpu=gpu)
    sheet = load_gpu(gpu)
    one = load_link(sheet.nvlink).bytes_per_s
    links = topology.links
    out = Counter()
    for src, rate, kind in zip(links.src.tolist(), links.bytes_per_s, links.kind, strict=True):
        if kind == sheet.nvlink:
            out[src] += round(rate / one)
    assert set(out.values()) == {sheet.num_nvlinks}
    assert len(cables(topology, sheet.nvlink)) == 16
    assert (
        sum(rate == 2 * one for rate in links.bytes_per_s[[kind == sheet.nvlink for kind in links.kind]])
        == 2 * 2 * doubled
    )


@pytest.mark.parametrize("template", ["dgx-2", "dgx-a100", "dgx-h100", "dgx-b200"])
def test_any_two_gpus_behind_nvswitch_have_a_gpus_full_nvlink_rate(template):
    topology = build(template)
    sheet = load_gpu(topology.gpu_sheets[0])
    full = sheet.num_nvlinks * load_link(sheet.nvlink).bytes_per_s
    for other in range(1, topology.num_gpus // 2):
        route = topology.route(topology.node(0), topology.node(other))
        assert topology.links.bytes_per_s[route].tolist() == pytest.approx([full, full])


def test_a_gpu_without_a_template_is_alone_behind_its_sheets_pcie():
    topology = build({"gpu": "k20x"})
    route = topology.route(topology.node(0), int(topology.memory[0]))
    assert [topology.links.kind[link] for link in route] == [load_gpu("k20x").pcie, "memory"]
    assert topology.num_gpus == 2


def test_the_network_overrides_the_template():
    topology = build({"template": "dual-socket", "gpu": "k80"}, gpu="p100", num_gpus=6, nics=2)
    assert (topology.num_gpus, set(topology.gpu_sheets)) == (12, {"p100"})
    assert topology.node_kinds.count("nic") == 4


def test_a_bare_gpu_with_a_sheet_adds_in_its_own_memory():
    topology = load_topology({"kind": "star", "num_hosts": 2, "link": "10 Gbit/s", "gpu": "p100"})
    assert set(topology.adders) == set(topology.gpus.tolist())
    assert len(topology.route(topology.node(0), topology.node(1))) == 2


def test_one_cluster_may_have_hosts_and_gpus_of_different_kinds():
    groups = [{"count": 2, "host": {"gpu": "k20"}}, {"count": 1, "host": "dgx-2"}, {"count": 3, "host": "bare"}]
    topology = load_topology({"kind": "star", "link": "10 Gbit/s", "hosts": groups})
    assert topology.gpu_sheets == ["k20"] * 2 + ["v100"] * 16 + [None] * 3
    assert topology.gpu_hosts.tolist() == [0, 1, *[2] * 16, 3, 4, 5]
    assert topology.node_names[topology.gpus[-1]] == "gpu20"


def test_a_nic_link_of_its_own_or_none_at_all():
    slow = build({"gpu": "k80", "nic_link": "pcie-3-x8"})
    assert cables(slow, "pcie-3-x8") == [("nic0", "socket0")]
    direct = build({"gpu": "k80", "nic_link": "direct"})
    assert "nic" not in direct.node_kinds
    kinds = [direct.node_kinds[direct.links.src[link]] for link in direct.route(direct.node(0), direct.node(1))]
    assert kinds == ["gpu", "socket", "memory", "socket", "switch", "socket", "memory", "socket"]


def test_transfers_between_gpus_through_a_processor_have_five_sixths_of_a_slot():
    """NCCL's INTEL_P2P_OVERHEAD: from GPUs in other slots together; not behind one switch, or from memory."""
    topology = build({"template": "dual-socket", "gpu": "k80", "num_gpus": 8, "plx_per_socket": 2})
    rates, gpus = topology.links.bytes_per_s, topology.gpus
    slot, between = load_link("pcie-3-x16").bytes_per_s, load_link("qpi").bytes_per_s
    slowest = {dst: min(rates[topology.route(int(gpus[0]), int(gpus[dst]))]) for dst in (1, 2, 3, 4)}
    assert slowest == {1: slot, 2: pytest.approx(slot / 1.2, rel=1e-5), 3: slowest[2], 4: between}
    assert min(rates[topology.route(int(topology.memory[2]), int(gpus[2]))]) == slot
    assert len({int(topology.route(int(gpus[src]), int(gpus[dst]))[2]) for src in (0, 1) for dst in (2, 3)}) == 1
    many = topology.routes(gpus[[0, 1, 4]], gpus[[2, 3, 0]])
    assert many.links.tolist() == [
        link for pair in ((0, 2), (1, 3), (4, 0)) for link in topology.route(*gpus[list(pair)].tolist())
    ]


def test_a_switch_forwards_packets_of_a_processor_as_they_come():
    """So a slot of one lane behind a switch with sixteen has five sixths of its rate for GPUs in other slots."""
    host = {"template": "single-root", "gpu": "gtx-1070", "num_gpus": 4, "num_switches": 2, "uplink": "pcie-3-x16"}
    lane = load_link("pcie-3-x1").bytes_per_s
    topology = build(host | {"pcie": "pcie-3-x1", "cpu": "xeon-e5-2630-v4"})
    rates, gpus = topology.links.bytes_per_s, topology.gpus
    slowest = [min(rates[topology.route(int(gpus[0]), int(gpus[dst]))]) for dst in (1, 2, 3)]
    assert slowest == pytest.approx([lane, lane / 1.2, lane / 1.2], rel=1e-5)
    assert min(rates[topology.route(int(topology.memory[2]), int(gpus[2]))]) == lane
    as_wide = build(host | {"cpu": "xeon-e5-2630-v4"})  # as the switch itself, whose limit is enough
    peers = [src for src, kind in zip(as_wide.links.src.tolist(), as_wide.links.kind, strict=True) if kind == "peer"]
    assert {as_wide.node_kinds[src] for src in peers} == {"socket"}


def test_other_processors_and_gpus_with_nvlink_have_no_such_link():
    for host in ({"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "cpu": "opteron-6274", "interconnect": "qpi"},
                 {"template": "dgx-1"}, {"template": "dgx-h100"}):  # fmt: skip
        assert "peer" not in build(host).links.kind
