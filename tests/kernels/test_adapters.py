"""LoRA and QLoRA: parameters, FLOP, memory, kernels that widen 4-bit weights."""

from __future__ import annotations

import re

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import OptimizerSpec, estimate_layers, memory_per_gpu
from clustersim.kernels.adapters import STORED_BYTES, SUM, Lora, with_adapters
from clustersim.kernels.layer_times import WIDENING_SHARE
from clustersim.kernels.memory import kept_bytes
from clustersim.model import load_model
from clustersim.parallelism.recomputation import block_starts
from clustersim.parallelism.stages import cut_points

LLAMA = load_model("llama-2-7b-seq1304")
ADAM = OptimizerSpec(kind="adam")


@pytest.mark.parametrize(
    ("model", "lora", "trained"),
    [
        ("llama-2-7b", Lora(rank=8), 4_194_304),  # LitGPT, tutorials/resource-tables.md; as PEFT prints it
        ("llama-2-13b", Lora(rank=8), 6_553_600),  # LitGPT, tutorials/resource-tables.md
        ("llama-3.1-8b", Lora(rank=16, targets="all-linear"), 41_943_040),  # as PEFT prints it
        ("llama-3.1-8b", Lora(rank=16, targets=("k_proj", "down_proj")), 32 * 16 * (4096 + 1024 + 14336 + 4096)),
        ("gpt2-small", Lora(rank=4, targets=("q_proj", "up_proj")), 12 * 4 * (2 * 768 + 768 + 3072)),
    ],
)
def test_an_adapter_has_rank_times_the_features_on_both_sides(model: str, lora: Lora, trained: int) -> None:
    assert with_adapters(load_model(model), lora, 2.0).num_parameters == trained


def test_only_adapters_have_products_for_the_gradient_of_weights() -> None:
    adapted = with_adapters(LLAMA, Lora(rank=8), 2.0)
    rows, features = 1304, 4096
    own = 32 * 2 * 2 * (2.0 * rows * features * 8)  # blocks, targets, A and B
    assert sum(layer.flop_backward_weights for layer in adapted.layers) == own
    assert adapted.flop == LLAMA.flop + own
    first_qkv = 2.0 * rows * features * 3 * features
    whole = sum(layer.flop_backward_data for layer in LLAMA.layers)
    assert sum(layer.flop_backward_data for layer in adapted.layers) == whole - first_qkv + own - 2 * (
        2.0 * rows * features * 8
    )


def test_memory_has_frozen_weights_once_and_gradients_and_moments_of_adapters() -> None:
    adapted = with_adapters(LLAMA, Lora(rank=8), 2.0)
    held = memory_per_gpu(adapted, 1, "amp-bf16", ADAM)
    assert held["frozen weights"] == 2 * LLAMA.num_parameters
    assert held["weights"] == held["gradients"] == 4 * 4_194_304
    assert held["optimizer"] == 8 * 4_194_304
    assert held["weight copies"] == 2 * 4_194_304


def test_a_frozen_product_keeps_no_input_and_an_adapter_its_two() -> None:
    adapted = with_adapters(LLAMA, Lora(rank=8), 2.0)
    kept = dict(zip((layer.name for layer in adapted.layers), kept_bytes(adapted, "amp-bf16"), strict=True))
    rows = 1304
    assert kept["h.1.norm1"] == 2 * rows * 4096  # read by both A
    assert kept["h.1.attention.qkv.q_proj.lora_A"] == kept["h.1.attention.qkv.v_proj.lora_A"] == 2 * rows * 8
    assert kept["h.1.attention.qkv.q_proj.lora_B"] == kept["h.1.attention.qkv.v_proj.lora_B"] == 0
    assert kept["h.1.attention.qkv.lora_sum"] == 0
    assert kept["h.1.norm2"] == 0  # read by a frozen product alone
    stored = with_adapters(LLAMA, Lora(rank=8, targets=("o_proj",), storage="nf4"), 2.0)
    kept = dict(zip((layer.name for layer in stored.layers), kept_bytes(stored, "amp-bf16"), strict=True))
    assert kept["h.1.norm1"] == kept["h.1.norm2"] == 0  # read by products with frozen weights of 4 bits
    assert kept["h.1.attention.output.lora_sum"] == 0
    assert kept["norm"] == 0  # read by the head, whose weights have 16 bits


def test_four_bits_are_stored_with_the_scales_of_blocks() -> None:
    assert STORED_BYTES["nf4"] * 8 == 4.5
    assert round(STORED_BYTES["nf4-double"] * 8, 3) == 4.127  # arXiv:2305.14314, section 3
    linear = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    others = LLAMA.num_parameters - linear
    for storage in ("nf4", "nf4-double"):
        adapted = with_adapters(LLAMA, Lora(rank=8, storage=storage), 2.0)
        assert adapted.frozen_bytes == pytest.approx(STORED_BYTES[storage] * linear + 2 * others)


def test_a_kernel_widens_four_bits_before_each_product() -> None:
    """It reads what is stored and writes 16 bits, at a share of the memory's rate, plus a launch."""
    gpu = load_gpu("a100")
    plain, stored = (
        {
            each.layer.name: each
            for each in estimate_layers(
                with_adapters(LLAMA, Lora(rank=8, storage=storage), 2.0), gpu, 1, "amp-bf16"
            ).layers
        }
        for storage in ("operands", "nf4")
    )
    rate = WIDENING_SHARE * gpu.memory_bytes_per_s
    name, weights = "h.1.feed_forward.out", 4096 * 11008
    more_s = weights * (2 + STORED_BYTES["nf4"]) / rate + gpu.launch_s
    assert stored[name].forward_s - plain[name].forward_s == pytest.approx(more_s)
    assert stored[name].backward_data_s - plain[name].backward_data_s == pytest.approx(more_s)
    assert stored[name].backward_weights_s == plain[name].backward_weights_s == 0
    assert stored["head"] == plain["head"]


@pytest.mark.parametrize(
    ("model", "measured_s", "within"),
    [("llama-2-7b-seq256", (3.68 - 2.36) * 0.06, 0.07), ("llama-2-13b-seq256", (6.38 - 3.19) * 0.06, 0.16)],
)
def test_widening_takes_what_litgpt_measured(model: str, measured_s: float, within: float) -> None:
    """Lightning-AI/litgpt, tutorials/resource-tables.md: minutes for 1,000 iterations with nf4 and without; the first
    is one of three that the share of the memory's rate is fitted to."""
    gpu, whole = load_gpu("a100-40gb"), load_model(model)
    wide, stored = (
        sum(
            each.forward_s + each.backward_s
            for each in estimate_layers(
                with_adapters(whole, Lora(rank=8, storage=kind), 2.0), gpu, 1, "amp-bf16"
            ).layers
        )
        for kind in ("operands", "nf4")
    )
    assert stored - wide == pytest.approx(measured_s, rel=within)


def test_a_sum_of_an_adapter_ends_no_block() -> None:
    adapted = with_adapters(LLAMA, Lora(rank=8), 2.0)
    names = [[model.layers[cut].name for cut in cut_points(model.layers)] for model in (LLAMA, adapted)]
    starts = [[model.layers[start].name for start in block_starts(model.layers)] for model in (LLAMA, adapted)]
    assert names[0] == names[1]
    assert starts[0] == starts[1]
    assert any(layer.op == SUM for layer in adapted.layers)


def test_a_target_that_a_model_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="has no product that is known as gate_proj") as error:
        with_adapters(load_model("gpt2-small"), Lora(rank=8, targets=("gate_proj",)), 2.0)
    assert error.value.mistakes[0].allowed == "q_proj, k_proj, v_proj, o_proj, up_proj, down_proj, all-linear"


def test_the_targets_that_a_message_lists_are_allowed() -> None:
    model = load_model("deepseek-v2-lite")
    with pytest.raises(InputError, match="known as q_proj") as error:
        with_adapters(model, Lora(rank=8), 2.0)
    *targets, whole = str(error.value.mistakes[0].allowed).split(", ")
    assert (targets, whole) == (["gate_proj", "up_proj", "down_proj"], "all-linear")
    for each in targets:
        assert with_adapters(model, Lora.model_validate({"rank": 8, "targets": [each]}), 2.0).num_parameters
    assert with_adapters(model, Lora(rank=8, targets="all-linear"), 2.0).num_parameters


@pytest.mark.parametrize(
    ("targets", "messages"),
    [
        (["c_attn"], ["lora.targets.0: no adapter target is called 'c_attn'; that is q_proj, k_proj and v_proj "]),
        (["q_proj", "fc1", 3], ["lora.targets.1: .* that is up_proj ", "lora.targets.2: .* called '3'"]),
        ("all", ["lora.targets: expected all-linear, or a list of q_proj, .* .got 'all'.; that is all-linear$"]),
        ("q_proj", ["lora.targets: expected all-linear, .* .got 'q_proj'.; did you mean '.q_proj.'.$"]),
        ([], ["lora.targets: expected all-linear, or a list of q_proj, .* .got an empty list.$"]),
        ({"q_proj": 1}, ["lora.targets: expected all-linear, or a list of q_proj, .* .got no list.$"]),
        ([{"a": 1}, [2]], ["lora.targets.0: no adapter target", "lora.targets.1: no adapter target"]),
    ],
)
def test_a_wrong_target_is_one_mistake_with_its_name_here(targets: object, messages: list[str]) -> None:
    asked = {
        "model": "gpt2-small", "num_gpus": 1, "batch": {"per_gpu": 1}, "precision": "amp-bf16", "software": "plain",
        "topology": {"kind": "star", "num_hosts": 1, "link": "1 GB/s", "gpu": "h100"}, "transport": "nccl",
        "strategy": {"kind": "all-reduce"}, "lora": {"rank": 8, "targets": targets},
    }  # fmt: skip
    with pytest.raises(InputError) as error:
        clustersim.simulate(asked)
    assert len(error.value.mistakes) == len(messages)
    for mistake, message in zip(error.value.mistakes, messages, strict=True):
        assert re.match(message, str(mistake))
