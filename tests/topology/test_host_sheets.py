"""Hosts as data: every sheet builds its host, says where its numbers come from, and gives a topology its link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.hardware import load_cpu, load_link
from clustersim.scenario import load_scenario
from clustersim.topology import HOST_SHEETS, HOSTS, load_topology, topology_spec
from clustersim.topology.host_sheets import host_sheet

CLOUDS = {
    *("aws-p4d", "aws-p4de", "aws-p5", "aws-p5e", "aws-p5en", "aws-p6-b200", "aws-p6e-gb200"),
    *("azure-nd-a100-v4", "azure-nd-h100-v5", "azure-nd-h200-v5", "azure-nd-mi300x-v5", "azure-nd-gb200-v6"),
    *("gcp-a3-high", "gcp-a3-mega", "gcp-a3-ultra", "gcp-a4", "gcp-a4x"),
}


def star(host: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "star", "num_hosts": 2, "host": host, **more}


def test_the_hosts_of_three_clouds_are_there() -> None:
    assert set(HOST_SHEETS) >= CLOUDS
    assert not set(HOST_SHEETS) & set(HOSTS)


@pytest.mark.parametrize("name", HOST_SHEETS)
def test_a_sheet_builds_its_host(name: str) -> None:
    sheet, cluster = HOST_SHEETS.load(name), load_topology(star(name))
    own = [kind for kind, host in zip(cluster.node_kinds, cluster.node_hosts, strict=True) if host == 0]
    assert own.count("gpu") == sheet.options.get("num_gpus", 8)
    assert set(cluster.gpu_sheets) == {sheet.options["gpu"]}
    assert list(cluster.host_sheets) == [sheet.options["cpu"]] * 2
    rate = load_link(sheet.link).bytes_per_s
    leaves = (cluster.node_domains[cluster.links.src] >= 0) & (cluster.node_domains[cluster.links.dst] < 0)
    assert leaves.sum() == 2 * own.count("nic")
    assert np.all(cluster.links.bytes_per_s[leaves] == rate)


@pytest.mark.parametrize("name", HOST_SHEETS)
def test_every_value_has_a_source(name: str) -> None:
    sheet = HOST_SHEETS.load(name)
    assert set(sheet.sources) == {"template", "link", "transport", *(f"options.{key}" for key in sheet.options)}
    assert set(sheet.options) <= set(HOSTS[sheet.template].model_fields)
    assert load_cpu(sheet.options["cpu"])


def test_a_link_of_the_topology_and_options_of_the_host_win() -> None:
    spec = topology_spec(star({"template": "aws-p5", "nics": 4}, link="100 Gbit/s"))
    assert spec.link == "100 Gbit/s"
    assert (spec.host.template, spec.host.nics, spec.host.cpu) == ("dgx-h100", 4, "epyc-7r13")
    assert topology_spec(star("aws-p5")).link == "efa-4x100g"
    assert set(load_topology(star("aws-p5", gpu="h200")).gpu_sheets) == {"h200"}


def test_racks_of_a_cloud_are_nvlink_domains() -> None:
    cluster = load_topology({**star("azure-nd-gb200-v6"), "num_hosts": 36})
    assert (cluster.num_gpus, len(set(cluster.gpu_domains.tolist()))) == (144, 2)


def test_without_a_sheet_the_link_is_missing() -> None:
    with pytest.raises(InputError, match="link: this key is missing"):
        load_topology(star("dgx-h100"))


def test_an_unknown_host_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="did you mean 'aws-p5'"):
        load_topology(star("aws-p55", link="1 GB/s"))


def test_a_sheet_of_ones_own(tmp_path: Path) -> None:
    text = Path(HOST_SHEETS.find("aws-p5")).read_text(encoding="utf-8").replace("value: h100", "value: h800")
    own = tmp_path / "mine.yaml"
    own.write_text(text.replace("name: aws-p5", "name: mine"), encoding="utf-8")
    assert set(load_topology(star(str(own))).gpu_sheets) == {"h800"}
    own.write_text(text.replace("nvswitch", "").replace("template:\n", "templates:\n"), encoding="utf-8")
    with pytest.raises(InputError, match="templates"):
        load_topology(star(str(own)))
    assert host_sheet({"no": "name"}) is None


def test_a_scenario_names_a_host_of_a_cloud() -> None:
    point = (
        load_scenario(
            {
                "model": "gpt2-small",
                "num_gpus": 16,
                "batch": {"per_gpu": 1},
                "topology": {"kind": "star", "host": "gcp-a4"},
                "software": "plain",
            }
        )
        .points()[0]
        .point
    )
    assert point.topology.num_hosts == 2
    assert point.precision == "fp32"


def test_the_list_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "hosts"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in (*HOST_SHEETS, "dgx-h100", "mi300x"))
