"""The error of a sweep of which no point has a forecast."""

from __future__ import annotations

from itertools import islice

from clustersim.errors import InputError, Mistake, SimulationError, in_order
from clustersim.results import Run, Sweep
from clustersim.scenario import PointTree, Scenario
from clustersim.scenario.duplicates import merge_duplicates

_INPUT = frozenset(["does-not-fit", "refused"])
_MOST_CHECKED = 64
"""Points that are checked again for the places of their mistakes in the file, which results do not have."""


def check_ran(loaded: Scenario, result: Sweep) -> None:
    """Raise the error of a sweep of which no point has a forecast; equal mistakes of its points are one.

    It is InputError if all points are refused or do not fit, else SimulationError.
    """
    if result.ran or not result.failed:
        return
    pairs = zip(loaded.trees(), result.runs, strict=True)
    found = [(tree.axes, _mistakes(tree, run)) for tree, run in islice(pairs, _MOST_CHECKED)]
    mistakes = in_order(merge_duplicates(found))
    if (num_more := len(result.runs) - len(found)) > 0:
        mistakes.append(Mistake(f"{num_more:,} further points have no forecast either; --strict names all mistakes"))
    error = InputError(mistakes)
    kinds = {run.error.kind for run in result.failed if run.error is not None}
    raise error if kinds <= _INPUT else SimulationError(str(error))


def _mistakes(tree: PointTree, run: Run) -> tuple[Mistake, ...]:
    """Return the mistakes of a point, with their places if its keys have them."""
    error = run.error
    assert error is not None
    try:
        if error.kind in _INPUT:
            tree.point()
    except InputError as found:
        return found.mistakes
    lack = error.needed_bytes, error.available_bytes, error.remedy
    return (Mistake(error.message, needed_bytes=lack[0], available_bytes=lack[1], remedy=lack[2]),)
