"""The tensors of a layer are those in which frameworks keep its parameters."""

from __future__ import annotations

import pytest

from clustersim.model import MODELS, Layer, load_model, parameter_tensors


@pytest.mark.parametrize(
    ("model", "tensors"),
    [
        ("alexnet", 16),
        ("vgg16", 32),
        ("resnet50", 161),  # torchvision's, list(parameters())
        ("googlenet-aux", 128),  # with the weights and biases of two auxiliary classifiers
    ],
)
def test_models_have_as_many_tensors_as_in_frameworks(model, tensors):
    assert sum(len(parameter_tensors(layer)) for layer in load_model(model).layers) == tensors


@pytest.mark.parametrize("model", MODELS)
def test_tensors_have_all_parameters_and_none_is_empty(model):
    for layer in load_model(model).layers:
        sizes = parameter_tensors(layer)
        assert sum(sizes) == layer.num_parameters
        assert all(size > 0 for size in sizes)


def test_an_lstm_has_a_matrix_for_its_input_one_for_its_state_and_its_biases():
    """cuDNN's and PyTorch's weight_ih, weight_hh, bias_ih and bias_hh of 300 numbers in and 200 kept."""
    shape = {"rows": 1, "inputs": 500, "outputs": 800, "count": 35}
    lstm = Layer("lstm", "lstm", 0.0, 0.0, 0.0, 800 * (500 + 2), 300.0, 1200.0, shape)
    assert parameter_tensors(lstm) == (240_000, 160_000, 800, 800)


def test_products_beside_each_other_are_matrices_of_their_own():
    shape = {"rows": 512, "inputs": 8, "outputs": 4, "count": 3}
    layer = Layer("qkv", "fully-connected", 0.0, 0.0, 0.0, 3 * (8 + 1) * 4, 8.0, 12.0, shape)
    assert parameter_tensors(layer) == (32, 32, 32, 4, 4, 4)


def test_what_does_not_say_its_shape_is_one_tensor():
    assert parameter_tensors(Layer("fc", "fully-connected", 0.0, 0.0, 0.0, 10, 1.0, 1.0)) == (10,)
    assert parameter_tensors(Layer("relu", "relu", 0.0, 0.0, 0.0, 0, 1.0, 1.0)) == ()
