"""Checks of `learning` that need neither torch nor the data of the task."""

from __future__ import annotations

from clustersim.errors import InputError, Mistake
from clustersim.learning import learning_mistakes
from clustersim.scenario.keys import PointKeys


def task_mistakes(point: PointKeys) -> list[Mistake]:
    """Return what in `learning` does not go together, as far as the task says without reading its data."""
    if point.learning is None or point.learning.task is None:
        return []
    try:
        num_workers = point.num_gpus if point.is_plain else point.grid.num_replicas
    except InputError:  # the layout is wrong, which is reported elsewhere
        num_workers = 1
    return list(learning_mistakes(point.learning, point.learning.task.data(), num_workers))
