"""Operators of PyTorch's layers in eager mode, as counted by `tools/count_operators.py`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

COUNTS_FILE = Path(__file__).with_name("operator_counts.yaml")


class Operators(NamedTuple):
    """Operators of one pass of a layer: those that launch kernels, those kernels, and those that launch none."""

    kernels: int
    launches: int
    host_only: int


@lru_cache(maxsize=1)
def operator_counts() -> Mapping[str, Any]:
    """Return the content of `operator_counts.yaml`."""
    from ruamel.yaml import YAML

    document: Mapping[str, Any] = YAML(typ="safe", pure=True).load(COUNTS_FILE.read_text(encoding="utf-8"))
    return document


@lru_cache(maxsize=256)
def operators_of(kind: str, mode: str) -> tuple[Operators, Operators]:
    """Return the operators of a kind of layer, forward and backward; `mode` is fp32, bf16, autocast, ...

    >>> operators_of("layer-norm", "bf16")[0].kernels
    1
    """
    row = operator_counts()[mode]["operators"][kind]
    forward, backward = (Operators(**row[way]) for way in ("forward", "backward"))
    return forward, backward
