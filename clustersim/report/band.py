"""The band of a forecast in words: where measurements of such forecasts lie, and what that rests on."""

from __future__ import annotations

from clustersim.report.words import count, percent, plural
from clustersim.results import Run, Sweep
from clustersim.results.band import HALF, Band

NEVER_CHECKED = "never checked"


def band_range(pair: tuple[float, float]) -> str:
    """Return the ends of a band.

    >>> band_range((80.25, 120.0))
    '80.2 to 120'
    """
    return f"{count(pair[0])} to {count(pair[1])}"


def band_heading(band: Band) -> str:
    """Return the heading of a column of bands, such as `90% band`."""
    return f"{band.level:.0%} band"


def band_cell(run: Run) -> str:
    """Return the band of a run as a cell of a table; a question mark follows where nothing like it was checked."""
    if run.band is None:
        return "–"
    low, high = (count(end) for end in run.band.samples_per_s)
    return f"{low}–{high}{' ?' if run.band.unchecked else ''}"


def band_basis(band: Band) -> str:
    """Say what a band rests on: its class and the number of sources, or that nothing like it was checked."""
    sources = plural(band.sources, "source")
    if band.unchecked:
        found = " or ".join(band.unchecked)
        words = f"{NEVER_CHECKED}: no checked forecast has {found}; band of all forecasts, {sources}"
    elif band.class_name == "all":
        words = f"all checked forecasts, {sources}"
    else:
        words = f"checked forecasts of the class {band.class_name}, {sources}"
    guesses = f"; wider, because these rates are assumed: {', '.join(band.assumed)}" if band.assumed else ""
    return f"{words}{guesses}"


def band_sentence(run: Run) -> str:
    """Say where the measurement of a run is expected; empty without a band."""
    if run.band is None:
        return ""
    (low, high), (half_low, half_high) = run.band.samples_per_s, run.band.half
    return (
        f"The measurement is between {count(low)} and {count(high)} samples/s with a probability of "
        f"{percent(run.band.level)}, and between {count(half_low)} and {count(half_high)} with {percent(HALF)}."
    )


def band_lines(sweep: Sweep) -> list[str]:
    """Return a line for each kind of band in a sweep that says what it rests on."""
    bases = dict.fromkeys((band_heading(run.band), band_basis(run.band)) for run in sweep.ran if run.band is not None)
    return [f"{heading}: {basis}" for heading, basis in bases]
