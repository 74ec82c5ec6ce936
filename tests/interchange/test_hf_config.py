"""A Hugging Face config gives the parameters that its class counts, and the FLOP of its formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange.hf_config import FAMILIES, import_hf
from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.unread import NEUTRAL, NOTED, REFUSED, WITHOUT_EFFECT
from clustersim.model import Layer, Model, load_model, read_workload_file
from clustersim.model.blocks.net import Attention, BlockBuilder

FUSED = "attention is fused (sdpa), as by default in transformers; --attention eager computes it kernel by kernel"
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
LLAMA_3 = {"vocab_size": 128_256, "intermediate_size": 14_336, "num_key_value_heads": 8}
PYTHIA = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "vocab_size": 50_304,
}  # fmt: skip
QWEN_7B = {
    "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4,
}  # fmt: skip
QWEN_HALF = {
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "tie_word_embeddings": True,
}  # fmt: skip
ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1}
CLASSES = {"id2label": {str(number): str(number) for number in range(1000)}}
T5_BASE = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}

KNOWN = [  # what the classes of Hugging Face's transformers count for the published checkpoints of these sizes
    ("bert", {}, 109_482_240),
    ("bert", {"architectures": ["BertForMaskedLM"]}, 109_514_298),
    ("bert", {"architectures": ["BertForPreTraining"]}, 110_106_428),
    ("bert", LARGE, 335_141_888),
    ("roberta", ROBERTA, 124_645_632),
    ("roberta", {**ROBERTA, "architectures": ["RobertaForMaskedLM"]}, 124_697_433),
    ("gpt2", {}, 124_439_808),
    ("gpt2", {"n_embd": 1600, "n_head": 25, "n_layer": 48}, 1_557_611_200),
    ("gpt_neox", {}, 20_554_567_680),
    ("gpt_neox", PYTHIA, 162_322_944),
    ("llama", {}, 6_738_415_616),
    ("llama", LLAMA_3, 8_030_261_248),
    ("mistral", {}, 7_241_732_096),
    ("mixtral", {}, 46_702_792_704),
    ("qwen2", QWEN_7B, 7_615_616_512),
    ("qwen2", QWEN_HALF, 494_032_768),
    ("vit", CLASSES, 86_567_656),
    ("vit", {"architectures": ["ViTModel"]}, 86_389_248),
    ("t5", {}, 60_506_624),
    ("t5", T5_BASE, 222_903_552),
    ("t5", {**T5_BASE, "d_ff": 2048, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, 247_577_856),
]


@pytest.fixture
def imported(tmp_path: Path) -> Any:
    """Return what imports a config of these keys."""

    def make(keys: dict[str, Any], tokens: int | None = None, attention: Attention | None = None) -> Model:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(keys))
        return import_hf(path, tokens, attention=attention).model

    return make


def products(model: Model) -> list[tuple[object, ...]]:
    return [
        (layer.op, layer.flop, layer.flop_backward_data, layer.flop_backward_weights, dict(layer.shape))
        for layer in model.layers
        if layer.flop
    ]


def by_name(model: Model) -> dict[str, Layer]:
    return {layer.name: layer for layer in model.layers}


@pytest.mark.parametrize(("family", "keys", "num_parameters"), KNOWN)
def test_parameters_are_those_of_the_published_model(
    imported: Any, family: str, keys: dict[str, Any], num_parameters: int
) -> None:
    assert imported({"model_type": family, **keys}).num_parameters == num_parameters


NEEDED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 2},
    "qwen2_5_vl": {"vision_config": {"out_hidden_size": 8192}},
}
"""Keys without a default, or whose defaults do not go together."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_reads_or_explains_every_key_of_its_class(tmp_path: Path, family: str) -> None:
    """So that no key of a class is passed over: a new one in the library's classes makes this fail."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": family, **NEEDED.get(family, {})}))
    config = Config(path)
    config.of_class(family)
    FAMILIES[family](BlockBuilder(family, family), config)
    assert not any(unread_of_class(part) for part in (config, *config.parts))


def unread_of_class(config: Config) -> set[str]:
    """Return the keys of the class that were not read, and may change something: none of a complete family."""
    known = set(config.kind.defaults) - config._understood - WITHOUT_EFFECT
    return known - set(REFUSED) - set(NEUTRAL) - set(NOTED)


@pytest.mark.parametrize(
    ("keys", "tokens", "name"),
    [
        ({"model_type": "bert"}, 128, "bert-base"),
        ({"model_type": "bert", **LARGE}, 384, "bert-large-seq384"),
        ({"model_type": "gpt2"}, None, "gpt2-small"),
        ({"model_type": "gpt2", "n_embd": 1280, "n_head": 20, "n_layer": 36}, 1024, "gpt2-large"),
    ],
)
def test_a_config_of_a_model_of_the_catalogue_is_that_model_with_attention_kernel_by_kernel(
    imported: Any, keys: dict[str, Any], tokens: int | None, name: str
) -> None:
    model, known = imported(keys, tokens, "eager"), load_model(name)
    assert products(model) == products(known)
    assert model.num_parameters == known.num_parameters


def test_a_llama_computes_what_the_catalogue_s_does(imported: Any) -> None:
    """Which has one product for queries, keys and values where the config's class has several."""
    model, known = imported({"model_type": "llama", **LLAMA_3}, 8192), load_model("llama-3.1-8b")
    assert model.flop == known.flop
    assert model.flop_backward == known.flop_backward
    assert model.num_parameters == known.num_parameters


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "gpt_neox"])
def test_a_decoder_takes_two_flop_a_weight_and_token_and_four_a_pair_of_tokens_that_see_each_other(
    imported: Any, family: str
) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "num_hidden_layers": 3}
    model = imported({"model_type": family, "vocab_size": 1000, **sizes, "num_key_value_heads": 4}, 32)
    matrices = sum(
        layer.shape["count"] * layer.shape["inputs"] * layer.shape["outputs"]
        for layer in model.layers
        if layer.op == "fully-connected"
    )
    assert model.flop == 2 * 32 * matrices + 3 * 4 * 32 * 32 * 64 / 2
    assert model.flop_backward == 2 * model.flop


def test_experts_cost_as_many_as_are_active_and_hold_all(imported: Any) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96}
    both = {
        active: imported(
            {
                "model_type": "mixtral", **sizes, "num_hidden_layers": 1,
                "num_local_experts": 8, "num_experts_per_tok": active,
            },
            32,
        )
        for active in (1, 4)
    }  # fmt: skip
    one, four = both[1], both[4]
    assert one.num_parameters == four.num_parameters
    assert four.flop - one.flop == 3 * 32 * 2 * 3 * 64 * 96
    layer = by_name(four)["layers.0.experts.in"]
    assert layer.num_parameters == 8 * 2 * 64 * 96
    assert layer.shape == {"rows": 16, "inputs": 64, "outputs": 96, "count": 16, "experts": 8}


def test_shared_keys_are_projected_once_and_read_by_all_queries(imported: Any) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 8, "head_dim": 16, "num_hidden_layers": 1}
    layers = by_name(imported({"model_type": "llama", **sizes, "num_key_value_heads": 2}, 32))
    assert layers["layers.0.attention.query"].num_parameters == 64 * 8 * 16
    assert layers["layers.0.attention.key_value"].num_parameters == 2 * 64 * 2 * 16
    assert layers["layers.0.attention.scores"].flop == 2 * 32 * 32 * 8 * 16 / 2
    assert layers["layers.0.attention.output"].num_parameters == 8 * 16 * 64


@pytest.mark.parametrize("keys", [{"use_parallel_residual": False}, {"attention_bias": False}])
def test_a_neox_without_its_peculiarities_is_built_too(imported: Any, keys: dict[str, Any]) -> None:
    plain, other = (
        imported({"model_type": "gpt_neox", **PYTHIA}),
        imported({"model_type": "gpt_neox", **PYTHIA, **keys}),
    )
    assert other.flop == plain.flop
    biases = 12 * 4 * 768 if "attention_bias" in keys else 0
    assert plain.num_parameters - other.num_parameters == biases


@pytest.mark.parametrize(
    ("family", "architecture", "more"),
    [
        ("bert", "BertForSequenceClassification", 768 * 5 + 5),
        ("bert", "BertForTokenClassification", 768 * 5 + 5 - 768 * 769),
        ("bert", "BertForQuestionAnswering", 768 * 2 + 2 - 768 * 769),
        ("roberta", "RobertaForSequenceClassification", 768 * 5 + 5),
        ("roberta", "RobertaForTokenClassification", 768 * 5 + 5 - 768 * 769),
        ("gpt2", "GPT2Model", 0),
        ("llama", "LlamaModel", -32_000 * 4096),
        ("llama", "LlamaForSequenceClassification", 5 * 4096 - 32_000 * 4096),
        ("gpt_neox", "GPTNeoXModel", -50_432 * 6144),
    ],
)
def test_heads_are_determined_by_the_architecture(imported: Any, family: str, architecture: str, more: int) -> None:
    keys = {"model_type": family, "num_labels": 5}
    body = imported(keys).num_parameters
    assert imported({**keys, "architectures": [architecture]}).num_parameters == body + more


WRONG = [
    ("{", None, "config.json:1:2: this is not JSON: Expecting property name enclosed in double quotes"),
    ("[1]", None, "config.json: a Hugging Face config is a JSON map of keys"),
    ("{}", None, "config.json: model_type: is missing"),
    ('{"model_type": 3}', None, "config.json:1:2: model_type: expected a name (got 3)"),
    (
        '{\n "model_type": "lama"}',
        None,
        "config.json:2:2: model_type: no model_type is called 'lama'; did you mean 'llama'? (known: bart, bert, bloom,",
    ),
    (
        '{"model_type": "bert", "hidden_size": 0}',
        None,
        "hidden_size: expected a whole number from 1 to 2,147,483,647 (got 0)",
    ),
    (
        '{"model_type": "gpt2", "n_layer": 10001}',
        None,
        "n_layer: expected a whole number from 1 to 10,000 (got 10001)",
    ),
    ('{"model_type": "bert", "hidden_size": 100}', None, "expected a multiple of num_attention_heads, 12 (got 100)"),
    (
        '{"model_type": "llama", "num_key_value_heads": 5}',
        None,
        "num_attention_heads: expected a multiple of num_key_value_heads, 5 (got 32)",
    ),
    ('{"model_type": "mixtral", "num_experts_per_tok": 9}', None, "num_experts_per_tok: there are 8 experts (got 9)"),
    ('{"model_type": "gpt_neox", "attention_bias": 1}', None, "attention_bias: expected true or false (got 1)"),
    (
        '{"model_type": "bert", "hidden_size": "512"}',
        None,
        'expected a whole number from 1 to 2,147,483,647 (got "512")',
    ),
    ('{"model_type": "gpt_neox", "attention_bias": "true"}', None, 'expected true or false (got "true")'),
    (
        '{"model_type": "bert", "architectures": ["Bart"]}',
        None,
        "architectures: no architecture of this family is called 'Bart' (known: BertModel, BertForMaskedLM,",
    ),
    ('{"model_type": "bert"}', 513, "config.json: --tokens: the model has 512 positions (got 513 tokens)"),
    ('{"model_type": "vit"}', 5, "a sample of a ViT is an image; remove --tokens"),
    ('{"model_type": "vit", "patch_size": 300}', None, "patch_size: expected at most image_size, 224 (got 300)"),
    ("\x00", None, "config.json:1: a NUL character; this is a binary file"),
    ('{"model_type": "bert", "a": ' + "9" * 5000 + "}", None, "this JSON cannot be read: Exceeds the limit"),
]


@pytest.mark.parametrize(("text", "tokens", "message"), WRONG)
def test_what_is_wrong_is_reported_with_its_place(tmp_path: Path, text: str, tokens: int | None, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        import_hf(path, tokens)
    assert message in str(caught.value).replace(f"{tmp_path}/", "")
    assert caught.value.exit_status == 3


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama",\n"hidden_size": -1,\n"num_hidden_layers": "many",\n"vocab_size": 1.5}')
    with pytest.raises(InputError) as caught:
        import_hf(path)
    assert [(wrong.line, wrong.key) for wrong in caught.value.mistakes] == [
        (2, "hidden_size"), (3, "num_hidden_layers"), (4, "vocab_size"),
    ]  # fmt: skip


def test_the_command_writes_a_file_and_says_what_a_sample_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text('{"model_type": "gpt2", "_name_or_path": "openai-community/gpt2"}')
    assert main(["import", "hf", "config.json", "--attention", "eager", "-o", "mine.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out == "workload: mine.yaml\nmine: 185 layers, 124.440 M parameters, 291.648 GFLOP forward per sequence\n"
    assert err.splitlines() == [
        "note: a sample is 1024 tokens; change this with --tokens",
        "note: the catalogue's gpt2-small has the same parameters and FLOP, and published rates if there are any",
    ]
    eager = import_hf("config.json", attention="eager").model
    assert read_workload_file("mine.yaml")[0].layers == eager.layers
    assert main(["import", "hf", "config.json"]) == 0
    assert "catalogue" not in capsys.readouterr().err
    assert main(["import", "hf", "config.json", "--attention", "eager", "--tokens", "1000"]) == 0
    assert "catalogue" not in capsys.readouterr().err
    assert main(["import", "hf", "config.json", "--tokens", "2000"]) == 3
    assert main(["import", "hf", "nowhere.json"]) == 3
    assert "cannot be read" in capsys.readouterr().err


def test_more_tokens_than_a_rotary_model_was_made_for_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "max_position_embeddings": 16}')
    assert import_hf(path, 32).notes == ("32 tokens are more than the config's 16 positions", FUSED)
    assert import_hf(path).model.name == "llama"


MISTRAL = {"model_type": "mistral", "sliding_window": 4096, "max_position_embeddings": 32_768}
GPT2_CROSS = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "add_cross_attention": True}


def test_a_window_counts_the_pairs_of_tokens_in_it(imported: Any) -> None:
    """4,096 x 32,768 - 4,096^2 / 2 of them, in 32 layers of 32 heads of 128 features, two products of 2 FLOP each."""
    model = imported(MISTRAL, 32_768)
    attention = sum(layer.flop for layer in model.layers if layer.op == "matmul")
    assert attention == 32 * 2 * 2 * 4096 * (4096 * 32_768 - 4096**2 / 2)
    assert round(model.flop / 1e9) == 531_957
    assert round(imported({**MISTRAL, "sliding_window": None}, 32_768).flop / 1e9) == 747_462
    assert imported(MISTRAL, 4096).flop == imported({**MISTRAL, "sliding_window": None}, 4096).flop


def notes_of(path: Path, keys: dict[str, Any]) -> tuple[str, ...]:
    path.write_text(json.dumps(keys))
    return import_hf(path, 16).notes


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (GPT2_CROSS, "add_cross_attention: attention to another model's output is not built"),
        ({"model_type": "llama", "pruned_heads": {"0": [1]}}, "pruned_heads: pruned heads are not built"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "only absolute positions are built"),
        ({"model_type": "gemma2", "use_bidirectional_attention": True}, "attention to later tokens is not built"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "expected a list of 26 of full_attention"),
        ({"model_type": "qwen3", "layer_types": ["mamba"] * 32}, 'sliding_attention, chunked_attention (got "mamba")'),
        ({"model_type": "gpt2", "hidden_size": 768, "n_embd": 512}, "n_embd is another name of it, with another value"),
        ({"model_type": "deepseek_v3", "num_key_value_heads": 8}, "latent attention has keys for every head, 128"),
        ({"model_type": "deepseek_v3", "n_group": 7}, "n_routed_experts: expected a multiple of n_group, 7 (got 256)"),
        ({"model_type": "deepseek_v3", "moe_layer_freq": 2}, "every layer behind the first has experts"),
        ({"model_type": "llama", "hidden_act": "matmul"}, "hidden_act: expected one of gelu,"),
        ({"model_type": "gpt_neo", "attention_types": [[["global"], 3]]}, "expected the kinds of 24 layers (got 3)"),
        ({"model_type": "gpt_neo", "attention_types": "local"}, "attention_types: expected a list such as"),
        ({"model_type": "llama4_text", "no_rope_layers": [1]}, "expected a list of 48 numbers"),
        ({"model_type": "bert", "a": "\ud800"}, "this JSON cannot be written again: half a character"),
    ],
)
def test_what_changes_the_work_and_is_not_built_is_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        notes_of(tmp_path / "config.json", keys)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        ({"model_type": "llama", "alibi": True}, "not understood, and left out: alibi: true"),
        ({"model_type": "llama", "sliding_window": 8, "b": [1]}, "left out: sliding_window: 8, b: [1]"),
        ({"model_type": "llama", "attention_dropout": 0.1}, "attention_dropout: dropout of attention weights is part"),
        ({"model_type": "llama", "quantization_config": {"bits": 4}}, "quantization_config: the weights of the layers"),
        ({"model_type": "gemma2"}, "attn_logit_softcapping: the limit of the scores is taken as a part of the fused"),
        ({"model_type": "opt", "layerdrop": 0.1}, "layerdrop: all layers are computed"),
        ({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1}, "num_nextn_predict_layers: 1 more blocks"),
    ],
)
def test_what_is_not_understood_is_named_in_a_note(tmp_path: Path, keys: dict[str, Any], note: str) -> None:
    assert any(note in each for each in notes_of(tmp_path / "config.json", keys))


def test_keys_without_effect_and_defaults_are_not_named(tmp_path: Path) -> None:
    keys = {
        "model_type": "llama", "rope_theta": 5e5, "torch_dtype": "bfloat16", "bos_token_id": 7, "rms_norm_eps": 1e-5,
        "use_cache": False, "top_k": 50, "attention_dropout": 0.0, "pruned_heads": {}, "pretraining_tp": 1,
        "add_cross_attention": False, "num_hidden_layers": 1, "unknown": None, "rope_scaling": {"factor": 8.0},
    }  # fmt: skip
    assert notes_of(tmp_path / "config.json", keys) == (FUSED,)


def test_one_layer_that_predicts_more_is_a_block_a_projection_and_three_norms(imported: Any) -> None:
    """arXiv:2412.19437, section 2.2: the embedding and the head are the model's own."""
    keys = {
        "model_type": "deepseek_v3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3,
        "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "vocab_size": 100, "first_k_dense_replace": 1,
    }  # fmt: skip
    plain, deeper = imported(keys, 16), imported({**keys, "num_hidden_layers": 4}, 16)
    more = imported({**keys, "num_nextn_predict_layers": 1}, 16)
    block = deeper.num_parameters - plain.num_parameters
    assert more.num_parameters - plain.num_parameters == block + 2 * 64 * 64 + 3 * 64
    assert more.flop - plain.flop == deeper.flop - plain.flop + 2 * 16 * (2 * 64 * 64 + 64 * 100)


@pytest.mark.parametrize("keys", [{"model_type": "gpt2", "resid_pdrop": 0.0}, {"model_type": "vit"}])
def test_a_dropout_that_drops_nothing_has_no_kernel(imported: Any, keys: dict[str, Any]) -> None:
    assert not any(name.endswith(".drop") for name in by_name(imported(keys)))


@pytest.mark.parametrize(
    ("family", "text", "architecture"),
    [
        ("gemma3", "gemma3_text", "Gemma3ForConditionalGeneration"),
        ("llama4", "llama4_text", "Llama4ForConditionalGeneration"),
    ],
)
def test_of_a_model_with_images_the_text_is_built_and_a_note_says_so(
    tmp_path: Path, imported: Any, family: str, text: str, architecture: str
) -> None:
    sizes = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    keys = {"model_type": family, "architectures": [architecture], "vision_config": {"hidden_size": 1}}
    whole = imported({**keys, "text_config": {**sizes, "model_type": text}}, 16)
    assert products(whole) == products(imported({"model_type": text, **sizes}, 16))
    path = tmp_path / "config.json"
    assert any(note.startswith("vision_config: images are left out") for note in notes_of(path, keys))
    with pytest.raises(InputError, match=r"text_config\.hidden_size: expected a whole number"):
        imported({**keys, "text_config": {"hidden_size": 0}})
    with pytest.raises(InputError, match="text_config: expected a map of keys"):
        imported({**keys, "text_config": 3})
    assert "left out: text_config.strange: 1" in " ".join(notes_of(path, {**keys, "text_config": {"strange": 1}}))
