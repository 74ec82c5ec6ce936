"""GEMMs of local receptive fields: they have the FLOP of their layer, and are denser if more neurons share a field."""

from __future__ import annotations

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import constants_for
from clustersim.kernels.kernel_model import PHASES
from clustersim.kernels.layer_times import estimate_layers
from clustersim.kernels.locally_connected import locally_connected_gemms, transposed_locally_connected_gemms
from clustersim.model.builder import Builder
from clustersim.model.layer import Layer

KEPLER = constants_for("kepler", "ordinary")
MAKERS = {
    "locally-connected": locally_connected_gemms,
    "transposed-locally-connected": transposed_locally_connected_gemms,
}


def layers(block: int = 4, side: int = 32) -> tuple[Layer, ...]:
    """A stack there and back, of positions half as high and wide as the image, of 8 maps."""
    net = Builder("local", "A stack")
    y = net.locally_connected("there", net.input(3, side, side), 8, kernel=6, stride=2, pad=2, block=block)
    net.transposed_locally_connected("back", y, 3, kernel=6, stride=2, pad=2, block=block)
    return net.model().layers


def test_the_way_back_ends_where_the_way_there_began():
    there, back = layers()
    assert there.num_parameters == back.num_parameters == 16 * 16 * 8 * 6 * 6 * 3
    assert back.output_elements == there.input_elements == 3 * 32 * 32


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("block", "side"), [(1, 32), (2, 32), (4, 32), (4, 6), (4, 26), (3, 32)])
def test_the_products_have_the_flop_of_the_layer(phase, number, block, side):
    """Also where blocks do not cover it evenly, as those of tiles seldom do."""
    layer = layers(block, side)[number]
    products = MAKERS[layer.op](layer.shape, 96, phase, KEPLER)
    assert sum(product.flop for product in products) == pytest.approx(96 * layer.flop)


def test_neurons_that_share_a_field_make_dense_products():
    net = {}
    for block in (1, 4):
        build = Builder("local", "A stack")
        build.locally_connected("there", build.input(3, 32, 32), 8, kernel=6, stride=2, pad=2, block=block)
        net[block] = estimate_layers(build.model(), load_gpu("gtx-680"), 96, "fp32").layers[0].forward_s
    assert net[4] < net[1] / 2
