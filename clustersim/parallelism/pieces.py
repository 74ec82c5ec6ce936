"""A layer's piece on one GPU of a group, and the division of a layer into equal parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from clustersim.model import Layer
from clustersim.program.token_route import TokenRoute


class IndivisibleError(Exception):
    """Something does not divide into equal parts over the GPUs; the text says what."""


@dataclass(frozen=True)
class GroupCall:
    """A collective among the GPUs of a group; bytes as nccl-tests count them: the whole buffer."""

    op: str  # all-reduce, all-gather, reduce-scatter, all-to-all
    bytes_per_sample: float
    axis: str = "tensor"  # along which the group lies: tensor, context, expert
    token_route: TokenRoute | None = None  # to experts: then the bytes are those of one copy of each token


Calls = tuple[GroupCall, ...]


@dataclass(frozen=True)
class Piece:
    """The piece of a layer on one GPU of a group, and the collectives around its two passes.

    `layer` has the shape, FLOP, parameters and elements of this GPU. `is_split` says that the parameters are divided;
    otherwise each GPU has all of them. Ring attention is computed in `num_blocks` blocks of the tokens that it reads,
    each with `block_bytes` of keys or values per sample (`clustersim.parallelism.ring`). A matrix product that overlaps
    with its collective is computed in `num_ring_steps` steps (`clustersim.parallelism.tensor_overlap`).
    """

    layer: Layer
    is_split: bool
    before_forward: Calls = ()
    after_forward: Calls = ()
    before_backward: Calls = ()
    after_backward: Calls = ()
    num_blocks: int = 1
    block_bytes: float = 0.0
    num_ring_steps: int = 1

    @property
    def block(self) -> Layer:
        """The part of the layer that is computed at once: all of it, or that for one block of keys or values."""
        if self.num_blocks == 1:
            return self.layer
        key = "inputs" if self.layer.output_elements else "outputs"
        part = part_of(self.layer, key, self.num_blocks)
        return replace(
            part,
            input_elements=self.layer.input_elements,
            output_elements=self.layer.output_elements,
            shape={**part.shape, "blocks": self.num_blocks},
        )

    @property
    def ring_step(self) -> Layer:
        """The part of a matrix product that is computed in one ring step."""
        return self.layer if self.num_ring_steps == 1 else part_of(self.layer, "rows", self.num_ring_steps)

    @property
    def overlapped_phases(self) -> tuple[str, ...]:
        """The times of a product that are divided into ring steps: forward, and the gradient of data if gathered."""
        if self.num_ring_steps == 1:
            return ()
        return ("forward_s", "backward_data_s") if self.before_backward else ("forward_s",)

    @property
    def calls(self) -> Calls:
        """All collectives of an iteration."""
        return self.before_forward + self.after_forward + self.before_backward + self.after_backward


def calls_bytes(pieces: Iterable[Piece], op: str) -> float:
    """Return the bytes per sample of all collectives of one operation, forward and backward."""
    return sum(call.bytes_per_sample for piece in pieces for call in piece.calls if call.op == op)


def divided(layer: Layer, own: int, whole: int) -> Layer:
    """Return a layer with own / whole of everything but its shape; parameters are rounded up.

    >>> divided(Layer("fc", "fully-connected", 8.0, 8.0, 8.0, 5, 2.0, 2.0), 1, 2).num_parameters
    3
    """
    share = own / whole
    return replace(
        layer,
        flop=layer.flop * share,
        flop_backward_data=layer.flop_backward_data * share,
        flop_backward_weights=layer.flop_backward_weights * share,
        num_parameters=-(-layer.num_parameters * own // whole),
        input_elements=layer.input_elements * share,
        output_elements=layer.output_elements * share,
        kept_bytes=None if layer.kept_bytes is None else layer.kept_bytes * share,
        frozen_bytes=None if layer.frozen_bytes is None else layer.frozen_bytes * share,
    )


def part_of(layer: Layer, key: str, degree: int, is_padded: bool = False) -> Layer:
    """Return a layer with one size of its shape divided, and with it FLOP, parameters and elements.

    A layer without a shape is divided evenly; with `is_padded` the size is rounded up to the next multiple.
    """
    if key not in layer.shape:
        return divided(layer, 1, degree)
    size = layer.shape[key]
    if not is_padded:
        check_divides(degree, size, key, layer)
    own = -(-size // degree)
    return replace(divided(layer, own, size), shape={**layer.shape, key: own})


def check_divides(degree: int, size: int, key: str, layer: Layer) -> None:
    """Raise IndivisibleError if a size does not divide into equal parts over the GPUs."""
    if size % degree:
        what = {"outputs": "columns", "count": "heads", "rows": "tokens"}.get(key, key)
        raise IndivisibleError(f"the {size} {what} of '{layer.name}' do not divide by {degree}")
