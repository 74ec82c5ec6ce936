"""Published peak memory of GPUs in training, against the forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model
from clustersim.model.write_workload import write_workload_file
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup

GIB = 2.0**30
OUTSIDE = ("context", "communicators")
"""What PyTorch's allocator does not know of."""

HOST = {"kind": "star", "num_hosts": 32, "link": "infiniband-ndr", "hop": "600 ns"}
BASE: dict[str, Any] = {
    "software": "plain",
    "strategy": {"kind": "all-reduce"},
    "optimizer": "adam",
    "transport": "nccl",
    "memory_check": False,
}


def allocated(**changes: Any) -> dict[str, float]:
    """Return the bytes that a GPU of the fullest stage holds in PyTorch's allocator."""
    setup = Setup(load_scenario({**BASE, **changes}).points()[0].point)
    held = setup.memory_bytes(setup.kinds_in_use[0])
    return {name: size for name, size in held.items() if name not in OUTSIDE}


def megatron_7b() -> Model:
    """Return NVIDIA/Megatron-LM, tests/functional_tests/test_cases/gpt/gpt3_7b_tp4_pp1_memory_speed/model_config.yaml
    (commit 17398598): GPT with learnt positions, keys and values of 8 heads, and 131,072 words, which Megatron rounds
    up to a multiple of 128 x tensor, one more being there for the end of a text.
    """
    features, tokens, heads, key_heads, words = 4096, 8192, 32, 8, 131_584
    net = Builder("megatron-7b", "Megatron-LM's GPT of its memory tests", sample="sequence")
    x = net.dropout("drop", net.embedding("embedding", tokens, features, rows=[words, tokens]))
    width = features // heads * key_heads
    for number in range(32):
        name = f"h.{number}"
        net.linear(f"{name}.qkv", net.layer_norm(f"{name}.norm1", x), features + 2 * width)
        keys = Tensor(width, tokens)
        y = net.fused_attention(name, Tensor(features, tokens), keys, heads, causal=True)
        y = net.dropout(f"{name}.drop1", net.linear(f"{name}.output", y, features))
        x = net.add(f"{name}.add1", x, y)
        y = net.linear(f"{name}.in", net.layer_norm(f"{name}.norm2", x), 4 * features)
        y = net.dropout(f"{name}.drop2", net.linear(f"{name}.out", net.gelu(f"{name}.gelu", y), features))
        x = net.add(f"{name}.add2", x, y)
    net.loss("loss", net.linear("head", net.layer_norm("norm", x), words, bias=False))
    return net.model()


@pytest.mark.parametrize(
    ("layout", "stage", "measured", "error"),
    [
        ({"tensor": 4, "micro_batches": 2}, 0, 57_143_791_616, 0.011),
        ({"pipeline": 4, "micro_batches": 4, "schedule": "interleaved", "chunks": 8}, -1, 60_518_293_504, -0.038),
    ],
)
def test_megatron_lm_allocates_what_is_forecast(
    tmp_path: Path, layout: dict[str, Any], stage: int, measured: float, error: float
) -> None:
    """`mem-max-allocated-bytes` of golden_values_dev_dgx_h100.json of gpt3_7b_tp4_pp1_memory_speed (commit 09eb91e5)
    and gpt3_7b_tp1_pp4_memory_speed (070712a0), read on the last rank: bfloat16, gradients in fp32, the distributed
    optimizer. That copies are two is what its state takes there: 12.2 bytes a parameter of a rank, 6 + 12 / 2.
    """
    path = write_workload_file(megatron_7b(), tmp_path / "megatron.yaml")
    changes: dict[str, Any] = {"model": str(path), "num_gpus": 8, "batch": {"global": 8}, "precision": "amp-bf16"}
    changes["software"] = {"name": "plain", "library": "megatron", "host": "megatron"}
    topology = {**HOST, "host": "dgx-h100"}
    point = load_scenario({**BASE, **changes, "topology": topology, "parallelism": {**layout, "sharding": "zero-1"}})
    laid_out = Setup(point.points()[0].point).laid_out
    assert laid_out is not None
    held = sum(size for name, size in laid_out.memory[stage].items() if name not in OUTSIDE)
    assert held / measured - 1 == pytest.approx(error, abs=0.005)
    state = (laid_out.memory[stage][name] for name in ("weights", "weight copies", "gradients", "optimizer"))
    assert sum(state) == pytest.approx({0: 20_663_519_232, -1: 24_540_168_192}[stage], rel=0.15)


TORCHTITAN: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "num_gpus": 8,
    "batch": {"per_gpu": 2},
    "precision": "amp-bf16",
    "topology": {**HOST, "host": {"template": "dgx-h100", "gpu": "h100-96gb"}},
    "software": {"name": "plain", "sharding_copies": "parameters"},
    "parallelism": {"sharding": "zero-3", "recompute": "selective"},
}
LLAMA_70B: dict[str, Any] = {
    "model": "llama-3.1-70b",
    "num_gpus": 256,
    "parallelism": {**TORCHTITAN["parallelism"], "tensor": 8, "recompute": "full", "sequence_parallel": True},
}


@pytest.mark.parametrize(
    ("changes", "measured_gib", "error"),
    [
        ({}, 82.4, -0.07),
        ({}, 77.0, -0.005),  # compiled
        ({"num_gpus": 128}, 67.0, -0.06),
        ({"num_gpus": 128}, 62.0, 0.015),  # compiled
        (LLAMA_70B, 71.9, -0.185),  # compiled, Float8
        ({"num_gpus": 32, "topology": {**HOST, "host": {"template": "dgx-h100", "gpu": "h200"}}}, 47.96, 0.37),
    ],
)
def test_torchtitan_reserves_what_is_forecast_but_for_a_compiled_loss(
    changes: dict[str, Any], measured_gib: float, error: float
) -> None:
    """PyTorch, torchtitan, benchmarks/llama3_h100_202412_torchtitan.md (commit 31a17bfd), tables 1, 3 and 4, and
    llama3-8b_h200_202506_trainy-whitefiber.md (commit 1af29373): memory that PyTorch has reserved. The last had a
    loss that was compiled, without logits in fp32, which is not in the forecast. What 70B lacks was not found.
    """
    held = allocated(**{**TORCHTITAN, **changes})
    assert sum(held.values()) / GIB / measured_gib - 1 == pytest.approx(error, abs=0.01)
