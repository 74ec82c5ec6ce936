"""Encoders, pairs of encoder and decoder, towers of images, scans: closed forms of their layers, and what is refused.

Parameters and FLOP of published sizes are compared with transformers in `hugging_face`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.interchange.hf_config import import_hf
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.layer_times import estimate_layers
from clustersim.model import Layer, Model, read_workload_file, write_workload_file
from clustersim.parallelism.split import split_model
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from tests.interchange.hugging_face.cases import CASES, Case
from tests.mutations import check_mutations

Import = Callable[..., Model]
SMALL_BART = {
    "model_type": "bart", "d_model": 64, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 128, "vocab_size": 500,
}  # fmt: skip
SMALL_WHISPER = {**SMALL_BART, "model_type": "whisper", "max_source_positions": 60, "num_mel_bins": 20}
MAMBA = {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 500}
MAMBA_2 = {**MAMBA, "model_type": "mamba2", "num_heads": 4, "head_dim": 32, "n_groups": 2, "state_size": 8}
SWIN = {"model_type": "swin", "embed_dim": 32, "depths": [1, 2], "num_heads": [2, 4], "image_size": 112}
QWEN_VL = {
    "model_type": "qwen2_5_vl", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 500,
    "vision_config": {
        "depth": 2, "hidden_size": 64, "num_heads": 4, "out_hidden_size": 64, "fullatt_block_indexes": [1],
    },
}  # fmt: skip
LLAVA = {
    "model_type": "llava",
    "text_config": {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 4, "vocab_size": 500,
    },
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 96, "intermediate_size": 128, "num_hidden_layers": 3,
        "num_attention_heads": 4, "image_size": 64, "patch_size": 16,
    },
}  # fmt: skip
DEBERTA = {
    "model_type": "deberta-v2", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
    "intermediate_size": 96, "vocab_size": 500, "relative_attention": True, "position_buckets": 16,
    "pos_att_type": ["c2p", "p2c"],
}  # fmt: skip


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Return what imports a config of these keys."""

    def make(keys: dict[str, Any], tokens: int | None = None, **more: Any) -> Model:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(keys))
        return import_hf(path, tokens, **more).model

    return make


def layers_of(model: Model, ending: str) -> list[Layer]:
    return [layer for layer in model.layers if layer.name.endswith(ending)]


def one(model: Model, name: str) -> Layer:
    return next(layer for layer in model.layers if layer.name == name)


def test_an_mt5_whose_head_is_not_tied_has_the_parameters_of_the_published_checkpoint(imported: Import) -> None:
    """google/mt5-small has 300,176,768; transformers 5 counts the tied one until it reads a checkpoint."""
    assert imported({"model_type": "mt5", "tie_word_embeddings": False}).num_parameters == 300_176_768


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_workload_file_holds_the_same_layers(tmp_path: Path, case: Case) -> None:
    path, keys = tmp_path / "config.json", {**case.keys, **case.flop_keys}
    path.write_text(json.dumps(keys))
    model = import_hf(path, case.tokens, image_size=case.image_size).model
    if len(model.layers) > 700:
        pytest.skip("many layers")
    assert read_workload_file(write_workload_file(model, tmp_path / "model.yaml"))[0].layers == model.layers


@pytest.mark.parametrize(
    "keys",
    [SMALL_BART, SMALL_WHISPER, {"model_type": "distilbert", "n_layers": 1}, SWIN, LLAVA, {"model_type": "clip"}],
)
def test_attention_kernel_by_kernel_has_the_same_parameters_and_counts_masked_pairs(
    imported: Import, keys: dict[str, Any]
) -> None:
    fused, eager = (imported(keys, attention=kind) for kind in ("sdpa", "eager"))
    assert fused.num_parameters == eager.num_parameters
    causal = {"bart": 3, "whisper": 3, "clip": 12, "llava": 1}.get(keys["model_type"], 0)
    masked = [layer.flop for layer in eager.layers if layer.op == "matmul"]
    halved = [
        layer.flop
        for layer in fused.layers
        if layer.op == "matmul" and 2 * layer.flop == 2 * layer.shape["rows"] * layer.shape["inputs"]
        * layer.shape["outputs"] * layer.shape["count"]
    ]  # fmt: skip
    assert len(halved) == 2 * causal
    assert eager.flop - fused.flop == sum(halved)
    assert sum(masked) > 0
    assert not any(layer.op == "softmax" for layer in fused.layers)


def test_a_decoder_attends_to_its_encoder(imported: Import) -> None:
    """4 FLOP a pair of tokens and feature, of 32 words and the 60 positions of the spectrogram."""
    model = imported({**SMALL_WHISPER, "max_target_positions": 32})
    for number in range(3):
        pair = [one(model, f"decoder.layers.{number}.memory.{half}").flop for half in ("scores", "context")]
        assert sum(pair) == 4 * 32 * 60 * 64
        assert one(model, f"decoder.layers.{number}.memory.key").num_parameters == 64 * 64
        assert one(model, f"decoder.layers.{number}.memory.value").num_parameters == 64 * 64 + 64


def test_the_second_convolution_of_a_whisper_halves_the_frames(imported: Import) -> None:
    model = imported(SMALL_WHISPER)
    first, second = one(model, "encoder.conv1"), one(model, "encoder.conv2")
    assert (first.flop, second.flop) == (2 * 3 * 20 * 64 * 120, 2 * 3 * 64 * 64 * 60)
    assert first.flop_backward_data == 0


def test_a_swin_attends_within_windows(imported: Import) -> None:
    """Of 28 x 28 patches in 16 windows of 49, then 14 x 14 in 4: 4 FLOP a pair and feature."""
    model = imported(SWIN)
    for stage, (windows, features) in enumerate(((16, 32), (4, 64))):
        pair = [one(model, f"stages.{stage}.blocks.0.attention.{half}") for half in ("scores", "context")]
        assert sum(layer.flop for layer in pair) == 4 * windows * 49 * 49 * features
        assert pair[0].num_parameters == 13 * 13 * (2, 4)[stage]
    shifted = [one(model, f"stages.1.blocks.{number}.attention.partition").input_elements for number in (0, 1)]
    assert shifted == [14 * 14 * 64, 3 * 14 * 14 * 64]


def test_windows_that_do_not_fit_are_filled_up(imported: Import) -> None:
    """Of 32 x 32 patches 35 x 35 places are projected, in 25 windows."""
    model = imported({**SWIN, "image_size": 128, "depths": [1, 1]})
    assert one(model, "stages.0.blocks.0.attention.qkv").shape["rows"] == 35 * 35
    assert one(model, "stages.0.blocks.0.attention.scores").shape["count"] == 25 * 2


def test_a_window_of_qwen_is_cut_at_the_edge(imported: Import) -> None:
    """18 x 18 patches are 4 windows of 64, 4 of 16 at the edges, and one of 4 in the corner; block 1 sees all."""
    model = imported(QWEN_VL, 10, image_size=252)
    scores = [layer.shape for layer in layers_of(model, ".scores") if layer.name.startswith("vision.blocks.0")]
    assert [(shape["rows"], shape["count"] // 4) for shape in scores] == [(64, 4), (16, 4), (4, 1)]
    assert one(model, "vision.blocks.1.attention.scores").shape["rows"] == 18 * 18
    assert one(model, "embedding").output_elements == 64 * (81 + 10)


def test_the_blocks_above_the_features_of_a_tower_have_no_backward_products(imported: Import) -> None:
    model = imported(LLAVA, 10)
    products = [layer for layer in model.layers if layer.name.startswith("vision.layers.") and layer.flop]
    assert {layer.name.split(".")[2] for layer in products if not layer.flop_backward_data} == {"2"}
    assert one(model, "projector.in").shape["rows"] == 16
    assert one(model, "embedding").output_elements == 64 * (16 + 10)


def test_a_deberta_adds_two_products_with_relative_positions(imported: Import) -> None:
    model = imported(DEBERTA, 24)
    assert [one(model, f"layer.0.attention.{kind}").flop for kind in ("c2p", "p2c")] == [2 * 24 * 32 * 64] * 2
    alone = imported({**DEBERTA, "share_att_key": True}, 24)
    assert model.num_parameters - alone.num_parameters == 2 * 64 * 65


def test_a_scan_takes_the_time_of_its_bytes(imported: Import) -> None:
    """Step sizes, input, gate, both matrices, and the result before and after the gate, in 2 bytes each."""
    gpu, tokens = load_gpu("h100"), 512
    model = imported({**MAMBA, "hidden_size": 1024}, tokens)
    times = {time.layer.name: time for time in estimate_layers(model, gpu, 8, "amp-bf16").layers}
    rate = constants_of(gpu, "tensor").memory_efficiency * gpu.memory_bytes_per_s
    elements = (5 * 2048 + 2 * 16) * tokens
    assert times["layers.0.scan"].forward_s == pytest.approx(8 * 2 * elements / rate + gpu.launch_s)
    convolution = times["layers.0.convolution"]
    assert convolution.forward_s == pytest.approx(8 * 2 * 2 * 2048 * tokens / rate + gpu.launch_s)


def test_an_assumption_says_how_long_scans_take(imported: Import) -> None:
    found = estimate_layers(imported(MAMBA, 64), load_gpu("h100"), 1, "amp-bf16").assumptions
    assert any("2 scans and convolutions along the tokens (such as 'layers.0.convolution')" in each for each in found)
    assert not any("without a shape" in each for each in found)


def test_a_chunked_scan_has_the_products_of_its_chunks(imported: Import) -> None:
    """Scores and results of two chunks of 16 tokens, states of each, and their sums over three boundaries."""
    model = imported({**MAMBA_2, "chunk_size": 16}, 32)
    within, outside, passed = 2 * 16 * 16 * (8 + 32), 2 * 2 * 16 * 8 * 32, 3 * 3 * 8 * 32
    assert one(model, "layers.0.scan").flop == 2 * 4 * (within + outside + passed)


def test_a_scan_is_split_by_features_between_two_sums(imported: Import) -> None:
    """Its projection from the convolution and the last one are split by rows: the sums of their results."""
    model = imported(MAMBA, 32)
    pieces = {piece.layer.name: piece for piece in split_model(model, 2, 2.0)}
    sums = {name: [call.bytes_per_sample for call in piece.after_forward] for name, piece in pieces.items()}
    assert sums["layers.0.selection"] == [2.0 * 32 * (4 + 2 * 16)]
    assert sums["layers.0.out"] == [2.0 * 32 * 64]
    assert pieces["layers.0.scan"].layer.num_parameters == 128 * 17 / 2
    assert pieces["layers.0.convolution"].layer.num_parameters == 128 * 5 / 2
    assert not sums["layers.0.scan"]


def test_the_norm_of_groups_is_local_to_the_gpus_that_have_them(imported: Import) -> None:
    """Two groups over two GPUs need no gather; one group does."""
    for groups, gathered in ((2, 0), (1, 1)):
        model = imported({**MAMBA_2, "n_groups": groups}, 32)
        pieces = {piece.layer.name: piece for piece in split_model(model, 2, 2.0)}
        assert len(pieces["layers.0.gated_norm"].before_forward) == gathered


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (MAMBA, {"attention": "eager"}, "mamba has no attention; use no --attention"),
    (DEBERTA, {"attention": "sdpa"}, "deberta-v2 has eager attention alone; use --attention eager"),
    (MAMBA, {"image_size": 224}, "a sample of mamba has no image; remove --image-size"),
    (SWIN, {"tokens": 5}, "a sample of a Swin is an image; remove --tokens"),
    ({**SWIN, "window_size": 50}, {}, "window_size: the last stage has 14 patches a side (got windows of 50)"),
    ({**SWIN, "num_heads": [2]}, {}, "depths: expected as many as num_heads"),
    ({**SWIN, "num_heads": [2, 5]}, {}, "num_heads: stage 1 has 64 features and 5 heads"),
    ({**SWIN, "image_size": [0, 5]}, {}, "image_size: expected a whole number or a list of two"),
    ({**MAMBA_2, "num_heads": 3}, {}, "num_heads: expected num_heads x head_dim of 128"),
    ({**MAMBA, "expand": 0.0001}, {}, "expand: expected at least one inner feature"),
    ({**SMALL_BART, "tie_word_embeddings": False}, {}, "tie_word_embeddings: separate tables of words are not built"),
    ({**SMALL_WHISPER, "use_weighted_layer_sum": True}, {}, "a weighted sum of layers is not built"),
    ({**DEBERTA, "pos_att_type": "p2p"}, {}, "pos_att_type: expected some of c2p, p2c (got p2p)"),
    ({**LLAVA, "vision_feature_layer": 9}, {}, "vision_feature_layer: expected whole numbers from -4 to 3 (got 9)"),
    ({**LLAVA, "text_config": {"model_type": "mamba"}}, {}, "text_config: its model_type is none that can be built"),
    ({**LLAVA, "text_config": 3}, {}, "text_config: expected a map of keys (got 3)"),
    ({"model_type": "resnet", "depths": []}, {}, "depths: expected as many as hidden_sizes"),
    ({"model_type": "resnet", "depths": [], "hidden_sizes": []}, {}, "depths: expected as many as hidden_sizes"),
    ({"model_type": "convnext", "num_stages": 3}, {}, "num_stages: expected as many as depths, 4 (got 3)"),
    ({"model_type": "convnext", "image_size": 16}, {}, "an image of 16 pixels is too small for 4 stages"),
    (QWEN_VL, {"image_size": 100}, "an image has a multiple of 28 pixels a side (got 100)"),
]  # fmt: skip


SPLIT = {"bart": 2 * (2 * 2 + 3 * 3), "swin": 2 * 2 * 3 + 2, "clip": 2 * 2 * 24}
"""Sums over GPUs of a forward and backward pass through the blocks: two for attention and two for feed-forward layers.

Swin's first norm, and that behind merged patches, gather what a convolution or a product has split.
"""


@pytest.mark.parametrize("keys", [SMALL_BART, SWIN, {"model_type": "clip"}], ids=lambda keys: str(keys["model_type"]))
def test_a_block_split_over_gpus_has_two_sums_a_branch(imported: Import, keys: dict[str, Any]) -> None:
    blocks = [
        piece
        for piece in split_model(imported(keys), 2, 2.0)
        if any(part in piece.layer.name for part in (".attention.", ".memory.", ".feed_forward.", ".norm"))
    ]
    assert sum(len(piece.calls) for piece in blocks) == SPLIT[keys["model_type"]]
    assert all(piece.is_split for piece in blocks if piece.layer.flop)


@pytest.mark.parametrize(("keys", "options", "message"), WRONG)
def test_what_cannot_be_built_is_refused(
    imported: Import, keys: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        imported(keys, **options)
    assert message in str(caught.value)
    assert caught.value.exit_status == 3


def test_another_image_size_moves_tokens_and_not_positions(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "vit"}')
    larger = import_hf(path, image_size=384)
    assert larger.model.num_parameters == import_hf(path).model.num_parameters
    assert "positions of images of 224 x 224 are interpolated for 384 x 384" in larger.notes
    assert one(larger.model, "layer.0.attention.qkv").shape["rows"] == 24 * 24 + 1


def test_a_config_may_say_that_attention_is_eager(imported: Import) -> None:
    model = imported({**SMALL_BART, "_attn_implementation": "eager"})
    assert any(layer.op == "softmax" for layer in model.layers)


TRAINED: list[tuple[dict[str, Any], int, dict[str, Any]]] = [
    (
        {"model_type": "whisper", "d_model": 768, "encoder_layers": 12, "decoder_layers": 12,
         "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072,
         "decoder_ffn_dim": 3072},
        16, {},
    ),
    ({"model_type": "swin"}, 128, {}),
    ({"model_type": "mamba", "hidden_size": 1024, "num_hidden_layers": 48}, 4, {}),
    ({"model_type": "llava"}, 2, {"sharding": "zero-3", "recompute": "full"}),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "batch", "layout"), TRAINED, ids=["whisper", "swin", "mamba", "llava"])
def test_an_imported_model_trains_on_eight_h100(
    imported: Import, tmp_path: Path, keys: dict[str, Any], batch: int, layout: dict[str, Any]
) -> None:
    """Not faster than the peak, and not a hundred times slower."""
    model = imported(keys)
    path = write_workload_file(model, tmp_path / "model.yaml")
    scenario = {
        "model": str(path), "num_gpus": 8, "batch": {"per_gpu": batch}, "precision": "amp-bf16",
        "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "infiniband-ndr"},
        "strategy": {"kind": "all-reduce"}, "num_iterations": 2, **({"parallelism": layout} if layout else {}),
        **({"software": "plain", "transport": "nccl"} if layout else {}),
    }  # fmt: skip
    run = forecast(load_scenario(scenario).points()[0].point).run
    least_s = batch * (model.flop + model.flop_backward) / load_gpu("h100").flop_per_s["amp-bf16"]
    assert least_s < run.iteration_s < 100 * least_s


CONVNEXT = {
    "model_type": "convnext", "depths": [1, 2], "hidden_sizes": [16, 32], "num_stages": 2, "image_size": 64,
}  # fmt: skip
DOCUMENTS = [SMALL_WHISPER, SWIN, DEBERTA, MAMBA_2, QWEN_VL, LLAVA, CONVNEXT]


@pytest.mark.parametrize("keys", DOCUMENTS, ids=lambda keys: str(keys["model_type"]))
def test_mutated_configs_are_refused_clearly(tmp_path: Path, keys: dict[str, Any]) -> None:
    count = 500 if os.environ.get("CLUSTERSIM_FUZZ") else 100
    was_read, refused = check_mutations(import_hf, json.dumps(keys, indent=1).encode(), tmp_path / "c.json", count)
    assert was_read > 0
    assert refused > 0
