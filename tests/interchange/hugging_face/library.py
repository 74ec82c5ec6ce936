"""What the library says of a config: parameters of its model on the meta device, and FLOP by torch's counter.

How the FLOP are made comparable:

- torch counts every pair of tokens of an attention; ours only those that the mask leaves. So each fused attention
  counts here with its whole shape (`whole_flop`). The masks are compared by themselves: `mask_pairs` counts the pairs
  in the masks that the library makes, on the CPU. They count a token with itself once, ours half of it.
- Experts run as batched products (`batched_mm`), as many as a token's experts: what our formula counts. Llama 4's class
  has its own code that runs every expert on every token: its FLOP are compared with all experts active.
- The products of positions and frequencies in rotary embeddings, and those of the loss, are no layer: modules whose
  name contains `rotary` are taken off.
- Some classes read values of their inputs, which tensors on the meta device do not have: their FLOP are those of a
  small config on the CPU, where torch does not count fused attention, so attention is `eager`. Parameters are those of
  the published config.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from clustersim.interchange.hf_config import import_hf
from clustersim.kernels.fused_attention import is_fused
from clustersim.model import Model

PACKED = "transformers.masking_utils.find_packed_sequence_indices"
"""Reads positions, to see whether several sequences are packed into one: tensors on the meta device have no values."""


Inputs = Callable[[Any, int, str], dict[str, Any]]
"""Makes what the forward pass of a model takes for one sample, from its config, the number of tokens, and a device."""


def imported(folder: Path, keys: dict[str, Any], tokens: int | None, image_size: int | None = None) -> Model:
    """Return our model of a config of these keys."""
    path = folder / "config.json"
    path.write_text(json.dumps(keys))
    return import_hf(path, tokens, image_size=image_size).model


def whole_flop(model: Model) -> float:
    """Return forward FLOP with every pair of tokens of each fused attention."""
    total = 0.0
    for layer in model.layers:
        shape = layer.shape
        pairs = 2.0 * shape["rows"] * shape["inputs"] * shape["outputs"] * shape["count"] if is_fused(layer) else 0.0
        total += pairs or layer.flop
    return total


def library_model(keys: dict[str, Any], attention: str = "sdpa", device: str = "meta") -> Any:
    """Return the library's model on a device: the class of `architectures`, or the causal language model."""
    import torch
    import transformers

    config = library_config(keys, attention)
    kind = getattr(transformers, class_name(keys, config))
    with torch.device(device):
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


def library_parameters(keys: dict[str, Any], attention: str = "sdpa") -> int:
    """Return the parameters of the library's model, tied ones once."""
    return sum(each.numel() for each in library_model(keys, attention).parameters())


def library_flop(keys: dict[str, Any], tokens: int, inputs: Inputs, attention: str, device: str) -> float:
    """Return the forward FLOP that the library computes for one sample: `tokens` tokens, an image, or both."""
    model = library_model(keys, attention, device)
    return counted_flop(model, inputs(model.config, tokens, device))


def counted_flop(model: Any, inputs: dict[str, Any]) -> float:
    """Return forward FLOP without those of rotary embeddings."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), mock.patch(PACKED, return_value=None):
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
