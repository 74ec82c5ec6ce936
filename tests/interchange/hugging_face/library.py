"""What the library says of a config: parameters of its model on the meta device, and FLOP by torch's counter.

How the FLOP are made comparable:

- torch counts every pair of tokens of an attention; ours only those that the mask leaves. So each fused attention
  counts here with its whole shape (`whole_flop`). The masks are compared by themselves: `mask_pairs` counts the pairs
  in the masks that the library makes, on the CPU. They count a token with itself once, ours half of it.
- Experts run as batched products (`batched_mm`), as many as a token's experts: what our formula counts. Llama 4's class
  has its own code that runs every expert on every token: its FLOP are compared with all experts active.
- The products of positions and frequencies in rotary embeddings, and those of the loss, are no layer: modules whose
  name contains `rotary` are taken off.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from clustersim.interchange.hf_config import import_hf
from clustersim.kernels.fused_attention import is_fused
from clustersim.model import Model

_PACKED = "transformers.masking_utils.find_packed_sequence_indices"
"""Reads positions, to see whether several sequences are packed into one: tensors on the meta device have no values."""


class Counted(NamedTuple):
    """Parameters, tied ones once, and forward FLOP of one sample."""

    parameters: int
    flop: float


def imported(folder: Path, keys: dict[str, Any], tokens: int | None) -> Model:
    """Return our model of a config of these keys."""
    path = folder / "config.json"
    path.write_text(json.dumps(keys))
    return import_hf(path, tokens).model


def whole_flop(model: Model) -> float:
    """Return forward FLOP with every pair of tokens of each fused attention."""
    total = 0.0
    for layer in model.layers:
        shape = layer.shape
        pairs = 2.0 * shape["rows"] * shape["inputs"] * shape["outputs"] * shape["count"] if is_fused(layer) else 0.0
        total += pairs or layer.flop
    return total


def library_model(keys: dict[str, Any], attention: str = "sdpa") -> Any:
    """Return the library's model on the meta device: the class of `architectures`, or the causal language model."""
    import torch
    import transformers

    config = library_config(keys, attention)
    kind = getattr(transformers, class_name(keys, config))
    with torch.device("meta"):
        return kind(config).eval()


def library_config(keys: dict[str, Any], attention: str) -> Any:
    """Return the library's config of these keys."""
    import transformers

    config = transformers.AutoConfig.for_model(**keys)
    config._attn_implementation = attention
    config._experts_implementation = "batched_mm"
    return config


def class_name(keys: dict[str, Any], config: Any) -> str:
    """Return the name of the class that `import hf` takes for these keys."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    named = keys.get("architectures")
    return str(named[0] if named else MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type])


def library_counts(keys: dict[str, Any], tokens: int, attention: str = "sdpa", inputs: Any = None) -> Counted:
    """Return what the library counts for one sample of `tokens` tokens, or of `inputs` (the forward pass's)."""
    import torch

    model = library_model(keys, attention)
    parameters = sum(each.numel() for each in model.parameters())
    if inputs is None:
        inputs = {"input_ids": torch.zeros((1, tokens), dtype=torch.long, device="meta"), "use_cache": False}
    return Counted(parameters, counted_flop(model, inputs))


def counted_flop(model: Any, inputs: dict[str, Any]) -> float:
    """Return forward FLOP without those of rotary embeddings."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), mock.patch(_PACKED, return_value=None):
        model(**inputs)
    counts = counter.get_flop_counts()
    angles = {name: sum(each.values()) for name, each in counts.items() if "rotary" in name.rpartition(".")[2]}
    return counter.get_total_flops() - sum(angles.values())


def mask_pairs(keys: dict[str, Any], tokens: int) -> list[int]:
    """Return the pairs of tokens in each attention's mask, in the order of its layers, from a model on the CPU.

    For small configs: weights are made, and nothing is learned.
    """
    import torch
    import transformers
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    found: list[int] = []

    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **_: Any) -> tuple[Any, None]:
        every = torch.ones(tokens, tokens, dtype=torch.bool)
        mask = every.tril() if attention_mask is None else attention_mask[0, 0] >= 0
        found.append(int((mask & every).sum()))
        out = torch.zeros(query.shape[0], tokens, query.shape[1], value.shape[-1])
        return out, None

    transformers.AttentionInterface.register("pairs", attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register("pairs", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    config = library_config(keys, "pairs")
    model = getattr(transformers, class_name(keys, config))(config).eval()
    with torch.no_grad():
        model(input_ids=torch.zeros((1, tokens), dtype=torch.long), use_cache=False)
    return found
