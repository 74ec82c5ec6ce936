"""The `--input` option: the shape of one sample of an input, and its type."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clustersim.errors import InputError, unknown_name

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
_LARGEST = 2**31 - 1
_EXPECTED = "sizes and a type, such as 3,224,224 or 128:int64"


@dataclass(frozen=True)
class InputSpec:
    """One input: its shape without the batch, its type, and the index of the batch in its shape."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    batch_axis: int = 0

    def batched(self, batch: int) -> tuple[int, ...]:
        """Return the shape of a whole batch.

        >>> InputSpec((35, 200), batch_axis=1).batched(2)
        (35, 2, 200)
        """
        return (*self.shape[: self.batch_axis], batch, *self.shape[self.batch_axis :])

    def __str__(self) -> str:
        sizes = [str(size) for size in self.shape]
        if self.batch_axis:
            sizes.insert(self.batch_axis, "N")
        return ",".join(sizes) + ("" if self.dtype == "float32" else f":{self.dtype}")

    @property
    def sample(self) -> str:
        """The kind of a sample, as far as its shape shows: three sizes are an image, integers a sequence."""
        if self.dtype.startswith("int") and self.shape:
            return "sequence"
        return "image" if len(self.shape) == 3 and self.batch_axis == 0 else "sample"

    @property
    def tokens(self) -> int | None:
        """The tokens of a sample: of a row of integers, which are taken as numbers of words.

        >>> parse_input("128:int64").tokens, parse_input("128").tokens, parse_input(":int64").tokens
        (128, None, None)
        """
        return self.shape[0] if self.sample == "sequence" and len(self.shape) == 1 else None


def parse_input(text: str) -> InputSpec:
    """Return the input of an `--input` option; the batch is first, or at an `N`.

    >>> parse_input("3,224,224").batched(2), parse_input("35,N:int64").batched(2), parse_input(":int64").batched(2)
    ((2, 3, 224, 224), (35, 2), (2,))
    """
    sizes, _, dtype = text.replace(" ", "").partition(":")
    if dtype and dtype not in DTYPES:
        raise InputError(_named(unknown_name("type of input", dtype, DTYPES), text).mistakes)
    parts = sizes.split(",") if sizes else []
    if not text or parts.count("N") > 1 or not all(part == "N" or re.fullmatch(r"[0-9]+", part) for part in parts):
        raise InputError(f"expected {_EXPECTED} (got '{text}')", key="--input", got=text, allowed=_EXPECTED)
    axis = parts.index("N") if "N" in parts else 0
    shape = tuple(int(part) for part in parts if part != "N")
    if not all(1 <= size <= _LARGEST for size in shape):
        allowed = f"sizes from 1 to {_LARGEST:,}"
        raise InputError(f"an input has {allowed} (got '{text}')", key="--input", got=text, allowed=allowed)
    return InputSpec(shape, dtype or "float32", axis)


def _named(error: InputError, text: str) -> InputError:
    wrong = error.mistakes[0]
    return InputError(f"{wrong.message} (in '{text}')", key="--input", got=wrong.got, allowed=wrong.allowed)
