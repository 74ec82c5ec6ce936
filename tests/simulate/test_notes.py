"""What numbers count beside a layout is told, and why quicker products gain little."""

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
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 2,
}


def warnings(**changes: Any) -> str:
    return "\n".join(forecast(load_scenario({**ASKED, **changes}).points()[0].point).warnings)


def test_a_graph_beside_a_layout_is_of_copies() -> None:
    told = "strategy.graph is among copies of the model, not GPUs: there are 4, numbered from 0, on 2 GPUs each"
    given = {"kind": "gossip", "graph": [[0, 1], [1, 2], [2, 3]]}
    assert told in warnings(strategy=given, parallelism={"tensor": 2})
    assert "strategy.graph" not in warnings(strategy={"kind": "gossip"}, parallelism={"tensor": 2})
    assert "strategy.graph" not in warnings(strategy={"kind": "gossip", "graph": "ring"})


@pytest.mark.parametrize(
    ("precision", "num_gpus", "is_told"), [("amp-fp8", 8, True), ("amp-fp8", 1, False), ("amp-bf16", 8, False)]
)
def test_products_in_8_bits_beside_much_communication_say_why_they_gain_little(
    precision: str, num_gpus: int, is_told: bool
) -> None:
    told = warnings(precision=precision, num_gpus=num_gpus)
    assert ("amp-fp8 makes products quicker and no message smaller" in told) is is_told
