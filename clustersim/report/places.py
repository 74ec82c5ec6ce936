"""What a rank is called by its place in a layout."""

from __future__ import annotations

from clustersim.parallelism.grid import AXES, Grid
from clustersim.results import Run

_PARTS = {"paths": "part", "local-fields": "tile"}
_WORDS = {"data": "copy", "tensor": "tensor", "context": "context", "expert": "expert"}


def part_word(run: Run) -> str:
    """Return what the parts are called that a copy of the model is cut into: stages, unless they are tiles or paths."""
    return _PARTS.get(str(run.layout.get("kind")), "stage")


def place_name(run: Run, rank: int) -> str:
    """Return where a rank lies along the axes that have several places; empty where no copy is laid out.

    A GPU of several paths has a part of them: `part 1, copy 0`.
    """
    if not run.layout:
        return ""
    grid = Grid(**{key: value for key, value in run.layout.items() if key != "kind"})
    places = dict(zip(AXES, grid.coordinates(rank), strict=True))
    words = {"pipeline": part_word(run), **_WORDS}
    return ", ".join(f"{word} {places[axis]}" for axis, word in words.items() if getattr(grid, axis) > 1)
