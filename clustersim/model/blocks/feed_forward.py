"""Feed-forward layers: plain, gated, and several experts of which a token uses some."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.model.blocks.net import BlockBuilder, op_of
from clustersim.model.builder import Tensor


def feed_forward(net: BlockBuilder, name: str, x: Tensor, width: int, function: str, bias: bool = True) -> Tensor:
    """Add two linear layers, `width` features in between."""
    op = op_of(function)
    y = net.activation(f"{name}.{op}", function, net.linear(f"{name}.in", x, width, bias=bias))
    return net.linear(f"{name}.out", y, x.channels, bias=bias)


def gated_feed_forward(
    net: BlockBuilder, name: str, x: Tensor, width: int, function: str, bias: bool = False, joined: bool = False
) -> Tensor:
    """Add three linear layers: one gates another (Shazeer, 2020), the third projects back.

    The first two may be `joined` in one product.
    """
    if joined:
        y = net.linear(f"{name}.in", x, 2 * width, bias=bias)
    else:
        y = net.linear(f"{name}.in", x, width, bias=bias, count=2)
    y = net.gate(f"{name}.gate", y, op_of(function))
    return net.linear(f"{name}.out", y, x.channels, bias=bias)


@dataclass(frozen=True)
class Experts:
    """A layer of experts: `num` of `width` features in between, `active` for a token, and one of `shared` for all.

    `shared_gate` weighs the shared one by a learned score of the token. `bias` goes for the experts and the router.
    """

    num: int
    active: int
    width: int
    function: str
    shared: int = 0
    shared_gate: bool = False
    bias: bool = False


def experts_layer(net: BlockBuilder, name: str, x: Tensor, sizes: Experts) -> Tensor:
    """Add a gated layer of several experts: a router, the three GEMMs of the chosen experts, and their weighted sum."""
    net.router(f"{name}.router", x, sizes.num, bias=sizes.bias)
    y = net.experts(f"{name}.in", x, sizes.width, sizes.num, sizes.active, count=2, bias=sizes.bias)
    y = net.gate(f"{name}.gate", y, op_of(sizes.function))
    y = net.experts(f"{name}.out", y, x.channels, sizes.num, sizes.active, bias=sizes.bias)
    y = net.weighted_sum(f"{name}.sum", y)
    if not sizes.shared:
        return y
    z = gated_feed_forward(net, f"{name}.shared", x, sizes.shared, sizes.function)
    if sizes.shared_gate:
        net.router(f"{name}.shared.score", x, 1)
        z = net.scaled(f"{name}.shared.scale", z)
    return net.add(f"{name}.shared.add", y, z)
