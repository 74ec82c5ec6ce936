"""GPT-2 (Radford et al., 2019), GPT-Neo, GPT-J, GPT-NeoX (Black et al., 2022), GPT-BigCode: layer norms, no gates."""

from __future__ import annotations

from dataclasses import replace

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.decoder import GPT, Names, read_frame, read_grouped, rotated_share
from clustersim.model.blocks.attention import Grouped, Mask, attention_kernels, grouped_attention
from clustersim.model.blocks.decoder import Frame, decoder, head
from clustersim.model.blocks.feed_forward import feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_SUMMARY = ("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj")
"""Of a head that is not built."""
_SCALES = (
    "attention_softmax_in_fp32", "reorder_and_upcast_attn", "scale_attention_softmax_in_fp32",
    "scale_attn_by_inverse_layer_idx", "scale_attn_weights",
)  # fmt: skip
"""How scores are scaled and rounded."""
_RUNNER = (
    "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
    "validate_runner_input",
)  # fmt: skip
"""Of GPT-BigCode's inference."""
_NEO = Names(layers="num_layers", heads="num_heads", kv_heads="")
_NEOX = Names(kv_heads="")


def gpt2(net: BlockBuilder, config: Config) -> None:
    """Build GPT-2, with its head unless `architectures` is GPT2Model."""
    kind = config.architecture(["GPT2LMHeadModel", "GPT2Model"])
    features, heads, layers = config.size("n_embd"), config.size("n_head"), config.layers("n_layer")
    vocabulary, positions = config.size("vocab_size"), config.size("n_positions")
    width, function = config.size("n_inner", 4 * features), config.function("activation_function")
    config.split("n_embd", features, "n_head", heads)
    tied = config.flag("tie_word_embeddings")
    tokens = config.tokens(positions, learned=True)
    _read_dropout(net, config)
    config.without_effect(*_SUMMARY, *_SCALES, "n_ctx")
    config.check()
    x = net.dropout("drop_embedding", net.embedding("embedding", tokens, features, rows=[vocabulary, positions]))
    for number in range(layers):
        name = f"h.{number}"
        y = _joint_attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), heads)
        x = net.add(f"{name}.attention.add", x, y)
        y = feed_forward(net, f"{name}.feed_forward", net.layer_norm(f"{name}.norm2", x), width, function)
        y = net.dropout(f"{name}.feed_forward.drop", y)
        x = net.add(f"{name}.feed_forward.add", x, y)
    x = net.layer_norm("norm", x)
    if kind == "GPT2LMHeadModel":
        x = net.linear("head", x, vocabulary, bias=False, tied=tied)
    net.loss("loss", x)


def _joint_attention(net: BlockBuilder, name: str, x: Tensor, heads: int) -> Tensor:
    """Add causal attention with one product for query, key and value, and dropout of weights and result."""
    each = replace(net.linear(f"{name}.qkv", x, 3 * x.channels), channels=x.channels)
    context = attention_kernels(net, name, each, each, heads, causal=True, drops=True)
    return net.dropout(f"{name}.drop", net.linear(f"{name}.output", context, x.channels))


def gpt_bigcode(net: BlockBuilder, config: Config) -> None:
    """Build GPT-BigCode (Ben Allal et al., 2023): GPT-2 with one key for all heads, and fused attention."""
    frame = read_frame(config, "GPTBigCode", GPT, learned=True)
    sizes = replace(read_grouped(config, frame, GPT), bias=True, output_bias=True, joined=True, rotated=0.0)
    sizes = replace(sizes, kv_heads=1 if config.flag("multi_query") else sizes.heads)
    width, function = config.size("n_inner", 4 * frame.features), config.function("activation_function")
    _read_dropout(net, config)
    config.without_effect(*_SCALES, *_SUMMARY, *_RUNNER)
    config.check()
    _sequential(net, frame, [(sizes, Mask())] * frame.layers, width, function)


def gpt_neo(net: BlockBuilder, config: Config) -> None:
    """Build GPT-Neo (Black et al., 2021): every second layer sees a window of 256 tokens.

    transformers computes all pairs and masks them.
    """
    frame = read_frame(config, "GPTNeo", _NEO, learned=True)
    sizes = replace(read_grouped(config, frame, _NEO), output_bias=True, rotated=0.0)
    width, function = config.size("intermediate_size", 4 * frame.features), config.function("activation_function")
    window, local = config.size("window_size"), _local_layers(config, frame.layers)
    net.keeps = set() if config.drops("resid_dropout") else {"drop"}
    net.keeps |= set() if config.drops("embed_dropout") else {"drop_embedding"}
    config.without_effect("classifier_dropout")
    config.check()
    config.notes.append("attention is taken as one fused kernel, which computes the pairs of tokens in a window alone")
    _sequential(net, frame, [(sizes, Mask(window if each else None)) for each in local], width, function)


def gptj(net: BlockBuilder, config: Config) -> None:
    """Build GPT-J (Wang and Komatsuzaki, 2021): both branches of a block read one norm; a head with a bias."""
    frame = read_frame(config, "GPTJ", GPT)
    sizes = read_grouped(config, frame, GPT)
    rotated = config.optional_size("rotary_dim")
    sizes = replace(sizes, rotated=1.0 if rotated is None else min(1.0, rotated / sizes.width))
    width, function = config.size("n_inner", 4 * frame.features), config.function("activation_function")
    _read_dropout(net, config)
    config.without_effect(*_SCALES, *_SUMMARY, "rotary", "n_ctx")
    config.check()

    def block(name: str, _: int, x: Tensor) -> Tensor:
        y = net.layer_norm(f"{name}.norm", x)
        z = net.dropout(f"{name}.attention.drop", grouped_attention(net, f"{name}.attention", y, sizes))
        y = feed_forward(net, f"{name}.feed_forward", y, width, function)
        y = net.dropout(f"{name}.feed_forward.drop", y)
        return net.add(f"{name}.feed_forward.add", net.add(f"{name}.attention.add", x, z), y)

    x = net.layer_norm("norm", decoder(net, frame, block, "h"))
    head(net, frame, x, bias=frame.head == "words")


def gpt_neox(net: BlockBuilder, config: Config) -> None:
    """Build GPT-NeoX: rotary positions, both branches of a block on the same input, a separate head."""
    frame, bias = read_frame(config, "GPTNeoX", _NEOX), config.flag("attention_bias")
    sizes = replace(read_grouped(config, frame, _NEOX), bias=bias, output_bias=bias, joined=True)
    sizes = replace(sizes, rotated=config.number("rotary_pct", rotated_share(config, "rotary_pct", 0.25)))
    width, function = config.size("intermediate_size"), config.function("hidden_act")
    parallel = config.flag("use_parallel_residual")
    net.keeps = {"drop_embedding"} | (set() if config.drops("hidden_dropout") else {"drop"})
    config.without_effect("classifier_dropout", "is_decoder")
    config.check()

    def block(name: str, _: int, x: Tensor) -> Tensor:
        y = grouped_attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), sizes)
        y = net.dropout(f"{name}.attention.drop", y)
        after = net.add(f"{name}.attention.add", x, y)
        z = net.layer_norm(f"{name}.norm2", x if parallel else after)
        z = feed_forward(net, f"{name}.feed_forward", z, width, function)
        return net.add(f"{name}.feed_forward.add", after, net.dropout(f"{name}.feed_forward.drop", z))

    head(net, frame, net.layer_norm("norm", decoder(net, frame, block)))


def _read_dropout(net: BlockBuilder, config: Config) -> None:
    """Read where nothing is dropped, by the keys of GPT-2."""
    keys = {"resid_pdrop": "drop", "embd_pdrop": "drop_embedding", "attn_pdrop": "drop_weights"}
    net.keeps = {name for key, name in keys.items() if not config.drops(key)}


def _local_layers(config: Config, layers: int) -> list[bool]:
    """Return which layers of a GPT-Neo have a window: `attention_types` is a list of (kinds, how many times)."""
    value = _attention_types(config, layers)
    if value is None:
        return [number % 2 == 1 for number in range(layers)]
    kinds = [kind for kinds, times in value for kind in kinds * times]
    if len(kinds) != layers:
        config.wrong("attention_types", f"expected the kinds of {layers} layers (got {len(kinds)})", len(kinds))
    return [kind == "local" for kind in kinds[:layers]] + [False] * (layers - len(kinds))


def _attention_types(config: Config, layers: int) -> list[tuple[list[str], int]] | None:
    value = config.anything("attention_types")
    if value is None:
        return None
    if isinstance(value, list) and all(map(_is_repeated, value)):
        return [(kinds, min(times, layers + 1)) for kinds, times in value]
    allowed = 'a list such as [[["global", "local"], 12]]'
    config.wrong("attention_types", f"expected {allowed}", None, allowed)
    return None


def _is_repeated(value: object) -> bool:
    """Say whether a value is a list of kinds of layers, and how many times these follow each other."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    kinds, times = value
    known = isinstance(kinds, list) and len(kinds) <= 100 and all(kind in ("global", "local") for kind in kinds)
    return known and isinstance(times, int) and not isinstance(times, bool) and times >= 0


def _sequential(
    net: BlockBuilder, frame: Frame, attentions: list[tuple[Grouped, Mask]], width: int, function: str
) -> None:
    """Add a decoder with layer norms before attention and feed-forward, biases and dropout, as GPT-2."""

    def block(name: str, number: int, x: Tensor) -> Tensor:
        sizes, mask = attentions[number]
        y = grouped_attention(net, f"{name}.attention", net.layer_norm(f"{name}.norm1", x), sizes, mask)
        x = net.add(f"{name}.attention.add", x, net.dropout(f"{name}.attention.drop", y))
        y = feed_forward(net, f"{name}.feed_forward", net.layer_norm(f"{name}.norm2", x), width, function)
        return net.add(f"{name}.feed_forward.add", x, net.dropout(f"{name}.feed_forward.drop", y))

    head(net, frame, net.layer_norm("norm", decoder(net, frame, block, "h")))
