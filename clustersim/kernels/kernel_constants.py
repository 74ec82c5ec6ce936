"""The few constants of the kernel model, read from `kernel_fit.yaml`, and the choice of constants for a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from clustersim.errors import InputError, unknown_name
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.tensor_products import ProductConstants

FIT_FILE = Path(__file__).with_name("kernel_fit.yaml")
_SECTION = re.compile(r"^([a-z_]+):$")
_ENTRY = re.compile(r"^  ([a-z0-9-]+):")


@dataclass(frozen=True)
class ShapeConstants:
    """How the efficiency of one chip's kernels depends on their shape.

    `*_tile_half` is the tile side at which operand traffic inside the multiprocessor halves its rate, `*_prologue` the
    inner-dimension steps that a tile needs before it runs at full speed, `*_occupancy_half` the resident tiles (of 128
    x 128) at which latency halves the rate, `split_traffic` how many times a partial sum of a split inner dimension
    crosses memory, `strided_backward_data` the penalty of scattering a strided convolution's gradient, `far_operand`
    that of a large transposed operand, `far_column` the same where its columns fit one tile, `far_power_of_two` where
    its inner dimension is a power of two, `ragged_rows` that of a number of rows that is not a multiple of 4,
    `thin_traffic` how many times the matrix crosses memory in the library's kernel for few columns (0 where it has
    none), `layout_passes` how many times tensors are transposed before and after, `unaligned` the share of the ordinary
    units' peak for convolutions that tensor cores cannot run, `*_launches` the launches (of the sheet's `launch_s`)
    that a call costs in all.
    """

    convolution_tile_half: float
    convolution_prologue: float
    convolution_occupancy_half: float
    matmul_tile_half: float
    matmul_prologue: float
    matmul_occupancy_half: float
    split_traffic: float
    strided_backward_data: float
    far_operand: float
    far_column: float
    far_power_of_two: float
    ragged_rows: float
    thin_traffic: float
    layout_passes: float
    unaligned: float
    memory_efficiency: float
    matmul_launches: float
    forward_launches: float
    backward_data_launches: float
    backward_weights_launches: float

    def launches(self, phase: str) -> float:
        """Return how many launches one call of this phase (`matmul`, `forward`, ...) costs."""
        value: float = getattr(self, f"{phase}_launches")
        return value


class Traffic(NamedTuple):
    """Elements that an operation moves through memory, per element of its input, its output and its windows."""

    input: float
    output: float
    window: float = 0.0

    def elements(self, input_elements: float, output_elements: float, window: float = 1.0) -> float:
        """Return the elements moved; `window` is the number of inputs that one output reads (a pooling's kernel)."""
        return self.input * input_elements + self.output * output_elements + self.window * window * output_elements


@dataclass(frozen=True)
class KernelConstants:
    """The share of its peak that one chip's kernels reach.

    `efficiency` is the share of peak that large kernels reach, by `forward`, `backward_data` and `backward_weights`,
    and by `matmul_forward` and so on for plain GEMMs. `winograd` is the same for the batched GEMMs of Winograd's
    algorithm, for the phases that have it. `element_wise` is the memory traffic of each other operation, forward and
    backward, at `memory_efficiency` of the sheet's memory rate. `channels_last` is the traffic of the operations that
    move a different number of elements in NHWC with 16 bits. `tensor` says whether these are tensor cores,
    `pads_to_four_channels` whether they pad the channels of narrow convolutions to 4, `assumed` whether the constants
    are another chip's, and `chip` is its name in `kernel_fit.yaml`. `products` has the law of dense products
    (`tensor_products`), on chips that were fitted to tables of them.
    """

    shape: ShapeConstants
    efficiency: Mapping[str, float]
    winograd: Mapping[str, float]
    element_wise: Mapping[str, tuple[Traffic, Traffic]]
    memory_efficiency: float
    source: str
    tensor: bool
    assumed: bool
    chip: str = ""
    channels_last: Mapping[str, tuple[Traffic, Traffic]] = field(default_factory=dict)
    pads_to_four_channels: bool = False
    ordinary_prologue: float | None = None
    products: ProductConstants | None = None


class _Entries(Mapping[str, Any]):
    """The entries of one section of `kernel_fit.yaml`, by name. Each is parsed when it is read: most runs need few."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            from ruamel.yaml import YAML

            self._known |= YAML(typ="safe", pure=True).load("".join(self.lines[name]))
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)


@lru_cache(maxsize=1)
def fit_document() -> dict[str, Mapping[str, Any]]:
    """Return the content of `kernel_fit.yaml` by section: constants and their origin.

    A section begins at the start of a line, and an entry after two spaces, as the tools write them.
    """
    sections: dict[str, Mapping[str, Any]] = {}
    entries, lines = _Entries(), list[str]()
    for line in FIT_FILE.read_text(encoding="utf-8").splitlines(keepends=True):
        if begins := _SECTION.match(line):
            sections[begins[1]] = entries = _Entries()
        elif entry := _ENTRY.match(line):
            lines = entries.lines[entry[1]] = [line]
        else:
            lines.append(line)
    return sections


@lru_cache(maxsize=64)
def constants_for(architecture: str, units: str, gpu: str = "") -> KernelConstants:
    """Return the constants of an architecture's `ordinary` arithmetic units or `tensor` cores.

    A `gpu` whose own chip was timed takes that chip's constants; any other takes its architecture's.
    """
    document = fit_document()
    table = document["architectures"]
    if architecture not in table:
        raise unknown_name("GPU architecture", architecture, table)
    if units not in table[architecture]:
        raise InputError(
            f"no kernel of {architecture} with {units} units is known; write an architecture that has them, or 'other'",
            got=architecture,
            allowed=", ".join(name for name in table if units in table[name]),
        )
    entry = document["gpus"].get(gpu, {}).get(units) or table[architecture][units]
    chip = document["chips"][entry["chip"]]
    generation = document["element_wise"][table[architecture]["element_wise"]]
    source = entry.get("source", chip["source"])
    return KernelConstants(
        shape=ShapeConstants(**chip["shape"]),
        efficiency=chip["efficiency"],
        winograd=chip["winograd"],
        element_wise=_traffic(generation["traffic"]),
        memory_efficiency=generation["memory_efficiency"],
        source=source,
        tensor=units == "tensor",
        assumed=str(source).startswith("assumed"),
        chip=entry["chip"],
        channels_last=_traffic(generation.get("channels_last", {})),
        ordinary_prologue=chip.get("ordinary_prologue"),
        products=ProductConstants(**chip["products"]) if "products" in chip else None,
    )


def _traffic(table: Mapping[str, Any]) -> dict[str, tuple[Traffic, Traffic]]:
    return {op: (Traffic(**pair["forward"]), Traffic(**pair["backward"])) for op, pair in table.items()}


def constants_of(gpu: Gpu, units: str) -> KernelConstants:
    """Return the constants of a GPU, for `ordinary` units or `tensor` cores."""
    if units == "tensor" and gpu.product_share is not None:
        return constants_with_share(gpu.architecture, gpu.product_share, gpu.sources.get("product_share", gpu.name))
    if units != "tensor" or gpu.board not in convolutions_by_gpu():
        return constants_for(gpu.architecture, units, gpu.board)
    peak = gpu.flop_per_s["amp-fp16"] / gpu.num_multiprocessors
    return constants_with_convolutions(gpu.architecture, gpu.board, peak)


@lru_cache(maxsize=64)
def constants_with_share(architecture: str, share: float, source: str) -> KernelConstants:
    """Return the constants of tensor cores with which large products reach a share of the peak, after a sheet.

    All phases of products have that share, and convolutions keep their ratio to products. Nothing is known of far
    operands.
    """
    own = constants_for(architecture, "tensor")
    ratio = share / own.efficiency["matmul_forward"]
    scaled = {kind: share if kind.startswith("matmul_") else value * ratio for kind, value in own.efficiency.items()}
    near = replace(own.shape, far_operand=1.0, far_column=1.0, far_power_of_two=1.0)
    source = f"{own.source}; large products: {source}"
    return replace(own, shape=near, efficiency=scaled, products=None, source=source)


@lru_cache(maxsize=64)
def constants_with_convolutions(architecture: str, gpu: str, flop_per_s: float) -> KernelConstants:
    """Return the constants of tensor cores whose convolutions were fitted to training rates (`tools/rate_fit.py`).

    A tile's prologue and the operand traffic inside a multiprocessor take a time of their own. The constants have them
    in units of the work of a multiprocessor at its peak, so they go with that peak, `flop_per_s`.
    """
    entry = convolutions_by_gpu()[gpu]
    own, other = constants_for(architecture, "tensor", gpu), fit_document()["chips"][entry["as"]]
    ratio = flop_per_s / entry["per_multiprocessor_flop_per_s"]
    of_convolutions = ("convolution_", "forward_", "backward_", "strided_")
    kept = {key: value for key, value in other["shape"].items() if key.startswith(of_convolutions)}
    scaled = {key: kept[key] * ratio for key in ("convolution_prologue", "convolution_tile_half")}
    return replace(
        own,
        shape=replace(own.shape, **{**kept, **scaled, "layout_passes": entry["layout_passes"]}),
        efficiency={
            **own.efficiency,
            **dict.fromkeys(("forward", "backward_data", "backward_weights"), entry["share"]),
        },
        ordinary_prologue=other.get("ordinary_prologue"),
        source=f"{own.source}; convolutions: {entry['source']}",
    )


@lru_cache(maxsize=1)
def convolutions_by_gpu() -> dict[str, Mapping[str, Any]]:
    """Return the convolutions of `kernel_fit.yaml` by the name of the GPU's sheet."""
    return {gpu: entry for entry in fit_document().get("convolutions", {}).values() for gpu in entry["gpus"]}


def moved_s(num_bytes: float, gpu: Gpu, launches: int = 1) -> float:
    """Return the seconds of `launches` kernels that move these bytes at the memory rate of element-wise kernels.

    bytes / (efficiency x rate) + launches x launch; zero where no bytes are moved.
    """
    if num_bytes == 0:
        return 0.0
    efficiency = constants_of(gpu, "ordinary").memory_efficiency
    return num_bytes / (efficiency * gpu.memory_bytes_per_s) + launches * gpu.launch_s
