"""Expert parallelism: each GPU of a group has some of the experts, and tokens are sent to their experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clustersim.errors import InputError
from clustersim.model import Layer
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.pieces import GroupCall, Piece
from clustersim.program.token_route import TokenRoute

FP8_BYTES = 1 + 4 / 128
"""Bytes of an element in fp8, with a scale in fp32 for 128 elements of a token (DeepSeek-V3, section 3.3)."""

AXIS = "expert"
OP = "experts"

EXPERT_REPLICAS = "data"
"""The axis name, in programs, of GPUs that have the same experts: they differ along `data` and `context`, and are on
both stages of a mirrored pair.
"""


def is_expert_parallel(piece: Piece, grid: Grid) -> bool:
    """Return whether a piece has a part of the experts, so that fewer GPUs have the same parameters."""
    return piece.layer.op == OP and grid.expert > 1


def updated_share(pieces: Sequence[Piece], grid: Grid) -> float:
    """Return the fraction of a stage's parameters that one GPU updates if replicas shard them.

    Of P parameters, E of them experts', on R GPUs that have the same other layers and R / e that have the same experts,
    each GPU updates (P - E) / R + E e / R. With shard groups of N replicas and without expert parallelism, it is 1 / N.
    """
    return _sharded_share([float(piece.layer.num_parameters) for piece in pieces], pieces, grid)


def frozen_share(pieces: Sequence[Piece], grid: Grid) -> float:
    """Return the fraction of the bytes of a stage's frozen weights that one GPU stores if replicas shard them."""
    return _sharded_share([piece.layer.frozen_bytes or 0.0 for piece in pieces], pieces, grid)


def _sharded_share(sizes: Sequence[float], pieces: Sequence[Piece], grid: Grid) -> float:
    whole = sum(sizes)
    experts = sum(size for size, piece in zip(sizes, pieces, strict=True) if is_expert_parallel(piece, grid))
    return (1 + experts / whole * (grid.expert - 1)) / grid.shard_group_size if whole else 1.0


@dataclass(frozen=True)
class TokenExchange:
    """How tokens travel to their experts: in an all-to-all, or as `TokenRoute` says, to at most `most_hosts` hosts.

    They go there in `there_bytes` for each element, and results come back in `back_bytes`.
    """

    there_bytes: float
    back_bytes: float
    kind: Literal["all-to-all", "two-hop", "low-latency"] = "all-to-all"
    most_hosts: int | None = None

    def calls(self, into: Layer, router: Layer | None, imbalance: float) -> tuple[GroupCall, GroupCall]:
        """Return the exchange to the experts of a layer and the one back; each may be `imbalance` times as large."""
        elements = into.input_elements * imbalance
        sizes = (self.there_bytes, False), (self.back_bytes, True)
        if self.kind == "all-to-all":
            there, back = (GroupCall("all-to-all", elements * size, AXIS) for size, _ in sizes)
            return there, back
        routed = self._routed(into, router)
        there, back = (
            GroupCall(
                "all-to-all",
                elements / routed * size,
                AXIS,
                TokenRoute(into.shape["experts"], routed, self.most_hosts, self.kind, returns),
            )
            for size, returns in sizes
        )
        return there, back

    def _routed(self, into: Layer, router: Layer | None) -> int:
        """Return the number of experts of each token, which is sent once for all of them on a host or GPU."""
        if router is None:
            raise InputError(
                f"expert_exchange: {self.kind} needs the number of tokens, which is that of a router, and there is "
                f"none before '{into.name}'; take all-to-all, or add a layer with op: router",
                key="expert_exchange",
                got=self.kind,
                allowed="all-to-all, or a model with routers",
            )
        return max(1, round(into.input_elements / into.shape["inputs"] / router.shape["rows"]))


def expert_parallel_pieces(
    pieces: Sequence[Piece], degree: int, imbalance: float, exchange: TokenExchange
) -> tuple[Piece, ...]:
    """Return the pieces of one of `degree` GPUs that split the experts of a model.

    Layers of experts come in pairs, into the experts and out of them. An all-to-all sends the tokens to their experts
    before the first, and another one sends the results back after the second; gradients take the same ways back
    (GShard, arXiv:2006.16668, section 3.2). Each GPU has as many tokens for its experts as without a group, from all
    GPUs of the group. The GPU with the most tokens, for which all wait, has `imbalance` times as many.
    """
    numbers = [number for number, piece in enumerate(pieces) if piece.layer.op == OP]
    if degree == 1:
        return tuple(pieces)
    if not numbers:
        raise InputError(
            "expert splits the experts of a model, and this model has none; leave expert out",
            key=AXIS,
            got=str(degree),
            allowed="1",
        )
    made = list(pieces)
    for into, out in zip(numbers[::2], numbers[1::2], strict=True):
        routers = [piece.layer for piece in pieces[:into] if piece.layer.op == "router"]
        calls = exchange.calls(pieces[into].layer, routers[-1] if routers else None, imbalance)
        there, back = ((call,) for call in calls)
        for number in range(into, out + 1):
            made[number] = _own(pieces[number], degree, imbalance)
        made[into] = replace(made[into], before_forward=there, after_backward=back)
        made[out] = replace(made[out], after_forward=(*made[out].after_forward, *back), before_backward=there)
    return tuple(made)


def _own(piece: Piece, degree: int, imbalance: float) -> Piece:
    """Return a GPU's part of a layer of experts, or of a layer between two of them."""
    layer, shape = piece.layer, dict(piece.layer.shape)
    if layer.op == OP:
        if shape["experts"] % degree:
            works = max(size for size in range(1, degree) if shape["experts"] % size == 0)
            raise InputError(
                f"the {shape['experts']} experts of '{layer.name}' do not divide over {degree} GPUs; the nearest "
                f"number that works is {works}",
                key=AXIS,
                got=str(degree),
                allowed=str(works),
            )
        shape |= {
            "count": shape["count"] // degree,
            "experts": shape["experts"] // degree,
            "rows": round(shape["rows"] * degree * imbalance),
        }
    fewer = replace(
        layer,
        flop=layer.flop * imbalance,
        flop_backward_data=layer.flop_backward_data * imbalance,
        flop_backward_weights=layer.flop_backward_weights * imbalance,
        num_parameters=-(-layer.num_parameters // degree),
        frozen_bytes=None if layer.frozen_bytes is None else layer.frozen_bytes / degree,
        input_elements=layer.input_elements * imbalance,
        output_elements=layer.output_elements * imbalance,
        shape=shape,
    )
    return replace(piece, layer=fewer, is_split=piece.is_split or layer.op == OP)
