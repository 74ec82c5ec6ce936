"""AmoebaNet-D (Real et al., 2019) in the sizes of GPipe's measurements (Huang et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Pair, Tensor
from clustersim.model.layer import Model

_SOURCE = "arXiv:1802.01548, AmoebaNet-D; cells and their order as in torchgpipe, benchmarks/models/amoebanet"
_Step = tuple[int, str]
_NORMAL: tuple[tuple[_Step, _Step], ...] = (
    ((1, "conv_1x1"), (1, "mean_3x3")),
    ((1, "none"), (0, "conv_1x7_7x1")),
    ((0, "conv_1x1"), (0, "conv_1x7_7x1")),
    ((2, "mean_3x3"), (2, "none")),
    ((1, "mean_3x3"), (5, "conv_1x1")),
)
_REDUCTION: tuple[tuple[_Step, _Step], ...] = (
    ((0, "max_2x2"), (0, "mean_3x3")),
    ((2, "none"), (1, "conv_3x3")),
    ((2, "conv_1x7_7x1"), (2, "mean_3x3")),
    ((3, "none"), (1, "max_2x2")),
    ((2, "mean_3x3"), (3, "conv_1x1")),
)
_JOINED = {False: (0, 3, 4, 6), True: (4, 5, 6)}
"""States that a cell concatenates, in a normal and in a reduction cell."""


def amoebanet_d(num_layers: int, filters: int) -> Callable[[], Model]:
    """Return a builder of AmoebaNet-D (L, D): L normal cells in three groups, D / 4 channels in the first.

    Each cell reads the outputs of the two before it, and adds five pairs of operations on earlier states.
    """
    assert num_layers % 3 == 0, f"AmoebaNet-D has three groups of cells, and {num_layers} is not divisible by 3"

    def build() -> Model:
        name = f"amoebanet-d-{num_layers}-{filters}"
        net = Builder(name, f"AmoebaNet-D ({num_layers}, {filters})", source=_SOURCE)
        cells = _Cells(net, filters // 4)
        cells.stem()
        for group in range(3):
            cells.reduction(f"reduction{group}")
            if group == 0:
                cells.reduction("reduction-stem")
            for number in range(num_layers // 3):
                cells.normal(f"cell{group}.{number}")
        x = net.global_pool("avgpool", cells.last)
        net.loss("loss", net.fully_connected("fc", x, 1000))
        return net.model()

    return build


class _Cells:
    """A sequence of cells, with the outputs of the last two."""

    def __init__(self, net: Builder, channels: int):
        self.net, self.channels, self.was_reduction = net, channels, False

    def stem(self) -> None:
        x = self.net.conv("stem", self.net.input(3, 224, 224), self.channels, 3, 2, 1, bias=False)
        self.last = self.before = self.net.batch_norm("stem.bn", x)

    def reduction(self, name: str) -> None:
        self.channels *= 2
        self._cell(name, reduction=True)

    def normal(self, name: str) -> None:
        self._cell(name, reduction=False)

    def _cell(self, name: str, reduction: bool) -> None:
        net, channels = self.net, self.channels
        states = [_conv(net, f"{name}.last", self.last, channels), self._fitted(f"{name}.before")]
        for number, pair in enumerate(_REDUCTION if reduction else _NORMAL):
            parts = [
                _operation(net, f"{name}.{number}{side}", kind, states[state], 2 if reduction and state < 2 else 1)
                for side, (state, kind) in zip("ab", pair, strict=True)
            ]
            states.append(net.add(f"{name}.{number}", *parts))
        self.before, self.was_reduction = self.last, reduction
        self.last = net.concat(f"{name}.concat", *(states[state] for state in _JOINED[reduction]))

    def _fitted(self, name: str) -> Tensor:
        """Convert the output before the last one to the size and the channels of this cell."""
        x, channels = self.before, self.channels
        if self.was_reduction:
            x = self.net.relu(f"{name}.relu", x)
            halves = [self.net.conv(f"{name}.{half}", x, channels // 2, 1, 2, bias=False) for half in (1, 2)]
            return self.net.batch_norm(f"{name}.bn", self.net.concat(f"{name}.concat", *halves))
        return x if x.channels == channels else _conv(self.net, name, x, channels)


def _operation(net: Builder, name: str, kind: str, x: Tensor, stride: int) -> Tensor:
    quarter = x.channels // 4
    match kind:
        case "none":
            return x
        case "mean_3x3":
            return net.pool(name, x, 3, stride, 1, mean=True)
        case "max_2x2":
            return net.pool(name, x, 2, stride)
        case "conv_1x1":
            return _conv(net, name, x, x.channels, stride=stride)
        case "conv_3x3":
            y = _conv(net, f"{name}.1", x, quarter)
            y = _conv(net, f"{name}.2", y, quarter, 3, stride, 1)
            return _conv(net, f"{name}.3", y, x.channels)
        case _:
            y = _conv(net, f"{name}.1", x, quarter)
            y = _conv(net, f"{name}.2", y, quarter, (1, 7), (1, stride), (0, 3))
            y = _conv(net, f"{name}.3", y, quarter, (7, 1), (stride, 1), (3, 0))
            return _conv(net, f"{name}.4", y, x.channels)


def _conv(
    net: Builder, name: str, x: Tensor, filters: int, kernel: Pair = 1, stride: Pair = 1, pad: Pair = 0
) -> Tensor:
    y = net.conv(name, net.relu(f"{name}.relu", x), filters, kernel, stride, pad, bias=False)
    return net.batch_norm(f"{name}.bn", y)
