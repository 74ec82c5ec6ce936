"""Two ways to one workload: `import torch` of a model of transformers, and `import hf` of its config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from clustersim.interchange.hf_config import import_hf
from tests.interchange.hugging_face.library import PACKED
from tests.interchange.traced import traced_in

pytestmark = pytest.mark.torch
TOKENS = 24
SIDES = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 128, "vocab_size": 100,
}  # fmt: skip
ENCODER = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
}  # fmt: skip
IMAGE = "model(pixel_values=first)"
WORDS = "model(input_ids=first)"
BOTH = "model(input_ids=first, decoder_input_ids=second, use_cache=False)"
PAIR = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
CASES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "bert": ({**ENCODER, "architectures": ["BertForMaskedLM"]}, WORDS, ("24:int64",)),
    "gpt2": (
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "architectures": ["GPT2LMHeadModel"]},
        "model(input_ids=first, use_cache=False)", ("24:int64",),
    ),
    "llama": (
        {**ENCODER, "num_key_value_heads": 4, "architectures": ["LlamaForCausalLM"]},
        "model(input_ids=first, use_cache=False)", ("24:int64",),
    ),
    "distilbert": (
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "vocab_size": 100,
         "architectures": ["DistilBertForMaskedLM"]},
        WORDS, ("24:int64",),
    ),
    "electra": ({**ENCODER, "embedding_size": 32, "architectures": ["ElectraForMaskedLM"]}, WORDS, ("24:int64",)),
    "whisper": (
        {**SIDES, "max_source_positions": 30, "num_mel_bins": 20, "architectures": ["WhisperForConditionalGeneration"],
         "pad_token_id": 0, "decoder_start_token_id": 1},
        "model(input_features=first, decoder_input_ids=second, use_cache=False)", ("20,60", "24:int64"),
    ),
    "t5": ({**PAIR, "architectures": ["T5ForConditionalGeneration"]}, BOTH, ("24:int64", "24:int64")),
    "mt5": ({**PAIR, "architectures": ["MT5ForConditionalGeneration"]}, BOTH, ("24:int64", "24:int64")),
    "umt5": ({**PAIR, "architectures": ["UMT5ForConditionalGeneration"]}, BOTH, ("24:int64", "24:int64")),
    "bart": (
        {**SIDES, "max_position_embeddings": 64, "architectures": ["BartForConditionalGeneration"]},
        BOTH,
        ("24:int64", "24:int64"),
    ),
    "mamba": (
        {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "architectures": ["MambaForCausalLM"]},
        "model(input_ids=first, use_cache=False)", ("24:int64",),
    ),
    "mamba2": (
        {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 100, "num_heads": 4, "head_dim": 16, "n_groups": 2,
         "state_size": 8, "chunk_size": 16, "architectures": ["Mamba2ForCausalLM"]},
        "model(input_ids=first, use_cache=False)", ("24:int64",),
    ),
    "resnet": (
        {"depths": [1, 1], "hidden_sizes": [64, 128], "architectures": ["ResNetForImageClassification"]}, IMAGE,
        ("3,224,224",),
    ),
    "convnext": (
        {"depths": [1, 1], "hidden_sizes": [16, 32], "num_stages": 2, "image_size": 64,
         "architectures": ["ConvNextForImageClassification"]},
        IMAGE, ("3,64,64",),
    ),
    "dinov2": (
        {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 56,
            "use_mask_token": False,
            "architectures": ["Dinov2ForImageClassification"],
        },
        IMAGE,
        ("3,56,56",),
    ),
    "vit": ({**ENCODER, "image_size": 64, "architectures": ["ViTForImageClassification"]}, IMAGE, ("3,64,64",)),
    "swin": (
        {"embed_dim": 32, "depths": [1, 2], "num_heads": [2, 4], "image_size": 112, "drop_path_rate": 0.0,
         "architectures": ["SwinForImageClassification"]},
        IMAGE, ("3,112,112",),
    ),
}  # fmt: skip
WITHOUT = ("convnext", "mamba", "mamba2", "resnet")
"""Families without attention."""
KINDS: dict[str, tuple[str | None, ...]] = dict.fromkeys(WITHOUT, (None,)) | {"bart": ("eager",)}
"""How attention runs, where not in both ways: BART's masks read values where it is fused, which are not traced."""
PAIRS = [(family, kind) for family in CASES for kind in KINDS.get(family, ("sdpa", "eager"))]
CODE = """
import transformers

class build(nn.Module):
    def __init__(self):
        super().__init__()
        config = transformers.AutoConfig.for_model(**KEYS)
        self.inner = transformers.{kind}._from_config(config, attn_implementation="{attention}")

    def forward(self, *inputs):
        first, second = (*inputs, None)[:2]
        model = self.inner
        out = {call}
        return out.logits
"""


@pytest.fixture(autouse=True)
def library() -> None:
    pytest.importorskip("transformers")


@pytest.mark.parametrize(("family", "attention"), PAIRS)
def test_a_traced_model_has_the_parameters_and_flop_of_its_config(tmp_path: Path, family: str, attention: Any) -> None:
    """Also the pairs of tokens that a fused causal attention skips, and the backward products."""
    sizes, call, inputs = CASES[family]
    keys = {"model_type": family, **sizes}
    code = f"KEYS = {keys!r}\n" + CODE.format(kind=keys["architectures"][0], call=call, attention=attention or "eager")
    with mock.patch(PACKED, return_value=None):
        traced = traced_in(tmp_path, code, *inputs).model
    path = tmp_path / "config.json"
    path.write_text(json.dumps(keys))
    tokens = None if call == IMAGE else TOKENS
    read = import_hf(path, tokens, attention=attention).model
    frozen = read.num_parameters - traced.num_parameters
    assert frozen == (30 * 64 if family == "whisper" else 0)  # fixed positions
    assert traced.flop == read.flop
    assert traced.flop_backward == read.flop_backward
