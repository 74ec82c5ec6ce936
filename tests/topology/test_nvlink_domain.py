"""Hosts whose GPUs one layer of NVSwitches joins: one NVLink domain, and every host's own processors and cards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.cli.clusters import description
from clustersim.errors import InputError
from clustersim.hardware import load_gpu, load_link
from clustersim.simulate import time_collective
from clustersim.topology import load_topology
from clustersim.topology.channels import channels
from clustersim.topology.describe import describe
from tests.contracts.exactness import check_exact

TRAY = {"template": "superchip", "gpu": "gb200"}


def racks(num_hosts: int, domain: int = 18, **host: Any) -> dict[str, Any]:
    return {
        "kind": "star",
        "num_hosts": num_hosts,
        "link": "infiniband-ndr",
        "host": {**TRAY, "nvlink_domain": domain, **host},
    }


def time_all_reduce(cluster: dict[str, Any], num_gpus: int, num_bytes: int, algorithm: str = "auto") -> float:
    (row,) = time_collective("all-reduce", cluster, algorithm, num_gpus, [num_bytes], "nccl")["rows"]
    return float(row["time_s"])


def test_a_rack_has_eighteen_hosts_and_one_domain() -> None:
    rack = load_topology(racks(18))
    kinds = list(rack.node_kinds)
    assert (rack.num_hosts, rack.num_gpus) == (18, 72)
    assert [kinds.count(kind) for kind in ("socket", "memory", "nic", "nvswitch")] == [36, 36, 72, 1]
    assert np.array_equal(rack.gpu_hosts, np.repeat(np.arange(18), 4))
    assert set(rack.gpu_domains.tolist()) == {0}
    assert list(rack.host_sheets) == ["grace"] * 18


@pytest.mark.parametrize("other", [3, 4, 71])
def test_any_two_gpus_of_a_domain_have_a_gpus_full_nvlink_rate(other: int) -> None:
    rack, gpu = load_topology(racks(18)), load_gpu("gb200")
    route = rack.route(int(rack.gpus[0]), int(rack.gpus[other]))
    assert len(route) == 2
    assert rack.links.bytes_per_s[route].min() == gpu.num_nvlinks * load_link("nvlink-5").bytes_per_s


def test_between_domains_messages_leave_by_the_hosts_own_cards() -> None:
    cluster = load_topology(racks(36))
    names = [cluster.link_name(link) for link in cluster.route(int(cluster.gpus[5]), int(cluster.gpus[77]))]
    assert names == [
        "host1/gpu1->host1/socket0",
        "host1/socket0->host1/nic1",
        "host1/nic1->switch",
        "switch->host19/nic1",
        "host19/nic1->host19/socket0",
        "host19/socket0->host19/gpu1",
    ]


def test_host_memories_of_a_domain_are_joined_by_the_network_only() -> None:
    rack = load_topology(racks(18))
    route = rack.route(rack.node("host0/memory0"), rack.node("host1/memory0"))
    assert "nvswitch" not in " ".join(rack.link_name(link) for link in route)
    assert len(route) == 6


@pytest.mark.parametrize(("gpu", "num_gpus", "processors"), [("gb200", 4, 2), ("gh200", 2, 2), ("gh200", 1, 1)])
def test_a_superchip_has_one_hopper_or_two_blackwell_gpus(gpu: str, num_gpus: int, processors: int) -> None:
    host = load_topology(racks(1, 1, gpu=gpu, num_gpus=num_gpus))
    assert list(host.node_kinds).count("socket") == processors


def test_a_cluster_tells_its_domains() -> None:
    document = describe(load_topology(racks(20)))
    assert (document["num_hosts"], document["num_nvlink_domains"]) == (20, 2)
    assert "hosts      20, in 2 NVLink domains" in description(document)
    assert describe(load_topology(racks(2, 1)))["num_nvlink_domains"] is None


def test_the_hosts_that_are_left_form_a_smaller_domain() -> None:
    cluster = load_topology(racks(20))
    assert [np.count_nonzero(cluster.gpu_domains == first) for first in (0, 18)] == [72, 8]
    assert list(load_topology(racks(19)).gpu_domains[-4:]) == [18] * 4


def test_hosts_of_several_kinds_have_their_own_domains() -> None:
    host = {**TRAY, "nvlink_domain": 2}
    groups = [{"count": 4, "host": host}, {"count": 1, "host": "dgx-h100"}, {"count": 2, "host": host}]
    cluster = load_topology({"kind": "star", "link": "infiniband-ndr", "hosts": groups})
    assert cluster.gpu_domains.tolist() == [0] * 8 + [2] * 8 + [4] * 8 + [5] * 8


def test_a_domain_of_one_host_is_the_host() -> None:
    alone, asked = load_topology({**racks(2, 1)}), load_topology({**racks(2, 1), "host": TRAY})
    assert list(alone.node_names) == list(asked.node_names)
    assert alone.domains is None


def test_eight_gigabytes_take_as_long_in_a_rack_as_was_measured() -> None:
    """835 GB/s of bus bandwidth, 72 GPUs of a GB200 NVL72, 8 GiB (coreweave/nccl-tests, issue 43)."""
    size = 8 * 2**30
    seconds = time_all_reduce(racks(18), 72, size)
    assert size / seconds * 2 * 71 / 72 == pytest.approx(835e9, rel=0.02)


def test_eight_gpus_of_two_hosts_are_near_what_was_measured() -> None:
    """811 GB/s with NVLink between two hosts of a rack, which nothing was fitted to (lixueduan.com, 13-gb200-mnnvl)."""
    num_bytes = 2**33
    busbw = num_bytes * 2 * 7 / 8 / time_all_reduce(racks(2), 8, num_bytes)
    assert busbw == pytest.approx(811e9, rel=0.15)


def test_nccl_treats_a_domain_as_one_host() -> None:
    rack = load_topology(racks(18))
    assert [len(paths) for paths in channels(rack, np.arange(72)).paths] == [1]
    pair = load_topology(racks(36))
    assert {len(paths) for paths in channels(pair, np.arange(144)).paths} == {2}
    assert time_all_reduce(racks(18), 72, 2**28, "nvls") < time_all_reduce(racks(18, 1), 72, 2**28) / 3
    with pytest.raises(InputError, match="144 GPUs are on 2 hosts"):
        time_all_reduce(racks(36), 144, 2**28, "nvls")


def test_tensors_split_over_hosts_of_a_domain_travel_over_nvlink() -> None:
    asked = {
        "model": "llama-2-7b",
        "num_gpus": 16,
        "batch": {"per_gpu": 1},
        "parallelism": {"tensor": 8},
        "memory_check": False,
    }
    apart, joined = (clustersim.simulate({**asked, "topology": racks(4, domain)}) for domain in (1, 4))
    assert joined.breakdown_s["communication_exposed"] < 0.6 * apart.breakdown_s["communication_exposed"]
    assert {links.kind for links in joined.link_classes if links.num_used} == {"nvlink-5"}
    assert {links.kind for links in apart.link_classes if links.num_used} > {"nvlink-5", "infiniband-ndr"}


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"placement": "spread"},
        {"strategy": {"kind": "server"}, "num_gpus": 6},
        {"parallelism": {"tensor": 2, "pipeline": 2}, "model": "vgg-16"},
        {"transport": "gloo"},
    ],
)
def test_default_equals_exact(other: dict[str, Any]) -> None:
    asked = {"model": "alexnet", "num_gpus": 8, "batch": {"per_gpu": 16}, "replicates": 1, "seed": 3}
    check_exact({**asked, "topology": racks(4, 2, num_gpus=2, nics=2), **other})


def test_a_host_without_nvswitch_cannot_be_joined() -> None:
    with pytest.raises(InputError, match="nvlink_domain"):
        load_topology({**racks(2), "host": {"template": "dgx-1", "nvlink_domain": 2}})


def test_hosts_of_an_explicit_network_stand_alone() -> None:
    nodes = {"a": {"kind": "host", "host": {**TRAY, "nvlink_domain": 2}}, "s": "switch"}
    with pytest.raises(InputError, match="not joined into an NVLink domain"):
        load_topology({"kind": "explicit", "nodes": nodes, "links": [{"a": "a", "b": "s", "link": "1 GB/s"}]})
