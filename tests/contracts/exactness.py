"""The comparison of all contract tests: the default result of a scenario with its exact result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.model.layer import Anchoring
from clustersim.scenario import load_scenario
from clustersim.simulate import forecast

REL = 1e-9

COMPARED = (
    "iteration_s", "update_s", "samples_per_s", "efficiency", "speedup", "breakdown_s", "interval", "staleness",
    "memory_bytes", "jobs",
)  # fmt: skip


def differences(left: Any, right: Any, where: str = "") -> Iterator[str]:
    """Yield every place in which two documents differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from differences(left.get(key), right.get(key), f"{where}.{key}")
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif isinstance(left, int | float) and isinstance(right, int | float):
        if left != pytest.approx(right, rel=REL, abs=1e-12):
            yield f"{where}: {left} and {right}"
    elif left != right:
        yield f"{where}: {left!r} and {right!r}"


def check_exact(scenario: dict[str, Any], may_be_refused: bool = False, anchoring: Anchoring | None = None) -> None:
    """Compare the default run of a scenario with its exact run; with `may_be_refused`, skip a refused one.

    `anchoring` is what measured runs say of its kernels.
    """
    try:
        (point,) = load_scenario(scenario).points()
        anchored = point.point.anchored(anchoring)
        quick = forecast(anchored, point.axes).run.to_dict()
    except InputError as error:
        if not may_be_refused:
            raise
        pytest.skip(f"refused: {error}"[:160])
    exact = forecast(anchored, point.axes, exact=True).run.to_dict()
    assert list(differences({key: quick[key] for key in COMPARED}, {key: exact[key] for key in COMPARED})) == []
