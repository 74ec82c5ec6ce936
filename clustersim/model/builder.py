"""Builds a model layer by layer, so that its file reads like its paper.

Every method takes the tensor that a layer reads and returns the one it writes; branches are tensors that are used
twice. FLOP count GEMMs and convolutions only, 2 for each multiply-add. All other operations
(biases, activations, pooling, normalisation) are bound by memory and are costed by their elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from clustersim.model.layer import Layer, Model

Pair = int | tuple[int, int]
"""One number for height and width, or one for each."""


@dataclass(frozen=True)
class Tensor:
    """The activation of one sample: feature maps [channels, height, width], or a sequence [features, tokens, 1].

    `needs_gradient` is False for the input and everything computed from it without parameters.
    """

    channels: int
    height: int = 1
    width: int = 1
    needs_gradient: bool = True

    @property
    def positions(self) -> int:
        return self.height * self.width

    @property
    def elements(self) -> int:
        return self.channels * self.positions


class Builder:
    """A model under construction; `model()` returns it.

    >>> net = Builder("tiny", "A tiny network")
    >>> x = net.conv("conv1", net.input(3, 224, 224), filters=64, kernel=7, stride=2, pad=3)
    >>> x.height, net.model().flop
    (112, 236027904.0)
    """

    def __init__(self, name: str, title: str, sample: str = "image", source: str = ""):
        self.name, self.title, self.sample, self.source = name, title, sample, source
        self.layers: list[Layer] = []
        self.tokens = 0

    def model(self) -> Model:
        """Return the layers so far as a model."""
        names = [layer.name for layer in self.layers]
        assert len(set(names)) == len(names), f"{self.name}: two layers share a name"
        tokens = self.tokens if self.tokens and "image" not in self.sample else None
        return Model(self.name, self.title, tuple(self.layers), self.sample, self.source, tokens=tokens)

    @contextmanager
    def branch(self, name: str) -> Iterator[None]:
        """Put the layers that are added in this context on a separate path, parallel to those added next to it."""
        first = len(self.layers)
        yield
        self.layers[first:] = [replace(layer, branch=name) for layer in self.layers[first:]]

    def input(self, channels: int, height: int, width: int) -> Tensor:
        """Return one sample as in the data set; it needs no gradient."""
        return Tensor(channels, height, width, needs_gradient=False)

    def conv(
        self,
        name: str,
        x: Tensor,
        filters: int,
        kernel: Pair,
        stride: Pair = 1,
        pad: Pair = 0,
        groups: int = 1,
        bias: bool = True,
    ) -> Tensor:
        """Convolve: 2 x kernel x channels / groups FLOP for each output element.

        Parameters are kernel x channels / groups x filters, and a bias for each filter.
        """
        assert x.channels % groups == filters % groups == 0, f"{name}: channels do not split into {groups} groups"
        shape = _window(x, _pair(kernel), _pair(stride), _pair(pad), ceil=False)
        y = Tensor(filters, shape["out_height"], shape["out_width"])
        weights = shape["kernel_h"] * shape["kernel_w"] * x.channels // groups
        flop = 2.0 * weights * y.elements
        shape |= {"filters": filters, "groups": groups}
        return self._trained(name, "convolution", x, y, flop, (weights + bias) * filters, shape)

    def locally_connected(
        self, name: str, x: Tensor, filters: int, kernel: Pair, stride: Pair = 1, pad: Pair = 0, block: int = 1
    ) -> Tensor:
        """Add a layer with separate weights for each window: those of a convolution times its positions, no biases.

        The neurons of block x block neighbouring positions share one receptive field, which sets how dense the GEMMs
        are.
        """
        shape = _window(x, _pair(kernel), _pair(stride), _pair(pad), ceil=False) | {"filters": filters, "block": block}
        y = Tensor(filters, shape["out_height"], shape["out_width"])
        weights = shape["kernel_h"] * shape["kernel_w"] * x.channels * y.elements
        return self._trained(name, "locally-connected", x, y, 2.0 * weights, weights, shape)

    def transposed_locally_connected(
        self, name: str, x: Tensor, channels: int, kernel: Pair, stride: Pair = 1, pad: Pair = 0, block: int = 1
    ) -> Tensor:
        """Add the transpose of a locally connected layer, from its output to its input, with as many weights.

        `channels` are those of that input, (size - 1) stride + kernel - 2 pad high and wide.
        """
        windows = zip((x.height, x.width), _pair(kernel), _pair(stride), _pair(pad), strict=True)
        height, width = ((size - 1) * step + side - 2 * edge for size, side, step, edge in windows)
        y = Tensor(channels, height, width)
        shape = _window(y, _pair(kernel), _pair(stride), _pair(pad), ceil=False) | {"filters": x.channels}
        shape |= {"height": x.height, "width": x.width, "out_height": y.height, "out_width": y.width, "block": block}
        weights = shape["kernel_h"] * shape["kernel_w"] * channels * x.elements
        return self._trained(name, "transposed-locally-connected", x, y, 2.0 * weights, weights, shape)

    def fully_connected(self, name: str, x: Tensor, outputs: int, bias: bool = True) -> Tensor:
        """Multiply all elements of a sample, flattened, by one matrix."""
        return self.linear(name, Tensor(x.elements, needs_gradient=x.needs_gradient), outputs, bias)

    def linear(
        self,
        name: str,
        x: Tensor,
        outputs: int,
        bias: bool = True,
        count: int = 1,
        tied: bool = False,
        whole: bool = False,
    ) -> Tensor:
        """Multiply each position's features by the same matrix: 2 x inputs x outputs FLOP a position.

        `count` independent matrices run as separate kernels (query, key and value); a `tied`
        matrix belongs to another layer, which counts its parameters. Tensor parallelism does not split a `whole` one.
        """
        y = Tensor(count * outputs, x.height, x.width)
        flop = 2.0 * x.elements * y.channels
        parameters = 0 if tied else count * (x.channels + bias) * outputs
        shape = _gemm_shape(x.positions, x.channels, outputs, count) | ({"whole": 1} if whole else {})
        return self._trained(name, "fully-connected", x, y, flop, parameters, shape)

    def lstm(self, name: str, x: Tensor, hidden: int, biases: int = 2) -> Tensor:
        """Run an LSTM along the sequence: one GEMM of [input, state] with all four gates per token.

        Parameters are 4 hidden (input + hidden + biases); cuDNN and PyTorch have two biases. Its
        output is gates, cell and state, 6 x hidden a token; `count` GEMMs run in sequence.
        """
        inputs = x.channels + hidden
        flop = 2.0 * inputs * 4 * hidden * x.positions
        shape = _gemm_shape(1, inputs, 4 * hidden, x.positions)
        written = replace(x, channels=6 * hidden)
        self._trained(name, "lstm", x, written, flop, 4 * hidden * (inputs + biases), shape)
        return replace(written, channels=hidden, needs_gradient=True)

    def experts(
        self, name: str, x: Tensor, outputs: int, experts: int, routed: int, count: int = 1, bias: bool = False
    ) -> Tensor:
        """Multiply each token by matrices of the `routed` experts that process it; `count` matrices an expert.

        `x` has the features of a token, `routed` times over behind such a layer. Every expert has the same number of
        tokens.
        """
        inputs = x.channels
        y = Tensor(count * outputs, x.height, routed)
        flop = 2.0 * inputs * y.elements
        shape = _gemm_shape(-(-x.height * routed // experts), inputs, outputs, experts * count)
        shape |= {"experts": experts}
        parameters = experts * count * (inputs + bias) * outputs
        read = Tensor(inputs, x.height, routed)
        return self._trained(name, "experts", read, y, flop, parameters, shape)

    def router(self, name: str, x: Tensor, experts: int, bias: bool = False) -> Tensor:
        """Score each expert for each token, by one small matrix that is replicated on every GPU."""
        y = Tensor(experts, x.height)
        shape = _gemm_shape(x.positions, x.channels, experts, 1)
        return self._trained(name, "router", x, y, 2.0 * x.elements * experts, (x.channels + bias) * experts, shape)

    def weighted_sum(self, name: str, x: Tensor) -> Tensor:
        """Add the outputs of each token's experts, weighted by the router's scores."""
        return self._elementwise(name, "multiply", x.elements, replace(x, width=1))

    def attention_matmul(self, name: str, left: Tensor, right: Tensor, heads: int, outputs: int) -> Tensor:
        """Multiply two activations head by head: tokens x inner by inner x `outputs`, as one batched kernel.

        `left` has tokens rows of heads x inner numbers. There are no parameters: both backward GEMMs
        are gradients of data.
        """
        inner = left.channels // heads
        y = Tensor(heads * outputs, left.height)
        flop = 2.0 * left.elements * outputs
        shape = _gemm_shape(left.height, inner, outputs, heads)
        elements = left.elements + right.elements
        return self._add(Layer(name, "matmul", flop, 2 * flop, 0.0, 0, elements, y.elements, shape), y)

    def fused_attention(
        self,
        name: str,
        query: Tensor,
        key: Tensor,
        heads: int,
        causal: bool = False,
        flash: int = 2,
        value: Tensor | None = None,
        pairs: float | None = None,
    ) -> Tensor:
        """Compute attention by one kernel that keeps the scores on the chip (`clustersim.kernels.fused_attention`).

        `query` has heads x width features, `key` (and values) as many or fewer, each shared by some queries; a `value`
        with other features than the keys is given as one for each query. The two GEMMs are two layers; `causal` ones
        have half the FLOP of all pairs of tokens, and a narrower mask leaves so many `pairs` (`window_pairs`,
        `chunk_pairs`). `flash` is the kernel: 1 FlashAttention of 2022, 2 that of 2023, 3 that of 2024, 9 cuDNN's.
        """
        values = key if value is None else value
        width = (query if value is None else values).channels // heads
        tokens, share = key.height, 0.5 if causal else 1.0
        if pairs is not None:
            share = pairs / (query.height * tokens)
        self.attention_matmul(f"{name}.scores", query, key, heads, outputs=tokens)
        self.layers[-1] = _share(replace(self.layers[-1], output_elements=0.0), share)
        y = self.attention_matmul(f"{name}.context", Tensor(heads * tokens, query.height), values, heads, outputs=width)
        self.layers[-1] = _share(replace(self.layers[-1], input_elements=float(values.elements)), share)
        if flash != 2:
            self.layers[-2:] = [replace(each, shape={**each.shape, "flash": flash}) for each in self.layers[-2:]]
        return y

    def embedding(self, name: str, tokens: int, features: int, rows: Sequence[int], words: bool = True) -> Tensor:
        """Look up every token in tables of these numbers of `rows` (words, positions, ...) and add the results.

        The tokens are counted as the sample's (`Model.tokens`) unless they are not `words` of it: positions, patches.
        """
        y = Tensor(features, tokens)
        self.tokens += tokens if words else 0
        return self._elementwise(name, "embedding", tokens * len(rows), y, parameters=sum(rows) * features)

    def pool(
        self, name: str, x: Tensor, kernel: Pair, stride: Pair, pad: Pair = 0, ceil: bool = False, mean: bool = False
    ) -> Tensor:
        """Take the maximum or the mean of each window; with `ceil` a window may extend over the edge, as in Caffe.

        A maximum keeps its position, a mean nothing besides its input.
        """
        shape = _window(x, _pair(kernel), _pair(stride), _pair(pad), ceil)
        y = replace(x, height=shape["out_height"], width=shape["out_width"])
        kept_bytes = 0.0 if mean else None
        return self._add(
            Layer(name, "pooling", 0.0, 0.0, 0.0, 0, x.elements, y.elements, shape, kept_bytes=kept_bytes), y
        )

    def global_pool(self, name: str, x: Tensor, height: int = 1, width: int = 1) -> Tensor:
        """Average each channel, or each of height x width regions of it."""
        return self._elementwise(name, "pooling", x.elements, replace(x, height=height, width=width))

    def upsample(self, name: str, x: Tensor, factor: int) -> Tensor:
        """Repeat every position `factor` times in height and in width."""
        return self._elementwise(
            name, "concat", x.elements, replace(x, height=factor * x.height, width=factor * x.width)
        )

    def relu(self, name: str, x: Tensor) -> Tensor:
        """Replace negative values by zero."""
        return self._elementwise(name, "relu", x.elements, x)

    def gelu(self, name: str, x: Tensor) -> Tensor:
        """Weight each value by the normal distribution function (Hendrycks and Gimpel, 2016)."""
        return self._elementwise(name, "gelu", x.elements, x)

    def tanh(self, name: str, x: Tensor) -> Tensor:
        """Squash to between -1 and 1."""
        return self._elementwise(name, "tanh", x.elements, x)

    def additive_scores(self, name: str, x: Tensor) -> Tensor:
        """Multiply tanh(query + key + bias) of each pair of tokens by one vector, scaled: Bahdanau's attention.

        Vector and bias have a parameter for each feature, and there is one scale.
        """
        return self._elementwise(
            name, "additive-scores", x.elements, Tensor(1, x.height), parameters=2 * x.channels + 1
        )

    def lrn(self, name: str, x: Tensor) -> Tensor:
        """Divide by the neighbouring channels' energy (Krizhevsky et al., 2012)."""
        return self._elementwise(name, "lrn", x.elements, x)

    def batch_norm(self, name: str, x: Tensor) -> Tensor:
        """Normalise each channel over the batch; a scale and a shift for each channel."""
        return self._elementwise(
            name, "batch-norm", x.elements, replace(x, needs_gradient=True), parameters=2 * x.channels
        )

    def instance_norm(self, name: str, x: Tensor) -> Tensor:
        """Normalise each channel of each sample separately, without parameters, at the cost of a batch norm."""
        return self._elementwise(name, "batch-norm", x.elements, x)

    def group_norm(self, name: str, x: Tensor) -> Tensor:
        """Normalise groups of channels of each sample; a scale and a shift for each channel (Wu and He, 2018)."""
        return self._elementwise(
            name, "group-norm", x.elements, replace(x, needs_gradient=True), parameters=2 * x.channels
        )

    def layer_norm(self, name: str, x: Tensor) -> Tensor:
        """Normalise each position over its features; a scale and a shift for each feature."""
        return self._elementwise(
            name, "layer-norm", x.elements, replace(x, needs_gradient=True), parameters=2 * x.channels
        )

    def rms_norm(self, name: str, x: Tensor) -> Tensor:
        """Divide each position by the root of its features' mean square; a scale for each feature."""
        return self._elementwise(name, "rms-norm", x.elements, replace(x, needs_gradient=True), parameters=x.channels)

    def head_norm(self, name: str, x: Tensor, heads: int, op: str = "rms-norm", parameters: int = 0) -> Tensor:
        """Normalise the features of each head separately; all heads have the same `parameters`."""
        return self._elementwise(name, op, x.elements, x, parameters=parameters, shape={"heads": heads})

    def gate(self, name: str, x: Tensor, op: str = "silu") -> Tensor:
        """Multiply one half of the features by a function of the other, the SiLU (SwiGLU: Shazeer, 2020) or another."""
        assert x.channels % 2 == 0, f"{name}: {x.channels} features have no halves"
        return self._elementwise(name, op, x.elements, replace(x, channels=x.channels // 2))

    def rotary(self, name: str, x: Tensor, *rotated: Tensor) -> Tensor:
        """Rotate queries and keys, or the parts of `x` given as `rotated`, by an angle that grows with the position.

        Su et al., RoFormer, 2021.
        """
        moved = sum(each.elements for each in rotated) or x.elements
        return self._elementwise(name, "rotary", moved, x)

    def dropout(self, name: str, x: Tensor) -> Tensor:
        """Drop elements at random."""
        return self._elementwise(name, "dropout", x.elements, x)

    def softmax(self, name: str, x: Tensor, masked: bool = True) -> Tensor:
        """Turn scores into probabilities; some libraries use another kernel where there is no mask (`masked`)."""
        return self._elementwise(name, "softmax", x.elements, x, shape={} if masked else {"unmasked": 1})

    def concat(self, name: str, *branches: Tensor) -> Tensor:
        """Concatenate branches of equal height and width along the channels."""
        first = branches[0]
        assert all((x.height, x.width) == (first.height, first.width) for x in branches), f"{name}: sizes differ"
        channels = sum(x.channels for x in branches)
        needs_gradient = any(x.needs_gradient for x in branches)
        y = Tensor(channels, first.height, first.width, needs_gradient)
        return self._elementwise(name, "concat", y.elements, y)

    def add(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """Add two tensors of one shape: a residual connection."""
        assert (x.channels, x.height, x.width) == (y.channels, y.height, y.width), f"{name}: shapes differ"
        needs_gradient = x.needs_gradient or y.needs_gradient
        return self._elementwise(name, "add", 2 * x.elements, replace(x, needs_gradient=needs_gradient))

    def divide(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """Divide one tensor by another of its shape."""
        assert (x.channels, x.height, x.width) == (y.channels, y.height, y.width), f"{name}: shapes differ"
        return self._elementwise(name, "divide", 2 * x.elements, x)

    def loss(self, name: str, x: Tensor) -> Tensor:
        """Compare a softmax over the classes with the label: the end of the forward pass."""
        return self._elementwise(name, "loss", x.elements, x)

    def _trained(
        self, name: str, op: str, x: Tensor, y: Tensor, flop: float, parameters: int, shape: Mapping[str, int]
    ) -> Tensor:
        """Add a GEMM with weights: its two backward GEMMs cost as much as the forward one each."""
        data = flop if x.needs_gradient else 0.0
        return self._add(Layer(name, op, flop, data, flop, parameters, x.elements, y.elements, shape), y)

    def _elementwise(
        self, name: str, op: str, elements: int, y: Tensor, parameters: int = 0, shape: Mapping[str, int] | None = None
    ) -> Tensor:
        return self._add(Layer(name, op, 0.0, 0.0, 0.0, parameters, elements, y.elements, shape or {}), y)

    def _add(self, layer: Layer, y: Tensor) -> Tensor:
        self.layers.append(layer)
        return y


def window_pairs(tokens: int, window: int) -> float:
    """Return the pairs of tokens of which each sees itself and those before it in a window: a causal band.

    As behind any causal mask here, half of a pair of a token with itself is counted: tokens ** 2 / 2 without a window.

    >>> window_pairs(32_768, 4096) == 4096 * 32_768 - 4096**2 / 2, window_pairs(100, 4096)
    (True, 5000.0)
    """
    reach = min(window, tokens)
    return reach * tokens - reach**2 / 2


def chunk_pairs(tokens: int, chunk: int) -> float:
    """Return the pairs of tokens of which each sees itself and those before it in its own chunk of the sequence.

    >>> chunk_pairs(100, 40), chunk_pairs(100, 100)
    (1800.0, 5000.0)
    """
    whole, rest = divmod(tokens, chunk)
    return (whole * chunk**2 + rest**2) / 2


def pooled_size(size: int, kernel: int, stride: int, pad: int = 0, ceil: bool = False) -> int:
    """Return how many windows fit along one side.

    Caffe rounds up (`ceil`) and drops a last window that would start beyond the input and its left pad.

    >>> pooled_size(112, 3, 2), pooled_size(112, 3, 2, ceil=True)
    (55, 56)
    """
    spare = size + 2 * pad - kernel
    assert spare >= 0, f"a window of {kernel} does not fit into {size} with a pad of {pad}"
    if not ceil:
        return spare // stride + 1
    windows = -(-spare // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + pad else windows


def _share(layer: Layer, share: float) -> Layer:
    """Return a layer with a share of its FLOP."""
    return replace(layer, flop=layer.flop * share, flop_backward_data=layer.flop_backward_data * share)


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _gemm_shape(rows: int, inputs: int, outputs: int, count: int) -> dict[str, int]:
    return {"rows": rows, "inputs": inputs, "outputs": outputs, "count": count}


def _window(
    x: Tensor, kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, int], ceil: bool
) -> dict[str, int]:
    """Return the keys of the shape of a sliding window."""
    return {
        "channels": x.channels,
        "height": x.height,
        "width": x.width,
        "kernel_h": kernel[0],
        "kernel_w": kernel[1],
        "stride_h": stride[0],
        "stride_w": stride[1],
        "pad_h": pad[0],
        "pad_w": pad[1],
        "out_height": pooled_size(x.height, kernel[0], stride[0], pad[0], ceil),
        "out_width": pooled_size(x.width, kernel[1], stride[1], pad[1], ceil),
    }
