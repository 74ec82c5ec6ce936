"""The assumptions, warnings and shortcuts of a sweep, each once, from those of its points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clustersim.scenario import at_points
from clustersim.simulate import Forecast


class Sentences:
    """Takes the forecasts of a sweep in the order of its points; none of them is kept."""

    def __init__(self) -> None:
        self._axes: list[Mapping[str, Any]] = []
        self._assumptions: dict[str, None] = {}
        self._shortcuts: dict[str, None] = {}
        self._warned: dict[str, list[int]] = {}

    def add(self, made: Forecast) -> None:
        """Take the forecast of the next point."""
        self._assumptions |= dict.fromkeys(made.assumptions)
        self._shortcuts |= dict.fromkeys(made.shortcuts)
        for warning in dict.fromkeys(made.warnings):
            self._warned.setdefault(warning, []).append(len(self._axes))
        self._axes.append(made.run.axes)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every assumption once."""
        return tuple(self._assumptions)

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Every shortcut once."""
        return tuple(self._shortcuts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Every warning once; those that not all points have name their points."""
        found = []
        for warning, numbers in self._warned.items():
            where = at_points(numbers, self._axes)
            found.append(f"{warning} (at {where})" if where else warning)
        return tuple(found)
