"""The parameter tensors of a layer, each of which a framework may send separately."""

from __future__ import annotations

from clustersim.model.layer import Layer

_PAIRED = ("batch-norm", "group-norm", "layer-norm")
"""Operations whose parameters are a scale and a shift."""


def parameter_tensors(layer: Layer) -> tuple[int, ...]:
    """Return the number of parameters of each tensor of a layer, weights before biases; their sum is the layer's total.

    A convolution has filters of channels / groups x kernel weights, a GEMM `count` matrices of inputs x outputs, an
    LSTM one matrix for its input and one for its state, and each has the remaining parameters as biases; a
    normalisation has a scale and a shift. A layer without a shape is one tensor.

    >>> shape = {"rows": 1, "inputs": 4096, "outputs": 1000, "count": 1}
    >>> parameter_tensors(Layer("fc8", "fully-connected", 8192e3, 8192e3, 8192e3, 4097000, 4096, 1000, shape))
    (4096000, 1000)
    """
    weights, biases = weights_and_biases(layer)
    return (*weights, *biases)


def weights_and_biases(layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a layer's tensors with weight decay, and those that optimizers exclude from it, biases and norms.

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
    """Return the sizes of a layer's matrices, and that of a bias; no matrices where its shape does not give them."""
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


def has_bias(layer: Layer) -> bool:
    """Say whether a GEMM has biases; False without a shape."""
    if layer.op != "fully-connected" or not layer.num_parameters or not layer.shape:
        return False
    return layer.num_parameters > layer.shape["inputs"] * layer.shape["outputs"] * layer.shape.get("count", 1)


def num_tensors(layer: Layer) -> int:
    """Return how many tensors hold the parameters of a layer: weights, and biases.

    One GEMM is one tensor, as in Megatron for queries, keys and values, or for both factors of a gate.
    """
    if layer.op == "fully-connected" and layer.num_parameters:
        return 2 if has_bias(layer) else 1
    return len(parameter_tensors(layer))
