"""Scenarios of many cheap points, and the modules of ledgers."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

SMALL: dict[str, Any] = {
    "name": "small",
    "model": "alexnet",
    "num_gpus": [1, 2],
    "batch": {"per_gpu": [8, 16]},
    "topology": {"kind": "star", "num_hosts": 4, "gpu": "k80", "link": ["1 Gbit/s", "10 Gbit/s"], "hop": "1 us"},
    "software": "plain",
    "strategy": [{"kind": "all-reduce", "algorithm": "ring"}, {"kind": "server"}],
}
"""16 points."""

MANY: dict[str, Any] = {**SMALL, "name": "many", "batch": {"per_gpu": [*range(8, 20)]}}
"""96 points."""


def module(name: str) -> ModuleType:
    """Return a module of ledgers; `clustersim.sweep` itself is a function."""
    return import_module(f"clustersim.sweep.ledger.{name}")
