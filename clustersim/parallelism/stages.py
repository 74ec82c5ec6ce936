"""Where a model is cut into parts for pipeline stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.errors import InputError
from clustersim.model.layer import Layer
from clustersim.parallelism.split import GATES

JOINS = ("add", "concat")
FOLLOWERS = frozenset({"relu", "dropout", "batch-norm", "pooling"})
"""Layers that belong to the join before them: they read its output alone."""


def cut_points(layers: Sequence[Layer]) -> list[int]:
    """Return after how many layers a model may be cut: where a single tensor goes on.

    That is after a residual connection or a concatenation of branches (and what directly follows it) if there are any,
    and otherwise, in a plain chain, after any layer. The last layer with parameters and everything after it stay
    together, and so does everything before the first one.
    """
    trained = [number for number, layer in enumerate(layers) if layer.has_weights]
    first, last = (trained[0] + 1, trained[-1]) if trained else (1, len(layers) - 1)
    joins = [number for number, layer in enumerate(layers) if layer.op in JOINS]
    if not joins:
        return list(range(first, last + 1))
    cuts = {first}
    for number in joins:
        end = number + 1
        while end < len(layers) and layers[end].op in FOLLOWERS and layers[end].op != "dropout":
            end += 1
        cuts.add(end)
    return sorted(cut for cut in cuts if first <= cut <= last)


def boundary_elements(layers: Sequence[Layer], first: int) -> float:
    """Return the elements per sample that a stage sends to the one that begins with layer `first`.

    A recurrent layer writes more than it sends: its gates and cells, which stay for the backward pass.
    """
    before, after = layers[first - 1], layers[first]
    return after.input_elements if before.op in GATES else before.output_elements


def balanced_starts(costs: Sequence[float], cuts: Sequence[int], num_parts: int) -> list[int]:
    """Return the starts of `num_parts` parts such that the largest cost of a part is smallest; costs [num_layers].

    >>> balanced_starts([1, 1, 1, 3], cuts=[1, 2, 3], num_parts=2)
    [0, 3]
    """
    ends = np.array([0, *cuts, len(costs)])
    _check(num_parts, len(ends) - 1, len(costs))
    total = np.concatenate([[0.0], np.cumsum(costs)])[ends]
    between = np.where(ends[None, :] > ends[:, None], total[None, :] - total[:, None], np.inf)  # [from, to]
    best = between[0]
    choices = []
    for _ in range(num_parts - 1):
        worst = np.maximum(best[:, None], between)
        choices.append(worst.argmin(axis=0))
        best = worst.min(axis=0)
    at, starts = len(ends) - 1, []
    for choice in reversed(choices):
        at = int(choice[at])
        starts.append(int(ends[at]))
    return [0, *reversed(starts)]


def even_starts(cuts: Sequence[int], num_layers: int, num_parts: int) -> list[int]:
    """Return the starts of parts with equal numbers of blocks between cuts, as Megatron-LM divides layers.

    Everything before the first cut belongs to the first part; if blocks do not divide, earlier parts have more.

    >>> even_starts([1, 3, 5, 7, 9], 11, 2)
    [0, 5]
    """
    _check(num_parts, len(cuts) + 1, num_layers)
    blocks = len(cuts) - 1
    if blocks < num_parts:
        return [0, *(int(cut) for cut in list(cuts)[: num_parts - 1])]
    sizes = [blocks // num_parts + (part < blocks % num_parts) for part in range(num_parts)]
    return [0, *(int(cuts[number]) for number in np.cumsum(sizes)[:-1])]


def explicit_starts(sizes: Sequence[int], num_layers: int, num_parts: int) -> list[int]:
    """Return the starts of parts with the given numbers of layers [num_parts]."""
    if len(sizes) != num_parts or sum(sizes) != num_layers or min(sizes) < 1:
        raise InputError(
            f"stages needs {num_parts} numbers of layers with the sum {num_layers} (got {len(sizes)} with the sum "
            f"{sum(sizes)})",
            key="stages",
            got=str(list(sizes)),
            allowed=f"{num_parts} numbers of layers with the sum {num_layers}",
        )
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def check_parts(num_parts: int, num_chunks: int, cuts: Sequence[int], num_layers: int) -> None:
    """Raise InputError for more parts than possible, at `chunks` if fewer chunks would do."""
    most = len(cuts) + 1
    if num_chunks > 1 and num_parts > most >= num_parts // num_chunks:
        works = most // (num_parts // num_chunks)
        raise InputError(
            f"{num_chunks} chunks on each of {num_parts // num_chunks} stages are {num_parts} parts, and {num_layers} "
            f"layers can be cut into {most}, where a single tensor goes on; at most {works} chunks",
            key="chunks",
            got=str(num_chunks),
            allowed=f"at most {works}",
        )
    _check(num_parts, most, num_layers)


def _check(num_parts: int, most: int, num_layers: int) -> None:
    if num_parts > most:
        raise InputError(
            f"{num_layers} layers can be cut into at most {most} parts, where a single tensor goes on "
            f"(got {num_parts})",
            key="pipeline",
            got=str(num_parts),
            allowed=f"at most {most}",
        )
