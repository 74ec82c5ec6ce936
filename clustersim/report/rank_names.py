"""Names of ranks: by GPU, by host, and by position in a layout."""

from __future__ import annotations

from clustersim.parallelism.grid import AXES, Grid
from clustersim.results import Run

_PARTS = {"paths": "part", "local-fields": "tile"}
_WORDS = {"data": "copy", "tensor": "tensor", "context": "context", "expert": "expert"}


def part_word(run: Run) -> str:
    """Return the word for a part of a model replica: stage, tile, or part (of several paths)."""
    return _PARTS.get(str(run.layout.get("kind")), "stage")


def place_name(run: Run, rank: int) -> str:
    """Return a rank's position along the axes of size above 1, such as `part 1, copy 0`; empty without a layout."""
    if not run.layout:
        return ""
    grid = Grid(**{key: value for key, value in run.layout.items() if key != "kind"})
    places = dict(zip(AXES, grid.coordinates(rank), strict=True))
    words = {"pipeline": part_word(run), **_WORDS}
    return ", ".join(f"{word} {places[axis]}" for axis, word in words.items() if getattr(grid, axis) > 1)


def rank_name(run: Run, rank: int) -> str:
    """Return the name of a rank's GPU, such as `host0/gpu3`; empty where it has no name."""
    return run.rank_names[rank] if rank < len(run.rank_names) else ""


def host_names(run: Run) -> list[str]:
    """Return the host of each rank by its GPU's name, `host0/gpu3`; empty where ranks have no names."""
    return [name.rpartition("/")[0] for name in run.rank_names]
