"""Upgrades: hardware with a name that a run could have instead, from the knobs of `what_if`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.hardware.price import price_of
from clustersim.report.rate_words import unit_of_cost
from clustersim.results import Run
from clustersim.scenario import Point, load_scenario
from clustersim.sensitivity.point import Chosen
from clustersim.sensitivity.result import Upgrade
from clustersim.what_if.base import SIZES, Base
from clustersim.what_if.changes import changes, set_texts
from clustersim.what_if.cluster_knobs import card_knobs, gpu_knobs, host_link_knobs, link_knobs, size_knobs
from clustersim.what_if.knob import Knob, Stop

_GPU = "topology.gpu"
_PRICED = (_GPU, SIZES)
"""Keys whose change is in the price of GPUs."""

MOST_GPUS = 8
"""Other GPUs that are tried at most."""


class Offer(NamedTuple):
    """An upgrade and its point; None where the scenario refuses it."""

    upgrade: Upgrade
    point: Point | None


def candidates(chosen: Chosen) -> list[Offer]:
    """Return the upgrades of a point: faster GPUs that its hosts can have, the next link, more cards, more GPUs."""
    found = []
    for knob in _knobs(chosen.base):
        for stop in _above(knob, chosen.base):
            texts = set_texts(changes(chosen.base, (knob,), {knob.name: stop}))
            texts += set_texts({SIZES: stop.value}) if knob.key == SIZES else []
            upgrade = Upgrade(knob.key, knob.label, knob.now.label, stop.label, tuple(texts))
            try:
                point = load_scenario(chosen.source, [*chosen.texts, *texts]).points()[0].point
            except InputError as error:
                found.append(Offer(replace(upgrade, refused=error.mistakes[0].message), None))
                continue
            found.append(Offer(upgrade, chosen.anchored(point)))
    return found


def priced(upgrade: Upgrade, before: Run, after: Run | InputError, point: Point) -> Upgrade:
    """Return an upgrade with the figures of its run, `after`, or why it is refused; `before` is the run without it."""
    if isinstance(after, InputError):
        return replace(upgrade, refused=after.mistakes[0].message)
    now, then, is_priced = hourly_price(before), hourly_price(after), upgrade.key in _PRICED
    costs = [run.dollars_per_million(unit_of_cost([before])) for run in (before, after)]
    per_gpu = after.samples_per_s_per_gpu / before.samples_per_s_per_gpu
    return replace(
        upgrade,
        gain=after.samples_per_s / before.samples_per_s - 1,
        samples_per_s=after.samples_per_s,
        iteration_s=after.iteration_s,
        num_gpus=point.num_gpus,
        is_priced=is_priced and then is not None,
        dollars_per_hour=then,
        dollars_per_million=costs[1] if is_priced else None,
        cost_change=costs[1] / costs[0] - 1 if is_priced and costs[0] and costs[1] else None,
        pays_up_to=None if now is None else now * per_gpu,
    )


def ranked(upgrades: Sequence[Upgrade]) -> tuple[Upgrade, ...]:
    """Return upgrades by their cost, the lowest first; then those without a price by gain; refused ones last."""

    def place(each: Upgrade) -> tuple[int, float]:
        if each.gain is None:
            return 2, 0.0
        if each.is_priced and each.dollars_per_million is not None:
            return 0, each.dollars_per_million
        return 1, -each.gain

    return tuple(sorted(upgrades, key=place))


def hourly_price(run: Run) -> float | None:
    """Return what an hour of one of a run's GPUs costs, the mean of all; None where one has no price."""
    return None if run.dollars_per_hour is None else run.dollars_per_hour / run.num_gpus


def _knobs(base: Base) -> Iterator[Knob]:
    for make in (gpu_knobs, link_knobs, card_knobs, host_link_knobs, size_knobs):
        yield from make(base)


def _above(knob: Knob, base: Base) -> list[Stop]:
    """Return the stops above the present one: GPUs that are faster in something, and the next one of others."""
    if knob.key == _GPU:
        return _faster_gpus(knob, base.point)
    now = knob.now.number or 0.0
    above = [stop for stop in knob.stops if (stop.number or 0.0) > now]
    return sorted(above, key=lambda stop: stop.number or 0.0)[:1]


def _faster_gpus(knob: Knob, point: Point) -> list[Stop]:
    """Return GPUs that compute in the point's precision, and are faster there or in memory, at most `MOST_GPUS`.

    Those with a price come first, then the others, each in the order of their rate.
    """
    now, found = load_gpu(str(knob.now.value)), []
    for stop in knob.stops:
        gpu = load_gpu(str(stop.value))
        rate = gpu.flop_per_s.get(point.precision, 0.0)
        is_faster = rate > now.flop_per_s.get(point.precision, 0.0) or gpu.memory_bytes_per_s > now.memory_bytes_per_s
        if stop != knob.now and rate and is_faster:
            has_price = price_of(gpu.name, gpu.dollars_per_hour, point.prices) is not None
            found.append((not has_price, rate, stop))
    return [stop for _, _, stop in sorted(found, key=lambda each: each[:2])[:MOST_GPUS]]
