"""How many tokens a sample of a model of language has."""

from __future__ import annotations

from clustersim.model.layer import Model

_OF_IMAGES = "convolution"


def tokens_per_sample(model: Model) -> int | None:
    """Return the tokens of a sample: the rows of the widest product of a model with an embedding, as of token numbers.

    None for other models, and for one with convolutions, whose positions are of an image.
    """
    ops = {layer.op for layer in model.layers}
    if "embedding" not in ops or _OF_IMAGES in ops:
        return None
    rows = max((layer.shape.get("rows", 0) for layer in model.layers if layer.op == "fully-connected"), default=0)
    return rows if rows > 1 else None
