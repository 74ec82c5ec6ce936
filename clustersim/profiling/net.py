"""Builds a model in torch, layer by layer, with the layer names of the catalogue.

Every method takes the input of a layer and returns its output. Nothing is allocated before
`Graph.materialise`: until then all tensors are on torch's meta device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from clustersim.profiling import modules

Pair = int | tuple[int, int]
INPUT = -1


@dataclass(frozen=True)
class Value:
    """The output of a layer: the layer's number (`INPUT` for the model's input), and a meta tensor of one sample."""

    layer: int
    meta: Tensor

    @property
    def channels(self) -> int:
        """Channels of feature maps, features of a sequence."""
        return int(self.meta.shape[1 if self.meta.dim() == 4 else -1])


@dataclass
class NetLayer:
    """One layer: its name and kind as in the catalogue, its module, and the layers whose outputs it reads.

    `fused` names further layers of the catalogue whose work is part of this one's kernel.
    """

    name: str
    op: str
    module: nn.Module
    sources: tuple[int, ...]
    fused: tuple[str, ...] = ()
    last_uses: list[int] = field(default_factory=list)  # outputs without a reader after this layer


class NetGraph(nn.Module):
    """A model that runs its layers in order and ends in a loss.

    An output is released after its last reader, so that memory is that of the same model written by hand.
    """

    def __init__(self, layers: Sequence[NetLayer], sample: Tensor, num_classes: int):
        super().__init__()
        self.layers, self.sample, self.num_classes = tuple(layers), sample, num_classes
        self.members = nn.ModuleList(layer.module for layer in layers)
        readers = {source: layer for layer in layers for source in layer.sources}
        for source, layer in readers.items():
            layer.last_uses.append(source)

    @property
    def has_images(self) -> bool:
        """Whether samples are images, for which the order of channels in memory matters."""
        return self.sample.is_floating_point()

    def num_uses(self, index: int) -> int:
        """Return how many layers read the output of this one."""
        return sum(layer.sources.count(index) for layer in self.layers)

    def materialise(self, device: torch.device, layout: str) -> NetGraph:
        """Return this model with random weights on a device, channels last in memory where the layout is `nhwc`."""
        self.to_empty(device=device)
        for module in self.modules():
            reset = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
        return self.to(memory_format=torch.channels_last) if layout == "nhwc" else self

    def batch(self, size: int, device: torch.device, layout: str) -> tuple[Tensor, Tensor]:
        """Return random samples and their targets."""
        shape = (size, *self.sample.shape[1:])
        if not self.has_images:
            words = torch.randint(self.num_classes, (2, *shape), device=device)
            return words[0], words[1]
        images = torch.randn(shape, device=device)
        if layout == "nhwc":
            images = images.contiguous(memory_format=torch.channels_last)
        return images, torch.randint(self.num_classes, (size,), device=device)

    def forward(self, samples: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, summed over the heads."""
        values = {INPUT: samples}
        losses: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            inputs = [values[source] for source in layer.sources]
            for source in layer.last_uses:
                del values[source]
            if layer.op == "loss":
                losses.append(layer.module(*inputs, targets))
            else:
                values[index] = layer.module(*inputs)
            del inputs
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()


class TorchNet:
    """A model under construction; `graph()` returns it.

    >>> net = TorchNet()
    >>> x = net.image(3, 224, 224)
    >>> net.conv("conv1", x, 64, kernel=7, stride=2, pad=3).meta.shape
    torch.Size([1, 64, 112, 112])
    """

    def __init__(self) -> None:
        self.layers: list[NetLayer] = []
        self.sample = torch.empty(0)
        self.num_classes = 0

    def graph(self) -> NetGraph:
        """Return the model, on the meta device."""
        return NetGraph(self.layers, self.sample, self.num_classes)

    def image(self, channels: int, height: int, width: int) -> Value:
        """Return the input of a model of images."""
        self.sample = torch.empty(1, channels, height, width, device="meta")
        return Value(INPUT, self.sample)

    def words(self, tokens: int) -> Value:
        """Return the input of a model of sequences: word indices."""
        self.sample = torch.empty(1, tokens, dtype=torch.long, device="meta")
        return Value(INPUT, self.sample)

    def conv(
        self,
        name: str,
        x: Value,
        filters: int,
        kernel: Pair,
        stride: int = 1,
        pad: Pair = 0,
        groups: int = 1,
        bias: bool = True,
    ) -> Value:
        """Convolve feature maps with filters."""
        with torch.device("meta"):
            module = nn.Conv2d(x.channels, filters, kernel, stride, pad, groups=groups, bias=bias)
        return self._add(name, "convolution", module, x)

    def fully_connected(self, name: str, x: Value, outputs: int) -> Value:
        """Multiply all elements of a sample, flattened, by one matrix."""
        with torch.device("meta"):
            module = modules.Flat(x.meta.numel(), outputs)
        return self._add(name, "fully-connected", module, x)

    def linear(self, name: str, x: Value, outputs: int) -> Value:
        """Multiply each position's features by the same matrix."""
        with torch.device("meta"):
            module = nn.Linear(x.channels, outputs)
        return self._add(name, "fully-connected", module, x)

    def tied(self, name: str, x: Value, embedding: Value) -> Value:
        """Multiply each position's features by the matrix of an embedding."""
        owner = self.layers[embedding.layer].module
        assert isinstance(owner, modules.Embedding), f"{name} is tied to a layer that has no words"
        return self._add(name, "fully-connected", modules.Tied(owner), x)

    def embedding(self, name: str, x: Value, num_words: int, features: int, num_positions: int = 0) -> Value:
        """Look words up, and positions where there is a table of them."""
        with torch.device("meta"):
            module = modules.Embedding(num_words, num_positions, features)
        return self._add(name, "embedding", module, x)

    def lstm(self, name: str, x: Value, hidden: int) -> Value:
        """Run an LSTM layer along the sequence."""
        with torch.device("meta"):
            module = modules.Lstm(x.channels, hidden, batch_first=True)
        return self._add(name, "lstm", module, x)

    def attention(self, name: str, qkv: Value, heads: int, dropout: float, fused: tuple[str, ...]) -> Value:
        """Compute causal attention; `fused` are the catalogue's layers that the kernel includes."""
        return self._add(name, "attention", modules.Attention(heads, dropout), qkv, fused=fused)

    def max_pool(self, name: str, x: Value, kernel: int, stride: int, pad: int = 0, ceil: bool = False) -> Value:
        """Take the maximum of each window."""
        return self._add(name, "pooling", nn.MaxPool2d(kernel, stride, pad, ceil_mode=ceil), x)

    def mean_pool(self, name: str, x: Value, kernel: int, stride: int, pad: int = 0, ceil: bool = False) -> Value:
        """Take the mean of each window."""
        return self._add(name, "pooling", nn.AvgPool2d(kernel, stride, pad, ceil_mode=ceil), x)

    def global_pool(self, name: str, x: Value) -> Value:
        """Average each channel."""
        return self._add(name, "pooling", nn.AdaptiveAvgPool2d(1), x)

    def relu(self, name: str, x: Value) -> Value:
        """Replace negative values by zero, in place."""
        return self._add(name, "relu", nn.ReLU(inplace=True), x)

    def gelu(self, name: str, x: Value) -> Value:
        """Weight by the normal distribution, in GPT-2's form with tanh."""
        return self._add(name, "gelu", nn.GELU(approximate="tanh"), x)

    def lrn(self, name: str, x: Value) -> Value:
        """Divide by five neighbouring channels' energy."""
        return self._add(name, "lrn", nn.LocalResponseNorm(5), x)

    def batch_norm(self, name: str, x: Value) -> Value:
        """Normalise each channel over the batch."""
        with torch.device("meta"):
            module = nn.BatchNorm2d(x.channels)
        return self._add(name, "batch-norm", module, x)

    def layer_norm(self, name: str, x: Value) -> Value:
        """Normalise each position over its features."""
        with torch.device("meta"):
            module = nn.LayerNorm(x.channels)
        return self._add(name, "layer-norm", module, x)

    def dropout(self, name: str, x: Value, share: float = 0.5) -> Value:
        """Drop a share of the elements."""
        return self._add(name, "dropout", nn.Dropout(share), x)

    def concat(self, name: str, *branches: Value) -> Value:
        """Concatenate branches along the channels."""
        return self._add(name, "concat", modules.Concat(), *branches)

    def add(self, name: str, x: Value, y: Value, inplace: bool = False) -> Value:
        """Add two tensors of one shape, into the first one where `inplace`."""
        return self._add(name, "add", modules.Add(inplace), x, y)

    def loss(self, name: str, x: Value, weight: float = 1.0) -> None:
        """End with a cross entropy; the losses of several heads are added with their weights."""
        self.num_classes = int(x.meta.shape[1 if x.meta.dim() == 4 else -1])
        self.layers.append(NetLayer(name, "loss", modules.Loss(weight), (x.layer,)))

    def _add(self, name: str, op: str, module: nn.Module, *inputs: Value, fused: tuple[str, ...] = ()) -> Value:
        output = module.eval()(*(x.meta.clone() for x in inputs))
        self.layers.append(NetLayer(name, op, module.train(), tuple(x.layer for x in inputs), fused))
        return Value(len(self.layers) - 1, output.detach())
