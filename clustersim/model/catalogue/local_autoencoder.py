"""Sparse auto-encoders of local receptive fields, stacked (Le et al., 2012), in the sizes of Coates et al. (2013)."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

SIZES = {
    "185m": (6, 6, 4),
    "680m": (14, 14, 16),
    "1.0b": (18, 18, 18),
    "1.9b": (26, 26, 28),
    "3.0b": (34, 34, 34),
    "6.9b": (54, 54, 52),
    "11.2b": (70, 70, 67),
}
"""Feature maps of each stack. Published: 185 M, 1 and 11.2 billion parameters (Coates et al.); the sizes between are
recalled. Assumed: the numbers of feature maps, chosen to match the parameters.
"""


def local_autoencoder(size: str) -> Callable[[], Model]:
    """Return a builder of the network of a size: three stacks of auto-encoder, pooling and normalisation.

    From Le et al. (arXiv:1112.6209), section 3: images of 200 x 200, fields of 18 x 18 over all maps, separate weights
    at every position, pooling and normalisation over 5 x 5. Recalled from there: all stacks are trained together on the
    sum of their objectives. Assumed: fields at every second position, padded, so that each stack halves the image;
    pooling at every position; no biases; 4 x 4 neighbouring positions with one field (Coates et al., section 4,
    recalled: blocks of neurons that share a field, for dense GEMMs).
    """

    def build() -> Model:
        """Return the auto-encoder of this size."""
        net = Builder(
            f"local-autoencoder-{size}",
            f"Locally connected auto-encoder of nine layers (Le et al., 2012), {size.upper()}",
            source="arXiv:1112.6209, section 3; Coates et al., ICML 2013",
        )
        x = net.input(3, 200, 200)
        for number, maps in enumerate(SIZES[size], 1):
            x = _stack(net, str(number), x, maps)
        return net.model()

    return build


def _stack(net: Builder, number: str, x: Tensor, maps: int) -> Tensor:
    """Encode, pool the squares and normalise; in parallel, decode and compare with the input."""
    window = {"kernel": 18, "stride": 2, "pad": 8, "block": 4}
    y = net.locally_connected(f"encode{number}", x, maps, **window)
    pooled = net.pool(f"pool{number}", y, 5, 1, pad=2, mean=True)
    passed_on = _local_contrast_norm(net, f"lcn{number}", pooled)
    net.loss(f"rebuilt{number}", net.transposed_locally_connected(f"decode{number}", y, x.channels, **window))
    return passed_on


def _local_contrast_norm(net: Builder, name: str, x: Tensor) -> Tensor:
    """Subtract the mean of a neighbourhood and divide by its deviation (Jarrett et al., 2009)."""
    x = net.add(f"{name}_centred", x, net.pool(f"{name}_mean", x, 5, 1, pad=2, mean=True))
    return net.divide(f"{name}_scaled", x, net.pool(f"{name}_deviation", x, 5, 1, pad=2, mean=True))
