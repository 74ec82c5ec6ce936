"""What one call does for a whole batch, as it is recorded while a module runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NUM_IMAGES = "images"
"""The key of a recorded shape that says how many samples, or pieces of samples, a convolution or pooling works on."""


@dataclass(frozen=True)
class Work:
    """One kernel of the forward pass: FLOP and elements are a batch's, `shape` is as in `Layer.shape`.

    `path` is the module it ran in, `is_leaf` whether that has no modules of its own, and `label` what tells the
    calls in one module apart. `parameters` are the names of those that it reads.
    """

    path: str
    is_leaf: bool
    label: str
    op: str
    input_elements: int
    output_elements: int
    flop: float = 0.0
    flop_backward_data: float = 0.0
    flop_backward_weights: float = 0.0
    parameters: tuple[str, ...] = ()
    shape: Mapping[str, int] = field(default_factory=dict)
    kept_bytes: float | None = None


@dataclass(frozen=True)
class Kernel:
    """What a recipe says that a call does: a `Work` without its place, in the numbers of the batch.

    `label` is empty where the operation's name says enough. `data_gradients` and `weight_gradients` count the
    operands of each sort that need one: each costs a product as large as the forward one.
    """

    op: str
    input_elements: int
    output_elements: int
    flop: float = 0.0
    data_gradients: int = 0
    weight_gradients: int = 0
    shape: Mapping[str, int] = field(default_factory=dict)
    label: str = ""
    tensors: tuple[object, ...] | None = None  # those whose parameters it reads, where not all of the call's
    kept_bytes: float | None = None  # as in `Layer`


def product(rows: int, inputs: int, outputs: int, count: int) -> dict[str, int]:
    """Return the shape of `count` products of rows x inputs by inputs x outputs."""
    return {"rows": rows, "inputs": inputs, "outputs": outputs, "count": count}
