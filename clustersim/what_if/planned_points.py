"""Which settings are computed beforehand: values of each knob alone, and combinations of the knobs that count most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, log

from clustersim.what_if.knob import Knob, Stop

Settings = Mapping[str, str]
"""The text of the value of each knob that is turned, by the name of the knob."""

Rates = Mapping[tuple[str, str], float]
"""Samples per second by knob and value, every other knob as in the scenario; without those that were refused."""

_MOST_NUMBERS, _MOST_CHOICES = 5, 4
"""Values of a knob that are combined with those of other knobs."""


@dataclass(frozen=True)
class PlannedPoints:
    """The values of each knob that are computed alone, and those of which all combinations are."""

    alone: Mapping[str, tuple[str, ...]]
    combined: Mapping[str, tuple[str, ...]]

    def combinations(self) -> list[Settings]:
        """Return every combination, as settings of all combined knobs."""
        return [dict(zip(self.combined, texts, strict=True)) for texts in product(*self.combined.values())]


def values_alone(knobs: Sequence[Knob], most: int) -> dict[str, tuple[str, ...]]:
    """Return the values of each knob that are computed alone: all, or no more than `most` besides the present ones.

    Where these are too few, each knob has as many as the others, or one less.
    """
    nums = dict.fromkeys((knob.name for knob in knobs), 1)
    places = [knob.name for turn in range(1, _most_stops(knobs)) for knob in knobs if turn < len(knob.stops)]
    for name in places[:most]:
        nums[name] += 1
    return {knob.name: tuple(stop.text for stop in _spread(knob, nums[knob.name])) for knob in knobs}


def _most_stops(knobs: Sequence[Knob]) -> int:
    return max((len(knob.stops) for knob in knobs), default=0)


def values_combined(
    knobs: Sequence[Knob], listed: Mapping[str, Sequence[str]], rates: Rates, most: int
) -> dict[str, tuple[str, ...]]:
    """Return the values of which all combinations are computed, at most `most` of them.

    Knobs come first of which the scenario itself has several `listed` values, then those that raise the rate most, then
    those that lower it most. Numbers that were refused alone are left out. A knob of which not all values fit has
    fewer; one of which not even two fit is not combined.
    """
    first = [name for name, texts in listed.items() if len(texts) > 1]

    def rank(knob: Knob) -> tuple[float, float, float]:
        gain, loss = _changes(knob, rates)
        return (first.index(knob.name) if knob.name in first else inf), -gain, loss

    wanted = sorted(knobs, key=rank)
    found: dict[str, tuple[str, ...]] = {}
    num_points = 1
    for knob in wanted:
        stops = _weighty(knob, listed.get(knob.name, ()), rates, most // num_points)
        if len(stops) > 1:
            found[knob.name] = tuple(stop.text for stop in stops)
            num_points *= len(stops)
    return {knob.name: found[knob.name] for knob in knobs if knob.name in found}


def _changes(knob: Knob, rates: Rates) -> tuple[float, float]:
    """Return the logarithms of the highest and of the lowest rate over that of the scenario."""
    found = [rates[knob.name, stop.text] for stop in knob.stops if (knob.name, stop.text) in rates]
    own = rates.get((knob.name, knob.now.text))
    return (log(max(found) / own), log(min(found) / own)) if own else (0.0, 0.0)


def _weighty(knob: Knob, listed: Sequence[str], rates: Rates, most: int) -> list[Stop]:
    """Return the values of a knob to combine: the listed ones; else numbers over the scale, or the quickest choices."""
    if knob.kind == "number":
        own = [stop for stop in knob.stops if stop.text in listed]
        return own if 1 < len(own) <= most else _spread(_without_refused(knob, rates), min(_MOST_NUMBERS, most))
    best = sorted(knob.stops, key=lambda stop: (stop.text not in listed, -rates.get((knob.name, stop.text), 0.0)))
    is_known = {stop.text for stop in knob.stops if (knob.name, stop.text) in rates} | set(listed)
    known = [stop for stop in best if stop.text in is_known and stop != knob.now]
    kept = {knob.now.text, *(stop.text for stop in known[: min(max(_MOST_CHOICES, len(listed)), most) - 1])}
    return [stop for stop in knob.stops if stop.text in kept] if most > 1 else []


def _without_refused(knob: Knob, rates: Rates) -> Knob:
    """Return the knob with its present stop and those of a known rate."""
    stops = tuple(stop for stop in knob.stops if stop == knob.now or (knob.name, stop.text) in rates)
    return replace(knob, stops=stops, current=stops.index(knob.now))


def _spread(knob: Knob, most: int) -> list[Stop]:
    """Return at most so many stops, with the current one: evenly over a scale, or the first ones of a choice."""
    stops, now = list(knob.stops), knob.current
    if len(stops) <= most:
        return stops
    if most < 2:
        return [stops[now]]
    if knob.kind == "choice":
        others = [stop for stop in stops if stop != stops[now]]
        return [stop for stop in stops if stop in (stops[now], *others[: most - 1])]
    even = [round(place * (len(stops) - 1) / (most - 1)) for place in range(most)]
    nearest = min(range(most), key=lambda place: abs(even[place] - now))
    places = sorted({*even[:nearest], now, *even[nearest + 1 :]})
    return [stops[place] for place in places]
