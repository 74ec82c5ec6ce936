"""Reads other people's kernel timings, CSV files in one folder: DeepBench, convnet-benchmarks,
cnn-benchmarks, TrioSim and xwang233's code-snippet."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from clustersim.hardware import Gpu, load_gpu
from clustersim.kernels.kernel_model import Phase
from clustersim.kernels.programs.channels_last import Layout
from clustersim.model.catalogue import MODELS, load_model
from clustersim.model.layer import Layer

DEEPBENCH_GPUS = {
    "NV_TitanX": "titan-x-maxwell",
    "NV_M40": "m40",
    "NV_TitanX_Pascal": "titan-x-pascal",
    "NV_P100": "p100-pcie",  # the sheet's host is an ASUS X99-E WS: a PCIe card
    "NV_V100": "v100",
}
NORMS = Path(__file__).with_name("norms_channels_last.csv")
PHASE_COLUMNS: dict[Phase, str] = {
    "forward": "fwd_ms",
    "backward_data": "bwd_inputs_ms",
    "backward_weights": "bwd_params_ms",
}
# what BLAS calls transposed, and the phase of a layer with weights [outputs, inputs] that asks for it
TRANSPOSED: dict[str, Phase] = {"TN": "forward", "NN": "backward_data", "NT": "backward_weights"}


class Kernel(NamedTuple):
    """One timed kernel; `key` is its shape without the batch, so that all batches of a shape are left out together."""

    gpu: Gpu
    precision: str
    op: str
    shape: dict[str, int]
    batch: int
    phase: Phase
    seconds: float
    key: tuple[int | str, ...]


class Timed(NamedTuple):
    """One timed call, of one kernel or of both backward ones, with images in one layout."""

    kernels: tuple[Kernel, ...]
    layout: Layout
    seconds: float


def deepbench(folder: Path) -> list[Kernel]:
    """Return DeepBench's FP32 sheets, and V100's with tensor cores; gradients of an image's colours are left out."""
    gpus = {device: load_gpu(name) for device, name in DEEPBENCH_GPUS.items()}
    kernels: list[Kernel] = []
    for row in _rows(folder / "deepbench" / "gemm.csv"):
        if precision := _precision(row):
            shape = {"rows": int(row["M"]), "columns": int(row["N"]), "inner": int(row["K"])}
            phase = TRANSPOSED[row["A_transpose"] + row["B_transpose"]]
            key = ("product", shape["rows"], shape["inner"])
            seconds = float(row["time_ms"]) * 1e-3
            kernels.append(Kernel(gpus[row["device"]], precision, "product", shape, 1, phase, seconds, key))
    for row in _rows(folder / "deepbench" / "conv.csv"):
        if precision := _precision(row):
            kernels += _convolutions(row, gpus[row["device"]], precision)
    return kernels


def _convolutions(row: dict[str, str], gpu: Gpu, precision: str) -> Iterator[Kernel]:
    width, height, kernel_h, kernel_w = (int(row[key]) for key in ("W", "H", "R_filter_h", "S_filter_w"))
    pad_h, pad_w, stride_h, stride_w = (int(row[key]) for key in ("pad_h", "pad_w", "stride_v", "stride_h"))
    shape = _convolution(
        int(row["C"]), int(row["K"]), height, width, kernel_h, kernel_w, pad_h, pad_w, stride_h, stride_w
    )
    key: tuple[int | str, ...] = ("convolution", *shape.values())
    for phase, column in PHASE_COLUMNS.items():
        if row[column] and not (phase == "backward_data" and shape["channels"] <= 3):
            yield Kernel(gpu, precision, "convolution", shape, int(row["N"]), phase, float(row[column]) * 1e-3, key)


def titan_black(folder: Path) -> list[Kernel]:
    """Return convnet-benchmarks' five convolutions with cuDNN R2 on a GTX Titan Black, the Kepler kernels there are.

    The card's values are NVIDIA's: 2880 cores at 980 MHz boost, 15 multiprocessors, 336 GB/s.
    """
    card = replace(
        load_gpu("k40"),
        name="titan-black",
        flop_per_s={"fp32": 2 * 2880 * 980e6},
        memory_bytes_per_s=336e9,
        num_multiprocessors=15,
    )
    layers = [(3, 96, 128, 11), (64, 128, 64, 9), (128, 128, 32, 9), (128, 128, 16, 7), (384, 384, 13, 3)]
    times = [
        row["total_ms_or_L1..L5"].split("/")[:5]
        for row in _rows(folder / "convnet-benchmarks" / "readme_tables.csv")
        if row["gpu"] == "Titan Black" and row["library"].strip() == "CuDNN R2" and row["what"].startswith("L:")
        and row["total_ms_or_L1..L5"].count("/") == 5
    ]  # fmt: skip
    phases: list[Phase] = ["forward", "backward_data", "backward_weights"]
    rows = [times[0], times[2], times[3]]  # the second row of times is both backward phases together
    return [
        Kernel(card, "fp32", "convolution", shape, 128, phase, float(row[index]) * 1e-3, ("L", index))
        for phase, row in zip(phases, rows, strict=True)
        for index, (channels, filters, size, kernel) in enumerate(layers)
        if not (phase == "backward_data" and channels <= 3)
        for shape in [_convolution(channels, filters, size, size, kernel, kernel, 0, 0, 1, 1)]
    ]


def caffe_layers(folder: Path, network: str) -> dict[str, tuple[float, float]]:
    """Return Caffe's seconds forward and backward of each layer on a Titan X (Maxwell)."""
    return {
        row["layer"]: (float(row["forward_ms"]) * 1e-3, float(row["backward_ms"]) * 1e-3)
        for row in _rows(folder / "convnet-benchmarks" / "caffe_titanx_per_layer.csv")
        if row["network"] == network
    }


def torch_networks(folder: Path) -> Iterator[tuple[str, str, float]]:
    """Yield cnn-benchmarks' networks in Torch with cuDNN 5.1, batch 16: model, GPU, seconds forward and backward.

    AlexNet is left out: its page does not say which of the three.
    """
    gpus = {
        "titan_xm_cudnn51": "titan-x-maxwell",
        "titan_xp_cudnn51": "titan-x-pascal",
        "1080Ti_cudnn51": "gtx-1080-ti",
    }
    for row in _rows(folder / "cnn-benchmarks" / "cnn_benchmarks.csv"):
        model = row["model"].replace("-v1", "").replace("resnet-", "resnet")
        if row["set"] in gpus and row["use_cudnn"] == "1" and model in MODELS and model != "alexnet":
            yield model, gpus[row["set"]], float(row["total_ms_mean"]) * 1e-3


def operators(folder: Path, network: str) -> Iterator[tuple[str, float, float, float]]:
    """Yield an H100's operators in order: name, seconds, elements read (the first tensor), elements written."""
    for row in _rows(folder / "triosim-h100" / f"{network}_b128_trace.csv"):
        sizes = [float(row[key].strip("[]").split(";")[0] or 0) for key in ("InputSize", "OutputSize")]
        seconds = float(row["Operator_cudatimenooverlap"]) * 1e-6
        yield row["OperatorName"].rsplit(" ", 1)[-1], seconds, sizes[0], sizes[1]


def h100_convolutions(folder: Path, network: str) -> list[tuple[Kernel, ...]]:
    """Return PyTorch's convolutions on an H100 in TF32, batch 128: each forward, and its two backward phases together.

    The first layer's forward pass is left out: the choice of algorithms is in its time. It has no gradient to data.
    Both kernels of a pair of backward phases carry the seconds of the pair.
    """
    gpu = load_gpu("h100")
    layers = [layer for layer in load_model(network).layers if layer.op == "convolution"]
    times = list(operators(folder, network))
    forward = [seconds for name, seconds, _, _ in times if name == "aten::conv2d"]
    backward = [seconds for name, seconds, _, _ in times if name == "ConvolutionBackward0"][::-1]
    found: list[tuple[Kernel, ...]] = []
    for index, (layer, *seconds) in enumerate(zip(layers, forward, backward, strict=True)):
        key: tuple[int | str, ...] = ("convolution", *layer.shape.values())

        def kernel(phase: Phase, taken: float, layer: Layer = layer, key: tuple[int | str, ...] = key) -> Kernel:
            return Kernel(gpu, "tf32", "convolution", dict(layer.shape), 128, phase, taken, key)

        weights = kernel("backward_weights", seconds[1])
        if index == 0:
            found.append((weights,))
        else:
            found += [(kernel("forward", seconds[0]),), (kernel("backward_data", seconds[1]), weights)]
    return found


def layout_convolutions(folder: Path, name: str) -> Iterator[Timed]:
    """Yield code-snippet's convolutions in three dimensions in 16 bits, channels first and last, forward and backward.

    Depth and height are one side here, and so are those of kernels and strides: the products are the same.
    """
    gpu = load_gpu(name)
    for row in _rows(folder / "code-snippet" / "conv3d.csv"):
        if row["device"] != name:
            continue
        channels, side, filters, kernel, pad, stride = (
            int(row[key]) for key in ("channels", "side", "filters", "kernel", "pad", "stride")
        )
        out = (side + 2 * pad - kernel) // stride + 1
        shape = {
            "channels": channels, "filters": filters, "height": side**2, "width": side, "kernel_h": kernel**2,
            "kernel_w": kernel, "stride_h": stride**2, "stride_w": stride, "groups": 1, "out_height": out**2,
            "out_width": out,
        }  # fmt: skip
        phases: dict[str, tuple[Phase, ...]] = {
            "forward": ("forward",),
            "backward": ("backward_data", "backward_weights"),
        }
        columns: dict[str, Layout] = {"first": "nchw", "last": "nhwc"}
        for column, layout in columns.items():
            for call, each in phases.items():
                taken = float(row[f"{column}_{call}_ms"]) * 1e-3
                kernels = (
                    Kernel(gpu, "amp-fp16", "convolution", shape, int(row["n"]), phase, taken, ()) for phase in each
                )
                yield Timed(tuple(kernels), layout, taken)


class Norm(NamedTuple):
    """One timed batch norm with channels last: what its input holds, and the rate of the memory it lies in."""

    num_bytes: float
    bytes_per_s: float
    forward_s: float
    backward_s: float


def norms_channels_last() -> Iterator[Norm]:
    """Yield code-snippet's batch norms of 64 channels in three dimensions in 16 bits, channels last (MIT licence)."""
    for row in _rows(NORMS):
        num_bytes = 2.0 * int(row["n"]) * int(row["channels"]) * int(row["side"]) ** 3
        rate = load_gpu(row["device"]).memory_bytes_per_s
        yield Norm(num_bytes, rate, float(row["forward_ms"]) * 1e-3, float(row["backward_ms"]) * 1e-3)


def _convolution(
    channels: int, filters: int, height: int, width: int, kernel_h: int, kernel_w: int, pad_h: int, pad_w: int,
    stride_h: int, stride_w: int,
) -> dict[str, int]:  # fmt: skip
    return {
        "channels": channels, "filters": filters, "height": height, "width": width, "kernel_h": kernel_h,
        "kernel_w": kernel_w, "stride_h": stride_h, "stride_w": stride_w, "groups": 1,
        "out_height": (height + 2 * pad_h - kernel_h) // stride_h + 1,
        "out_width": (width + 2 * pad_w - kernel_w) // stride_w + 1,
    }  # fmt: skip


def _precision(row: dict[str, str]) -> str:
    if row["device"] not in DEEPBENCH_GPUS:
        return ""
    if "FP32" in row["sheet"]:
        return "fp32"
    return "amp-fp16" if "Mixed math" in row["sheet"] else ""


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
