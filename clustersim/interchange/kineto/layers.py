"""Attributes a trace's work to layers, phases and steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from clustersim.interchange.kineto.gradients import phase_of
from clustersim.interchange.kineto.kinds import KIND_OF
from clustersim.interchange.kineto.places import Place, Places, find_places, is_communication
from clustersim.interchange.kineto.steps import Steps, find_steps
from clustersim.interchange.kineto.trace import Event, Trace, TraceWork

PHASES = ("forward_s", "backward_data_s", "backward_weights_s")
_COMPILED = ("CompiledFunction", "Torch-Compiled Region")  # operators that torch.compile made


@dataclass
class TracedLayer:
    """A layer of a trace: seconds of each phase, step by step."""

    name: str
    op: str
    first: Event  # the operator that determines the kind of layer
    seconds: dict[int, list[float]] = field(default_factory=dict)

    def phase_s(self, phase: int, num_steps: int) -> float:
        """Return the median over steps of one phase."""
        return median(self.seconds.get(step, [0.0] * 3)[phase] for step in range(num_steps))

    def spread_s(self, num_steps: int) -> float:
        """Return the difference between the slowest and the fastest step."""
        totals = [sum(self.seconds.get(step, [0.0])) for step in range(num_steps)]
        return max(totals) - min(totals)


@dataclass
class Attributed:
    """The attributed time of a trace; times that belong to no layer are means over the steps."""

    layers: dict[str, TracedLayer]
    steps: Steps
    unused_marks: tuple[str, ...] = ()
    compiled: frozenset[str] = frozenset()  # layers with a region of torch.compile inside
    optimizer_s: float = 0.0
    communication_s: float = 0.0
    recomputed_s: float = 0.0
    graph_s: float = 0.0
    other_s: float = 0.0

    @property
    def num_steps(self) -> int:
        """The number of steps, at least 1."""
        return self.steps.count

    @property
    def layers_s(self) -> float:
        """Seconds of all layers, a mean over the steps."""
        return sum(sum(map(sum, layer.seconds.values())) for layer in self.layers.values()) / self.num_steps


def attribute(trace: Trace) -> Attributed:
    """Return the layers of a trace in the order of their first forward operator."""
    steps = find_steps(trace.events)
    places = find_places(trace.events, steps)
    found = Attributed({}, steps, places.unused_marks, _compiled(trace, places))
    creators = _creators(trace, places)
    for work in trace.work:
        step = steps.number(work.start_us)
        if step is None:
            continue
        seconds = work.duration_us / 1e6
        place = places.of[work.op] if work.op is not None else None
        owner = None if place is None or is_communication(work.kernel) else _owner(place, creators)
        if owner is None or place is None or work.op is None:
            _add_to_none(found, work, place, seconds)
            continue
        kind = "other" if owner.name in found.compiled else KIND_OF.get(owner.first.name, "other")
        layer = found.layers.setdefault(owner.name, TracedLayer(owner.name, kind, owner.first))
        phase = 0 if place.backward is None else phase_of(work.kernel, work.op, place.backward, owner.op)
        layer.seconds.setdefault(step, [0.0, 0.0, 0.0])[phase] += seconds
    found.layers = dict(sorted(found.layers.items(), key=lambda item: item[1].first.start_us))
    return found


class _Owner(NamedTuple):
    """The layer of an operator of the forward pass: its name and the operator of its kind."""

    name: str
    first: Event
    op: Event


_Creators = dict[tuple[bool, int | None], _Owner]
"""Owners by the sequence number of their operator, apart for passes that were computed again.

Of the latter, only those whose layer has a forward pass of its own: in other cases the whole region is the layer.
"""


def _creators(trace: Trace, places: Places) -> _Creators:
    found: _Creators = {}
    first_passes = {
        place.layer[0] for place in places.of.values() if place.layer is not None and place.backward is None
    }
    for event in trace.events:
        place = places.of[event]
        if event.kind != "op" or event.sequence is None or place.layer is None:
            continue
        if place.backward is None or (place.is_recomputed and place.layer[0] in first_passes):
            found[place.is_recomputed, event.sequence] = _Owner(*place.layer, event)
    return found


def _owner(place: Place, creators: _Creators) -> _Owner | None:
    """Return the owner of work at a place; None for work of no layer."""
    if place.in_optimizer or place.in_communication or place.is_recomputed:
        return None
    if place.backward is None:
        return None if place.layer is None else _Owner(*place.layer, place.layer[1])
    own = creators.get((place.outer_backward is not None, place.backward.sequence))
    if own is None and place.outer_backward is not None:
        return creators.get((False, place.outer_backward.sequence))
    return own


def _compiled(trace: Trace, places: Places) -> frozenset[str]:
    layers = (places.of[event].layer for event in trace.events if event.name.startswith(_COMPILED))
    return frozenset(layer[0] for layer in layers if layer is not None)


def _add_to_none(found: Attributed, work: TraceWork, place: Place | None, seconds: float) -> None:
    """Count work that belongs to no layer."""
    share_s = seconds / found.num_steps
    if is_communication(work.kernel) or (place is not None and place.in_communication):
        found.communication_s += share_s
    elif work.is_graph:
        found.graph_s += share_s
    elif place is not None and place.in_optimizer:
        found.optimizer_s += share_s
    elif place is not None and place.is_recomputed:
        found.recomputed_s += share_s
    else:
        found.other_s += share_s
