"""The plan of a measurement: a model on a device, with its batches, precisions and layouts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from clustersim.profiling.errors import ProfilingError

PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16")
LAYOUTS = ("nchw", "nhwc")
NO_LAYOUT = "none"
"""The layout of a model without images, which has no order of channels."""

MAX_BATCH = 2**24


class CampaignPoint(NamedTuple):
    """One precision, layout and batch: a profile has it complete or not at all."""

    precision: str
    layout: str
    batch: int

    def __str__(self) -> str:
        layout = "" if self.layout == NO_LAYOUT else f" {self.layout}"
        return f"{self.precision}{layout}, batch {self.batch}"


@dataclass(frozen=True)
class Campaign:
    """All settings that determine the measured values.

    At batches of `checks` only whole iterations are timed and no layers: points to check forecasts with. Everything is
    measured in each of `rounds`.
    """

    model: str
    device: str
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    layouts: tuple[str, ...]
    autotune: bool = True
    kernel_s: float = 0.02
    max_s: float = math.inf
    checks: tuple[int, ...] = ()
    rounds: int = 1

    def points(self) -> Iterator[CampaignPoint]:
        """Yield the points in the order of measurement: small batches first."""
        for precision, layout in product(self.precisions, self.layouts):
            for batch in sorted({*self.batches, *self.checks}):
                yield CampaignPoint(precision, layout, batch)


def parse_batches(text: str, option: str = "--batch") -> tuple[int, ...]:
    """Return batches: numbers with commas, `N..M` doubling from N to M, `...` continuing the numbers before it.

    >>> parse_batches("1,2,4,...,32"), parse_batches("8..64"), parse_batches("10,20,...,50")
    ((1, 2, 4, 8, 16, 32), (8, 16, 32, 64), (10, 20, 30, 40, 50))
    """
    argument = f"{option} {text}"
    batches: list[int] = []
    parts = [part.strip() for part in text.split(",")]
    for index, part in enumerate(parts):
        first, dots, last = part.partition("..")
        if part == "...":
            end = _batch(parts[index + 1], argument) if index + 1 < len(parts) else 0
            batches += _continuation(batches, end, argument)
        elif dots:
            batches += _doublings(_batch(first, argument), _batch(last, argument))
        else:
            batches.append(_batch(part, argument))
    return tuple(sorted(set(batches)))


def parse_names(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a comma-separated list, all of which must be known, in the given order.

    >>> parse_names("layout", "nhwc, nchw", LAYOUTS)
    ('nhwc', 'nchw')
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in known:
            raise ProfilingError(f"no {option} is called '{name}' (known: {', '.join(known)})")
    return names


def _batch(part: str, argument: str) -> int:
    if not re.fullmatch(r"\d{1,8}", part.strip()) or not 1 <= int(part) <= MAX_BATCH:
        raise ProfilingError(
            f"'{part}' of {argument} is not a batch; write numbers from 1 to {MAX_BATCH}, such as 1,2,4 or 1..256 "
            "(which doubles) or 1,2,4,...,256"
        )
    return int(part)


def _doublings(first: int, last: int) -> list[int]:
    return [first * 2**power for power in range(MAX_BATCH.bit_length()) if first * 2**power <= last]


def _continuation(before: Sequence[int], end: int, argument: str) -> list[int]:
    """Return the numbers between those before `...` and the one after it: by their factor if that reaches
    it, otherwise by their difference.
    """
    if len(before) > 1 and before[-2] < before[-1] < end:
        step = before[-1] - before[-2]
        powers = _powers(before[-1], Fraction(before[-1], before[-2]), end)
        for found in (powers, list(range(before[-1], end + 1, step))):
            if found[-1] == end:
                return found[1:-1]
    raise ProfilingError(
        f"'...' of {argument} continues two numbers by their factor or their difference up to the number after it, "
        "as in 1,2,...,64"
    )


def _powers(first: int, factor: Fraction, end: int) -> list[int]:
    found = [first]
    while (following := found[-1] * factor) <= end and following.denominator == 1:
        found.append(int(following))
    return found
