"""The catalogue's builder with more layers of transformers, and whether attention and dropout have kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Layer

_GELU = {"gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu", "gelu_accurate"}
_OPS = {"swish": "silu"} | dict.fromkeys(_GELU, "gelu")


def op_of(function: str) -> str:
    """Return the workload's name of a config's activation function.

    >>> op_of("gelu_new"), op_of("silu"), op_of("relu")
    ('gelu', 'silu', 'relu')
    """
    return _OPS.get(function, function.replace("_", "-"))


Attention = Literal["eager", "sdpa"]
"""How attention runs: kernel by kernel, or as torch's `scaled_dot_product_attention`, which is one fused kernel."""


class BlockBuilder(Builder):
    """The catalogue's builder, with the layers of newer transformers.

    `attention` is how attention runs; layers of last names in `keeps` drop nothing.
    """

    attention: Attention = "sdpa"

    def __init__(self, name: str, title: str, sample: str = "image", source: str = ""):
        super().__init__(name, title, sample, source)
        self.keeps = {"drop1", "drop2", "drop_embedding"}

    def activation(self, name: str, function: str, x: Tensor) -> Tensor:
        """Apply a function to each element, by its name in the config."""
        return self._elementwise(name, op_of(function), x.elements, x)

    def dropout(self, name: str, x: Tensor) -> Tensor:
        """Drop elements at random, unless layers of this last name drop nothing (`keeps`), as the config says."""
        return x if name.rpartition(".")[2] in self.keeps else super().dropout(name, x)

    def plain_norm(self, name: str, x: Tensor) -> Tensor:
        """Normalise each position over its features, without parameters."""
        return self._elementwise(name, "layer-norm", x.elements, x)

    def scaled(self, name: str, x: Tensor) -> Tensor:
        """Multiply each token by a number."""
        return self._elementwise(name, "multiply", x.elements, x)

    def learned_scores(self, name: str, num: int) -> None:
        """Add parameters to the product of scores of this name, which was added a few layers ago."""
        place = next(at for at in reversed(range(len(self.layers))) if self.layers[at].name == name)
        self.layers[place] = replace(self.layers[place], num_parameters=num)

    def tied_embedding(self, name: str, tokens: int, features: int, words: bool = True) -> Tensor:
        """Look up tokens in a table that belongs to another layer; `words` as for `embedding`."""
        self.tokens += tokens if words else 0
        return self._elementwise(name, "embedding", tokens, Tensor(features, tokens))

    def parameters(self, name: str, x: Tensor, num: int) -> Tensor:
        """Add learned numbers to every sample: positions, a class token."""
        return self._elementwise(name, "add", x.elements, x, parameters=num)

    def learned_scale(self, name: str, x: Tensor) -> Tensor:
        """Multiply each feature by a learned number."""
        return self._elementwise(name, "multiply", x.elements, x, parameters=x.channels)

    def copied(self, name: str, x: Tensor, y: Tensor, times: int = 1) -> Tensor:
        """Copy a tensor into another order, `times` times over, with zeros where it gets larger."""
        return self._elementwise(name, "copy", times * x.elements + (times - 1) * y.elements, y)

    def causal_convolution(self, name: str, x: Tensor, kernel: int, bias: bool) -> Tensor:
        """Convolve each feature over the last `kernel` tokens, and apply an activation: one kernel, bound by memory.

        FLOP are those of a convolution padded on both sides, as torch has it.
        """
        flop = 2.0 * kernel * x.channels * (x.height + kernel - 1)
        parameters = x.channels * (kernel + bias)
        layer = Layer(name, "causal-convolution", flop, flop, flop, parameters, x.elements, x.elements)
        return self._add(layer, x)

    def scan(self, name: str, op: str, elements: int, y: Tensor, flop: float, parameters: int) -> Tensor:
        """Run a scan over the tokens that reads `elements`, with `flop` in products."""
        return self._add(Layer(name, op, flop, 2 * flop, 0.0, parameters, elements, y.elements), y)

    def drop_path(self, name: str, x: Tensor) -> Tensor:
        """Drop the branches of some samples, and divide the others by the share that is kept (Huang et al., 2016)."""
        return self.copied(name, x, x, times=2)

    def mean(self, name: str, x: Tensor) -> Tensor:
        """Average over all positions."""
        return self._elementwise(name, "pooling", x.elements, Tensor(x.channels))
