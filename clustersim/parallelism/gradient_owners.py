"""The replica to which DeepSpeed's stage 2 reduces each slice of a bucket of gradients: the one that updates it.

`average_tensor` (deepspeed/runtime/zero/stage2.py of 2021, later stage_1_and_2.py) goes through the parameters of
a bucket in the order in which their gradients were complete, and calls `dist.reduce` once for each run of parameters
with one owner. A replica owns a slice of every parameter group, and Hugging Face's Trainer has two groups: parameters
with weight decay, matrices and embeddings, and those without, biases and the scales and shifts of norms
(`create_optimizer`, src/transformers/trainer.py of 4.12). A layer has both kinds in turn. So if the slices of the two
groups have different owners, every matrix and every bias is a separate slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clustersim.model import Layer
from clustersim.model.tensors import weights_and_biases
from clustersim.parallelism.plan import Part


class OwnedSlice(NamedTuple):
    """Consecutive parameters of a bucket that have one owner."""

    owner: int
    num_parameters: float


def slices_of(layers: Sequence[Layer], num_owners: int) -> list[list[OwnedSlice]]:
    """Return the slices of the tensors of each layer, given in forward order, in the order of their gradients.

    A bias comes before its matrix, and the last matrix first. The parameters of a group, in forward order, are divided
    into equal slices, one for each owner; the last one has the rest.

    >>> product = {"rows": 1, "inputs": 4, "outputs": 2, "count": 1}
    >>> fc = Layer("fc", "fully-connected", 16.0, 16.0, 16.0, 10, 4, 2, product)
    >>> [[tuple(each) for each in own] for own in slices_of([fc, fc], 2)]
    [[(0, 2), (0, 8)], [(1, 2), (1, 8)]]
    """
    own = [weights_and_biases(layer) for layer in layers]
    totals = [sum(map(sum, group)) for group in zip(*own, strict=True)]
    sizes = [max(1, -(-total // num_owners)) for total in totals]
    begun = [0, 0]
    slices = []
    for tensors in own:
        cut: list[list[list[OwnedSlice]]] = []
        for group, members in enumerate(tensors):
            cut.append([])
            for size in members:
                cut[-1].append(_cut(begun[group], size, sizes[group]))
                begun[group] += size
        slices.append([run for tensor in _in_gradient_order(*cut) for run in tensor])
    return slices


def slices_by_place(parts: Sequence[Part], num_owners: int) -> dict[int, list[OwnedSlice]]:
    """Return the slices of each layer of a stage by its place in the model."""
    layers = {part.first + at: piece.layer for part in parts for at, piece in enumerate(part.pieces)}
    places = sorted(layers)
    return dict(zip(places, slices_of([layers[place] for place in places], num_owners), strict=True))


def merge_slices(slices: Iterable[Iterable[OwnedSlice]]) -> list[OwnedSlice]:
    """Return the slices of a bucket with neighbours of one owner merged; layers are in the order of their gradients.

    >>> merge_slices([[OwnedSlice(0, 2), OwnedSlice(0, 8)], [OwnedSlice(1, 2)]])
    [OwnedSlice(owner=0, num_parameters=10), OwnedSlice(owner=1, num_parameters=2)]
    """
    runs: list[OwnedSlice] = []
    for own in slices:
        for run in own:
            if runs and runs[-1].owner == run.owner:
                run = OwnedSlice(run.owner, runs.pop().num_parameters + run.num_parameters)
            runs.append(run)
    return runs


def _cut(begin: int, size: int, owned: int) -> list[OwnedSlice]:
    """Return the slices of a tensor that begins at `begin` in its group; every owner has `owned` parameters."""
    end, runs = begin + size, []
    while begin < end:
        owner = begin // owned
        until = min(end, (owner + 1) * owned)
        runs.append(OwnedSlice(owner, until - begin))
        begin = until
    return runs


def _in_gradient_order(weights: list[list[OwnedSlice]], biases: list[list[OwnedSlice]]) -> list[list[OwnedSlice]]:
    """Return the tensors of a layer, each a list of slices, in the order in which their gradients are complete."""
    if len(weights) == len(biases):
        pairs = zip(reversed(biases), reversed(weights), strict=True)
        return [tensor for pair in pairs for tensor in pair]
    return [*biases, *reversed(weights)]
