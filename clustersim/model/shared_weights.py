"""Weights that two layers share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

from clustersim.model.layer import Layer


def shared_weights(layers: Sequence[Layer]) -> dict[int, tuple[int, int]]:
    """Return the owner of the matrix, and its number of parameters, for each layer that multiplies by another's matrix.

    The owner is the first embedding that has as many parameters, such as the word embedding that an output head uses.
    """
    shared: dict[int, tuple[int, int]] = {}
    for index, layer in enumerate(layers):
        if layer.op != "fully-connected" or layer.num_parameters or layer.weights_of or not layer.shape:
            continue
        if layer.is_frozen:
            continue
        size = math.prod(layer.shape[key] for key in ("inputs", "outputs", "count"))
        owners = (at for at, each in enumerate(layers) if each.op == "embedding" and each.num_parameters >= size)
        if (owner := next(owners, None)) is not None:
            shared[index] = (owner, size)
    return shared


def by_row(shared: Mapping[int, tuple[int, int]], num_rows: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the same by rows, where each layer has `num_rows` of them: the last row of a layer stands for it.

    >>> by_row({2: (0, 64)}, [2, 1, 1])
    {3: (1, 64)}
    """
    last = [end - 1 for end in accumulate(num_rows)]
    return {last[layer]: (last[owner], size) for layer, (owner, size) in shared.items()}
