"""The builder counts parameters and FLOP of layers of any shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.model.builder import Builder, Tensor, pooled_size

sizes = st.integers(1, 40)


@given(size=sizes, kernel=st.integers(1, 7), stride=st.integers(1, 7), pad=st.integers(0, 3), ceil=st.booleans())
def test_windows_are_those_that_start_inside(size, kernel, stride, pad, ceil):
    kernel = min(kernel, size)
    pad, stride = min(pad, kernel // 2), min(stride, kernel)
    starts = range(-pad, size + pad, stride)
    whole = [start for start in starts if start + kernel <= size + pad]
    hanging = [start for start in starts if start < size and start not in whole][:1]
    if hanging and hanging[0] - stride + kernel >= size + pad:
        hanging = []  # the last whole window already ends where the pad ends
    assert pooled_size(size, kernel, stride, pad, ceil) == len(whole) + (len(hanging) if ceil else 0)


@given(
    channels=st.integers(1, 8), filters=st.integers(1, 8), groups=st.integers(1, 4), size=st.integers(5, 20),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)), stride=st.integers(1, 3), pad=st.integers(0, 2),
)  # fmt: skip
def test_groups_divide_a_convolutions_flop_and_weights(channels, filters, groups, size, kernel, stride, pad):
    net = Builder("net", "A net")
    x = Tensor(channels * groups, size, size)
    net.conv("whole", x, filters * groups, kernel, stride, pad, bias=False)
    net.conv("grouped", x, filters * groups, kernel, stride, pad, groups=groups, bias=False)
    whole, grouped = net.layers
    assert whole.flop == pytest.approx(groups * grouped.flop)
    assert whole.num_parameters == groups * grouped.num_parameters
    assert whole.output_elements == grouped.output_elements


@given(channels=sizes, height=sizes, width=sizes, outputs=sizes)
def test_a_fully_connected_layer_is_a_convolution_over_the_whole_map(channels, height, width, outputs):
    net = Builder("net", "A net")
    x = Tensor(channels, height, width)
    net.fully_connected("fc", x, outputs)
    net.conv("conv", x, outputs, kernel=(height, width))
    fc, conv = net.layers
    assert (fc.flop, fc.flop_backward_data, fc.flop_backward_weights) == (conv.flop,) * 3
    assert fc.num_parameters == conv.num_parameters
    assert fc.output_elements == conv.output_elements == outputs


def test_no_gradient_goes_to_the_image_and_what_is_made_of_it_without_parameters():
    net = Builder("net", "A net")
    x = net.relu("relu0", net.pool("pool0", net.input(3, 8, 8), 2, 2))
    x = net.conv("conv1", x, 4, 3)
    net.fully_connected("fc2", x, 10)
    flop = {layer.name: (layer.flop_backward_data, layer.flop_backward_weights) for layer in net.layers}
    assert flop["conv1"] == (0.0, 2 * 27 * 4 * 4)
    assert flop["fc2"] == (2 * 16 * 10, 2 * 16 * 10)


def test_batch_norm_of_the_image_is_trained_and_passes_a_gradient_on():
    net = Builder("net", "A net")
    assert net.batch_norm("bn", net.input(3, 8, 8)).needs_gradient
    assert net.layers[0].num_parameters == 6


def test_attention_products_cost_tokens_squared_and_have_no_parameters():
    net = Builder("net", "A net")
    x = Tensor(12, height=5)
    scores = net.attention_matmul("scores", x, x, heads=3, outputs=5)
    context = net.attention_matmul("context", scores, x, heads=3, outputs=4)
    assert (scores.elements, context.channels, context.height) == (3 * 5 * 5, 12, 5)
    for layer in net.layers:
        assert layer.flop == 2 * 5 * 5 * 12
        assert (layer.flop_backward_data, layer.flop_backward_weights) == (2 * layer.flop, 0)
        assert layer.num_parameters == 0
    assert [layer.shape["count"] for layer in net.layers] == [3, 3]


def test_three_products_beside_each_other_cost_what_the_fused_one_costs():
    net = Builder("net", "A net")
    x = Tensor(16, height=7)
    assert net.linear("three", x, 16, count=3) == net.linear("fused", x, 48)
    three, fused = net.layers
    assert (three.flop, three.num_parameters) == (fused.flop, fused.num_parameters)


def test_a_tied_product_computes_and_holds_nothing_of_its_own():
    net = Builder("net", "A net")
    net.linear("head", Tensor(16, height=7), 100, bias=False, tied=True)
    assert (net.layers[0].num_parameters, net.layers[0].flop_backward_weights) == (0, 2 * 7 * 16 * 100)


def test_an_lstm_multiplies_input_and_state_by_four_gates_each_token():
    net = Builder("net", "A net")
    y = net.lstm("lstm", Tensor(10, height=35), hidden=20)
    layer = net.layers[0]
    assert (y.channels, y.height) == (20, 35)
    assert layer.num_parameters == 4 * 20 * (10 + 20 + 2)
    assert layer.flop == 2 * 35 * 30 * 80
    assert layer.shape == {"rows": 1, "inputs": 30, "outputs": 80, "count": 35}


def test_a_residual_sum_reads_two_tensors_and_a_concat_reads_all():
    net = Builder("net", "A net")
    x = Tensor(4, 3, 3)
    assert net.add("add", x, x) == x
    assert net.concat("concat", x, x, x).channels == 12
    assert [layer.input_elements for layer in net.layers] == [72, 108]


def test_a_gate_halves_its_input_and_a_mean_square_scales_each_feature():
    net = Builder("gated", "Gated")
    x = net.gate("gate", net.linear("in", net.rms_norm("norm", Tensor(8, 4)), 6, bias=False, count=2))
    norm, _, gate = net.model().layers
    assert (norm.op, norm.num_parameters) == ("rms-norm", 8)
    assert (gate.op, gate.input_elements, gate.output_elements) == ("silu", 12 * 4, 6 * 4)
    assert x.channels == 6
