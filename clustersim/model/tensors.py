"""The tensors that a layer's parameters come in, each of which a framework may send by itself."""

from __future__ import annotations

from clustersim.model.layer import Layer

_PAIRED = ("batch-norm", "group-norm", "layer-norm")
"""Operations whose parameters are a scale and a shift."""


def parameter_tensors(layer: Layer) -> tuple[int, ...]:
    """Return how many parameters each tensor of a layer has, weights before biases; they sum to all that it has.

    A convolution has filters of channels / groups x kernel weights, a product `count` matrices of inputs x outputs, an
    LSTM one matrix for its input and one for its state, and each as many biases as are left over; a normalisation has
    a scale and a shift. What has no shape is one tensor.

    >>> shape = {"rows": 1, "inputs": 4096, "outputs": 1000, "count": 1}
    >>> parameter_tensors(Layer("fc8", "fully-connected", 8192e3, 8192e3, 8192e3, 4097000, 4096, 1000, shape))
    (4096000, 1000)
    """
    weights, biases = weights_and_biases(layer)
    return (*weights, *biases)


def weights_and_biases(layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tensors of a layer whose weights decay, and those that optimizers leave out of it, biases and norms.

    >>> weights_and_biases(Layer("norm", "layer-norm", 0.0, 0.0, 0.0, 2048, 1024, 1024))
    ((), (1024, 1024))
    """
    whole = layer.num_parameters
    if layer.op in _PAIRED and whole and whole % 2 == 0:
        return (), (whole // 2, whole // 2)
    weights, outputs = _weights(layer)
    left = whole - sum(weights)
    if not weights or left < 0 or left % outputs:
        return ((whole,) if whole else ()), ()
    return tuple(weights), (outputs,) * (left // outputs)


def _weights(layer: Layer) -> tuple[list[int], int]:
    """Return the sizes of a layer's matrices, and that of a bias; nothing where its shape does not say."""
    shape = layer.shape
    if layer.op == "convolution" and shape:
        window = shape["kernel_h"] * shape["kernel_w"] * shape["channels"] // shape["groups"]
        return [window * shape["filters"]], shape["filters"]
    if layer.op == "lstm" and shape:
        outputs = shape["outputs"]
        return [(shape["inputs"] - outputs // 4) * outputs, outputs // 4 * outputs], outputs
    if layer.op == "fully-connected" and shape:
        return [shape["inputs"] * shape["outputs"]] * shape["count"], shape["outputs"]
    return [], 1
