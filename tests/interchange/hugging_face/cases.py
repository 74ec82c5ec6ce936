"""Configs of published checkpoints, one or more a family: their sizes, and the class's defaults otherwise."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.interchange.hugging_face.inputs import (
    IMAGE_TOKEN,
    audio,
    both_sides,
    image,
    image_in_text,
    image_of,
    pair,
    patches_in_text,
    plain_words,
    words,
)
from tests.interchange.hugging_face.library import Inputs


class Case(NamedTuple):
    """A config, the tokens of a sample, and the attention of the library's model: `eager` where it has no other.

    `flop_keys` are set for the comparison of FLOP only: the library's class computes more than the model needs, or
    needs values (`device`). `inputs` makes a sample. Of what the library computes, `left_out` FLOP are left out here.
    """

    name: str
    keys: dict[str, Any]
    tokens: int | None = 128
    attention: str = "sdpa"
    flop_keys: dict[str, Any] = {}  # noqa: RUF012
    inputs: Inputs = words
    device: str = "meta"
    left_out: float = 0.0
    image_size: int | None = None
    sample: str = "image"


def _config(
    model_type: str, features: int, layers: int, heads: int, width: int, words: int, **more: Any
) -> dict[str, Any]:
    """Return the keys that most classes have."""
    sizes = {"hidden_size": features, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": model_type, **sizes, "intermediate_size": width, "vocab_size": words, **more}


def _causal(prefix: str) -> list[str]:
    return [f"{prefix}ForCausalLM"]


_CLASSES = {"id2label": {str(number): str(number) for number in range(1000)}}
_DEBERTA = {
    "model_type": "deberta-v2", "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
    "share_att_key": True, "pos_att_type": "p2c|c2p",
}  # fmt: skip
_SMALL_ENCODER = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 128,
}  # fmt: skip
_LARGE_TOWER = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "patch_size": 14,
}  # fmt: skip
_SMALL_TEXT = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
}  # fmt: skip
_SMALL_TOWER = {
    "model_type": "clip_vision_model", "hidden_size": 96, "intermediate_size": 128, "num_hidden_layers": 3,
    "num_attention_heads": 4, "image_size": 64, "patch_size": 16,
}  # fmt: skip
_SMALL_WINDOWS = {
    "depth": 2, "hidden_size": 64, "intermediate_size": 96, "num_heads": 4, "out_hidden_size": 64,
    "fullatt_block_indexes": [1],
}  # fmt: skip
_ROTARY = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10_000.0}


def _position_flop(keys: dict[str, Any], rows: int) -> float:
    """Return the FLOP of both projections of relative positions, once a batch."""
    return 2.0 * 2 * keys["num_hidden_layers"] * rows * keys["hidden_size"] ** 2


CASES = [
    Case("Llama 3.1 8B", _config("llama", 4096, 32, 32, 14_336, 128_256, num_key_value_heads=8)),
    Case(
        "Llama 3.2 1B",
        _config("llama", 2048, 16, 32, 8192, 128_256, num_key_value_heads=8, head_dim=64, tie_word_embeddings=True),
    ),
    Case("Mistral 7B v0.1", {"model_type": "mistral"}),
    Case("Mixtral 8x7B", {"model_type": "mixtral"}),
    Case("Qwen2 7B", _config("qwen2", 3584, 28, 28, 18_944, 152_064, num_key_value_heads=4)),
    Case("Qwen3 8B", _config("qwen3", 4096, 36, 32, 12_288, 151_936, num_key_value_heads=8)),
    Case("Qwen3 0.6B", _config("qwen3", 1024, 28, 16, 3072, 151_936, num_key_value_heads=8, tie_word_embeddings=True)),
    Case("Qwen1.5 MoE A2.7B", {"model_type": "qwen2_moe"}),
    Case("Qwen3 30B A3B", _config("qwen3_moe", 2048, 48, 32, 6144, 151_936, num_key_value_heads=4, head_dim=128)),
    Case(
        "DeepSeek-V2 Lite",
        _config(
            "deepseek_v2",
            2048,
            27,
            16,
            10_944,
            102_400,
            num_experts_per_tok=6,
            q_lora_rank=None,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
        ),
    ),
    Case("DeepSeek-V3", {"model_type": "deepseek_v3"}),
    Case("gpt-oss 20B", {"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32}, attention="eager"),
    Case("gpt-oss 120B", {"model_type": "gpt_oss"}, attention="eager"),
    Case("Gemma 7B", {"model_type": "gemma"}),
    Case("Gemma 2 9B", _config("gemma2", 3584, 42, 16, 14_336, 256_000, num_key_value_heads=8), attention="eager"),
    Case(
        "Gemma 3 1B",
        _config(
            "gemma3_text",
            1152,
            26,
            4,
            6912,
            262_144,
            num_key_value_heads=1,
            sliding_window=512,
            architectures=_causal("Gemma3"),
        ),
    ),
    Case("Phi-3 mini", {"model_type": "phi3"}),
    Case("Phi-4", _config("phi3", 5120, 40, 40, 17_920, 100_352, num_key_value_heads=10)),
    Case(
        "Llama 4 Scout, its text model",
        {"model_type": "llama4_text", "architectures": _causal("Llama4")},
        flop_keys={"num_experts_per_tok": 16},
    ),
    Case("OLMo 2 7B", _config("olmo2", 4096, 32, 32, 11_008, 100_352)),
    Case("Falcon 7B", {"model_type": "falcon"}),
    Case(
        "Falcon 40B",
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "new_decoder_architecture": True,
        },
    ),
    Case(
        "OPT 350M",
        {
            "model_type": "opt",
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "ffn_dim": 4096,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
        },
    ),
    Case(
        "OPT 1.3B",
        {
            "model_type": "opt",
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "ffn_dim": 8192,
        },
    ),
    Case("BLOOM 560M", {"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "n_head": 16}, attention="eager"),
    Case("GPT-J 6B", {"model_type": "gptj"}),
    Case("GPT-Neo 1.3B", {"model_type": "gpt_neo"}, attention="eager"),
    Case("GPT-NeoX 20B", {"model_type": "gpt_neox"}),
    Case("GPT-2", {"model_type": "gpt2"}),
    Case("StarCoder2 3B", {"model_type": "starcoder2", "sliding_window": 4096}),
    Case(
        "SantaCoder", {"model_type": "gpt_bigcode", "n_embd": 2048, "n_layer": 24, "n_head": 16, "vocab_size": 49_280}
    ),
    Case("BERT base", {"model_type": "bert", "architectures": ["BertForMaskedLM"]}),
    Case(
        "RoBERTa base",
        {
            "model_type": "roberta",
            "architectures": ["RobertaForMaskedLM"],
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
        },
    ),
    Case(
        "DistilBERT base", {"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"]}, inputs=plain_words
    ),
    Case("ELECTRA small", {"model_type": "electra", "architectures": ["ElectraForPreTraining"]}, inputs=plain_words),
    Case(
        "DeBERTa V3 base",
        {
            **_DEBERTA,
            "architectures": ["DebertaV2ForMaskedLM"],
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "position_biased_input": False,
        },
        attention="eager",
        flop_keys=_SMALL_ENCODER,
        inputs=plain_words,
        device="cpu",
        left_out=_position_flop(_SMALL_ENCODER, 512),
    ),
    Case(
        "DeBERTa V2 XLarge",
        {
            **_DEBERTA,
            "architectures": ["DebertaV2Model"],
            "conv_kernel_size": 3,
            "conv_act": "gelu",
            "position_biased_input": False,
        },
        attention="eager",
        flop_keys=_SMALL_ENCODER,
        inputs=plain_words,
        device="cpu",
        left_out=_position_flop(_SMALL_ENCODER, 512),
    ),
    Case("T5 small", {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}, inputs=both_sides),
    Case(
        "T5 1.1 base, tied",
        {
            "model_type": "t5",
            "architectures": ["T5ForConditionalGeneration"],
            "d_model": 768,
            "d_ff": 2048,
            "num_layers": 12,
            "num_heads": 12,
            "feed_forward_proj": "gated-gelu",
        },
        inputs=both_sides,
    ),
    Case("mT5 small, tied", {"model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]}, inputs=both_sides),
    Case(
        "UMT5 small, tied", {"model_type": "umt5", "architectures": ["UMT5ForConditionalGeneration"]}, inputs=both_sides
    ),
    Case(
        "BART large",
        {"model_type": "bart", "architectures": ["BartForConditionalGeneration"]},
        attention="eager",
        inputs=both_sides,
    ),
    Case(
        "mBART large",
        {"model_type": "mbart", "architectures": ["MBartForConditionalGeneration"], "vocab_size": 250_027},
        attention="eager",
        inputs=both_sides,
    ),
    Case("Whisper tiny", {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]}, inputs=audio),
    Case(
        "Whisper large v3",
        {
            "model_type": "whisper",
            "architectures": ["WhisperForConditionalGeneration"],
            "d_model": 1280,
            "encoder_layers": 32,
            "decoder_layers": 32,
            "encoder_attention_heads": 20,
            "decoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "decoder_ffn_dim": 5120,
            "num_mel_bins": 128,
            "vocab_size": 51_866,
        },
        inputs=audio,
    ),
    Case(
        "Mamba 130M",
        {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24},
        attention="eager",
    ),
    Case("Mamba 2.8B", {"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64}, 16, "eager"),
    Case(
        "Mamba-2 2.7B",
        {
            "model_type": "mamba2",
            "hidden_size": 2560,
            "num_heads": 80,
            "n_groups": 1,
            "vocab_size": 50_288,
            "tie_word_embeddings": True,
        },
        attention="eager",
    ),
    Case(
        "ViT base",
        {"model_type": "vit", "architectures": ["ViTForImageClassification"], **_CLASSES},
        None,
        inputs=image,
    ),
    Case(
        "ResNet-50",
        {"model_type": "resnet", "architectures": ["ResNetForImageClassification"], **_CLASSES},
        None,
        attention="eager",
        inputs=image_of(224),
    ),
    Case(
        "ResNet-18",
        {
            "model_type": "resnet",
            "architectures": ["ResNetForImageClassification"],
            **_CLASSES,
            "layer_type": "basic",
            "depths": [2, 2, 2, 2],
            "hidden_sizes": [64, 128, 256, 512],
        },
        None,
        attention="eager",
        inputs=image_of(224),
    ),
    Case(
        "ConvNeXt tiny",
        {"model_type": "convnext", "architectures": ["ConvNextForImageClassification"], **_CLASSES},
        None,
        attention="eager",
        inputs=image,
    ),
    Case(
        "DINOv2 giant",
        {
            "model_type": "dinov2",
            "architectures": ["Dinov2Model"],
            "image_size": 518,
            "hidden_size": 1536,
            "num_hidden_layers": 40,
            "num_attention_heads": 24,
            "use_swiglu_ffn": True,
        },
        None,
        inputs=image,
    ),
    Case(
        "Swin tiny",
        {"model_type": "swin", "architectures": ["SwinForImageClassification"], **_CLASSES},
        None,
        inputs=image,
    ),
    Case(
        "Swin base, 384",
        {
            "model_type": "swin",
            "architectures": ["SwinForImageClassification"],
            **_CLASSES,
            "image_size": 384,
            "embed_dim": 128,
            "depths": [2, 2, 18, 2],
            "num_heads": [4, 8, 16, 32],
            "window_size": 12,
        },
        None,
        inputs=image,
    ),
    Case("CLIP ViT-B/32", {"model_type": "clip", "architectures": ["CLIPModel"]}, 77, inputs=pair, left_out=2 * 512),
    Case(
        "CLIP ViT-L/14",
        {
            "model_type": "clip",
            "architectures": ["CLIPModel"],
            "projection_dim": 768,
            "text_config": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
            "vision_config": _LARGE_TOWER,
        },
        77,
        inputs=pair,
        left_out=2 * 768,
    ),
    Case(
        "SigLIP base",
        {
            "model_type": "siglip",
            "architectures": ["SiglipModel"],
            "text_config": {"projection_size": 768},
            "vision_config": {},
        },
        64,
        inputs=pair,
        left_out=2 * 768,
    ),
    Case(
        "LLaVA 1.5 7B",
        {
            "model_type": "llava",
            "architectures": ["LlavaForConditionalGeneration"],
            "image_token_index": IMAGE_TOKEN,
            "text_config": {"model_type": "llama", "vocab_size": 32_064},
            "vision_config": {**_LARGE_TOWER, "model_type": "clip_vision_model", "image_size": 336},
        },
        32,
        attention="eager",
        inputs=image_in_text,
        device="cpu",
        flop_keys={"text_config": {**_SMALL_TEXT, "model_type": "llama"}, "vision_config": _SMALL_TOWER},
    ),
    Case(
        "Qwen2.5-VL 7B",
        {
            "model_type": "qwen2_5_vl",
            "architectures": ["Qwen2_5_VLForConditionalGeneration"],
            "image_token_id": IMAGE_TOKEN,
            "text_config": {
                "hidden_size": 3584,
                "intermediate_size": 18_944,
                "num_hidden_layers": 28,
                "num_attention_heads": 28,
                "num_key_value_heads": 4,
            },
            "vision_config": {"hidden_size": 1280},
        },
        32,
        attention="eager",
        inputs=patches_in_text(252),
        device="cpu",
        image_size=252,
        flop_keys={"text_config": {**_SMALL_TEXT, "rope_parameters": _ROTARY}, "vision_config": _SMALL_WINDOWS},
    ),
]
"""Cases of `import hf` against transformers."""

SMALL = {
    "llama": {"num_hidden_layers": 2},
    "mistral": {"sliding_window": 12, "num_key_value_heads": 2},
    "mixtral": {"sliding_window": 12, "num_key_value_heads": 2},
    "qwen2": {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1, "num_key_value_heads": 2},
    "qwen3": {"use_sliding_window": True, "sliding_window": 12, "max_window_layers": 1, "num_key_value_heads": 2},
    "qwen2_moe": {"use_sliding_window": True, "sliding_window": 12, "num_key_value_heads": 2},
    "qwen3_moe": {"use_sliding_window": True, "sliding_window": 12, "num_key_value_heads": 2},
    "phi3": {"sliding_window": 12, "num_key_value_heads": 2},
    "starcoder2": {"sliding_window": 12, "num_key_value_heads": 2},
    "gpt_oss": {"sliding_window": 12, "num_key_value_heads": 2},
    "gemma2": {"sliding_window": 12, "num_key_value_heads": 2},
    "gemma3_text": {
        "sliding_window": 12, "sliding_window_pattern": 3, "num_key_value_heads": 2,
        "architectures": ["Gemma3ForCausalLM"],
    },
    "llama4_text": {
        "attention_chunk_size": 12, "no_rope_layer_interval": 2, "num_key_value_heads": 2, "num_local_experts": 4,
        "architectures": ["Llama4ForCausalLM"], "max_position_embeddings": 64,
    },
}  # fmt: skip
"""Keys of small configs whose masks are compared with the library's: windows of 12 tokens where there are any."""
