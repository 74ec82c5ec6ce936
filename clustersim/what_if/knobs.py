"""Which knobs a scenario has: made from its keys and from what the cluster, the strategies and the hardware allow."""

from __future__ import annotations

from collections.abc import Iterable

from clustersim.scenario import Scenario
from clustersim.strategies import STRATEGIES
from clustersim.what_if.base import Base, base_of
from clustersim.what_if.cluster_knobs import card_knobs, gpu_knobs, host_link_knobs, link_knobs, size_knobs
from clustersim.what_if.knob import Knob, Stop, value_text
from clustersim.what_if.straggler_knobs import straggler_knobs
from clustersim.what_if.training_knobs import batch_knobs, layout_knobs, strategy_knobs


def knobs(scenario: Scenario | Base) -> tuple[Knob, ...]:
    """Return the knobs of a scenario, in the order of the page; the values of its axes are among their choices."""
    base = scenario if isinstance(scenario, Base) else base_of(scenario)
    found: list[Knob] = []
    for made in (size_knobs, gpu_knobs, link_knobs, card_knobs, host_link_knobs, batch_knobs, layout_knobs,
                 strategy_knobs, straggler_knobs):  # fmt: skip
        found += [knob for knob in made(base) if len(knob.stops) > 1]
    known = {knob.key for knob in found}
    return (*found, *_axes(base, known))


def _axes(base: Base, known: Iterable[str]) -> list[Knob]:
    """Return a knob for each axis that no other knob has."""
    return [
        Knob(key, key, key.replace(".", " ").replace("_", " "), "choice", _stops(base, key), 0, kinds=_kinds_with(key))
        for key in base.listed
        if key not in known
    ]


def _kinds_with(key: str) -> tuple[str, ...]:
    """Return the kinds of strategy that have a key under `strategy`; none for other keys."""
    above, _, below = key.partition(".")
    name = below.partition(".")[0]
    if above != "strategy" or not name:
        return ()
    return tuple(kind for kind, strategy in STRATEGIES.items() if name in strategy.model_fields)


def _stops(base: Base, key: str) -> tuple[Stop, ...]:
    axis = base.listed[key]
    return tuple(
        Stop(value, label if isinstance(label, str) else value_text(label))
        for value, label in zip(axis.values, axis.labels, strict=True)
    )
