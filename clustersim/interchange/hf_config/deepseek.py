"""DeepSeek-V2 and V3 (DeepSeek-AI, arXiv:2405.04434 and 2412.19437): latent attention, shared experts, more tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from clustersim.interchange.hf_config.blocks import HfNet, attention_kernels, gated_feed_forward
from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.decoder import (
    Experts,
    Frame,
    check_active,
    decoder,
    experts_layer,
    head,
    read_frame,
)
from clustersim.model.builder import Tensor


@dataclass(frozen=True)
class Latent:
    """The sizes of a multi-head latent attention: ranks of queries (None: no latent) and of keys with values.

    A head's queries and keys have `plain` features and `rotated` ones; the latter of the keys are shared by all heads.
    """

    heads: int
    query_rank: int | None
    key_rank: int
    plain: int
    rotated: int
    values: int
    bias: bool = False


def deepseek_v2(net: HfNet, config: Config) -> None:
    """Build DeepSeek-V2: latent attention, and experts in all but the first layers."""
    config.without_effect("mlp_bias", "head_dim")  # its class reads neither
    _deepseek(net, config, "DeepseekV2", predicted=0)


def deepseek_v3(net: HfNet, config: Config) -> None:
    """Build DeepSeek-V3; `num_nextn_predict_layers` in the file adds its multi-token prediction."""
    key = "num_mtp_layers"
    predicted = config.size(key, least=0, most=100) if config.values.get(key) is not None else 0
    config.without_effect(key)
    if predicted:
        config.notes.append(
            f"num_nextn_predict_layers: {predicted} more blocks, each of which predicts one token more, are counted; "
            "transformers' class leaves them out, as 0 does here"
        )
    _deepseek(net, config, "DeepseekV3", predicted)


def _deepseek(net: HfNet, config: Config, prefix: str, predicted: int) -> None:
    frame, attention, sizes = read_frame(config, prefix), _latent(config), _experts(config)
    first = config.size("first_k_dense_replace", least=0)
    width = config.size("intermediate_size")
    config.check()

    def block(name: str, number: int, x: Tensor) -> Tensor:
        y = latent_attention(net, f"{name}.attention", net.rms_norm(f"{name}.norm1", x), attention)
        x = net.add(f"{name}.attention.add", x, y)
        y = net.rms_norm(f"{name}.norm2", x)
        if number < first:
            y = gated_feed_forward(net, f"{name}.feed_forward", y, width, sizes.function)
        else:
            y = experts_layer(net, f"{name}.experts", y, sizes)
        return net.add(f"{name}.feed_forward.add", x, y)

    x = decoder(net, frame, block)
    head(net, frame, net.rms_norm("norm", x))
    for number in range(predicted if frame.head == "words" else 0):
        x = _predict(net, frame, block, number, x)


def _latent(config: Config) -> Latent:
    heads = config.size("num_attention_heads")
    kv_heads = config.size("num_key_value_heads", heads)
    if config.values.get("num_key_value_heads") is not None and kv_heads != heads:
        message = f"latent attention has keys for every head, {heads} (got {kv_heads})"
        config.wrong("num_key_value_heads", message, kv_heads, str(heads))
    return Latent(
        heads=heads,
        query_rank=config.optional_size("q_lora_rank"),
        key_rank=config.size("kv_lora_rank"),
        plain=config.size("qk_nope_head_dim"),
        rotated=config.size("qk_rope_head_dim"),
        values=config.size("v_head_dim"),
        bias=config.flag("attention_bias"),
    )


def _experts(config: Config) -> Experts:
    """Read the experts. Which groups a token may choose changes no size; that experts have the same load is assumed."""
    num, active = config.size("n_routed_experts"), config.size("num_experts_per_tok")
    check_active(config, "num_experts_per_tok", active, num)
    groups, chosen = config.optional_size("n_group"), config.optional_size("topk_group")
    if groups is not None:
        config.split("n_routed_experts", num, "n_group", groups)
        if chosen is not None and chosen > groups:
            config.wrong("topk_group", f"there are {groups} groups (got {chosen})", chosen, f"1 to {groups}")
    config.without_effect(
        "aux_loss_alpha", "ep_size", "moe_layer_freq", "norm_topk_prob", "output_router_logits",
        "routed_scaling_factor", "scoring_func", "seq_aux", "topk_method",
    )  # fmt: skip
    if config.values.get("moe_layer_freq") not in (None, 1):
        config.wrong("moe_layer_freq", "every layer behind the first has experts", config.values["moe_layer_freq"], "1")
    width, shared = config.size("moe_intermediate_size"), config.optional_size("n_shared_experts", least=0) or 0
    return Experts(num, active, width, config.function("hidden_act"), shared=shared * width)


def latent_attention(net: HfNet, name: str, x: Tensor, sizes: Latent) -> Tensor:
    """Add multi-head latent attention, as it trains: keys and values of every head are made from one latent.

    The products into the latents are computed by every GPU of a tensor parallel group, as in Megatron-LM
    (core/transformer/multi_latent_attention.py: `linear_q_down_proj` and `linear_kv_down_proj` are duplicated).
    """
    tokens, each = x.height, sizes.plain + sizes.rotated
    net.linear(f"{name}.key_value_down", x, sizes.key_rank + sizes.rotated, bias=sizes.bias, whole=True)
    latent = net.rms_norm(f"{name}.key_value_norm", Tensor(sizes.key_rank, tokens))
    source = x
    if sizes.query_rank is not None:
        source = net.linear(f"{name}.query_down", x, sizes.query_rank, bias=sizes.bias, whole=True)
        source = net.rms_norm(f"{name}.query_norm", source)
    query = net.linear(f"{name}.query_up", source, sizes.heads * each, bias=False)
    net.linear(f"{name}.key_value_up", latent, sizes.heads * (sizes.plain + sizes.values), bias=False)
    net.rotary(f"{name}.rotary", query, Tensor((sizes.heads + 1) * sizes.rotated, tokens))
    key, value = replace(query), Tensor(sizes.heads * sizes.values, tokens)
    context = attention_kernels(net, name, query, key, sizes.heads, causal=True, value=value)
    return net.linear(f"{name}.output", context, x.channels, bias=sizes.bias)


def _predict(net: HfNet, frame: Frame, block: Callable[[str, int, Tensor], Tensor], number: int, x: Tensor) -> Tensor:
    """Add the prediction of one token more (arXiv:2412.19437, section 2.2): embedding and head are the model's own."""
    name = f"predict.{number}"
    words = net.rms_norm(f"{name}.norm_words", net.tied_embedding(f"{name}.embedding", frame.tokens, frame.features))
    both = net.concat(f"{name}.concat", words, net.rms_norm(f"{name}.norm_state", x))
    x = block(name, frame.layers + number, net.linear(f"{name}.join", both, frame.features, bias=False, whole=True))
    y = net.linear(f"{name}.head", net.rms_norm(f"{name}.norm", x), frame.vocabulary, bias=False, tied=True)
    net.loss(f"{name}.loss", y)
    return x
