"""Gradient compression: bytes on the wire, time to encode and decode, and whether encoded gradients can be added.

Encoding and decoding are bound by the GPU's memory: each formula counts the bytes that a kernel reads and writes per
parameter, whose gradient has `gradient_bytes`. Sums and scales over a group of parameters stay on the chip. `decoded`
says what receivers get, for a small model that is really trained (`clustersim.learning`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.kernel_constants import moved_s
from clustersim.registry import Registry
from clustersim.spec import Spec
from clustersim.units import Bandwidth

FLOAT_BYTES = 4.0
INDEX_BYTES = 4.0

_MOST_CODE = 127
"""The largest magnitude of a code of 8 bits with a sign."""


class Compression(Spec):
    """A method to shrink gradients before they are sent."""

    kind: str

    @property
    def adds_on_the_way(self) -> bool:
        """Whether two compressed gradients can be added without decoding them."""
        return False

    @property
    def residual_bytes_per_parameter(self) -> float:
        """Bytes of error feedback kept per parameter: the part that was not sent is added to the next gradient."""
        return 0.0

    def decoded(self, gradient: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return what receivers decode of a gradient [num_parameters], a new array of its type.

        With error feedback, `gradient` includes the residual. Groups of parameters are consecutive ones. A kind that
        does not override this cannot be trained with (`check_decoded`).
        """
        raise NotImplementedError(type(self).__name__)

    def check_decoded(self) -> None:
        """Raise InputError if the class does not say what receivers decode."""
        if type(self).decoded is not Compression.decoded:
            return
        raise InputError(
            f"compression '{self.kind}' does not say what receivers decode of a gradient, so nothing can be trained "
            "with it: its class needs the method `decoded`",
            got=self.kind,
            allowed="a compression with the method `decoded`",
            key="compression",
        )

    @abstractmethod
    def wire_bytes(self, gradient_bytes: float) -> float:
        """Return the bytes of a parameter's gradient on the wire."""

    @abstractmethod
    def encode_moved(self, gradient_bytes: float) -> float:
        """Return the bytes moved to encode a parameter's gradient."""

    @abstractmethod
    def decode_moved(self, gradient_bytes: float, num_gradients: int) -> float:
        """Return the bytes moved to decode the gradients of a parameter from `num_gradients` workers into their sum."""

    def encode_s(self, num_parameters: float, gradient_bytes: float, gpu: Gpu) -> float:
        """Return the seconds to encode a bucket of gradients: bytes moved / memory rate, and a launch."""
        return moved_s(num_parameters * self.encode_moved(gradient_bytes), gpu)

    def decode_s(self, num_parameters: float, gradient_bytes: float, num_gradients: int, gpu: Gpu) -> float:
        """Return the seconds to decode and sum a bucket of `num_gradients` workers: bytes moved / memory rate, and a
        launch.
        """
        moved = self.decode_moved(gradient_bytes, num_gradients) if num_gradients else 0.0
        return moved_s(num_parameters * moved, gpu)

    def added_moved(self, gradient_bytes: float) -> float:
        """Return the bytes that a server moves to add a parameter's compressed gradient to a sum."""
        return self.wire_bytes(gradient_bytes) + 2 * gradient_bytes


class NoCompression(Compression):
    """Uncompressed gradients."""

    kind: Literal["none"] = "none"

    @property
    def adds_on_the_way(self) -> bool:
        return True

    def decoded(self, gradient: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return gradient.copy()

    def wire_bytes(self, gradient_bytes: float) -> float:
        return gradient_bytes

    def encode_moved(self, gradient_bytes: float) -> float:
        return 0.0

    def decode_moved(self, gradient_bytes: float, num_gradients: int) -> float:
        return 0.0


class HalfPrecision(Compression):
    """Gradients as 16-bit floats, which are added in that format: 2 bytes. Gradients of 2 bytes are sent unchanged."""

    kind: Literal["fp16"] = "fp16"

    @property
    def adds_on_the_way(self) -> bool:
        return True

    def decoded(self, gradient: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        with np.errstate(over="ignore"):  # above 65,504 the format has infinity only
            return gradient.astype(np.float16).astype(gradient.dtype)

    def wire_bytes(self, gradient_bytes: float) -> float:
        return min(gradient_bytes, 2.0)

    def encode_moved(self, gradient_bytes: float) -> float:
        """Read the gradient, write it in 16 bits."""
        return gradient_bytes + 2.0 if gradient_bytes > 2 else 0.0

    def decode_moved(self, gradient_bytes: float, num_gradients: int) -> float:
        """Read the 16-bit sum, write it in full width."""
        return self.encode_moved(gradient_bytes)


class Custom(Compression):
    """A compression whose kernel rates may have been measured."""

    encode_bytes_per_s: Bandwidth | None = Field(
        default=None,
        gt=0,
        description="measured gradient bytes that a GPU encodes per second; limited by its memory rate if not given",
    )
    decode_bytes_per_s: Bandwidth | None = Field(
        default=None,
        gt=0,
        description="measured gradient bytes that a GPU decodes and adds per second, summed over workers; limited by "
        "its memory rate if not given",
    )

    def encode_s(self, num_parameters: float, gradient_bytes: float, gpu: Gpu) -> float:
        if self.encode_bytes_per_s is None:
            return super().encode_s(num_parameters, gradient_bytes, gpu)
        return num_parameters * gradient_bytes / self.encode_bytes_per_s

    def decode_s(self, num_parameters: float, gradient_bytes: float, num_gradients: int, gpu: Gpu) -> float:
        if self.decode_bytes_per_s is None:
            return super().decode_s(num_parameters, gradient_bytes, num_gradients, gpu)
        return num_gradients * num_parameters * gradient_bytes / self.decode_bytes_per_s


class EightBit(Custom):
    """Gradients stochastically rounded to 8 bits, with a scale for each group (QSGD; Alistarh et al., 2017).

    1 + 4 / group bytes. Groups of two workers have different scales, so encoded gradients cannot be added.
    """

    kind: Literal["int8"] = "int8"
    group: int = Field(default=512, ge=1, description="parameters that share a scale")

    def decoded(self, gradient: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return multiples of a 127th of the group's largest magnitude, the one above or below: right in the mean."""
        values = _groups(gradient, self.group)
        step = np.abs(values).max(axis=1, keepdims=True) / _MOST_CODE
        with np.errstate(invalid="ignore", divide="ignore"):
            codes = np.floor(np.where(step > 0, values / step, 0.0) + rng.random(values.shape))
            return _ungrouped(codes * step, gradient)

    def wire_bytes(self, gradient_bytes: float) -> float:
        return 1.0 + FLOAT_BYTES / self.group

    def encode_moved(self, gradient_bytes: float) -> float:
        """Read the gradient, write the code."""
        return gradient_bytes + self.wire_bytes(gradient_bytes)

    def decode_moved(self, gradient_bytes: float, num_gradients: int) -> float:
        """Read every worker's code, write the sum."""
        return num_gradients * self.wire_bytes(gradient_bytes) + gradient_bytes


class OneBit(Custom):
    """The sign of each gradient and, for each group, the values of the two signs (Seide et al., 2014).

    1 / 8 + 8 / group bytes. The rounding error is kept and added to the next gradient. Signs cannot be added.
    """

    kind: Literal["one-bit"] = "one-bit"
    group: int = Field(
        default=512, ge=1, description="parameters that share two values; the paper's are a column of a weight matrix"
    )

    @property
    def residual_bytes_per_parameter(self) -> float:
        return FLOAT_BYTES

    def decoded(self, gradient: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return for each sign in a group the mean of the values that have it, which makes the error smallest."""
        values = _groups(gradient, self.group)
        counts = np.full(len(values), self.group)
        counts[-1] -= values.size - gradient.size
        is_filled = np.arange(self.group) < counts[:, None]
        decoded = np.zeros_like(values)
        for has_sign in (values >= 0, values < 0):
            chosen = has_sign & is_filled
            total = np.where(chosen, values, 0.0).sum(axis=1, keepdims=True)
            decoded += np.where(chosen, total / np.maximum(1, chosen.sum(axis=1, keepdims=True)), 0.0)
        return _ungrouped(decoded, gradient)

    def wire_bytes(self, gradient_bytes: float) -> float:
        return 1 / 8 + 2 * FLOAT_BYTES / self.group

    def encode_moved(self, gradient_bytes: float) -> float:
        """Read the gradient and the residual, write the code and the new residual."""
        return gradient_bytes + 2 * FLOAT_BYTES + self.wire_bytes(gradient_bytes)

    def decode_moved(self, gradient_bytes: float, num_gradients: int) -> float:
        """Read every worker's code, write the sum."""
        return num_gradients * self.wire_bytes(gradient_bytes) + gradient_bytes


class TopK(Custom):
    """The largest gradients with their indices, the others kept for later (Deep Gradient Compression; Lin et al.,
    2018).

    density (gradient_bytes + 4) bytes: value and index. Two workers choose different indices, so their gradients are
    gathered and not added. The threshold comes from a small sample, as in the paper; its cost is left out.
    """

    kind: Literal["top-k"] = "top-k"
    density: float = Field(default=0.001, gt=0, le=1, description="share of the gradients that are sent")

    @property
    def residual_bytes_per_parameter(self) -> float:
        return FLOAT_BYTES

    def decoded(self, gradient: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the values of largest magnitude, at least one, and zeros; of equal ones those that come first.

        The paper's momentum correction, clipping and rising density are left out.
        """
        num_sent = max(1, round(self.density * gradient.size))
        magnitude = np.abs(gradient)
        least = np.partition(magnitude, gradient.size - num_sent)[gradient.size - num_sent]
        is_sent = magnitude > least
        is_sent[np.flatnonzero(magnitude == least)[: num_sent - is_sent.sum()]] = True
        return np.where(is_sent, gradient, np.zeros_like(gradient))

    def wire_bytes(self, gradient_bytes: float) -> float:
        return self.density * (gradient_bytes + INDEX_BYTES)

    def encode_moved(self, gradient_bytes: float) -> float:
        """Add the gradient to the residual (read both, write one), read the sum and select, write the selected part."""
        return gradient_bytes + 3 * FLOAT_BYTES + self.wire_bytes(gradient_bytes)

    def decode_moved(self, gradient_bytes: float, num_gradients: int) -> float:
        """Write zeros; read every worker's values and indices, and read and write the sum there."""
        return gradient_bytes + num_gradients * self.added_moved(gradient_bytes)

    def added_moved(self, gradient_bytes: float) -> float:
        """Read values and indices, read and write the sum there."""
        return self.wire_bytes(gradient_bytes) + self.density * 2 * gradient_bytes


def _groups(gradient: np.ndarray, group: int) -> np.ndarray:
    """Return a gradient in 64-bit groups [num_groups, group], the last filled up with zeros."""
    num_groups = -(-gradient.size // group)
    values = np.zeros(num_groups * group)
    values[: gradient.size] = gradient
    return values.reshape(num_groups, group)


def _ungrouped(values: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return groups [num_groups, group] as one array of the shape and type of a gradient."""
    return values.reshape(-1)[: gradient.size].astype(gradient.dtype)


COMPRESSIONS: Registry[type[Compression]] = Registry(
    "compression",
    {"none": NoCompression, "fp16": HalfPrecision, "int8": EightBit, "one-bit": OneBit, "top-k": TopK},
)
