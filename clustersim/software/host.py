"""The host sheet of a kind of program: what its host issues, and how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from clustersim.hardware.schema import SheetFile, Sourced
from clustersim.hardware.sheet import Sheet
from clustersim.units import Duration

Counts = Literal["passes", "eager"]
"""One kernel for each pass of a layer, or PyTorch's own operators."""


@dataclass(frozen=True)
class HostProgram(Sheet):
    """What the host of a kind of program issues.

    With `awaits_messages` the host waits for its GPU at each message between pipeline stages.

    `operators` says what a layer is to it: `passes`, a kernel for each pass, or `eager`, PyTorch's own operators. With
    `autocast`, 16-bit precisions cast the fp32 weights of each layer.

    Seconds of a host whose CPU has an `issue_factor` of 1: `kernel_s` to issue a kernel of a forward pass, with what
    the interpreter does for it; `view_s` for an operator that launches none; `convolution_s` in addition for a
    convolution; `backward_kernel_s` for a kernel of a backward pass; `exchange_s` for a collective, `message_s` for a
    message, and `unit_s` for a group of layers whose weights are gathered. An update takes `update_s`, and
    `update_tensor_s` for each parameter tensor. It has `update_kernels` kernels, or one for each tensor if that is 0.
    """

    operators: Counts
    awaits_messages: bool
    autocast: bool
    kernel_s: float
    view_s: float
    convolution_s: float
    backward_kernel_s: float
    exchange_s: float
    message_s: float
    unit_s: float
    update_s: float
    update_tensor_s: float
    update_kernels: int


class HostFile(SheetFile[HostProgram]):
    """The host of a kind of program."""

    device_type = HostProgram

    operators: Sourced[Counts]
    awaits_messages: Sourced[bool]
    autocast: Sourced[bool]
    kernel_s: Sourced[Duration]
    view_s: Sourced[Duration]
    convolution_s: Sourced[Duration]
    backward_kernel_s: Sourced[Duration]
    exchange_s: Sourced[Duration]
    message_s: Sourced[Duration]
    unit_s: Sourced[Duration]
    update_s: Sourced[Duration]
    update_tensor_s: Sourced[Duration]
    update_kernels: Sourced[Annotated[int, Field(ge=0)]]
