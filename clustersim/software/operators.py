"""Operators of PyTorch's layers in eager mode, as counted by `tools/count_operators.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

COUNTS_FILE = Path(__file__).with_name("operator_counts.yaml")


class Operators(NamedTuple):
    """Operators of one pass of a layer: those that launch kernels, those kernels, and those that launch none."""

    kernels: int
    launches: int
    host_only: int


_MODE = re.compile(r"^([a-z0-9-]+):")
_ROW = re.compile(r"^    ([a-z0-9.-]+): \{forward: \{(.*?)\}, backward: \{(.*?)\}")
_COUNT = re.compile(r"(\w+): (\d+)")


@lru_cache(maxsize=1)
def operator_counts() -> Mapping[tuple[str, str], tuple[Operators, Operators]]:
    """Return the operators forward and backward of each mode and kind of layer, or model.

    The lines are read as the tool writes them, since a YAML parser takes a third of a second for them.
    """
    found: dict[tuple[str, str], tuple[Operators, Operators]] = {}
    mode = ""
    for line in COUNTS_FILE.read_text(encoding="utf-8").splitlines():
        if begins := _MODE.match(line):
            mode = begins[1]
        elif row := _ROW.match(line):
            found[mode, row[1]] = _operators(row[2]), _operators(row[3])
    return found


def _operators(text: str) -> Operators:
    return Operators(**{name: int(number) for name, number in _COUNT.findall(text)})


def operators_of(kind: str, mode: str) -> tuple[Operators, Operators]:
    """Return the operators of a kind of layer, forward and backward; `mode` is fp32, bf16, autocast, ...

    >>> operators_of("layer-norm", "bf16")[0].kernels
    1
    """
    return operator_counts()[mode, kind]
