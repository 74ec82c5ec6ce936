"""DeepSeek-V2 and V3 (DeepSeek-AI, arXiv:2405.04434 and 2412.19437): latent attention, shared experts, more tokens."""

from __future__ import annotations

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.decoder import check_active, read_frame
from clustersim.model.blocks.feed_forward import Experts
from clustersim.model.blocks.latent import Latent, latent_decoder
from clustersim.model.blocks.net import BlockBuilder


def deepseek_v2(net: BlockBuilder, config: Config) -> None:
    """Build DeepSeek-V2: latent attention, and experts in all but the first layers."""
    config.without_effect("mlp_bias", "head_dim")  # its class reads neither
    _deepseek(net, config, "DeepseekV2", predicted=0)


def deepseek_v3(net: BlockBuilder, config: Config) -> None:
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


def _deepseek(net: BlockBuilder, config: Config, prefix: str, predicted: int) -> None:
    frame, attention, sizes = read_frame(config, prefix), _latent(config), _experts(config)
    first = config.size("first_k_dense_replace", least=0)
    width = config.size("intermediate_size")
    config.check()
    latent_decoder(net, frame, attention, sizes, dense=[width] * first, predicted=predicted)


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
