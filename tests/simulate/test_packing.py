"""Training on packed and padded documents: real tokens per second."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim import load_scenario
from clustersim.errors import InputError
from clustersim.report.answer import real_tokens
from tests.placed import placed


def scenario(packing: dict[str, Any] | None, **keys: Any) -> dict[str, Any]:
    return placed(
        {
            "model": "llama-2-7b-seq8192",
            "num_gpus": 2,
            "batch": {"per_gpu": 1},
            "topology": {"kind": "star", "num_hosts": 2, "host": {"gpu": "h100"}, "link": "50 GB/s"},
            "transport": "ideal",
            "strategy": {"kind": "all-reduce"},
            "precision": "amp-bf16",
            "software": "plain",
            "compute": {"kernels": "law"},
            "num_iterations": 2,
            "memory_check": False,
            **({} if packing is None else {"packing": packing}),
            **keys,
        }
    )


def test_packed_documents_train_more_real_tokens_than_padded_ones() -> None:
    whole = clustersim.simulate(scenario(None))
    packed, padded = (
        clustersim.simulate(scenario({"lengths": [1024, 3072], "kind": kind})) for kind in ("packed", "padded")
    )
    assert padded.iteration_s == whole.iteration_s
    assert packed.iteration_s < whole.iteration_s
    assert packed.facts["real_tokens_per_s"] == packed.samples_per_s * 8192
    assert padded.facts["real_tokens_per_s"] == padded.samples_per_s * 2048
    assert (packed.facts["real_token_share"], padded.facts["real_token_share"]) == (1.0, 0.25)
    assert packed.facts["documents_per_s"] == packed.samples_per_s * 4
    assert "real_tokens_per_s" not in whole.facts


def test_the_table_says_real_tokens() -> None:
    found = clustersim.sweep(scenario({"lengths": [2048], "kind": "padded"}))
    assert any("25\u202f% of all" in line for line in real_tokens(found))


@pytest.mark.parametrize(
    "layout",
    [{"tensor": 2}, {"context": 2, "tensor": 1}, {"pipeline": 2, "micro_batches": 1}, {"sharding": "zero-3"}],
)
def test_it_goes_with_layouts(layout: dict[str, Any]) -> None:
    keys = {"parallelism": layout, "batch": {"global": 2}, "topology": {**scenario(None)["topology"], "num_hosts": 2}}
    whole, packed = (clustersim.simulate(scenario(each, **keys)) for each in (None, {"lengths": [512]}))
    assert packed.breakdown_s["compute"] < whole.breakdown_s["compute"]
    assert packed.memory_bytes == whole.memory_bytes


@pytest.mark.parametrize(
    ("packing", "keys", "message"),
    [
        ({"lengths": [10]}, {"model": "gpt2-small"}, "in one fused kernel"),
        ({"lengths": [10]}, {"model": "resnet50"}, "one sequence with attention"),
        ({"lengths": []}, {}, "needs lengths"),
        (
            {"lengths": [10]},
            {"parallelism": {"context": 2}, "software": {"name": "plain", "context_method": "ring"}},
            "context_method: ring",
        ),
    ],
)
def test_what_cannot_be_packed_is_refused_at_its_key(
    packing: dict[str, Any], keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        load_scenario(scenario(packing, **keys))
    assert str(error.value.mistakes[0].key).startswith("packing")
