"""Weights that FSDP casts before it gathers them: half of the bytes of linear layers."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim import load_scenario
from clustersim.errors import InputError
from clustersim.model import load_model
from tests.placed import placed

MODEL = "llama-2-7b-seq256"


def scenario(casts: str, **keys: Any) -> dict[str, Any]:
    return placed(
        {
            "model": MODEL,
            "num_gpus": 4,
            "batch": {"per_gpu": 1},
            "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "h100"}, "link": "10 GB/s"},
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "parallelism": {"sharding": "zero-3"},
            "precision": "amp-fp8",
            "software": {"name": "plain", "casts": casts},
            "optimizer": "adam",
            "compute": {"kernels": "law", "variability": 0},
            "num_iterations": 2,
            "memory_check": False,
            **keys,
        }
    )


def test_linear_layers_but_the_head_are_gathered_in_8_bits() -> None:
    """Twice 3 / 4 of the weights over a link of a ring of 4, and 3 / 4 of the fp32 gradients."""
    layers = load_model(MODEL).layers
    linear = sum(layer.num_parameters for layer in layers if layer.op == "fully-connected" and layer.name != "head")
    every = sum(layer.num_parameters for layer in layers)
    wide, narrow = (clustersim.simulate(scenario(casts)) for casts in ("torchao", "torchao-sharded"))
    sent = [next(link.num_bytes for link in run.links if link.kind == "access") for run in (wide, narrow)]
    assert sent[0] == pytest.approx(2 * 0.75 * 2 * every + 0.75 * 4 * every)
    assert sent[0] - sent[1] == pytest.approx(2 * 0.75 * linear)
    assert narrow.iteration_s < wide.iteration_s


@pytest.mark.parametrize("keys", [{"parallelism": {"sharding": "zero-2"}}, {"precision": "amp-bf16"}])
def test_weights_that_are_not_sharded_or_not_in_8_bits_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="gathered in 8 bits") as error:
        load_scenario(scenario("torchao-sharded", **keys))
    assert error.value.mistakes[0].key == "software.casts"
