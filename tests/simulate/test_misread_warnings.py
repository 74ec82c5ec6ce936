"""Warnings: the nodes of a graph are copies of the model; 8-bit products gain little beside much communication."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast

ASKED: dict[str, Any] = {
    "model": "gpt-4x512x8-seq256",
    "num_gpus": 8,
    "batch": {"global": 16},
    "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "h100"}, "link": "10 Gbit/s", "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 2,
}


def warnings(**changes: Any) -> str:
    return "\n".join(forecast(load_scenario({**ASKED, **changes}).points()[0].point).warnings)


def test_a_graph_beside_a_layout_is_of_copies() -> None:
    found = "the nodes of strategy.graph are copies of the model, not GPUs: 4 copies, numbered from 0, on 2 GPUs each"
    given = {"kind": "gossip", "graph": [[0, 1], [1, 2], [2, 3]]}
    assert found in warnings(strategy=given, parallelism={"tensor": 2})
    assert "strategy.graph" not in warnings(strategy={"kind": "gossip"}, parallelism={"tensor": 2})
    assert "strategy.graph" not in warnings(strategy={"kind": "gossip", "graph": "ring"})


@pytest.mark.parametrize(
    ("precision", "num_gpus", "is_warned"), [("amp-fp8", 8, True), ("amp-fp8", 1, False), ("amp-bf16", 8, False)]
)
def test_products_in_8_bits_beside_much_communication_say_why_they_gain_little(
    precision: str, num_gpus: int, is_warned: bool
) -> None:
    found = warnings(precision=precision, num_gpus=num_gpus)
    assert ("amp-fp8 makes matrix products faster but no message smaller" in found) is is_warned
