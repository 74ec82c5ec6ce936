"""The band of a forecast: between which rates the measurement is expected, from checked forecasts like it.

The band is conformal. The score of a checked forecast is the distance of log(measured / forecast) from the median of
its class, in spreads of the class on that side; both are pooled with those of all forecasts. The band of a level
reaches to the level's quantile of all scores. Every source has the weight 1 / (n + 1) of n sources, however many
figures it has, and the rest is at infinity, so the band holds in the mean over sources for a figure of a source that is
not among them (Dunn, Wasserman and Ramdas 2022; Lee, Barber and Willett 2023).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from clustersim.results.features import Features

LEVEL, HALF = 0.9, 0.5
"""The level of the band that forecasts state, and that of the narrower one inside it."""

MIN_SOURCES = 10
"""Sources that a class needs; with fewer, the next wider class is taken."""

CLASSES: tuple[tuple[str, ...], ...] = (
    ("architecture", "precision", "program", "strategy", "layout", "origin", "hosts"),
    ("architecture", "program", "layout", "origin"),
    ("architecture", "program", "origin"),
    ("program", "origin"),
    (),
)
"""Features that forecasts of a class share, from the narrowest class to all forecasts."""

CHECKED_FEATURES = ("architecture", "strategy", "layout", "origin", "work")
"""A forecast is unlike all checked ones if none of them has its value of one of these features."""

_SIDES = 0.2, 0.8
_MIN_SPREAD = 0.01


@dataclass(frozen=True)
class Checked:
    """Forecasts of one source that were compared with measurements, equal in features.

    `ratios` are measured / forecast of their samples per second [num_figures]. `published` is the year of the source's
    figures, `made` when the forecast, or the settings that it follows from, were written down (ISO 8601). `record` is
    `first` for a recorded first forecast, or `replay` for that of the present version.
    """

    source: str
    case: str
    published: str
    made: str
    record: str
    features: Features
    ratios: tuple[float, ...]


@dataclass(frozen=True)
class Band:
    """Between which rates the measurement is expected, with a probability of `level`; `half` holds one in two.

    `class_name` is the class that it is made from, `sources` the number of sources in it. `unchecked` are the features
    that no checked forecast has (the band is then that of all forecasts), `assumed` the rates that are guesses and
    therefore widen the band of a narrower class to that of all forecasts.
    """

    level: float
    samples_per_s: tuple[float, float]
    half: tuple[float, float]
    class_name: str
    sources: int
    unchecked: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the band as JSON values."""
        return {
            "level": self.level,
            "samples_per_s": list(self.samples_per_s),
            "half": list(self.half),
            "class": self.class_name,
            "sources": self.sources,
            "unchecked": list(self.unchecked),
            "assumed": list(self.assumed),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Band:
        """Return the band of a JSON document."""
        low, high = document["samples_per_s"]
        half_low, half_high = document["half"]
        return cls(
            level=document["level"],
            samples_per_s=(low, high),
            half=(half_low, half_high),
            class_name=document["class"],
            sources=document["sources"],
            unchecked=tuple(document["unchecked"]),
            assumed=tuple(document["assumed"]),
        )


class BandEnds(NamedTuple):
    """Ends of a band, as logarithms of measured / forecast."""

    low: float
    high: float

    def joined(self, other: BandEnds) -> BandEnds:
        """Return the band that holds both."""
        return BandEnds(min(self.low, other.low), max(self.high, other.high))


class ErrorSpread(NamedTuple):
    """The median of a class's logarithms of measured / forecast, and its distances to the 80th and 20th percentile."""

    median: float
    up: float
    down: float

    def pooled(self, num_sources: int, wider: ErrorSpread) -> ErrorSpread:
        """Return the mean of this spread, of so many sources, and that of a wider class, which counts MIN_SOURCES."""
        share = num_sources / (num_sources + MIN_SOURCES)
        return ErrorSpread(*(share * own + (1.0 - share) * other for own, other in zip(self, wider, strict=True)))

    def score(self, logarithm: np.ndarray) -> np.ndarray:
        """Return the distances from the median in spreads of their side [num_figures]."""
        above = logarithm - self.median
        return np.where(above >= 0, above / self.up, -above / self.down)


class ErrorClass(NamedTuple):
    """The forecasts that share these features, and how their measurements spread."""

    names: tuple[str, ...]
    sources: int
    spread: ErrorSpread


class Bands:
    """Bands from these checked forecasts; `classes` are as in CLASSES."""

    def __init__(self, forecasts: Sequence[Checked], classes: Sequence[tuple[str, ...]] = CLASSES):
        self.forecasts = tuple(forecasts)
        self._classes = tuple(classes)
        self._known: dict[tuple[str, ...], ErrorClass | None] = {}
        self._reach: dict[float, float] = {}

    def class_of(self, features: Features) -> ErrorClass:
        """Return the narrowest class of a forecast with MIN_SOURCES sources, its spread pooled with that of all.

        It is the class of all forecasts if nothing like it was checked.
        """
        narrow = () if self.unchecked(features) else self._classes[:-1]
        found = (self._class(names, features) for names in narrow)
        own = next((each for each in found if each is not None), None)
        if own is None:
            return self.everything
        return own._replace(spread=own.spread.pooled(own.sources, self.everything.spread))

    @cached_property
    def everything(self) -> ErrorClass:
        """The class of all forecasts."""
        return ErrorClass((), _num_sources(self.forecasts), _spread(self.forecasts))

    def limits(self, features: Features, level: float) -> BandEnds:
        """Return the band of a forecast with these features at a level; infinite where there are too few sources."""
        return self._limits(self.class_of(features), level)

    def widest(self, level: float) -> BandEnds:
        """Return the band of the class of all forecasts."""
        return self._limits(self.everything, level)

    def unchecked(self, features: Features) -> tuple[str, ...]:
        """Return the features of a forecast that no checked one has, such as `architecture ada`."""
        known = self._checked_values
        return tuple(
            f"{name} {value}" for name in CHECKED_FEATURES if (value := getattr(features, name)) not in known[name]
        )

    @cached_property
    def _checked_values(self) -> dict[str, set[str]]:
        return {name: {getattr(each.features, name) for each in self.forecasts} for name in CHECKED_FEATURES}

    def _class(self, names: tuple[str, ...], features: Features) -> ErrorClass | None:
        """Return the class of a forecast by these features; None if it has fewer than MIN_SOURCES sources."""
        values = [getattr(features, name) for name in names]
        key = (*names, *values)
        if key not in self._known:
            same = [each for each in self.forecasts if [getattr(each.features, name) for name in names] == values]
            number = _num_sources(same)
            self._known[key] = ErrorClass(names, number, _spread(same)) if number >= MIN_SOURCES else None
        return self._known[key]

    def _limits(self, found: ErrorClass, level: float) -> BandEnds:
        spread, reach = found.spread, self._reach_of(level)
        return BandEnds(spread.median - reach * spread.down, spread.median + reach * spread.up)

    def _reach_of(self, level: float) -> float:
        """Return the quantile of the scores of all forecasts, each relative to its own class."""
        if level not in self._reach:
            scores = [self.class_of(each.features).spread.score(np.log(each.ratios)) for each in self.forecasts]
            weights = _weights(self.forecasts, 1.0 / (_num_sources(self.forecasts) + 1))
            self._reach[level] = _quantile(np.concatenate(scores), weights, level)
        return self._reach[level]


def band_of(
    bands: Bands,
    features: Features,
    samples_per_s: float,
    floors: tuple[float, float] = (0.0, 0.0),
    assumed: tuple[str, ...] = (),
) -> Band | None:
    """Return the band of a forecast of `samples_per_s`; None where there are too few sources for any.

    `floors` are the least distances of the ends from the middle at LEVEL and HALF, as logarithms. With `assumed` rates
    the band also holds that of all forecasts.
    """
    if not bands.forecasts:
        return None
    found, unchecked = bands.class_of(features), bands.unchecked(features)
    assumed = assumed if found.names else ()
    ends = []
    for level, floor in zip((LEVEL, HALF), floors, strict=True):
        limits = bands.limits(features, level)
        if assumed:
            limits = limits.joined(bands.widest(level))
        limits = limits.joined(BandEnds(found.spread.median - floor, found.spread.median + floor))
        ends.append((samples_per_s * math.exp(limits.low), samples_per_s * math.exp(limits.high)))
    if not all(math.isfinite(end) for pair in ends for end in pair):
        return None
    return Band(LEVEL, ends[0], ends[1], class_name(found.names, features), found.sources, unchecked, assumed)


def class_name(names: Sequence[str], features: Features) -> str:
    """Return the name of a class: the values that its forecasts share.

    >>> features = Features("ampere", "tf32", "compiled", "all-reduce", "copies", "published", "one", "products")
    >>> class_name((), features), class_name(("program", "origin"), features)
    ('all', 'compiled, published')
    """
    return ", ".join(getattr(features, name) for name in names) or "all"


def _num_sources(forecasts: Sequence[Checked]) -> int:
    return len({each.source for each in forecasts})


def _weights(forecasts: Sequence[Checked], of_a_source: float) -> np.ndarray:
    """Return the weight of each figure [num_figures]: figures of a source share its weight."""
    figures: dict[str, int] = {}
    for each in forecasts:
        figures[each.source] = figures.get(each.source, 0) + len(each.ratios)
    return np.array([of_a_source / figures[each.source] for each in forecasts for _ in each.ratios])


def _spread(forecasts: Sequence[Checked]) -> ErrorSpread:
    """Return the median of the forecasts and their spread to both sides, every source with equal weight."""
    logarithms = np.array([math.log(ratio) for each in forecasts for ratio in each.ratios])
    weights = _weights(forecasts, 1.0 / max(_num_sources(forecasts), 1))
    low, middle, high = (_quantile(logarithms, weights, share) for share in (_SIDES[0], 0.5, _SIDES[1]))
    return ErrorSpread(middle, max(high - middle, _MIN_SPREAD), max(middle - low, _MIN_SPREAD))


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return the smallest value up to which the weights sum to `share`; infinity if they do not."""
    order = np.argsort(values, kind="stable")
    place = int(np.searchsorted(np.cumsum(weights[order]), share - 1e-9))
    return float(values[order][place]) if place < len(values) else math.inf
