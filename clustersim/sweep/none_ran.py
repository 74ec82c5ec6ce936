"""The error of a sweep of which no point has a forecast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from clustersim.errors import InputError, Mistake, SimulationError, in_order
from clustersim.results import Run, Sweep
from clustersim.results.point_error import INPUT_KINDS
from clustersim.scenario import PointTree, Scenario
from clustersim.scenario.duplicates import merge_duplicates

_MOST_CHECKED = 64
"""Points that are checked again for the places of their mistakes in the file, which results do not have."""


def check_ran(loaded: Scenario, result: Sweep) -> None:
    """Raise the error of a sweep of which no point has a forecast, as `error_of_points` returns it."""
    if result.failed and not result.ran:
        counts = Counter[str](run.error.kind for run in result.failed if run.error is not None)
        raise error_of_points(loaded, enumerate(result.runs), counts)


def error_of_points(
    loaded: Scenario, failed: Iterable[tuple[int, Run]], counts: Mapping[str, int]
) -> InputError | SimulationError:
    """Return one error for failed points, given by number, of which `counts` has how many there are of each kind.

    Equal mistakes are one. It is InputError if all points are refused or do not fit, else SimulationError.
    """
    trees = loaded.trees()
    found = [(trees[number].axes, _mistakes(trees[number], run)) for number, run in islice(failed, _MOST_CHECKED)]
    mistakes = in_order(merge_duplicates(found))
    if (num_more := sum(counts.values()) - len(found)) > 0:
        mistakes.append(Mistake(f"{num_more:,} further points have no forecast either; --strict names all mistakes"))
    error = InputError(mistakes)
    return error if set(counts) <= set(INPUT_KINDS) else SimulationError(str(error))


def _mistakes(tree: PointTree, run: Run) -> tuple[Mistake, ...]:
    """Return the mistakes of a point, with their places if its keys have them."""
    error = run.error
    assert error is not None
    try:
        if error.kind in INPUT_KINDS:
            tree.point()
    except InputError as found:
        return found.mistakes
    lack = error.needed_bytes, error.available_bytes, error.remedy
    return (Mistake(error.message, needed_bytes=lack[0], available_bytes=lack[1], remedy=lack[2]),)
