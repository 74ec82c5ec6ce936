"""The few constants of the kernel model, read from `kernel_fit.yaml`, and which of them a GPU takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from clustersim.errors import InputError, unknown_name
from clustersim.hardware.sheet import Gpu

FIT_FILE = Path(__file__).with_name("kernel_fit.yaml")


@dataclass(frozen=True)
class Shared:
    """What holds for every architecture: how kernels lose efficiency with their shape.

    `*_tile_half` is the side of a tile at which operand traffic inside the multiprocessor halves its rate,
    `*_prologue` the inner-dimension steps a tile pays before it is at speed, `occupancy_half` the resident
    tiles (of 128 x 128) at which latency halves the rate, `split_traffic` how many times a partial sum of a
    split inner dimension crosses memory, `strided_backward_data` the penalty of scattering a strided
    convolution's gradient, `*_launches` the launches (of the sheet's `launch_s`) a call costs in all.
    """

    convolution_tile_half: float
    convolution_prologue: float
    matmul_tile_half: float
    matmul_prologue: float
    occupancy_half: float
    split_traffic: float
    strided_backward_data: float
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
    """Elements an operation moves through memory, for each of its input's, its output's and its windows' elements."""

    input: float
    output: float
    window: float = 0.0

    def elements(self, input_elements: float, output_elements: float, window: float = 1.0) -> float:
        """Return the elements moved; `window` is how many inputs one output looks at (a pooling's kernel)."""
        return self.input * input_elements + self.output * output_elements + self.window * window * output_elements


@dataclass(frozen=True)
class KernelConstants:
    """What one architecture's kernels reach of a GPU's peak.

    `efficiency` has the share of peak that large kernels reach, by `matmul`, `forward`, `backward_data`
    and `backward_weights`; `winograd` the same for the batched products of Winograd's algorithm, for the
    phases that have it; `element_wise` the memory traffic of each other operation, forward and backward, at
    `memory_efficiency` of the sheet's memory rate; `assumed` whether they are another architecture's.
    """

    shared: Shared
    efficiency: Mapping[str, float]
    winograd: Mapping[str, float]
    element_wise: Mapping[str, tuple[Traffic, Traffic]]
    memory_efficiency: float
    source: str
    assumed: bool


@lru_cache(maxsize=1)
def fit_document() -> Mapping[str, Any]:
    """Return `kernel_fit.yaml` as it stands: constants, their origin, and the residuals of the fit."""
    from ruamel.yaml import YAML

    document: Mapping[str, Any] = YAML(typ="safe", pure=True).load(FIT_FILE.read_text(encoding="utf-8"))
    return document


@lru_cache(maxsize=64)
def constants_for(architecture: str, units: str) -> KernelConstants:
    """Return the constants of an architecture's `ordinary` arithmetic units or `tensor` cores."""
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
    entry = table[architecture][units]
    values = table[entry["like"]][units] if "like" in entry else entry
    generation = document["element_wise"][table[architecture]["element_wise"]]
    return KernelConstants(
        shared=Shared(**document["shared"]),
        efficiency=values["efficiency"],
        winograd=values["winograd"],
        element_wise={
            op: (Traffic(**pair["forward"]), Traffic(**pair["backward"])) for op, pair in generation["traffic"].items()
        },
        memory_efficiency=generation["memory_efficiency"],
        source=entry["source"],
        assumed=str(entry["source"]).startswith("assumed"),
    )


def constants_of(gpu: Gpu, units: str) -> KernelConstants:
    """Return the constants a GPU takes: its architecture's, for `ordinary` units or `tensor` cores."""
    return constants_for(gpu.architecture, units)
