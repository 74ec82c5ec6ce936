"""The work of one call for a whole batch, as recorded while a module runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NUM_IMAGES = "images"
"""The key of a recorded shape with the number of samples, or parts of samples, of a convolution or pooling."""


@dataclass(frozen=True)
class Work:
    """One kernel of the forward pass: FLOP and elements are a batch's, `shape` is as in `Layer.shape`.

    `path` is the module in which it ran, `is_leaf` whether that has no submodules, and `label` distinguishes
    calls in one module. `parameters` are the names of those that it reads.
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
    """The work of a call by its recipe: a `Work` without its place, for the whole batch.

    `label` is empty where the operation's name is enough. `data_gradients` and `weight_gradients` count the
    operands of each kind that need one: each costs a GEMM as large as the forward one.
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


def gemm_shape(rows: int, inputs: int, outputs: int, count: int) -> dict[str, int]:
    """Return the shape of `count` GEMMs of rows x inputs by inputs x outputs."""
    return {"rows": rows, "inputs": inputs, "outputs": outputs, "count": count}
