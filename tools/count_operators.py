"""Counts the operators that PyTorch issues in eager mode, by kind of layer, for models and for optimizers.

    python tools/count_operators.py > clustersim/software/operator_counts.yaml

Operators are those that a `TorchDispatchMode` sees below autograd and autocast, on fake tensors of a CUDA device.
Shapes, types and dispatch are those of a GPU, but no kernel runs. A build of torch for CPUs has no such device, so a
guard and hooks that do nothing are compiled for it (g++, two seconds). `kernels` are operators that launch at least one
kernel, `host_only` those that launch none (views, empty tensors), `launches` the kernels of the former, of which some
have several (`SEVERAL`), and `nodes` the autograd nodes that run. Backward counts include what autograd adds itself:
the sum at a fork of a residual connection, and a view of each parameter's gradient.

Left out: kernels inside cuBLAS and cuDNN beyond the first (layout changes, sums of split reductions), the second kernel
of a large reduction, and everything that a data loader or a logger issues.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

GUARD = r"""
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
using c10::Device; using c10::DeviceIndex; using c10::DeviceType; using c10::Stream;
struct Guard : c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Stream stream() const noexcept { return Stream(Stream::DEFAULT, Device(DeviceType::CUDA, 0)); }
  Device getDevice() const override { return Device(DeviceType::CUDA, 0); }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Stream getStream(Device) const noexcept override { return stream(); }
  Stream getDefaultStream(Device) const override { return stream(); }
  Stream exchangeStream(Stream) const noexcept override { return stream(); }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};
static const Guard guard;
static c10::impl::DeviceGuardImplRegistrar registrar(DeviceType::CUDA, &guard);
namespace at {
struct CUDAHooks : CUDAHooksInterface {
  CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  bool hasCuDNN() const override { return true; }
  bool compiledWithCuDNN() const override { return true; }
  long versionCuDNN() const override { return 91000; }
  long versionRuntimeCuDNN() const override { return 91000; }
  double batchnormMinEpsilonCuDNN() const override { return 0.0; }
  bool supportsDilatedConvolutionWithCuDNN() const override { return true; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);
}
"""


def pretend_cuda() -> None:
    """Give torch for CPUs a CUDA device that does nothing; call it before torch is imported."""
    assert "torch" not in sys.modules, "torch has been imported and has looked for CUDA already"
    spec = importlib.util.find_spec("torch")
    assert spec is not None, "torch is not installed"
    assert spec.origin is not None
    torch_folder = Path(spec.origin).parent
    libraries = torch_folder / "lib"
    if (libraries / "libtorch_cuda.so").exists():
        return  # fake tensors of such a build have a guard of their own
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(libraries / name), ctypes.RTLD_GLOBAL)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "guard.cpp"), Path(folder, "guard.so")
        source.write_text(GUARD)
        flags = ["-O0", "-std=c++20", "-shared", "-fPIC", f"-I{torch_folder / 'include'}", f"-L{libraries}"]
        subprocess.run(["g++", *flags, source, "-lc10", "-ltorch_cpu", "-o", library], check=True)
        ctypes.CDLL(str(library))


if __name__ == "__main__":
    pretend_cuda()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

HOST_ONLY = {
    "_conj", "_local_scalar_dense", "_reshape_alias", "_unsafe_view", "alias", "as_strided", "detach", "diagonal",
    "empty", "empty_like", "empty_strided", "expand", "lift_fresh", "new_empty", "new_empty_strided", "permute",
    "resize_", "select", "set_", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind",
    "unsafe_split", "unsqueeze", "view", "view_as_complex", "view_as_real",
}  # fmt: skip
"""Operators that launch no kernel: views, tensors without values, reading a number that is on the host."""

CUDA = "pytorch/pytorch, aten/src/ATen/native/cuda/"
FLASH = "Dao-AILab/flash-attention, csrc/flash_attn/src/"
SEVERAL: dict[str, tuple[Callable[[tuple[Any, ...]], int], str]] = {
    "convolution": (lambda args: 1 + (args[2] is not None), "cuDNN's, then the bias: ATen/native/Convolution.cpp"),
    "convolution_backward": (lambda args: sum(args[-1]), "one for each gradient: ATen/native/Convolution.cpp"),
    "native_layer_norm_backward": (lambda args: 2, f"input, then scale and shift: {CUDA}layer_norm_kernel.cu"),
    "_fused_rms_norm_backward": (lambda args: 2, f"input, then scale: {CUDA}layer_norm_kernel.cu"),
    "native_group_norm": (lambda args: 3, f"moments, factors, result: {CUDA}group_norm_kernel.cu"),
    "native_group_norm_backward": (lambda args: 4, f"assumed: sums, factors, input, scale: {CUDA}group_norm_kernel.cu"),
    "native_batch_norm": (lambda args: 3, f"moments, running moments, result: {CUDA}Normalization.cu"),
    "native_batch_norm_backward": (lambda args: 2, f"sums, then input: {CUDA}Normalization.cu"),
    "nll_loss_backward": (lambda args: 2, f"zeros, then those of the targets: {CUDA}NLLLoss.cu"),
    "max_pool2d_with_indices_backward": (lambda args: 2, f"zeros, then sums: {CUDA}DilatedMaxPool2d.cu"),
    "slice_backward": (lambda args: 2, "zeros, then a copy: ATen/native/TensorShape.cpp"),
    "embedding_dense_backward": (
        lambda args: 2 if args[1].numel() <= 3072 else 15,
        f"zeros, sums up to 3,072 indices: {CUDA}Embedding.cu; assumed: 15 beyond, which sort and find segments",
    ),
    "_scaled_dot_product_flash_attention_backward": (
        lambda args: 3,
        f"row sums, gradients, cast of the query's: {FLASH}flash_bwd_launch_template.h",
    ),
    "_scaled_dot_product_efficient_attention_backward": (
        lambda args: 2,
        "assumed: row sums, gradients: pytorch/pytorch, aten/src/ATen/native/transformers/cuda/attention_backward.cu",
    ),
}  # fmt: skip
"""Operators that launch several kernels: the number from their arguments, and the source."""


class Counts(NamedTuple):
    """Operators that launch kernels, kernels that they launch, and operators that launch none."""

    kernels: int = 0
    launches: int = 0
    host_only: int = 0

    def minus(self, other: Counts) -> Counts:
        return Counts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def _cudnn_rnn_backward(
    x: Tensor, weights: list[Tensor], stride: int, buffer: Tensor, h: Tensor, c: Tensor, *_: Any
) -> Any:
    return torch.empty_like(x), torch.empty_like(h), torch.empty_like(c), [torch.empty_like(each) for each in weights]


def _fused_rms_norm(x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty(*x.shape[:-1], 1)


UNKNOWN: dict[str, Callable[..., Any]] = {
    "_cudnn_rnn_backward": _cudnn_rnn_backward,
    "_fused_rms_norm": _fused_rms_norm,
    "_fused_sgd_": lambda *args, **kwargs: None,
    "_fused_rms_norm_backward": lambda gradient, x, shape, rstd, weight, mask: (
        torch.empty_like(x),
        torch.empty_like(weight),
    ),
}
"""What fake tensors return for operators that they do not know."""

ONE_ON_CUDA = ("silu_backward", "_fused_rms_norm")
"""Operators with a kernel on CUDA, which torch for CPUs takes apart unless one is stated (`state_kernels`)."""


def state_kernels() -> torch.library.Library:
    """Register kernels that are never run for `ONE_ON_CUDA`, as long as what is returned lives."""
    library = torch.library.Library("aten", "IMPL")
    for name in ONE_ON_CUDA:
        library.impl(name, lambda *args: args[0], "CUDA")
    return library


class Recorder(TorchDispatchMode):
    """Counts the operators that pass below autograd and autocast, by name too."""

    paused = False

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.calls: list[tuple[str, int, int]] = []
        self.counts = Counts()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        overload = func._schema.overload_name
        if func.namespace == "aten" and not Recorder.paused:
            self.names[name] += 1
            self._count(f"{name}.{overload}" if "foreach" in name and overload else name, args, func)
        return UNKNOWN[name](*args, **(kwargs or {})) if name in UNKNOWN else func(*args, **(kwargs or {}))

    def _count(self, name: str, args: tuple[Any, ...], func: Any) -> None:
        kernels, launches, host_only = self.counts
        lists = [each for each in args if isinstance(each, (list, tuple)) and each and isinstance(each[0], Tensor)]
        first = lists[0][0] if lists else next((each for each in args if isinstance(each, Tensor)), None)
        if first is not None and first.device.type == "cpu":
            self.counts = Counts(kernels, launches, host_only + (len(lists[0]) if lists else 1))
        elif name in HOST_ONLY:
            self.counts = Counts(kernels, launches, host_only + 1)
        else:
            several = SEVERAL.get(name)
            returns_list = any(str(each.type) == "List[Tensor]" for each in func._schema.returns)
            self.calls.append((name, len(lists) + returns_list, len(lists[0]) if lists else 0))
            self.counts = Counts(kernels + 1, launches + (several[0](args) if several else 1), host_only)


class _Input(torch.autograd.Function):
    """The output of the layer before, whose own backward pass is not counted."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor) -> Tensor:
        return leaf.view_as(leaf)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None


class _Branch(torch.autograd.Function):
    """What lies between a fork and its join, of which nothing is counted; `dtype` is what it writes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.gradient = given(*x.shape, dtype=x.dtype)
        return given(*x.shape, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return ctx.gradient, None


def given(*size: int, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor that is there already and is not counted."""
    before, Recorder.paused = Recorder.paused, True
    try:
        return torch.empty(size, dtype=dtype)
    finally:
        Recorder.paused = before


def _input(*size: int, dtype: torch.dtype) -> Tensor:
    result: Tensor = _Input.apply(torch.empty(size, dtype=dtype, requires_grad=True))
    return result


Layers = Callable[..., Any]


class Kind(NamedTuple):
    """A kind of layer: makes its module or function, and the sizes of its inputs.

    The first `wide` inputs have 32 bits under autocast, as behind a norm. The last input of an embedding or a loss is
    of integers.
    """

    make: Callable[[], Layers]
    sizes: tuple[tuple[int, ...], ...] = ((8, 32, 64),)
    wide: int = 0
    gradient: bool = True
    about: str = ""


IMAGES = ((4, 16, 12, 12),)
PROJECTED = ((2, 32, 64),) * 3
"""Sizes of query, key and value as they are projected: sequences, tokens, features of four heads."""
HEADS = ((2, 32, 4, 16),) * 2
"""The same of query and key, with their heads."""


def _heads(x: Tensor) -> Tensor:
    """Give four heads to features that have none yet."""
    return x.view(*x.shape[:2], 4, -1) if x.dim() == 3 else x


def _matmul_scores(query: Tensor, key: Tensor) -> Tensor:
    query, key = _heads(query), _heads(key)
    return torch.matmul(query.transpose(1, 2), key.transpose(1, 2).transpose(-1, -2))


def _matmul_context(weights: Tensor, value: Tensor) -> Tensor:
    context = torch.matmul(weights, _heads(value).transpose(1, 2)).transpose(1, 2).contiguous()
    return context.view(context.shape[0], context.shape[1], -1)


def _masked_softmax(scores: Tensor) -> Tensor:
    mask = given(*scores.shape[-2:], dtype=scores.dtype)
    return torch.softmax(scores * 0.25 + mask, -1)


def flash_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0) -> Tensor:
    """Attend as `scaled_dot_product_attention` does on a GPU, whose choice of kernel has no fake tensors.

    FlashAttention takes 16 bits, and the memory-efficient kernel 32. Autocast casts its inputs to 16 bits.
    """
    if torch.is_autocast_enabled("cuda"):
        query, key, value = (each.to(torch.bfloat16) for each in (query, key, value))
    operators = torch.ops.aten
    if query.dtype == torch.float32:
        efficient = operators._scaled_dot_product_efficient_attention
        return efficient(query, key, value, None, True, dropout, True)[0]
    return operators._scaled_dot_product_flash_attention(query, key, value, dropout, True)[0]


def _sdpa(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    context = flash_attention(*(_heads(each).transpose(1, 2) for each in (query, key, value))).transpose(1, 2)
    return context.reshape(context.shape[0], context.shape[1], -1)


class ExplicitAttention(nn.Module):
    """Matrix product, scale, mask, softmax, dropout, matrix product."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights = F.dropout(_masked_softmax(_matmul_scores(query, key)), 0.1)
        return _matmul_context(weights, value)


class RmsNorm(nn.Module):
    """Divide by the root of the mean square, step by step in 32 bits, as in transformers' Llama."""

    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def rotary(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate the two halves of a head's features, as in transformers' Llama."""
    cos, sin = (given(query.shape[1], 1, query.shape[-1], dtype=query.dtype) for _ in range(2))
    return _rotate(query, cos, sin), _rotate(key, cos, sin)


def rotary_complex(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Multiply pairs of features by complex numbers of 32 bits, as in Meta's Llama."""
    angle = given(query.shape[1], 1, query.shape[-1] // 2, dtype=torch.complex64)
    wide = (torch.view_as_complex(each.float().reshape(*each.shape[:-1], -1, 2)) for each in (query, key))
    turned = [torch.view_as_real(each * angle).flatten(3) for each in wide]
    return turned[0].type_as(query), turned[1].type_as(key)


class Embedding(nn.Module):
    """Look up tables and add, as many as given; positions are a range."""

    def __init__(self, tables: int):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100, 64) for _ in range(tables))

    def forward(self, words: Tensor) -> Tensor:
        first, *others = self.tables
        x: Tensor = first(words)
        for number, table in enumerate(others):
            x = x + table(torch.arange(words.shape[1]) if number == 0 else words)
        return x


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class _Lstm(nn.Module):
    """cuDNN's LSTM: one operator, whose weights lie in one buffer."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((256, 64), (256, 64), (256,), (256,))
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(size)) for size in sizes)
        self.buffer = torch.empty(sum(each.numel() for each in self.weights))

    def forward(self, x: Tensor) -> Tensor:
        hidden, cell = (torch.zeros(1, x.shape[1], 64, dtype=x.dtype) for _ in range(2))
        result: Tensor = torch._cudnn_rnn(
            x, list(self.weights), 4, self.buffer, hidden, cell, 2, 64, 0, 1, False, 0.0, True, False, [], None
        )[0]
        return result


MAMBA = "state-spaces/mamba, "
SCAN_SOURCES = {
    "causal-convolution": "assumed: Dao-AILab/causal-conv1d, csrc/causal_conv1d.cpp",
    "selective-scan": f"{MAMBA}mamba_ssm/ops/selective_scan_interface.py and csrc/selective_scan/selective_scan.cpp",
    "chunked-scan": f"{MAMBA}mamba_ssm/ops/triton/ssd_combined.py; backward assumed: twenty",
}


def _kernels(x: Tensor, number: int) -> Tensor:
    """Issue as many kernels of another library, whose tensors are not counted."""
    for _ in range(number):
        x = torch.neg(x)
    return x


class _CausalConvolution(torch.autograd.Function):
    """causal-conv1d: a kernel; backward zeros for both gradients of parameters, a kernel, and casts of 16 bits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(weight, bias)
        return _kernels(x, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        of_parameters = [torch.zeros_like(each, dtype=torch.float32) for each in ctx.saved_tensors]
        parameters = zip(of_parameters, ctx.saved_tensors, strict=True)
        return _kernels(gradients[0], 1), *(each.to(given.dtype) for each, given in parameters)


class _SelectiveScan(torch.autograd.Function):
    """Mamba's scan: both matrices are copied; backward zeros for five gradients, and casts of the matrices' two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrices: Tensor, decay: Tensor, skip: Tensor) -> Tensor:
        ctx.save_for_backward(matrices, decay, skip)
        both = [half.transpose(1, 2).contiguous() for half in matrices.chunk(2, -1)]
        del both
        return _kernels(x, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        matrices, decay, skip = ctx.saved_tensors
        of_parameters = [torch.zeros_like(each) for each in (decay, skip, skip)]
        both = [torch.zeros_like(half, dtype=torch.float32) for half in matrices.chunk(2, -1)]
        of_matrices = torch.cat([half.to(matrices.dtype) for half in both], -1)
        return _kernels(gradients[0], 1), of_matrices, *of_parameters[:2]


class _ChunkedScan(torch.autograd.Function):
    """Mamba-2's scan: sums of decays, states of chunks, states passed on, scores, results."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrices: Tensor, decay: Tensor, skip: Tensor) -> Tensor:
        ctx.save_for_backward(matrices, decay, skip)
        return _kernels(x, 5)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _kernels(gradients[0], 20), *(torch.empty_like(each) for each in ctx.saved_tensors)


class Scan(nn.Module):
    """A layer along the tokens with two parameters, run by a function; `reads` says that it reads matrices too."""

    def __init__(self, function: Any, reads: bool):
        super().__init__()
        self.function, self.reads = function, reads
        self.first, self.second = (nn.Parameter(torch.empty(64)) for _ in range(2))

    def forward(self, x: Tensor, *matrices: Tensor) -> Tensor:
        result: Tensor = self.function.apply(x, *matrices, self.first, self.second)
        return result


SCANNED = ((8, 32, 64), (8, 32, 32))
KINDS: dict[str, Kind] = {
    "fully-connected": Kind(lambda: nn.Linear(64, 64), about="with a bias; three dimensions, as in a transformer"),
    "fully-connected.no-bias": Kind(lambda: nn.Linear(64, 64, bias=False)),
    "fully-connected.after-norm": Kind(lambda: nn.Linear(64, 64), wide=1, about="autocast casts the norm's 32 bits"),
    "fully-connected.after-norm.no-bias": Kind(lambda: nn.Linear(64, 64, bias=False), wide=1),
    "fully-connected.two-dimensions": Kind(lambda: nn.Linear(64, 64), ((8, 64),), about="a classifier of images"),
    "convolution": Kind(lambda: nn.Conv2d(16, 16, 3), IMAGES, about="with a bias"),
    "convolution.no-bias": Kind(lambda: nn.Conv2d(16, 16, 3, bias=False), IMAGES),
    "convolution.first": Kind(lambda: nn.Conv2d(16, 16, 3), IMAGES, 1, False, about="no gradient of its input"),
    "convolution.first.no-bias": Kind(lambda: nn.Conv2d(16, 16, 3, bias=False), IMAGES, 1, False),
    "matmul.scores": Kind(lambda: _matmul_scores, PROJECTED[:2], about="heads are views: copied before the product"),
    "matmul.context": Kind(
        lambda: _matmul_context, ((2, 4, 32, 32), PROJECTED[0]), 1, about="and one copy of its result"
    ),
    "attention.explicit": Kind(ExplicitAttention, PROJECTED, about="scores, scale, mask, softmax, dropout, context"),
    "attention.fused": Kind(lambda: _sdpa, PROJECTED, about="FlashAttention; memory-efficient where 32 bits"),
    "embedding": Kind(lambda: Embedding(1), about="one table"),
    "embedding.positions": Kind(lambda: Embedding(2), about="words and positions"),
    "embedding.positions.segments": Kind(lambda: Embedding(3), about="words, positions and segments"),
    "layer-norm": Kind(lambda: nn.LayerNorm(64), wide=1),
    "rms-norm": Kind(lambda: nn.RMSNorm(64), wide=1, about="F.rms_norm, one operator since torch 2.9"),
    "rms-norm.explicit": Kind(lambda: RmsNorm(64), wide=1, about="step by step"),
    "batch-norm": Kind(lambda: nn.BatchNorm2d(16), IMAGES, about="with the count of its batches"),
    "group-norm": Kind(lambda: nn.GroupNorm(4, 16), IMAGES, wide=1),
    "lrn": Kind(lambda: nn.LocalResponseNorm(5), IMAGES),
    "relu": Kind(nn.ReLU, IMAGES),
    "gelu": Kind(nn.GELU),
    "tanh": Kind(lambda: torch.tanh),
    "silu": Kind(lambda: lambda gate, x: F.silu(gate) * x, ((8, 32, 64),) * 2, about="the gate: SiLU, product"),
    "softmax": Kind(lambda: lambda x: torch.softmax(x, -1), about="alone, or a fused one with scale and mask"),
    "softmax.masked": Kind(lambda: _masked_softmax, about="scale, mask, softmax"),
    "dropout": Kind(lambda: nn.Dropout(0.1)),
    "add": Kind(
        lambda: _residual, wide=1, about="a residual connection: the sum, and the sum of gradients at its fork"
    ),
    "add.images": Kind(lambda: _residual, IMAGES, about="both of 16 bits under autocast, as behind batch norms"),
    "fork": Kind(lambda: _fork, about="one more reader of a tensor, such as key beside query: the sum of gradients"),
    "split": Kind(lambda: lambda x: x.split(16, -1), about="a tensor in parts, such as query, key and value"),
    "multiply": Kind(lambda: lambda x, y: x * y, ((8, 32, 64),) * 2),
    "divide": Kind(lambda: lambda x, y: x / y, ((8, 32, 64),) * 2),
    "rotary": Kind(lambda: rotary, HEADS, about="queries and keys: halves, transformers' Llama"),
    "rotary.complex": Kind(lambda: rotary_complex, HEADS, about="queries and keys: complex, Meta's Llama"),
    "pooling": Kind(lambda: nn.MaxPool2d(3, 2), IMAGES, about="the maximum"),
    "pooling.mean": Kind(lambda: nn.AvgPool2d(3, 2), IMAGES),
    "pooling.global": Kind(lambda: lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), IMAGES),
    "causal-convolution": Kind(
        lambda: Scan(_CausalConvolution, False), SCANNED[:1], about=SCAN_SOURCES["causal-convolution"]
    ),
    "selective-scan": Kind(lambda: Scan(_SelectiveScan, True), SCANNED, about=SCAN_SOURCES["selective-scan"]),
    "chunked-scan": Kind(lambda: Scan(_ChunkedScan, True), SCANNED, about=SCAN_SOURCES["chunked-scan"]),
    "concat": Kind(lambda: lambda *branches: torch.cat(branches, 1), IMAGES * 4, about="four branches"),
    "lstm": Kind(_Lstm, ((32, 8, 64),), about="a layer; launches of cuDNN's are not counted"),
    "loss": Kind(lambda: _loss, ((8, 32, 64),), about="cross entropy of three dimensions, with backward()'s one"),
}


def _residual(x: Tensor) -> Tensor:
    low = torch.bfloat16 if torch.is_autocast_enabled("cuda") else x.dtype
    branch: Tensor = _Branch.apply(x, low)
    return x + branch


def _fork(x: Tensor) -> tuple[Tensor, Tensor]:
    first: Tensor = _Branch.apply(x, x.dtype)
    second: Tensor = _Branch.apply(x, x.dtype)
    return first, second


MODES = {
    "fp32": "weights and activations of 32 bits (or TF32)",
    "bf16": "weights and activations of 16 bits, no autocast",
    "autocast": "torch.autocast to bf16 with weights of 32 bits, the first use of each weight in the context",
    "autocast-reused": "the same, a later use of the weights in the same context, whose casts are cached",
}


@contextmanager
def mode_of(mode: str) -> Iterator[None]:
    """Set the default type, and autocast as `torch.autocast("cuda")` does, which refuses without a GPU."""
    wide = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if mode == "bf16" else torch.float32)
    if mode.startswith("autocast"):
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        torch.set_autocast_cache_enabled(True)
        torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if mode.startswith("autocast"):
            torch.autocast_decrement_nesting()
            torch.clear_autocast_cache()
            torch.set_autocast_enabled("cuda", False)
        torch.set_default_dtype(wide)


class Passes(NamedTuple):
    """What one forward and one backward pass issue."""

    forward: Counts
    backward: Counts
    nodes: int
    parameters: int
    names: Counter[str]


def _nodes(outputs: Any) -> int:
    """Count the autograd nodes that a backward pass runs."""
    seen = set()
    todo = [each.grad_fn for each in outputs]
    while todo:
        node = todo.pop()
        if node is None or node in seen or node.name() in ("_InputBackward", "_BranchBackward"):
            continue
        seen.add(node)
        todo += [each for each, _ in node.next_functions]
    return len(seen)


def count_passes(layers: Layers, inputs: Callable[[], tuple[Tensor, ...]], mode: str) -> Passes:
    """Count one forward and one backward pass, in the mode's autocast context as a training loop has it."""
    once = _count(layers, inputs, mode, 1)
    if mode != "autocast-reused":
        return once
    twice = _count(layers, inputs, mode, 2)
    return twice._replace(backward=twice.backward.minus(once.backward), nodes=once.nodes, names=Counter())


def _count(layers: Layers, inputs: Callable[[], tuple[Tensor, ...]], mode: str, times: int) -> Passes:
    """Count the last of some forward passes in one context, and the backward pass through all of them."""
    outputs: list[Tensor] = []
    with mode_of(mode):
        for _ in range(times):
            taken = inputs()
            with Recorder() as forward:
                output = layers(*taken)
            outputs += output if isinstance(output, tuple) else (output,)
    nodes = _nodes(outputs)
    parameters = list(layers.parameters()) if isinstance(layers, nn.Module) else []
    gradients = None if outputs[0].dim() == 0 else [torch.empty_like(each) for each in outputs]
    with Recorder() as backward:
        torch.autograd.backward(outputs, gradients)
    for parameter in parameters:
        parameter.grad = None
    return Passes(forward.counts, backward.counts, nodes, len(parameters), forward.names + backward.names)


def _inputs(name: str, kind: Kind, mode: str) -> Callable[[], tuple[Tensor, ...]]:
    def dtype_of(number: int) -> torch.dtype:
        narrow = mode == "bf16" or (mode.startswith("autocast") and number >= kind.wide)
        return torch.bfloat16 if narrow else torch.float32

    def make() -> tuple[Tensor, ...]:
        if name.startswith("embedding"):
            return (torch.empty(8, 32, dtype=torch.int64),)
        tensors = tuple(
            (_input if kind.gradient else given)(*size, dtype=dtype_of(number))
            for number, size in enumerate(kind.sizes)
        )
        return (*tensors, torch.empty(8, 32, dtype=torch.int64)) if name == "loss" else tensors

    return make


def count_kind(name: str, mode: str) -> Passes:
    """Count a kind of layer in a mode."""
    kind = KINDS[name]
    with FakeTensorMode(), torch.device("cuda"), _default_type(mode):
        return count_passes(kind.make(), _inputs(name, kind, mode), mode)


@contextmanager
def _default_type(mode: str) -> Iterator[None]:
    wide = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if mode == "bf16" else torch.float32)
    yield
    torch.set_default_dtype(wide)


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions; the first of a stage has a projection beside it."""

    def __init__(self, inputs: int, width: int, stride: int, projects: bool):
        super().__init__()
        sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(read, written, kernel, step, kernel // 2, bias=False) for read, written, kernel, step in sizes
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(written) for _, written, _, _ in sizes)
        shortcut = (nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Sequential(*shortcut) if projects else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = norm(convolution(y))
            y = self.relu(y) if number < 2 else y
        return self.relu(y + self.shortcut(x))


def resnet50() -> nn.Module:
    """ResNet-50 (He et al., 2015) with its classifier."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for number in range(count):
            layers.append(Bottleneck(inputs, width, 2 if stage and not number else 1, not number))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def _classifier(inputs: int) -> list[nn.Module]:
    """The three layers of AlexNet's and VGG's end."""
    layers: list[nn.Module] = [nn.Flatten()]
    for read, written in ((inputs, 4096), (4096, 4096)):
        layers += [nn.Linear(read, written), nn.ReLU(inplace=True), nn.Dropout()]
    return [*layers, nn.Linear(4096, 1000)]


def vgg16() -> nn.Module:
    """VGG-16 (Simonyan and Zisserman, 2014)."""
    layers: list[nn.Module] = []
    inputs = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *_classifier(512 * 49))


def alexnet() -> nn.Module:
    """AlexNet, as Krizhevsky (2014) has it on one GPU, without normalisation."""
    layers: list[nn.Module] = []
    sizes = [(3, 64, 11, 4, 2, True), (64, 192, 5, 1, 2, True), (192, 384, 3, 1, 1, False)]
    sizes += [(384, 256, 3, 1, 1, False), (256, 256, 3, 1, 1, True)]
    for read, written, kernel, stride, pad, pools in sizes:
        layers += [nn.Conv2d(read, written, kernel, stride, pad), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(3, 2)] if pools else []
    return nn.Sequential(*layers, *_classifier(256 * 36))


class Block(nn.Module):
    """A transformer's block: GPT-2's, BERT's or Llama's, with explicit or fused attention."""

    def __init__(self, family: str, fused: bool, width: int = 64):
        super().__init__()
        gated, joint = family == "llama", family == "gpt2"
        self.family, self.fused, self.joint, self.gated = family, fused, joint, gated
        norm: Any = RmsNorm if gated else nn.LayerNorm
        bias = not gated
        self.norms = nn.ModuleList([norm(width), norm(width)])
        parts = [3 * width] if joint else [width] * 3
        self.projections = nn.ModuleList([nn.Linear(width, part, bias=bias) for part in parts])
        self.output = nn.Linear(width, width, bias=bias)
        self.into = nn.ModuleList([nn.Linear(width, 4 * width, bias=bias) for _ in range(1 + gated)])
        self.out = nn.Linear(4 * width, width, bias=bias)

    def attend(self, x: Tensor) -> Tensor:
        parts = [each(x) for each in self.projections]
        parts = list(parts[0].split(x.shape[-1], -1)) if self.joint else parts
        query, key, value = parts
        if self.gated:
            query, key = rotary(_heads(query), _heads(key))
        y = _sdpa(query, key, value) if self.fused else ExplicitAttention()(query, key, value)
        return self.drop(self.output(y))

    def drop(self, x: Tensor) -> Tensor:
        return x if self.gated else F.dropout(x, 0.1)

    def feed(self, x: Tensor) -> Tensor:
        parts = [each(x) for each in self.into]
        y = F.silu(parts[0]) * parts[1] if self.gated else F.gelu(parts[0])
        return self.drop(self.out(y))

    def forward(self, x: Tensor) -> Tensor:
        if self.family == "bert":  # norms behind the sums
            x = self.norms[0](x + self.attend(x))
            return self.norms[1](x + self.feed(x))
        x = x + self.attend(self.norms[0](x))
        return x + self.feed(self.norms[1](x))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet50": (resnet50, (2, 3, 224, 224)),
    "vgg16": (vgg16, (2, 3, 224, 224)),
    "alexnet": (alexnet, (2, 3, 224, 224)),
    "gpt2-block": (lambda: Block("gpt2", fused=False), (2, 32, 64)),
    "gpt2-block.fused": (lambda: Block("gpt2", fused=True), (2, 32, 64)),
    "bert-block": (lambda: Block("bert", fused=False), (2, 32, 64)),
    "bert-block.fused": (lambda: Block("bert", fused=True), (2, 32, 64)),
    "llama-block": (lambda: Block("llama", fused=True), (2, 32, 64)),
}
"""Whole models of images without their loss, and blocks of transformers, with the size of their input."""

_BLOCK = {"fully-connected": 2, "gelu": 1, "dropout": 2, "add": 2, "layer-norm": 2}
_BERT = _BLOCK | {"fully-connected.after-norm": 4, "fork": 2}
_GPT = _BLOCK | {"fully-connected.after-norm": 2, "split": 1}
_CLASSIFIER = {"dropout": 2, "fully-connected.two-dimensions": 3}
_RESNET = {"convolution.first.no-bias": 1, "convolution.no-bias": 52, "batch-norm": 53, "relu": 49, "add.images": 16}
_LLAMA = {"fully-connected.after-norm.no-bias": 5, "fully-connected.no-bias": 2, "rms-norm.explicit": 2, "fork": 3}
COMPOSITION: dict[str, dict[str, int]] = {
    "resnet50": {**_RESNET, "pooling": 1, "pooling.global": 1, "fully-connected.two-dimensions": 1},
    "vgg16": {**_CLASSIFIER, "convolution.first": 1, "convolution": 12, "relu": 15, "pooling": 5},
    "alexnet": {**_CLASSIFIER, "convolution.first": 1, "convolution": 4, "relu": 7, "pooling": 3},
    "gpt2-block": {**_GPT, "attention.explicit": 1},
    "gpt2-block.fused": {**_GPT, "attention.fused": 1},
    "bert-block": {**_BERT, "attention.explicit": 1},
    "bert-block.fused": {**_BERT, "attention.fused": 1},
    "llama-block": {**_LLAMA, "rotary": 1, "attention.fused": 1, "silu": 1, "add": 2},
}
"""The kinds of layers of each model, to compare their sum with what is counted."""


def count_model(name: str, mode: str) -> Passes:
    """Count a model of `MODELS` in a mode."""
    make, size = MODELS[name]
    is_image = len(size) == 4
    with FakeTensorMode(), torch.device("cuda"), _default_type(mode):
        dtype = torch.bfloat16 if mode == "bf16" else torch.float32
        return count_passes(make(), lambda: ((given if is_image else _input)(*size, dtype=dtype),), mode)


OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd-momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
}
IMPLEMENTATIONS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


DEPTHS = {"_fused_adam_": 4, "_fused_adamw_": 4, "_foreach_norm.Scalar": 1}
"""Lists of tensors of a call where they are not as many as its arguments: steps are no list of their own."""


def _recorded(act: Callable[[list[Tensor]], None], tensors: int) -> Recorder:
    """Record what a step on tensors with gradients issues, after a first one that sets up its state."""
    recorder = Recorder()
    with FakeTensorMode(), torch.device("cuda"):
        parameters = [torch.empty(30, 30, requires_grad=True) for _ in range(tensors)]
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        with Recorder():
            act(parameters)
        with recorder:
            act(parameters)
    return recorder


def count_step(act: Callable[[], Callable[[list[Tensor]], None]]) -> dict[str, Any]:
    """Count a step: what each tensor adds, what is issued once, and calls on lists of tensors."""
    few, many = 4, 12
    small, large = (_recorded(act(), tensors) for tensors in (few, many))
    share = [(b - a) // (many - few) for a, b in zip(small.counts, large.counts, strict=True)]
    on_lists = [call for call in large.calls if call[0].startswith(("_foreach_", "_fused_"))]
    calls = [(name, DEPTHS.get(name, depth)) for name, depth, length in on_lists if length == many]
    once = [total - many * each for total, each in zip(large.counts, share, strict=True)]
    once = [once[0] - len(calls), once[1] - len(calls), once[2]]
    return {
        "per_tensor": Counts(*share)._asdict(),
        "per_step": Counts(*once)._asdict(),
        "calls": [{"operator": name, "depth": depth, "scalars": name.endswith("ScalarList")} for name, depth in calls],
    }


def _stepping(optimizer: Any, options: dict[str, Any]) -> Callable[[], Callable[[list[Tensor]], None]]:
    def make() -> Callable[[list[Tensor]], None]:
        made: list[Any] = []

        def act(parameters: list[Tensor]) -> None:
            made[:] = made or [optimizer(parameters, lr=0.1, **options)]
            made[0].step()

        return act

    return make


def _clipping(foreach: bool) -> Callable[[], Callable[[list[Tensor]], None]]:
    def act(parameters: list[Tensor]) -> None:
        nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach)

    return lambda: act


def count_optimizers() -> dict[str, Any]:
    """Count every optimizer in each implementation, and clipping of gradients."""
    rows = {
        name: {kind: count_step(_stepping(made, options | how)) for kind, how in IMPLEMENTATIONS.items()}
        for name, (made, options) in OPTIMIZERS.items()
    }
    clipping = {"for-loop": count_step(_clipping(False)), "foreach": count_step(_clipping(True))}
    return {**rows, "clip-gradients": clipping}


LIMITS = {
    "chunk_elements": 65536,
    "cuda-12": {"tensors": [110, 64, 48, 36, 30], "tensors_with_scalars": [96, 64, 48, 36, 30], "chunks": 320},
    "cuda-13": {
        "tensors": [770, 448, 336, 252, 210],
        "tensors_with_scalars": [672, 448, 336, 252, 210],
        "chunks": 2240,
    },
}
"""What one kernel of a call on lists of tensors takes, by the number of lists (depth) from one."""
LIMITS_SOURCE = f"{CUDA}MultiTensorApply.cuh, torch 2.13.0; those of CUDA 12 are those of all earlier versions"


def table() -> dict[str, Any]:
    """Return the table as it is committed."""
    keep = state_kernels()
    content: dict[str, Any] = {}
    for mode in MODES:
        content[mode] = {
            "operators": {name: _row(count_kind(name, mode)) for name in KINDS},
            "models": {name: _row(count_model(name, mode)) for name in MODELS},
        }
    content["optimizers"] = count_optimizers()
    content["calls"] = LIMITS
    del keep
    return content


def _row(passes: Passes) -> dict[str, Any]:
    return {
        "forward": passes.forward._asdict(),
        "backward": passes.backward._asdict(),
        "nodes": passes.nodes,
        "parameters": passes.parameters,
    }


def launches_of(sizes: list[int], depth: int, scalars: bool, cuda: str) -> int:
    """Return the kernels of a call on lists of tensors of these sizes, in elements; `cuda` is a key of `LIMITS`.

    A kernel is launched when it has as many tensors, or as many chunks, as it takes. A tensor that a full kernel cuts
    counts for the next one too.

    >>> launches_of([1] * 300, depth=4, scalars=False, cuda="cuda-12")
    9
    """
    limits: Any = LIMITS[cuda]
    most = limits["tensors_with_scalars" if scalars else "tensors"][depth - 1]
    launches = tensors = chunks = 0
    for size in sizes:
        left = -(-size // int(LIMITS["chunk_elements"]))  # type: ignore[call-overload]
        tensors += left > 0
        while left:
            taken = min(left, limits["chunks"] - chunks)
            left, chunks = left - taken, chunks + taken
            if chunks == limits["chunks"] or (tensors == most and not left):
                launches, chunks, tensors = launches + 1, 0, int(left > 0)
    return launches + (chunks > 0)


HEAD = """\
# Operators of PyTorch in eager mode: by kind of layer, of models, and of optimizers.
# source: torch {version}, counted on {date} by `python tools/count_operators.py`, which says what is counted.
# kernels: operators that launch at least one kernel. launches: kernels that they launch. host_only: operators that
# launch none, such as views. nodes: autograd nodes of the backward pass. parameters: parameter tensors, each of which
# has one more kernel when its gradient is added to one that exists, and none when it is the first.
"""


def _flow(value: Any) -> str:
    """Write a value of YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(each) for each in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(content: dict[str, Any]) -> Iterator[str]:
    yield HEAD.format(version=torch.__version__.split("+")[0], date=date.today().isoformat())
    yield "about:"
    yield from (f'  {name}: "{kind.about}"' for name, kind in KINDS.items() if kind.about)
    yield "several_launches:"
    yield from (f'  {name}: "{source}"' for name, (_, source) in SEVERAL.items())
    for mode, about in MODES.items():
        yield f"{mode}: # {about}"
        for part, rows in content[mode].items():
            yield f"  {part}:"
            yield from (f"    {name}: {_flow(row)}" for name, row in rows.items())
    yield "optimizers:  # kernels and host-only operators a tensor and a step, and calls on lists of all tensors"
    for name, kinds in content["optimizers"].items():
        yield f"  {name}:"
        yield from (f"    {kind}: {_flow(row)}" for kind, row in kinds.items())
    yield f"calls:  # {LIMITS_SOURCE}"
    yield from (f"  {key}: {_flow(value)}" for key, value in LIMITS.items())


def main() -> None:
    """Print the table as YAML, or as JSON for a comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json, content = parser.parse_args().json, table()
    print(json.dumps(content | {"composition": COMPOSITION}) if as_json else "\n".join(_lines(content)))


if __name__ == "__main__":
    main()
