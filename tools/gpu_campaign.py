#!/usr/bin/env python3
"""Measures what a forecast needs to know of one GPU, in a few minutes, on a machine that has only torch.

    python3 gpu_campaign.py -o campaign.json

One file; it imports the standard library and torch. Sections in the order of their value, each until its share of the
time is over: the host's issue times, whole models, matrix products, convolutions, attention, compiled models. The JSON
(`clustersim.gpu-campaign/1`) is written after each section and every ten seconds, by a rename, so that it is complete
whenever the program is stopped. Times are medians in seconds; each has a spread, the range of its middle half.

Rows are marked `use: fit` or `use: score` by a hash of what they measure, before anything runs: constants are fitted on
the former only. `--plan` prints the rows and their marks. `--device cpu` rehearses everything with small sizes.

Exit status: 0 when done or when the time is over, 3 where torch or CUDA is missing, 128 and the signal's number when
a signal stopped it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import itertools
import json
import os
import platform
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BEGIN_S = time.monotonic()

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F
except ImportError:  # said in `main`, where there is a place for a message
    torch = None  # type: ignore[assignment,unused-ignore]

    class _NoTorch:
        """Stands for torch's classes where there are none, so that this file can be read."""

        Module = object

    nn = _NoTorch()  # type: ignore[assignment,unused-ignore]

SCHEMA = "clustersim.gpu-campaign/1"
SHARES = {"host": 0.12, "models": 0.18, "products": 0.24, "convolutions": 0.20, "attention": 0.08, "compiled": 0.18}
"""Sections in the order of their value, and their shares of the time. What one leaves, the next ones have."""

SCORE_SHARE = 0.4
RESERVE_S, RESERVE_SHARE = 10.0, 0.1
"""Time at the end in which no measurement begins: seconds, or a share of the time where that is less."""

GRACE_S = 5.0
"""Seconds beyond the end of its section after which a measurement that still runs is given up."""

Row = dict[str, Any]
Call = Callable[[], Any]


def use_of(group: str) -> str:
    """Return what a row may be used for; rows of one group, such as the layouts of one product, have the same use."""
    share = int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) / 16**8
    return "score" if share < SCORE_SHARE else "fit"


@dataclass(frozen=True)
class Task:
    """One measurement: the group that decides its use, what describes it, and how it is done."""

    section: str
    group: str
    about: Row
    measure: Callable[[Bench, Row], Row | list[Row]]

    @property
    def use(self) -> str:
        of = "models" if self.section == "compiled" else self.section
        return use_of(f"{of}: {self.group}")


class Stopped(BaseException):
    """A signal asked to stop."""


class OutOfTime(Exception):
    """The time of a section is over in the middle of a task."""


# ---- the clock ----


class Bench:
    """The device and its clock: events and graphs on a GPU, the processor's clock elsewhere."""

    def __init__(self, device: str):
        self.device = torch.device(device)
        self.is_cuda = self.device.type == "cuda"
        self.samples, self.sample_s = (7, 0.004) if self.is_cuda else (3, 0.0005)
        self.stream: Any = None
        self.flush_buffer: Any = None
        self.memory_bytes = 0
        if self.is_cuda:
            torch.cuda.set_device(0)
            self.stream = torch.cuda.Stream()
            properties = torch.cuda.get_device_properties(0)
            self.memory_bytes = properties.total_memory
            cache_bytes = getattr(properties, "L2_cache_size", 0) or 64 * 2**20
            self.flush_buffer = torch.empty(2 * cache_bytes, dtype=torch.int8, device=self.device)

    def wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def once(self, call: Call) -> float:
        """Return the seconds that one call takes on the device."""
        if not self.is_cuda:
            start_s = time.perf_counter()
            call()
            return time.perf_counter() - start_s
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def repeats(self, call: Call, most: int = 200) -> int:
        """Return how many calls make a sample long enough to time, after a first call or two."""
        self.once(call)
        return max(1, min(most, int(self.sample_s / max(self.once(call), 1e-7))))

    def graph(self, call: Call, repeats: int) -> Call | None:
        """Return a replay of some calls as one CUDA graph, None where it cannot be captured."""
        if not self.is_cuda:
            return None
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        gc.disable()  # memory that is freed during a capture makes it invalid
        try:
            graph.capture_begin()
            try:
                for _ in range(repeats):
                    call()
            finally:
                graph.capture_end()
        except RuntimeError:
            torch.cuda.synchronize()
            for generator in torch.cuda.default_generators:  # which an invalid capture leaves without a state
                if hasattr(generator, "graphsafe_set_state"):
                    generator.graphsafe_set_state(generator.clone_state())
            return None
        finally:
            gc.enable()
        return lambda: graph.replay()

    def free(self, share: float = 0.0) -> None:
        """Give memory back that no tensor needs, such as that of earlier graphs, if more than a share is in use."""
        if self.is_cuda and torch.cuda.memory_reserved() > share * self.memory_bytes:
            gc.collect()
            torch.cuda.empty_cache()

    def graph_times(self, call: Call, name: str = "graph") -> Row:
        """Time a call that is replayed from a CUDA graph, its data in the cache as the call before left it."""
        repeats = self.repeats(call)
        replay = self.graph(call, repeats)
        if replay is None:
            return {}
        return self._sampled(replay, repeats, name)

    def cold_times(self, call: Call, name: str = "cold") -> Row:
        """Time a call with nothing of its data in the L2 cache: a graph that overwrites it, less one that only does."""
        if not self.is_cuda:
            return {}
        repeats = min(20, self.repeats(call))

        def flushed() -> None:
            self.flush()
            call()

        both = self.graph(flushed, repeats)
        alone = self.graph(self.flush, repeats)
        if both is None or alone is None:
            return {}
        row, flush = self._sampled(both, repeats, name), self._sampled(alone, repeats, name)
        row[f"{name}_s"] -= flush[f"{name}_s"]
        return row

    def flush(self) -> None:
        self.flush_buffer.zero_()

    def _sampled(self, replay: Call, repeats: int, name: str) -> Row:
        self.once(replay)
        return spread_of(name, [self.once(replay) / repeats for _ in range(self.samples)])

    def wall_times(self, call: Call, name: str = "wall") -> Row:
        """Time calls one after the other by the processor's clock, until the last one is done."""
        repeats = self.repeats(call, 50)
        values = []
        for _ in range(self.samples):
            self.wait()
            start_s = time.perf_counter()
            for _ in range(repeats):
                call()
            self.wait()
            values.append((time.perf_counter() - start_s) / repeats)
        return spread_of(name, values)

    def issue_times(self, call: Call, name: str = "issue", repeats: int = 30) -> Row:
        """Time what the host needs to issue a call; few enough that it never waits for the device's queue."""
        call()
        values = []
        for _ in range(3 * self.samples):
            self.wait()
            start_s = time.perf_counter()
            for _ in range(repeats):
                call()
            values.append((time.perf_counter() - start_s) / repeats)
        self.wait()
        return spread_of(name, values)


def spread_of(name: str, values: list[float]) -> Row:
    """Return the median of seconds, and the range of their middle half."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return {f"{name}_s": median(ordered), f"{name}_spread_s": ordered[-1 - quarter] - ordered[quarter]}


@contextlib.contextmanager
def on_stream(bench: Bench) -> Iterator[None]:
    """Run everything on a stream that can be captured."""
    if bench.is_cuda:
        with torch.cuda.stream(bench.stream):
            yield
    else:
        yield


def tensor(bench: Bench, *size: int, dtype: Any = None, gradient: bool = False) -> Tensor:
    """Return normally distributed numbers, as operands have them: the power that a product draws depends on it."""
    dtype = dtype or torch.float32
    made: Tensor = torch.randn(size, device=bench.device).to(dtype)
    return made.requires_grad_(gradient)


# ---- the host ----


def host_operators(bench: Bench) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Return small operators by name, and their inputs: tensors that want a gradient, and others."""
    low = torch.bfloat16

    def x(*size: int, dtype: Any = low) -> Tensor:
        return tensor(bench, *size, dtype=dtype, gradient=True)

    rows, images = (4, 16, 64), (2, 16, 8, 8)
    words = torch.zeros(4, 16, dtype=torch.int64, device=bench.device)
    weight, bias, scale = x(64, 64), x(64), x(64)
    filters, means, variances = (
        x(16, 16, 3, 3),
        torch.zeros(16, device=bench.device),
        torch.ones(16, device=bench.device),
    )
    wide_scale, wide_bias = x(16, dtype=torch.float32), x(16, dtype=torch.float32)
    wide_weight = x(64, 64, dtype=torch.float32)
    heads = [x(2, 4, 16, 64) for _ in range(3)]
    plain = tensor(bench, *rows, dtype=low)
    last = x(*images).detach().to(memory_format=torch.channels_last).requires_grad_()
    last_filters = filters.detach().to(memory_format=torch.channels_last).requires_grad_()
    module = nn.Linear(64, 64, device=bench.device, dtype=low)
    given = plain.clone()

    def autocast_linear(a: Tensor, w: Tensor) -> Tensor:
        with torch.autocast(bench.device.type, low):
            return F.linear(a, w)

    operators: dict[str, tuple[Callable[..., Any], list[Any]]] = {
        "add": (torch.add, [x(*rows), x(*rows)]),
        "add-in-place": (lambda: plain.add_(1.0), []),
        "mul": (torch.mul, [x(*rows), x(*rows)]),
        "mul-number": (lambda a: a * 0.5, [x(*rows)]),
        "relu": (F.relu, [x(*rows)]),
        "gelu": (F.gelu, [x(*rows)]),
        "silu": (F.silu, [x(*rows)]),
        "tanh": (torch.tanh, [x(*rows)]),
        "dropout": (lambda a: F.dropout(a, 0.1), [x(*rows)]),
        "softmax": (lambda a: F.softmax(a, -1), [x(*rows)]),
        "layer-norm": (lambda a, w, b: F.layer_norm(a, (64,), w, b), [x(*rows), scale, bias]),
        "batch-norm": (
            lambda a, w, b: F.batch_norm(a, means, variances, w, b, training=True),
            [x(*images), wide_scale, wide_bias],
        ),
        "group-norm": (lambda a: F.group_norm(a, 4), [x(*images)]),
        "linear": (F.linear, [x(*rows), weight, bias]),
        "linear-no-bias": (F.linear, [x(*rows), weight]),
        "linear-module": (lambda: module(given), []),
        "linear-autocast": (autocast_linear, [x(*rows), wide_weight]),
        "matmul": (torch.matmul, [x(64, 64), weight]),
        "bmm": (torch.bmm, [x(*rows), x(4, 64, 16)]),
        "convolution": (lambda a, w: F.conv2d(a, w, padding=1), [x(*images), filters]),
        "convolution-nhwc": (lambda a, w: F.conv2d(a, w, padding=1), [last, last_filters]),
        "max-pool": (lambda a: F.max_pool2d(a, 2), [x(*images)]),
        "mean-pool": (lambda a: F.adaptive_avg_pool2d(a, 1), [x(*images)]),
        "concat": (lambda *a: torch.cat(a, 1), [x(*images) for _ in range(4)]),
        "embedding": (lambda w: F.embedding(words, w), [weight]),
        "cross-entropy": (lambda a: F.cross_entropy(a, words.view(-1)), [x(64, 64, dtype=torch.float32)]),
        "attention": (lambda *a: F.scaled_dot_product_attention(*a, is_causal=True), heads),
        "cast": (lambda a: a.to(torch.float32), [x(*rows)]),
        "copy": (lambda a: a.clone(), [x(*rows)]),
        "transpose-copy": (lambda a: a.transpose(1, 2).contiguous(), [x(*rows)]),
        "sum": (torch.sum, [x(*rows)]),
        "view": (lambda a: a.view(64, 64), [x(*rows)]),
        "transpose": (lambda a: a.transpose(1, 2), [x(*rows)]),
        "empty": (lambda: torch.empty(64, device=bench.device), []),
        "zeros": (lambda: torch.zeros(64, device=bench.device), []),
    }
    if hasattr(F, "rms_norm"):
        operators["rms-norm"] = (lambda a, w: F.rms_norm(a, (64,), w), [x(*rows), scale])
    return operators


HOST_OPERATORS = [
    "add", "add-in-place", "mul", "mul-number", "relu", "gelu", "silu", "tanh", "dropout", "softmax",
    "layer-norm", "rms-norm", "batch-norm", "group-norm", "linear", "linear-no-bias", "linear-module",
    "linear-autocast", "matmul", "bmm", "convolution", "convolution-nhwc", "max-pool", "mean-pool", "concat",
    "embedding", "cross-entropy", "attention", "cast", "copy", "transpose-copy", "sum", "view", "transpose",
    "empty", "zeros",
]  # fmt: skip


def measure_operator(bench: Bench, about: Row) -> Row:
    """Time the issue of an operator: alone, recorded by autograd, and its backward pass; and its kernels in a graph.

    The backward pass is that of 24 independent outputs less that of 4, so that what a call of it costs falls out.
    """
    call, inputs = host_operators(bench)[about["operator"]]
    row: Row = {}
    with torch.no_grad():
        row |= bench.issue_times(lambda: call(*inputs), "issue_alone")
        row |= bench.graph_times(lambda: call(*inputs)) | bench.wall_times(lambda: call(*inputs))
    if not inputs:
        return row
    row |= bench.issue_times(lambda: call(*inputs), "issue_forward")
    few, many = 4, 24
    values = []
    for number in range(2 * bench.samples):
        seconds = [_backward_s(bench, call, inputs, count) for count in (few, many)]
        if number:
            values.append((seconds[1] - seconds[0]) / (many - few))
    return row | spread_of("issue_backward", values)


def _backward_s(bench: Bench, call: Callable[..., Any], inputs: list[Any], count: int) -> float:
    """Return the seconds to issue the backward pass of so many outputs, each of inputs of its own."""
    copies = [[each.detach().clone().requires_grad_() for each in inputs] for _ in range(count)]
    outputs = [call(*each) for each in copies]
    gradients = [torch.ones_like(each) for each in outputs]
    bench.wait()
    start_s = time.perf_counter()
    torch.autograd.backward(outputs, gradients)
    return time.perf_counter() - start_s


def measure_floor(bench: Bench, about: Row) -> Row:
    """Time the smallest kernel, one after the other in a graph, and the launch of a graph of one."""
    x = torch.zeros(1, device=bench.device)
    row = bench.graph_times(lambda: x.add_(1.0)) | bench.wall_times(lambda: x.add_(1.0))
    replay = bench.graph(lambda: x.add_(1.0), 1)
    return row | bench.issue_times(replay, "issue_graph") if replay else row


STEP_SIZES = {"small": [1000] * 300, "bert": [1024] * 180 + [1024 * 1024] * 96 + [4 * 1024 * 1024] * 24}
"""Elements of the tensors of an optimizer step: 300 small ones, and 300 as in a large BERT (202 million)."""

OPTIMIZERS = {"sgd-momentum": ("SGD", {"momentum": 0.9}), "adamw": ("AdamW", {})}
IMPLEMENTATIONS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def measure_step(bench: Bench, about: Row) -> Row:
    """Time an optimizer step: its issue, and by the wall clock."""
    sizes = STEP_SIZES[about["sizes"]]
    sizes = sizes if bench.is_cuda else [min(size, 1000) for size in sizes[::10]]
    kind, options = OPTIMIZERS[about["optimizer"]]
    parameters = [tensor(bench, size, gradient=True) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    options = options | IMPLEMENTATIONS[about["implementation"]]
    optimizer = getattr(torch.optim, kind)(parameters, lr=1e-3, **options)
    row = bench.issue_times(optimizer.step, repeats=1) | bench.wall_times(optimizer.step)
    return row | {"num_tensors": len(sizes), "num_elements": sum(sizes)}


def host_tasks() -> Iterator[Task]:
    yield Task("host", "floor", {"operator": "smallest-kernel"}, measure_floor)
    for name in HOST_OPERATORS:
        yield Task("host", name, {"operator": name}, measure_operator)
    for sizes in STEP_SIZES:
        for optimizer in OPTIMIZERS:
            for implementation in IMPLEMENTATIONS:
                about = {"optimizer": optimizer, "implementation": implementation, "sizes": sizes}
                yield Task("host", f"step {optimizer} {implementation}", about, measure_step)


# ---- matrix products ----

PRODUCT_LAYOUTS = ("TN", "NN", "NT", "NT-accumulate")
"""As cuBLAS names them: forward with weights [outputs, inputs], the data's gradient, the weights', added to one."""


LAYER_ROWS = {
    768: (512, 4096, 16384), 1024: (512, 2048, 8192), 1600: (1024, 4096), 2048: (2048, 8192),
    4096: (1024, 4096, 8192), 5120: (2048, 4096), 8192: (2048, 4096), 12288: (2048,),
}  # fmt: skip
"""Features of transformers, and the tokens of a pass."""


def product_shapes() -> list[tuple[int, int, int]]:
    """Return 200 products as rows, outputs, inputs: slices of tensor parallelism, whole layers, heads, odd sizes."""
    slices = [
        (rows, outputs, inputs)
        for rows, inputs in ((512, 1024), (2048, 1024), (8192, 1024), (2048, 4096), (4096, 4096), (8192, 12288))
        for outputs in (128, 192, 256, 384, 512, 768, 1024)
    ]
    slices += [
        (rows, outputs, inputs)
        for rows in (1024, 2048, 4096)
        for outputs in (1024, 2048)
        for inputs in (128, 256, 512, 1024)
    ]
    layers = [
        (rows, outputs * features, inputs * features)
        for features, many in LAYER_ROWS.items()
        for rows in many
        for outputs, inputs in ((3, 1), (1, 1), (4, 1), (1, 4))
    ]
    words = ((30528, 1024), (50304, 768), (32000, 4096), (128256, 4096))
    heads = [(rows, outputs, inputs) for outputs, inputs in words for rows in (1024, 4096)]
    images = [
        (rows, outputs, inputs)
        for rows in (16, 64, 256)
        for outputs, inputs in ((1000, 2048), (4096, 25088), (4096, 4096))
    ]
    odd = random.Random(23)
    drawn = [
        (int(2 ** odd.uniform(5, 13.5)), 8 * int(2 ** odd.uniform(2, 10)), 8 * int(2 ** odd.uniform(2, 10)))
        for _ in range(80)
    ]
    shapes = list(dict.fromkeys([*slices, *layers, *heads, *images, *drawn]))[:200]
    return sorted(shapes, key=lambda shape: hashlib.sha256(str(shape).encode()).hexdigest())


def product_of(layout: str, x: Tensor, weight: Tensor, gradient: Tensor, total: Tensor) -> Call:
    """Return a product of rows x inputs, outputs x inputs, rows x outputs, and outputs x inputs."""
    return {
        "TN": lambda: torch.mm(x, weight.t()),
        "NN": lambda: torch.mm(gradient, weight),
        "NT": lambda: torch.mm(gradient.t(), x),
        "NT-accumulate": lambda: total.addmm_(gradient.t(), x),
    }[layout]


def measure_product(bench: Bench, about: Row) -> Row:
    """Time one layout of a product: from a graph with data in the cache and without, and by the wall clock."""
    rows, outputs, inputs = _small(bench, about["rows"], about["outputs"], about["inputs"])
    if about["precision"] == "fp8":
        call = _fp8_product(bench, rows, outputs, inputs)
    else:
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[about["precision"]]
        sizes = ((rows, inputs), (outputs, inputs), (rows, outputs), (outputs, inputs))
        call = product_of(about["layout"], *(tensor(bench, *size, dtype=dtype) for size in sizes))
    row = bench.graph_times(call) | bench.cold_times(call)
    return row | bench.wall_times(call)


def _fp8_product(bench: Bench, rows: int, outputs: int, inputs: int) -> Call:
    kind = torch.float8_e4m3fn
    x, weight = (tensor(bench, size, inputs).to(kind) for size in (rows, outputs))
    one = torch.ones((), device=bench.device)
    return lambda: torch._scaled_mm(
        x, weight.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def _small(bench: Bench, *sizes: int) -> tuple[int, ...]:
    """Return sizes for the device: a rehearsal has small ones, multiples of 16."""
    return sizes if bench.is_cuda else tuple(16 * max(1, min(4, size // 1024)) for size in sizes)


def product_tasks() -> Iterator[Task]:
    shapes = product_shapes()
    for number, (rows, outputs, inputs) in enumerate(shapes):
        about = {"rows": rows, "outputs": outputs, "inputs": inputs}
        for layout in PRODUCT_LAYOUTS:
            yield Task(
                "products",
                f"{rows} {outputs} {inputs}",
                about | {"precision": "bf16", "layout": layout},
                measure_product,
            )
        if number % 4 == 0 and not (rows % 16 or outputs % 16 or inputs % 16):
            yield Task(
                "products", f"{rows} {outputs} {inputs}", about | {"precision": "fp8", "layout": "TN"}, measure_product
            )


# ---- convolutions ----

CONVOLUTIONS = """\
resnet50 conv1 3 224 224 64 7 7 2 3 3
resnet50 layer1.0.conv1 64 56 56 64 1 1 1 0 0
resnet50 layer1.0.conv2 64 56 56 64 3 3 1 1 1
resnet50 layer1.0.conv3 64 56 56 256 1 1 1 0 0
resnet50 layer1.1.conv1 256 56 56 64 1 1 1 0 0
resnet50 layer2.0.conv1 256 56 56 128 1 1 1 0 0
resnet50 layer2.0.conv2 128 56 56 128 3 3 2 1 1
resnet50 layer2.0.conv3 128 28 28 512 1 1 1 0 0
resnet50 layer2.0.downsample.0 256 56 56 512 1 1 2 0 0
resnet50 layer2.1.conv1 512 28 28 128 1 1 1 0 0
resnet50 layer2.1.conv2 128 28 28 128 3 3 1 1 1
resnet50 layer3.0.conv1 512 28 28 256 1 1 1 0 0
resnet50 layer3.0.conv2 256 28 28 256 3 3 2 1 1
resnet50 layer3.0.conv3 256 14 14 1024 1 1 1 0 0
resnet50 layer3.0.downsample.0 512 28 28 1024 1 1 2 0 0
resnet50 layer3.1.conv1 1024 14 14 256 1 1 1 0 0
resnet50 layer3.1.conv2 256 14 14 256 3 3 1 1 1
resnet50 layer4.0.conv1 1024 14 14 512 1 1 1 0 0
resnet50 layer4.0.conv2 512 14 14 512 3 3 2 1 1
resnet50 layer4.0.conv3 512 7 7 2048 1 1 1 0 0
resnet50 layer4.0.downsample.0 1024 14 14 2048 1 1 2 0 0
resnet50 layer4.1.conv1 2048 7 7 512 1 1 1 0 0
resnet50 layer4.1.conv2 512 7 7 512 3 3 1 1 1
vgg16 conv1_1 3 224 224 64 3 3 1 1 1
vgg16 conv1_2 64 224 224 64 3 3 1 1 1
vgg16 conv2_1 64 112 112 128 3 3 1 1 1
vgg16 conv2_2 128 112 112 128 3 3 1 1 1
vgg16 conv3_1 128 56 56 256 3 3 1 1 1
vgg16 conv3_2 256 56 56 256 3 3 1 1 1
vgg16 conv4_1 256 28 28 512 3 3 1 1 1
vgg16 conv4_2 512 28 28 512 3 3 1 1 1
vgg16 conv5_1 512 14 14 512 3 3 1 1 1
inception-v3 Conv2d_1a_3x3.conv 3 299 299 32 3 3 2 0 0
inception-v3 Conv2d_2a_3x3.conv 32 149 149 32 3 3 1 0 0
inception-v3 Conv2d_2b_3x3.conv 32 147 147 64 3 3 1 1 1
inception-v3 Conv2d_3b_1x1.conv 64 73 73 80 1 1 1 0 0
inception-v3 Conv2d_4a_3x3.conv 80 73 73 192 3 3 1 0 0
inception-v3 Mixed_5b.branch1x1.conv 192 35 35 64 1 1 1 0 0
inception-v3 Mixed_5b.branch5x5_1.conv 192 35 35 48 1 1 1 0 0
inception-v3 Mixed_5b.branch5x5_2.conv 48 35 35 64 5 5 1 2 2
inception-v3 Mixed_5b.branch3x3dbl_2.conv 64 35 35 96 3 3 1 1 1
inception-v3 Mixed_5b.branch3x3dbl_3.conv 96 35 35 96 3 3 1 1 1
inception-v3 Mixed_5d.branch5x5_1.conv 288 35 35 48 1 1 1 0 0
inception-v3 Mixed_6a.branch3x3.conv 288 35 35 384 3 3 2 0 0
inception-v3 Mixed_6a.branch3x3dbl_3.conv 96 35 35 96 3 3 2 0 0
inception-v3 Mixed_6b.branch1x1.conv 768 17 17 192 1 1 1 0 0
inception-v3 Mixed_6b.branch7x7_1.conv 768 17 17 128 1 1 1 0 0
inception-v3 Mixed_6b.branch7x7_2.conv 128 17 17 128 1 7 1 0 3
inception-v3 Mixed_6b.branch7x7_3.conv 128 17 17 192 7 1 1 3 0
inception-v3 Mixed_6c.branch7x7_2.conv 160 17 17 160 1 7 1 0 3
inception-v3 Mixed_6c.branch7x7_3.conv 160 17 17 192 7 1 1 3 0
inception-v3 Mixed_6e.branch7x7_2.conv 192 17 17 192 1 7 1 0 3
inception-v3 Mixed_7a.branch3x3_2.conv 192 17 17 320 3 3 2 0 0
inception-v3 Mixed_7a.branch7x7x3_4.conv 192 17 17 192 3 3 2 0 0
inception-v3 Mixed_7b.branch1x1.conv 1280 8 8 320 1 1 1 0 0
inception-v3 Mixed_7b.branch3x3_1.conv 1280 8 8 384 1 1 1 0 0
inception-v3 Mixed_7b.branch3x3_2a.conv 384 8 8 384 1 3 1 0 1
inception-v3 Mixed_7b.branch3x3_2b.conv 384 8 8 384 3 1 1 1 0
inception-v3 Mixed_7b.branch3x3dbl_2.conv 448 8 8 384 3 3 1 1 1
inception-v3 Mixed_7c.branch1x1.conv 2048 8 8 320 1 1 1 0 0
"""
"""Model, layer, channels, height, width, filters, height and width of the kernel, stride, pads of height and width."""

CONVOLUTION_BATCHES = (32, 1, 128, 8, 256, 2, 64, 16, 4)
CONVOLUTION_PRECISIONS = {"amp-bf16": "nhwc", "tf32": "nchw", "fp32": "nchw"}
PHASES = ("forward", "backward_data", "backward_weights")


def measure_convolution(bench: Bench, about: Row) -> Row:
    """Time a convolution and its two gradients, as a layer of `clustersim.profile/1` has them."""
    shape, batch = about["shape"], about["batch"] if bench.is_cuda else 1
    channels, height, width = shape["input"][1:] if bench.is_cuda else (min(16, shape["input"][1]), 14, 14)
    filters = shape["output"][1] if bench.is_cuda else 16
    narrow, precision = torch.bfloat16, about["precision"]
    dtype = narrow if precision == "amp-bf16" else torch.float32
    layout = torch.channels_last if about["layout"] == "nhwc" else torch.contiguous_format
    x = tensor(bench, batch, channels, height, width, dtype=dtype).to(memory_format=layout)
    weight = tensor(bench, filters, channels, *shape["kernel"], dtype=dtype).to(memory_format=layout)
    stride, pad = shape["stride"], shape["pad"]

    def forward() -> Tensor:
        return F.conv2d(x, weight, None, stride, pad)

    def backward(data: bool, weights: bool) -> Call:
        mask = [data, weights, False]
        rest = (None, stride, pad, [1, 1], False, [0, 0], 1, mask)
        return lambda: torch.ops.aten.convolution_backward(gradient, x, weight, *rest)

    with _float32_math(precision == "tf32"):
        gradient = torch.randn_like(forward())
        calls = (forward, backward(True, False), backward(False, True))
        row: Row = {}
        for name, call in zip(PHASES, calls, strict=True):
            row |= bench.graph_times(call, name) or bench.wall_times(call, name)
    return row


@contextlib.contextmanager
def _float32_math(tf32: bool) -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def convolution_tasks() -> Iterator[Task]:
    lines = [line.split() for line in CONVOLUTIONS.splitlines()]
    lines.sort(key=lambda line: hashlib.sha256(" ".join(line).encode()).hexdigest())
    for turn in range(3):
        for precision, number in itertools.product(CONVOLUTION_PRECISIONS, range(len(lines))):
            model, name, *numbers = lines[number]
            channels, height, width, filters, high, wide, stride, pad_h, pad_w = map(int, numbers)
            batch = CONVOLUTION_BATCHES[(number + 3 * turn) % len(CONVOLUTION_BATCHES)]
            out = [(height + 2 * pad_h - high) // stride + 1, (width + 2 * pad_w - wide) // stride + 1]
            shape = {
                "input": [batch, channels, height, width], "output": [batch, filters, *out], "kernel": [high, wide],
                "stride": [stride, stride], "pad": [pad_h, pad_w], "groups": 1,
            }  # fmt: skip
            about = {"model": model, "name": name, "op": "convolution", "shape": shape, "batch": batch}
            about |= {"precision": precision, "layout": CONVOLUTION_PRECISIONS[precision]}
            yield Task("convolutions", f"{model} {name}", about, measure_convolution)


# ---- attention ----


def measure_attention(bench: Bench, about: Row) -> Row:
    """Time fused attention forward and backward, from graphs and by the wall clock."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, tokens, width = (about[key] for key in ("batch", "heads", "tokens", "width"))
    keys = about["key_heads"]
    if not bench.is_cuda:
        batch, heads, keys, tokens = 1, 2, 2 if keys == heads else 1, 32
    query = tensor(bench, batch, heads, tokens, width, dtype=torch.bfloat16, gradient=True)
    key, value = (tensor(bench, batch, keys, tokens, width, dtype=torch.bfloat16, gradient=True) for _ in range(2))
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[about["backend"]]
    options: Row = {"enable_gqa": True} if keys != heads else {}

    def forward() -> Tensor:
        made: Tensor = F.scaled_dot_product_attention(query, key, value, is_causal=about["causal"], **options)
        return made

    with sdpa_kernel([backend] if bench.is_cuda else [SDPBackend.MATH]):
        with torch.no_grad():
            row = bench.graph_times(forward, "forward") | bench.wall_times(forward, "wall_forward")
        output = forward()
        gradient = torch.randn_like(output)

        def backward() -> Any:
            return torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True)

        row |= bench.graph_times(backward, "backward") | bench.wall_times(backward, "wall_backward")
    return row


ATTENTION_SIZES = (
    (8, 16, 128), (8, 16, 512), (32, 16, 512), (4, 12, 1024), (1, 4, 1024), (4, 32, 2048), (2, 40, 2048), (1, 2, 2048),
    (1, 32, 4096), (1, 16, 8192), (1, 8, 16384),
)  # fmt: skip
"""Batch, heads and tokens."""


def attention_tasks() -> Iterator[Task]:
    sizes = [
        (batch, heads, heads, tokens, width, causal)
        for batch, heads, tokens in ATTENTION_SIZES
        for width in (64, 128)
        for causal in (True, False)
    ]
    sizes += [(1, 32, 8, tokens, 128, True) for tokens in (2048, 4096, 8192)]
    sizes.sort(key=lambda size: hashlib.sha256(str(size).encode()).hexdigest())
    for backend in ("flash", "cudnn"):
        for batch, heads, keys, tokens, width, causal in sizes:
            about = {"backend": backend, "batch": batch, "heads": heads, "key_heads": keys, "tokens": tokens}
            about |= {"width": width, "causal": causal, "precision": "bf16"}
            yield Task("attention", f"{batch} {heads} {keys} {tokens} {width} {causal}", about, measure_attention)


# ---- models ----


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Identity()
        if stride > 1 or inputs != 4 * width:
            projection = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet50(nn.Module):
    """ResNet-50 (He et al., 2015), with the stride in the 3 x 3 convolution, and its loss."""

    def __init__(self, counts: tuple[int, ...] = (3, 4, 6, 3), first: int = 64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, first, 7, 2, 3, bias=False), nn.BatchNorm2d(first)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        blocks, inputs = [], first
        for stage, count in enumerate(counts):
            for number in range(count):
                blocks.append(Bottleneck(inputs, first << stage, 2 if stage and not number else 1))
                inputs = 4 * first << stage
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(inputs, 1000)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1)
        return F.cross_entropy(self.fc(x), labels)


class Block(nn.Module):
    """A transformer's block with fused attention: BERT's, whose norms follow the sums, or GPT-2's."""

    def __init__(self, features: int, heads: int, causal: bool):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        parts = [3 * features] if causal else [features] * 3
        self.qkv = nn.ModuleList([nn.Linear(features, part) for part in parts])
        self.output = nn.Linear(features, features)
        self.into, self.out = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.drop = nn.Dropout(0.1)

    def attend(self, x: Tensor) -> Tensor:
        batch, tokens, features = x.shape
        parts = self.qkv[0](x).split(features, -1) if self.causal else [each(x) for each in self.qkv]
        query, key, value = (each.view(batch, tokens, self.heads, -1).transpose(1, 2) for each in parts)
        dropped = 0.1 if self.training else 0.0
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=dropped, is_causal=self.causal)
        return self.drop(self.output(y.transpose(1, 2).reshape(batch, tokens, features)))

    def feed(self, x: Tensor) -> Tensor:
        return self.drop(self.out(F.gelu(self.into(x))))

    def forward(self, x: Tensor) -> Tensor:
        if self.causal:
            x = x + self.attend(self.norm1(x))
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed(x))


class Transformer(nn.Module):
    """BERT or GPT-2 with the loss of every token; the head has the embedding's weights."""

    def __init__(self, layers: int, features: int, heads: int, words: int, tokens: int, causal: bool):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, features), nn.Embedding(tokens, features)
        self.blocks = nn.Sequential(*(Block(features, heads, causal) for _ in range(layers)))
        self.norm, self.drop = nn.LayerNorm(features), nn.Dropout(0.1)
        self.register_buffer("places", torch.arange(tokens), persistent=False)

    def forward(self, words: Tensor, labels: Tensor) -> Tensor:
        x = self.drop(self.words(words) + self.positions(self.places[: words.shape[1]]))
        logits = F.linear(self.norm(self.blocks(x)), self.words.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


MODEL_TOKENS = {"bert-large": 512, "gpt2-small": 1024}
MODEL_POINTS: tuple[tuple[str, str, str, int, int], ...] = (
    ("resnet50", "amp-bf16", "nhwc", 64, 0),
    ("gpt2-small", "amp-bf16", "none", 8, 1024),
    ("bert-large", "amp-bf16", "none", 16, 128),
    ("resnet50", "amp-bf16", "nhwc", 1, 0),
    ("gpt2-small", "amp-bf16", "none", 1, 1024),
    ("bert-large", "amp-bf16", "none", 1, 128),
    ("resnet50", "amp-bf16", "nhwc", 256, 0),
    ("bert-large", "amp-bf16", "none", 8, 512),
    ("resnet50", "tf32", "nchw", 64, 0),
    ("resnet50", "amp-bf16", "nhwc", 16, 0),
    ("gpt2-small", "amp-bf16", "none", 2, 1024),
    ("bert-large", "amp-bf16", "none", 64, 128),
    ("bert-large", "tf32", "none", 8, 128),
    ("gpt2-small", "amp-bf16", "none", 16, 1024),
    ("resnet50", "fp32", "nchw", 32, 0),
)
"""Model, precision, layout, batch and tokens, the most valuable first."""


class Training:
    """A model with its data and optimizer, an iteration at a time."""

    def __init__(self, bench: Bench, about: Row, compiled: bool = False):
        self.bench, self.precision = bench, about["precision"]
        small = not bench.is_cuda
        batch = min(about["batch"], 2) if small else about["batch"]
        torch.manual_seed(0)
        if about["model"] == "resnet50":
            side = 32 if small else 224
            with bench.device:
                self.model: Any = ResNet50((1, 1), 8) if small else ResNet50()
            images = torch.randn(batch, 3, side, side, device=bench.device)
            layout = torch.channels_last if about["layout"] == "nhwc" else torch.contiguous_format
            self.inputs = (images.to(memory_format=layout), self._draw(1000, batch))
            self.model = self.model.to(memory_format=layout)
        else:
            causal = about["model"] == "gpt2-small"
            size = {"gpt2-small": (12, 768, 12, 50304, 1024), "bert-large": (24, 1024, 16, 30528, 512)}[about["model"]]
            size = (2, 32, 2, 64, 16) if small else size
            tokens = min(16, about["tokens"]) if small else about["tokens"]
            with bench.device:
                self.model = Transformer(*size, causal=causal)
            self.inputs = (self._draw(size[3], batch, tokens), self._draw(size[3], batch, tokens))
        parameters = list(self.model.parameters())
        self.num_tensors = len(parameters)
        if about["model"] == "resnet50":
            self.rule, how = "momentum", {"foreach": True}
            self.optimizer: Any = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, foreach=True)
        else:
            how = {"fused": True} | ({"capturable": True} if bench.is_cuda else {})
            self.rule, self.optimizer = "adamw", torch.optim.AdamW(parameters, lr=1e-5, **how)
        self.implementation = next(iter(how))
        self.run = torch.compile(self.model) if compiled and bench.is_cuda else self.model

    def _draw(self, words: int, *size: int) -> Tensor:
        return torch.randint(words, size, device=self.bench.device)

    def forward(self) -> Tensor:
        if self.precision != "amp-bf16":
            return self.run(*self.inputs)
        # a capture keeps the casts that are made in it, so they are not kept between iterations
        with torch.autocast(self.bench.device.type, torch.bfloat16):
            return self.run(*self.inputs)

    def iterate(self) -> None:
        self.forward().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def issue(self) -> dict[str, float]:
        """Run an iteration from an idle device and return what the host needed for each part, without waiting."""
        self.bench.wait()
        marks = [time.perf_counter()]
        loss = self.forward()
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        self.optimizer.step()
        marks.append(time.perf_counter())
        self.optimizer.zero_grad(set_to_none=True)
        marks.append(time.perf_counter())
        names = ("issue_forward", "issue_backward", "issue_optimizer", "issue_zero_grad")
        return {name: end - start for name, start, end in zip(names, marks, marks[1:], strict=False)}

    def parts(self) -> dict[str, float]:
        """Run an iteration and return the device's time of its parts."""
        if not self.bench.is_cuda:
            return {}
        events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        events[0].record()
        loss = self.forward()
        events[1].record()
        loss.backward()
        events[2].record()
        self.optimizer.step()
        events[3].record()
        self.optimizer.zero_grad(set_to_none=True)
        events[3].synchronize()
        names = ("forward", "backward", "optimizer")
        return {n: a.elapsed_time(b) / 1e3 for n, a, b in zip(names, events, events[1:], strict=False)}


def measure_model(bench: Bench, about: Row) -> list[Row]:
    """Time iterations in eager mode and in a CUDA graph; rows are as `whole` of a profile has them."""
    with _float32_math(about["precision"] == "tf32"):
        training = Training(bench, about)
        for _ in range(3):
            training.iterate()
        rows = [about | {"mode": "eager"} | _iterations(bench, training) | _averages(bench, training)]
        bench.free()
        replay = bench.graph(training.iterate, 1)
        if replay is not None:
            rows.append(about | {"mode": "graph"} | _iterations(bench, training, replay))
        return rows


def _iterations(bench: Bench, training: Training, iterate: Call | None = None) -> Row:
    """Return seconds an iteration, several at a time by the wall clock, and the model's optimizer and memory."""
    act = iterate or training.iterate
    act()
    bench.wait()
    start_s = time.perf_counter()
    act()
    bench.wait()
    estimate_s = time.perf_counter() - start_s
    count = max(2, min(20, int(0.25 / estimate_s))) if bench.is_cuda else 1
    values = []
    for _ in range(5 if bench.is_cuda else 2):
        start_s = time.perf_counter()
        for _ in range(count):
            act()
        bench.wait()
        values.append((time.perf_counter() - start_s) / count)
    memory = torch.cuda.max_memory_allocated() if bench.is_cuda else None
    row = spread_of("iteration", values) | {"samples": len(values) * count, "memory": {"max_allocated_bytes": memory}}
    row["optimizer"] = {"rule": training.rule, "implementation": training.implementation}
    return row | {"spread_s": row.pop("iteration_spread_s"), "num_tensors": training.num_tensors}


def _averages(bench: Bench, training: Training) -> Row:
    """Return the medians of the host's and the device's times of the parts of an iteration."""
    row: Row = {}
    for sample in (training.issue, training.parts):
        samples = [sample() for _ in range(7 if bench.is_cuda else 3)]
        for name in samples[0]:
            row |= spread_of(name, [each[name] for each in samples])
    return row


def _model_about(point: tuple[str, str, str, int, int]) -> Row:
    model, precision, layout, batch, tokens = point
    return {"model": model, "precision": precision, "layout": layout, "batch": batch, "tokens": tokens}


def model_tasks() -> Iterator[Task]:
    for point in MODEL_POINTS:
        about = _model_about(point)
        yield Task("models", f"{point[0]} {point[1]} {point[3]}", about, measure_model)


def measure_compiled(bench: Bench, about: Row) -> list[Row]:
    """Time iterations of a compiled model, and the seconds until the first one is done."""
    with _float32_math(about["precision"] == "tf32"):
        training = Training(bench, about, compiled=True)
        start_s = time.perf_counter()
        for _ in range(3):
            training.iterate()
        bench.wait()
        first_s = time.perf_counter() - start_s
        row = {"mode": "compiled", "compile_s": first_s}
        return [about | row | _iterations(bench, training) | _averages(bench, training)]


def compiled_tasks() -> Iterator[Task]:
    for point in MODEL_POINTS[:3]:
        about = _model_about(point)
        yield Task("compiled", f"{point[0]} {point[1]} {point[3]}", about, measure_compiled)


# ---- the machine ----


def smi(*fields: str) -> list[str | None]:
    """Ask nvidia-smi about the first GPU; None for what is not known."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return [None] * len(fields)
    values = [each.strip() for each in done.stdout.split(",")]
    return (
        [None if each.startswith("[") else each for each in values]
        if len(values) == len(fields)
        else [None] * len(fields)
    )


def describe(bench: Bench) -> Row:
    """Return what identifies the device and its software."""
    limits = ("driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit", "power.max_limit")
    driver, sm_mhz, memory_mhz, watts, max_watts = smi(*limits) if bench.is_cuda else [None] * 5
    device: Row = {"name": platform.processor() or "cpu", "kind": bench.device.type, "driver": driver}
    if bench.is_cuda:
        properties = torch.cuda.get_device_properties(0)
        device |= {
            "name": properties.name, "num_multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory, "cache_bytes": getattr(properties, "L2_cache_size", None),
            "capability": f"{properties.major}.{properties.minor}", "max_sm_mhz": sm_mhz, "max_memory_mhz": memory_mhz,
            "power_limit_watts": watts, "max_power_limit_watts": max_watts,
        }  # fmt: skip
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    software = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": cudnn}
    software |= {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    host = {"processor": _processor(), "num_cores": os.cpu_count(), "num_threads": torch.get_num_threads()}
    return {"device": device, "software": software, "host": host}


def _processor() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return None


CLOCKS = {"sm_mhz": "clocks.sm", "memory_mhz": "clocks.mem", "watts": "power.draw", "celsius": "temperature.gpu",
          "load": "utilization.gpu"}  # fmt: skip


class Clocks:
    """Clocks, power and temperature, twice a second while everything runs; None without nvidia-smi."""

    def __init__(self) -> None:
        self.rows: list[Row] | None = None
        command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(CLOCKS.values())}"]
        command += ["--format=csv,noheader,nounits", "-lms", "500"]
        try:
            self.process: Any = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None
            return
        self.rows = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            row: Row = {"at_s": round(time.monotonic() - BEGIN_S, 2)}
            for name, value in zip(CLOCKS, line.split(","), strict=False):
                with contextlib.suppress(ValueError):
                    row[name] = float(value)
            assert self.rows is not None
            self.rows.append(row)

    def close(self) -> None:
        if self.process is not None:
            self.process.terminate()


# ---- the campaign ----

SECTIONS: dict[str, Callable[[], Iterable[Task]]] = {
    "host": host_tasks,
    "models": model_tasks,
    "products": product_tasks,
    "convolutions": convolution_tasks,
    "attention": attention_tasks,
    "compiled": compiled_tasks,
}


@dataclass
class Campaign:
    """The document as it grows, and the file that it is written to."""

    path: Path
    minutes: float
    document: Row = field(default_factory=dict)
    clocks: Clocks | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    written_s: float = 0.0

    def write(self, status: str | None = None) -> None:
        """Replace the file by what is known now, at once: a reader sees the old one or the new one."""
        with self.lock:
            if status:
                self.document["status"] = status
            self.document["seconds"] = round(time.monotonic() - BEGIN_S, 1)
            self.document["clocks"] = self.clocks and self.clocks.rows and list(self.clocks.rows)
            part = self.path.with_name(self.path.name + ".part")
            part.write_text(json.dumps(_rounded(self.document), indent=1) + "\n", encoding="utf-8")
            os.replace(part, self.path)
            self.written_s = time.monotonic()

    def deadline_s(self, name: str) -> float:
        """Return when a section ends, on the monotonic clock: with the shares of those before it."""
        names = list(SHARES)
        share = sum(SHARES[each] for each in names[: names.index(name) + 1])
        limit_s = 60 * self.minutes
        return BEGIN_S + share * (limit_s - min(RESERVE_S, RESERVE_SHARE * limit_s))

    def run(self, bench: Bench, most: int | None) -> None:
        """Run all sections; `most` is a limit of tasks a section, spread over it, for a rehearsal."""
        for name, tasks in SECTIONS.items():
            planned = list(tasks())
            chosen = planned if most is None else planned[:: max(1, len(planned) // most)][:most]
            section: Row = {
                "status": "running",
                "planned": len(planned),
                "measured": 0,
                "share": SHARES[name],
                "rows": [],
            }
            self.document["sections"][name] = section
            start_s = time.monotonic()
            section["status"] = self._run_section(bench, chosen, section, self.deadline_s(name))
            section["seconds"] = round(time.monotonic() - start_s, 1)
            self.write()

    def _run_section(self, bench: Bench, tasks: list[Task], section: Row, deadline_s: float) -> str:
        for task in tasks:
            if time.monotonic() > deadline_s:
                return "out of time"
            if time.monotonic() - self.written_s > 10:
                self.write()
            row = {"use": task.use, **task.about}
            at_s = round(time.monotonic() - BEGIN_S, 2)
            try:
                with on_stream(bench), _until(deadline_s):
                    found = task.measure(bench, task.about)
                    bench.wait()
            except OutOfTime:
                return "out of time"
            except Exception as error:  # of one measurement: the others go on
                section["rows"].append(row | {"at_s": at_s, "error": f"{type(error).__name__}: {error}"[:300]})
                if not _recovers(bench):
                    return "the device failed"
                continue
            finally:
                bench.free(0.0 if task.section in ("models", "compiled") else 0.5)
            rows = found if isinstance(found, list) else [found]
            section["rows"] += [row | each | {"at_s": at_s} for each in rows]
            section["measured"] += 1
        return "done"


@contextlib.contextmanager
def _until(deadline_s: float) -> Iterator[None]:
    """Raise `OutOfTime` when a task goes on for more than `GRACE_S` beyond the section's end."""

    def ring(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, deadline_s + GRACE_S - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _recovers(bench: Bench) -> bool:
    """Free memory after an error, and say whether the device still works."""
    try:
        bench.wait()
        bench.free()
    except RuntimeError:
        return False
    return True


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}") if value == value and abs(value) != float("inf") else None
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def _watch(campaign: Campaign, limit_s: float) -> None:
    """End the process when something that cannot be interrupted runs beyond the end."""

    def end() -> None:
        try:
            if campaign.clocks:
                campaign.clocks.close()
            campaign.write("out of time")
        finally:  # else the file as it was written last is what remains
            os._exit(0)

    timer = threading.Timer(max(1.0, limit_s - (time.monotonic() - BEGIN_S)), end)
    timer.daemon = True
    timer.start()


def _plan() -> int:
    for name, tasks in SECTIONS.items():
        for task in tasks():
            print(json.dumps({"section": name, "group": task.group, "use": task.use, **task.about}))
    return 0


def _missing(device: str) -> str | None:
    """Say what the campaign lacks on this machine, None where it lacks nothing."""
    if torch is None:
        return "torch is not installed for this Python"
    if device == "cuda" and not torch.cuda.is_available():
        why = "this torch is built without CUDA" if torch.version.cuda is None else "torch sees no GPU"
        return f"no CUDA device: {why} (torch {torch.__version__}); --device cpu rehearses"
    return None


def main() -> int:
    """Run the campaign and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("gpu-campaign.json"), help="the JSON that it leaves")
    parser.add_argument("--minutes", type=float, default=7.5, help="time for everything, from the start (7.5)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal with small sizes")
    parser.add_argument("--most", type=int, help="at most so many measurements a section")
    parser.add_argument("--plan", action="store_true", help="print what would be measured, a JSON a line, and end")
    arguments = parser.parse_args()
    if arguments.plan:
        return _plan()
    missing = _missing(arguments.device)
    if missing:
        print(f"gpu_campaign: {missing}", file=sys.stderr)
        return 3
    campaign = Campaign(arguments.output, arguments.minutes)
    _watch(campaign, 60 * arguments.minutes)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    return _campaign(campaign, arguments.device, arguments.most if arguments.device == "cuda" else arguments.most or 4)


def _stop(number: int, frame: Any) -> None:
    raise Stopped(number)


def _campaign(campaign: Campaign, device: str, most: int | None) -> int:
    campaign.document |= {"schema": SCHEMA, "status": "running", "minutes": campaign.minutes}
    campaign.document |= {"began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "sections": {}}
    campaign.document["score_share"] = SCORE_SHARE
    status, code = "done", 0
    try:
        bench = Bench(device)
        if not bench.is_cuda:
            torch.set_num_threads(1)
        torch.backends.cudnn.benchmark = True
        campaign.document |= describe(bench)
        campaign.document["flags"] = {"cudnn_benchmark": True, "rehearsal": not bench.is_cuda}
        campaign.clocks = Clocks()
        campaign.write()
        campaign.run(bench, most)
        parts = [section["status"] for section in campaign.document["sections"].values()]
        status = next((each for each in parts if each != "done"), "done")
    except Stopped as stopped:
        status, code = f"stopped by {signal.Signals(stopped.args[0]).name}", 128 + stopped.args[0]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    for section in campaign.document["sections"].values():
        section["status"] = status if section["status"] == "running" else section["status"]
    if campaign.clocks:
        campaign.clocks.close()
    campaign.write(status)
    measured = {name: section["measured"] for name, section in campaign.document["sections"].items()}
    print(f"{campaign.path}: {status}; measured {measured}")
    return code


if __name__ == "__main__":
    sys.exit(main())
