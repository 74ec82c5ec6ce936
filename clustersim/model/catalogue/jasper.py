"""Jasper 10x5 dense residual (Li et al., 2019): speech recognition by convolutions along time."""

from __future__ import annotations

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_FEATURES, _LETTERS = 64, 29
_FRAMES = 1232
"""A sample is 12.3 s of speech, LibriSpeech's mean (960 h in 281,241 utterances), a frame every 10 ms."""

_BLOCKS = ((256, 11), (384, 13), (512, 17), (640, 21), (768, 25))  # filters, kernel; two blocks of each
_REPEATS = 5


def jasper() -> Model:
    """Return Jasper 10x5 DR: ten blocks of five convolutions, each reading the inputs of all blocks before it.

    The last but one convolution is dilated by 2, which changes neither FLOP nor parameters.
    """
    source = "arXiv:1904.03288, table 1; NVIDIA, DeepLearningExamples, PyTorch/SpeechRecognition/Jasper/configs"
    net = Builder("jasper", "Jasper 10x5 DR, 12.3 s of speech", sample="sequence", source=source)
    x = _unit(net, "conv1", net.input(_FEATURES, 1, _FRAMES), 256, 11, stride=2)
    read: list[Tensor] = []
    for number, (filters, kernel) in enumerate(block for block in _BLOCKS for _ in range(2)):
        read.append(x)
        x = _block(net, f"block{number + 1}", x, read, filters, kernel)
    x = _unit(net, "conv2", x, 896, 29)
    x = _unit(net, "conv3", x, 1024, 1)
    net.loss("loss", net.softmax("softmax", net.conv("decoder", x, _LETTERS, 1)))
    return net.model()


def _block(net: Builder, name: str, x: Tensor, read: list[Tensor], filters: int, kernel: int) -> Tensor:
    for number in range(_REPEATS - 1):
        x = _unit(net, f"{name}.{number}", x, filters, kernel)
    x = _conv(net, f"{name}.{_REPEATS - 1}", x, filters, kernel)
    for number, earlier in enumerate(read):
        x = net.add(f"{name}.add{number}", x, _conv(net, f"{name}.residual{number}", earlier, filters, 1))
    return net.dropout(f"{name}.drop", net.relu(f"{name}.relu", x))


def _unit(net: Builder, name: str, x: Tensor, filters: int, kernel: int, stride: int = 1) -> Tensor:
    x = _conv(net, name, x, filters, kernel, stride)
    return net.dropout(f"{name}.drop", net.relu(f"{name}.relu", x))


def _conv(net: Builder, name: str, x: Tensor, filters: int, kernel: int, stride: int = 1) -> Tensor:
    y = net.conv(f"{name}.conv", x, filters, (1, kernel), (1, stride), (0, kernel // 2), bias=False)
    return net.batch_norm(f"{name}.bn", y)
