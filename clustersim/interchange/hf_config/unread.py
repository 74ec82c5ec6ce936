"""Keys of a config that no family reads: without effect on the work, refused, or named in a note."""

from __future__ import annotations

from collections.abc import Mapping

WITHOUT_EFFECT = frozenset(
    {
        # what the file is, and who reads it
        "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures", "auto_map",
        "custom_pipelines", "dtype", "model_type", "name_or_path", "tokenizer_class", "torch_dtype",
        "transformers_version", "unsloth_version",
        # the first weights, and small numbers in norms
        "_fast_init", "init_std", "initializer_factor", "initializer_range", "layer_norm_eps", "layer_norm_epsilon",
        "layernorm_epsilon", "norm_eps", "norm_epsilon", "rms_norm_eps",
        # rotary positions: other angles
        "max_position_embeddings", "original_max_position_embeddings", "partial_rotary_factor", "rope_interleave",
        "rope_local_base_freq", "rope_parameters", "rope_scaling", "rope_theta", "rotary_emb_base", "rotary_pct",
        # what is returned, and what generation keeps
        "cache_implementation", "generation_config", "keys_to_ignore_at_inference", "output_attentions",
        "output_hidden_states", "output_past", "return_dict", "tie_last_hidden_states", "torchscript", "use_cache",
        "use_return_dict",
        # tokens and labels
        "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id", "eos_token_id", "finetuning_task",
        "forced_bos_token_id", "forced_eos_token_id", "id2label", "label2id", "num_labels", "pad_token_id", "prefix",
        "problem_type", "sep_token_id", "suppress_tokens", "task_specific_params", "unk_token_id",
        # generation, as older configs have it
        "bad_words_ids", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
        "exponential_decay_length_penalty", "length_penalty", "max_length", "max_new_tokens", "min_length",
        "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
        "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "temperature", "top_k", "top_p",
        "typical_p",
    }
)  # fmt: skip
"""Keys that change neither parameters nor products of any family, and no kernel."""

NEUTRAL: Mapping[str, object] = {
    "add_cross_attention": False,
    "attention_dropout": 0.0,
    "chunk_size_feed_forward": 0,
    "cross_attention_hidden_size": None,
    "gradient_checkpointing": False,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "position_embedding_type": "absolute",
    "pretraining_tp": 1,
    "pruned_heads": {},
    "tie_encoder_decoder": False,
    "tie_word_embeddings": True,
    "use_bfloat16": False,
}
"""Values of keys of all configs in older versions that change nothing; a class's own default stands before these."""

REFUSED: Mapping[str, str] = {
    "add_cross_attention": "attention to another model's output is not built; remove it, or import the module by "
    "`clustersim import torch`",
    "cross_attention_hidden_size": "attention to another model's output is not built",
    "per_layer_config": "layers with sizes of their own are not built",
    "position_embedding_type": "only absolute positions are built",
    "pruned_heads": "pruned heads are not built",
    "tie_encoder_decoder": "an encoder and a decoder with the same weights are not built",
}
"""Keys that change parameters or products where they are set and the family does not read them, and why not."""

NOTED: Mapping[str, str] = {
    "attention_dropout": "dropout of attention weights is part of the attention's kernel, and takes no time",
    "attn_implementation": "eager or not is --attention, and which fused kernel is compute.attention of the scenario",
    "_attn_implementation": "eager or not is --attention, and which fused kernel is compute.attention of the scenario",
    "gradient_checkpointing": "recomputation is parallelism.recompute of the scenario",
    "quantization_config": "the weights of the layers are counted, in the precision of the scenario",
}
"""Keys whose effect is elsewhere, or has no time: noted."""


def is_harmless(key: str, value: object, defaults: Mapping[str, object]) -> bool:
    """Say whether an unread key changes nothing: no family's work depends on it, or it has its default.

    >>> is_harmless("rope_theta", 1e6, {}), is_harmless("alibi", True, {"alibi": False}), is_harmless("x", None, {})
    (True, False, True)
    """
    if key in WITHOUT_EFFECT or value is None:
        return True
    known = defaults if key in defaults else NEUTRAL
    return key in known and known[key] == value
