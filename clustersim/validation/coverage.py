"""Whether bands hold: each checked forecast against the band that other sources give it. Pure functions of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from statistics import fmean, median

import numpy as np

from clustersim.results.band import CLASSES, MIN_SOURCES, BandEnds, Bands, Checked
from clustersim.results.features import Features

LEVELS = (0.5, 0.8, 0.9)


@dataclass(frozen=True)
class BandCheck:
    """One checked forecast with the band that it was given at a level; [num_figures] of its record.

    `score` is the interval score (Winkler 1972) of log(measured / forecast): the width, and 2 / (1 - level) times the
    distance of a figure outside.
    """

    forecast: Checked
    width: float
    held: tuple[bool, ...]
    score: tuple[float, ...]


@dataclass(frozen=True)
class Coverage:
    """How often bands of a level held; all sources have equal weight.

    `width` is the median over sources of high / low of their median band, `score` the mean interval score.
    """

    level: float
    num_sources: int
    num_figures: int
    held: float
    width: float
    score: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `held` for as many independent sources (Wilson 1927)."""
        return wilson(self.held, self.num_sources)


def leave_one_out(
    forecasts: Sequence[Checked], level: float, classes: Sequence[tuple[str, ...]] = CLASSES
) -> list[BandCheck]:
    """Return every forecast with the band that the other sources give it; `classes` as in `Bands`."""
    found = []
    for source in _sources(forecasts):
        bands = Bands([each for each in forecasts if each.source != source], classes)
        own = [each for each in forecasts if each.source == source]
        found += [_outcome(each, bands.limits(each.features, level), level) for each in own]
    return found


def older_for_newer(forecasts: Sequence[Checked], level: float) -> list[BandCheck]:
    """Return the forecasts with the band of sources that were published in earlier years, from MIN_SOURCES sources on.

    A source is as old as the first of its figures.
    """
    first: dict[str, str] = {}
    for each in forecasts:
        first[each.source] = min(each.published, first.get(each.source, each.published))
    found = []
    for source, year in first.items():
        older = [each for each in forecasts if first[each.source] < year]
        if len(_sources(older)) >= MIN_SOURCES:
            bands = Bands(older)
            own = [each for each in forecasts if each.source == source]
            found += [_outcome(each, bands.limits(each.features, level), level) for each in own]
    return found


def coverage(outcomes: Sequence[BandCheck], level: float) -> Coverage:
    """Return how often the bands of these outcomes held; there must be at least one."""
    by_source: dict[str, list[BandCheck]] = {}
    for each in outcomes:
        by_source.setdefault(each.forecast.source, []).append(each)
    return Coverage(
        level=level,
        num_sources=len(by_source),
        num_figures=sum(len(each.held) for each in outcomes),
        held=fmean(fmean(held for each in own for held in each.held) for own in by_source.values()),
        width=math.exp(median(median(each.width for each in own for _ in each.held) for own in by_source.values())),
        score=fmean(fmean(score for each in own for score in each.score) for own in by_source.values()),
    )


def by_feature(outcomes: Sequence[BandCheck], level: float) -> dict[str, Coverage]:
    """Return the coverage of the forecasts with each value of a feature that MIN_SOURCES sources have or more."""
    found = {}
    for name in (each.name for each in fields(Features)):
        for value in sorted({getattr(each.forecast.features, name) for each in outcomes}):
            same = [each for each in outcomes if getattr(each.forecast.features, name) == value]
            if len(_sources_of(same)) >= MIN_SOURCES:
                found[f"{name} {value}"] = coverage(same, level)
    return found


def wilson(share: float, number: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of `number` independent trials.

    >>> [round(end, 2) for end in wilson(0.9, 20)]
    [0.7, 0.97]
    """
    z = 1.96
    middle = share + z * z / (2 * number)
    half = z * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return (middle - half) / (1 + z * z / number), (middle + half) / (1 + z * z / number)


def _outcome(forecast: Checked, limits: BandEnds, level: float) -> BandCheck:
    logarithms = np.log(forecast.ratios)
    outside = np.maximum(limits.low - logarithms, 0.0) + np.maximum(logarithms - limits.high, 0.0)
    width = limits.high - limits.low
    score = width + 2.0 / (1.0 - level) * outside
    return BandCheck(forecast, width, tuple((outside == 0).tolist()), tuple(score.tolist()))


def _sources(forecasts: Iterable[Checked]) -> list[str]:
    """Return the sources in alphabetical order."""
    return sorted({each.source for each in forecasts})


def _sources_of(outcomes: Iterable[BandCheck]) -> list[str]:
    return _sources(each.forecast for each in outcomes)
