"""Attributes a trace's work to layers, phases and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import NamedTuple

from clustersim.interchange.kineto.contexts import EventContext, EventContexts, find_contexts, is_communication
from clustersim.interchange.kineto.gradients import phase_of
from clustersim.interchange.kineto.kinds import KIND_OF
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

    def without_events(self) -> Attributed:
        """Return the same times without the events of the trace, which take much memory."""
        layers = {
            name: replace(layer, first=replace(layer.first, parent=None, children=[]))
            for name, layer in self.layers.items()
        }
        return replace(self, layers=layers)


def attribute(trace: Trace) -> Attributed:
    """Return the layers of a trace in the order of their first forward operator."""
    steps = find_steps(trace.events)
    contexts = find_contexts(trace.events, steps)
    found = Attributed({}, steps, contexts.unused_marks, _compiled(trace, contexts))
    creators = _creators(trace, contexts)
    for work in trace.work:
        step = steps.number(work.start_us)
        if step is None:
            continue
        seconds = work.duration_us / 1e6
        context = contexts.of[work.op] if work.op is not None else None
        owner = (
            None if context is None or is_communication(work.kernel) else _owner(context, creators, contexts.numbers)
        )
        if owner is None or context is None or work.op is None:
            _add_to_none(found, work, context, seconds)
            continue
        kind = "other" if owner.name in found.compiled else KIND_OF.get(owner.first.name, "other")
        layer = found.layers.setdefault(owner.name, TracedLayer(owner.name, kind, owner.first))
        phase = 0 if context.backward is None else phase_of(work.kernel, work.op, context.backward, owner.op)
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


def _creators(trace: Trace, contexts: EventContexts) -> _Creators:
    found: _Creators = {}
    first_passes = {
        context.layer[0] for context in contexts.of.values() if context.layer is not None and context.backward is None
    }
    for event in trace.events:
        context = contexts.of[event]
        if event.kind != "op" or event.sequence is None or context.layer is None:
            continue
        if context.backward is None or (context.is_recomputed and context.layer[0] in first_passes):
            found[context.is_recomputed, event.sequence] = _Owner(*context.layer, event)
    return found


def _owner(context: EventContext, creators: _Creators, numbers: Mapping[Event, int | None]) -> _Owner | None:
    """Return the owner of work at a context; None for work of no layer."""
    if context.in_optimizer or context.in_communication or context.is_recomputed:
        return None
    if context.backward is None:
        return None if context.layer is None else _Owner(*context.layer, context.layer[1])
    own = creators.get((context.outer_backward is not None, numbers.get(context.backward)))
    if own is None and context.outer_backward is not None:
        return creators.get((False, numbers.get(context.outer_backward)))
    return own


def _compiled(trace: Trace, contexts: EventContexts) -> frozenset[str]:
    layers = (contexts.of[event].layer for event in trace.events if event.name.startswith(_COMPILED))
    return frozenset(layer[0] for layer in layers if layer is not None)


def _add_to_none(found: Attributed, work: TraceWork, context: EventContext | None, seconds: float) -> None:
    """Count work that belongs to no layer."""
    share_s = seconds / found.num_steps
    if is_communication(work.kernel) or (context is not None and context.in_communication):
        found.communication_s += share_s
    elif work.is_graph:
        found.graph_s += share_s
    elif context is not None and context.in_optimizer:
        found.optimizer_s += share_s
    elif context is not None and context.is_recomputed:
        found.recomputed_s += share_s
    else:
        found.other_s += share_s
