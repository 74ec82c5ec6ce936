"""A text names a cluster: its GPUs, hosts or file, how many, at what price, and settings for it alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.planner import ClusterOption, read_clusters
from clustersim.planner.clusters import cluster_settings
from clustersim.scenario import Point, load_scenario

SCENARIO: dict[str, Any] = {
    "model": "vgg11",
    "num_gpus": 8,
    "batch": {"global": 8},
    "topology": {
        "kind": "star",
        "num_hosts": 2,
        "host": {"template": "dgx-h100", "gpu": "h100-96gb"},
        "link": "infiniband-ndr",
        "hop": "600 ns",
    },
}


@pytest.fixture(scope="module")
def point() -> Point:
    return load_scenario(SCENARIO).points()[0].point


def topology(text: str, point: Point) -> Any:
    """Return the value of `topology` for a cluster; None for the scenario's own."""
    (option,) = read_clusters(text)
    given = [
        setting.partition("=")[2] for setting in cluster_settings(option, point) if setting.startswith("topology=")
    ]
    return json.loads(given[0]) if given else None


def test_a_text_has_numbers_a_price_and_settings() -> None:
    assert read_clusters("h100:512@2.5") == [ClusterOption("h100", 512, 2.5)]
    assert read_clusters("h100", [8, 16]) == [ClusterOption("h100", 8), ClusterOption("h100", 16)]
    (found,) = read_clusters("dgx-h100:64 topology.link='200 Gbit/s' precision=amp-fp8", [8])
    assert found.settings == ("topology.link=200 Gbit/s", "precision=amp-fp8")
    assert found.label == "64 dgx-h100, topology.link=200 Gbit/s, precision=amp-fp8"
    assert read_clusters("'h100 at 500 W:8'") == [ClusterOption("h100 at 500 W", 8)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h100", "a number of GPUs after the name"),
        ("h100:0", "numbers of GPUs from 1 on"),
        ("h100:many", "a number of GPUs after the name"),
        ("h100:8@", "dollars above zero after @"),
        ("h100:8@-1", "dollars above zero after @"),
        ("h100:8@inf", "dollars above zero after @"),
        ("@3", "a name, and after spaces KEY=VALUE"),
        ("", "a name, and after spaces KEY=VALUE"),
        ("h100:8 fast", "a name, and after spaces KEY=VALUE"),
        ("h100:8 'precision=amp", "a text without open quotes"),
    ],
)
def test_a_wrong_text_is_told_what_is_allowed(text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        read_clusters(text)
    (mistake,) = caught.value.mistakes
    assert why in mistake.message
    assert mistake.key == "--cluster"


@pytest.mark.parametrize(("size", "price"), [(0, None), (8, 0.0), (8, -1.0)])
def test_a_wrong_option_is_refused(size: int, price: float | None) -> None:
    with pytest.raises(InputError):
        ClusterOption("h100", size, price)


def test_the_scenarios_own_gpus_are_its_own_cluster_while_they_are_enough(point: Point) -> None:
    assert topology("h100-96gb:16", point) is None
    assert topology("scenario:16", point) is None
    grown = topology("h100-96gb:24", point)
    assert grown == {**SCENARIO["topology"], "num_hosts": 3}


def test_a_gpu_is_in_the_host_that_has_it_else_in_the_scenarios(point: Point) -> None:
    network = {"kind": "star", "link": "infiniband-ndr", "hop": "600 ns"}
    assert topology("b200:384", point) == {**network, "num_hosts": 48, "host": "dgx-b200"}
    assert topology("h200:12", point) == {**network, "num_hosts": 2, "host": {"template": "dgx-h100", "gpu": "h200"}}
    with pytest.raises(
        InputError, match=r"cannot have t4 \(the GPU 't4' has no NVLink.*name a host or a topology file"
    ):
        topology("t4:8", point)


def test_a_host_that_can_be_rented_has_its_own_link(point: Point) -> None:
    assert topology("gcp-a4:384", point) == {"kind": "star", "num_hosts": 48, "host": "gcp-a4"}
    assert topology("dgx-a100:8 topology.link=infiniband-hdr", point)["link"] == "infiniband-hdr"


def test_a_shipped_cluster_and_a_file_are_named(point: Point, tmp_path: Path) -> None:
    assert topology("dgx-h100-ndr:512", point) == "dgx-h100-ndr"
    assert topology("dgx-1:8", point) == "dgx-1"
    assert topology("dgx-1:16", point)["num_hosts"] == 2  # the shipped cluster has eight GPUs, its host is known
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(SCENARIO["topology"]), encoding="utf-8")
    assert topology(f"{path}:16", point) == str(path)


def test_an_unknown_name_is_told_the_nearest(point: Point) -> None:
    with pytest.raises(InputError, match="no cluster, host or GPU is called 'h1000'; did you mean 'h100'"):
        topology("h1000:8", point)


def test_cards_need_a_link() -> None:
    torus = {
        "kind": "torus",
        "dims": [2, 2],
        "link": ["100 Gbit/s", "50 Gbit/s"],
        "host": {"template": "bare", "gpu": "v100"},
    }
    other = load_scenario({**SCENARIO, "num_gpus": 4, "topology": torus}).points()[0].point
    with pytest.raises(InputError, match=r"network cards of a100 need a link.*--cluster 'a100:8 topology.link="):
        topology("a100:8", other)


def test_a_price_is_that_of_the_clusters_gpu(point: Point) -> None:
    for text, price in {"b200:8@4.5": "prices.b200=4.5", "gcp-a3-mega:8@3": "prices.h100=3.0",
                        "scenario:8@2": "prices.h100-96gb=2.0"}.items():  # fmt: skip
        assert price in cluster_settings(read_clusters(text)[0], point)
