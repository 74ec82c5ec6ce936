"""The owner of each slice of a bucket, compared with a table of the owner of every single parameter."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from clustersim.model import Layer
from clustersim.model.tensors import weights_and_biases
from clustersim.parallelism.gradient_owners import merge_slices, slices_of


def product(inputs: int, outputs: int, count: int = 1) -> Layer:
    shape = {"rows": 1, "inputs": inputs, "outputs": outputs, "count": count}
    num = count * (inputs + 1) * outputs
    return Layer("product", "fully-connected", 1.0, 1.0, 1.0, num, inputs, outputs, shape)


def norm(width: int) -> Layer:
    return Layer("norm", "layer-norm", 0.0, 0.0, 0.0, 2 * width, width, width)


EMBEDDING = Layer("embedding", "embedding", 0.0, 0.0, 0.0, 97, 1, 8)
BLOCK = [norm(8), product(8, 8, 3), product(8, 8), norm(8), product(8, 32), product(32, 8)]
MODEL = [EMBEDDING, *BLOCK * 5, norm(8)]


def owners(layers: list[Layer], num_owners: int) -> list[int]:
    """Return the owner of every parameter, in the order in which gradients are complete."""
    own = [weights_and_biases(layer) for layer in layers]
    tables = []
    for group in zip(*own, strict=True):
        whole = sum(map(sum, group))
        tables.append(np.arange(whole) // -(-whole // num_owners))
    per_layer = []
    for tensors in own:
        found: list[list[np.ndarray]] = []
        for group, sizes in enumerate(tensors):
            *cut, tables[group] = np.split(tables[group], np.cumsum(sizes)) if sizes else [tables[group]]
            found.append(cut)
        weights, biases = found
        if len(weights) == len(biases):
            per_layer.append([each for pair in zip(biases[::-1], weights[::-1], strict=True) for each in pair])
        else:
            per_layer.append([*biases, *weights[::-1]])
    return [int(owner) for tensors in reversed(per_layer) for table in tensors for owner in table]


@pytest.mark.parametrize("num_owners", [1, 2, 3, 16])
def test_slices_are_those_of_a_table_of_all_parameters(num_owners: int) -> None:
    found = [tuple(run) for run in merge_slices(reversed(slices_of(MODEL, num_owners)))]
    assert found == [(owner, len(list(run))) for owner, run in groupby(owners(MODEL, num_owners))]


def test_one_owner_has_one_slice() -> None:
    assert len(merge_slices(reversed(slices_of(MODEL, 1)))) == 1
