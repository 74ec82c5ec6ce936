"""A limit of power in a topology."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim import load_scenario
from clustersim.errors import InputError
from clustersim.scenario.cluster import build_topology
from clustersim.topology.star import Star

SCENARIO = """
model: resnet50
num_gpus: 2
batch: {per_gpu: 8}
precision: amp-bf16
software: plain
strategy: {kind: all-reduce}
topology: {kind: star, num_hosts: 2, link: infiniband-ndr, host: {template: bare, gpu: GPU}}
"""


def star(**options: Any) -> Star:
    return Star(kind="star", num_hosts=1, link="infiniband-ndr", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"host": {"template": "dgx-h100", "gpu": {"gpu": "h100", "power_limit": "500 W"}}},
        {"host": "dgx-h100", "gpu": {"gpu": "h100", "power_limit": "0.5 kW"}},
        {"host": "dgx-h100", "gpu": "h100 at 500 W"},
    ],
)
def test_a_limit_is_part_of_the_name_of_every_gpu(options: dict[str, Any]) -> None:
    assert set(star(**options).build().gpu_sheets) == {"h100 at 500 W"}


@pytest.mark.parametrize(
    ("gpu", "key", "message"),
    [
        ("{gpu: h100, power_limit: 800 W}", "topology.host.gpu.power_limit", "which 800 W exceed"),
        ("{gpu: h100, power_limit: 200 W}", "topology.host.gpu.power_limit", "below 350 W"),
        ("{gpu: h100, power_limit: 500}", "topology.host.gpu.power_limit", "a number needs a unit"),
        ("{gpu: h10, power_limit: 500 W}", "topology.host.gpu.gpu", "did you mean 'h100'"),
        ("{gpu: h100, power_limt: 500 W}", "topology.host.gpu.power_limt", "did you mean 'power_limit'"),
    ],
)
def test_a_mistake_is_reported_at_its_key(tmp_path: Any, gpu: str, key: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SCENARIO.replace("GPU", gpu))
    with pytest.raises(InputError, match=message) as raised:
        load_scenario(path)
    assert key in {mistake.key for mistake in raised.value.mistakes}


def test_a_limit_may_be_an_axis(tmp_path: Any) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SCENARIO.replace("GPU", "{gpu: h100, power_limit: [500 W, 700 W]}"))
    names = [build_topology(each.point.topology).gpu_sheets[0] for each in load_scenario(path).points()]
    assert names == ["h100 at 500 W", "h100 at 700 W"]
