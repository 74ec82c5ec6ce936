"""What is around each event of a trace: backward, the optimizer, communication, and the layer that it belongs to.

A layer is a module without modules inside, what a user's mark is around if that is one module's forward pass, or an
operator with a gradient outside both. Marks around a pass, several modules, backward, the optimizer or communication
name no layer.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from clustersim.interchange.kineto.kinds import KIND_OF
from clustersim.interchange.kineto.steps import Steps
from clustersim.interchange.kineto.trace import BACKWARD, MODULE, OPTIMIZER, STEP, Event

_COMMUNICATION = (
    "c10d::", "c10d_functional::", "_c10d_functional", "record_param_comms", "nccl:", "gloo:", "mpi:", "ucc:", "xccl:",
    "symm_mem::", "fsdp::", "FSDP::", "deep_ep::",
)  # fmt: skip
_KERNEL_OF_COMMUNICATION = re.compile(
    r"nccl|rccl|oneccl|nvshmem|deep_ep|(?:one|two)_shot_all_?reduce|multimem_|cross_device_reduce", re.IGNORECASE
)
_NO_MODULES = ("GraphModule", "InterpreterModule", "_LazyGraphModule")  # parts of a compiled graph
_NO_MARKS = (STEP, "Optimizer.", "DataLoader", "enumerate(DataLoader)", "Distributed", "FullyShardedDataParallel")
_OF_A_MODULE = ("add", "concat")  # kinds that are also parts of a module


@dataclass(slots=True)
class EventContext:
    """What is around an event on its thread, itself included; `layer` has its name and the operator of its kind."""

    backward: Event | None = None
    outer_backward: Event | None = None  # around `backward`: that of a pass which was computed again
    in_optimizer: bool = False
    in_communication: bool = False
    is_recomputed: bool = False
    has_sequence: bool = False  # an operator with a gradient is around the event, itself left out
    container: Event | None = None  # the innermost module, itself left out
    layer: tuple[str, Event] | None = None


@dataclass
class EventContexts:
    """The context of every event; `unused_marks` are users' marks that name no layer though operators are inside.

    `numbers` are the sequence numbers of backward operators.
    """

    of: dict[Event, EventContext]
    numbers: dict[Event, int | None]
    unused_marks: tuple[str, ...]


@dataclass
class _Inside:
    """What is inside an event."""

    has_module: bool = False
    has_mark: bool = False  # one that names a layer
    has_other: bool = False  # backward or the optimizer
    has_gradient: bool = False  # the event itself included
    num_operators: int = 0  # outermost ones with a gradient
    num_kinds: int = 0  # of these, those that compute a known kind of layer
    known: Event | None = None  # the first operator of a known kind


def is_communication(kernel: str) -> bool:
    """Say whether a kernel sends or receives, by its name."""
    return _KERNEL_OF_COMMUNICATION.search(kernel) is not None


def is_counter(op: Event) -> bool:
    """Say whether an operator counts batches, as in batch normalisation, and computes nothing."""
    return op.name == "aten::add_" and op.types[:1] == ["long int"]


def module_name(event: Event) -> str:
    """Return a module's name without torch's prefix."""
    return event.name.removeprefix(MODULE)


def find_contexts(events: Sequence[Event], steps: Steps) -> EventContexts:
    """Return the context of every event; `events` are in the order of their start, each after what is around it."""
    contexts = {event: EventContext() for event in events}
    forward_marks: set[str] = set()
    numbers = {event: _backward_number(event) for event in events if event.name.startswith(BACKWARD)}
    for event in events:
        _look_around(event, contexts, numbers, forward_marks)
    backward_us = sorted(event.start_us for event in events if event.name.startswith(BACKWARD))
    gradients = _with_gradient(events, contexts, numbers)
    inside, marks, unused = _look_inside(events, contexts, gradients, backward_us)
    _name_layers(events, contexts, inside, marks, steps)
    return EventContexts(contexts, numbers, tuple(dict.fromkeys(unused)))


def _backward_number(event: Event) -> int | None:
    """Return the sequence number of a backward operator; where hooks run before it, only the one inside has it."""
    own = event.name.removeprefix(BACKWARD)
    inside = (each.sequence for each in event.children if each.kind == "op" and each.name == own)
    return event.sequence if event.sequence is not None else next(inside, None)


def _look_around(
    event: Event, contexts: dict[Event, EventContext], numbers: dict[Event, int | None], forward_marks: set[str]
) -> None:
    """Fill in an event's context from that of its parent.

    Inside backward, modules, marks of the forward pass and operators with a gradient of their own are computed again.
    """
    own = contexts[event]
    parent = event.parent
    around = contexts[parent] if parent is not None else EventContext()
    own.backward, own.outer_backward = around.backward, around.outer_backward
    if event.kind == "op" and event.name.startswith(BACKWARD):
        own.backward, own.outer_backward = event, around.backward
    own.in_optimizer = around.in_optimizer or event.name.startswith(OPTIMIZER)
    own.in_communication = around.in_communication or event.name.startswith(_COMMUNICATION)
    own.container = parent if parent is not None and _is_module(parent) else around.container
    is_own_mark = event.kind == "range" and not event.name.startswith((MODULE, *_NO_MARKS, *_COMMUNICATION))
    if own.backward is None and is_own_mark:
        forward_marks.add(event.name)
    has_other = event.kind == "op" and own.backward and event.sequence not in (None, numbers.get(own.backward))
    is_again = _is_module(event) or (is_own_mark and event.name in forward_marks) or bool(has_other)
    own.is_recomputed = own.backward not in (None, event) and (around.is_recomputed or is_again)
    has_sequence = around.has_sequence or (parent is not None and parent.kind == "op" and parent.sequence is not None)
    own.has_sequence = has_sequence and own.is_recomputed == around.is_recomputed


def _is_module(event: Event) -> bool:
    """Say whether a range is a module that torch recorded."""
    return event.kind == "range" and event.name.startswith(MODULE) and not module_name(event).startswith(_NO_MODULES)


def _with_gradient(
    events: Sequence[Event], contexts: dict[Event, EventContext], numbers: dict[Event, int | None]
) -> set[Event]:
    """Return the operators of forward passes whose gradient is computed: the last ones with a backward one's number.

    Operators that need no gradient have the number of the next one that does.
    """
    creators: dict[tuple[bool, int | None], Event] = {}
    wanted: dict[tuple[bool, int | None], None] = {}
    for event in events:
        context = contexts[event]
        if event is context.backward:
            wanted[context.outer_backward is not None, numbers.get(event)] = None
        elif event.kind == "op" and event.sequence is not None and (context.backward is None or context.is_recomputed):
            creators[context.is_recomputed, event.sequence] = event
    return {creators[key] for key in wanted if key in creators}


def _is_outermost(event: Event, context: EventContext, own: _Inside) -> bool:
    """Say whether an event is an operator of the forward pass with a gradient, and inside no other."""
    return (
        event.kind == "op"
        and event.sequence is not None
        and own.has_gradient
        and not (context.has_sequence or context.in_communication or context.in_optimizer)
        and (context.backward is None or context.is_recomputed)
    )


def _look_inside(
    events: Sequence[Event], contexts: dict[Event, EventContext], gradients: set[Event], backward_us: list[float]
) -> tuple[dict[Event, _Inside], set[Event], list[str]]:
    """Return what is inside each event, the marks that name a layer, and the names of those that do not."""
    found = {event: _Inside() for event in events}
    marks: set[Event] = set()
    unused: list[str] = []
    for event in reversed(events):
        own, context = found[event], contexts[event]
        if event.kind == "op" and event.name in KIND_OF and not is_counter(event):
            own.known = event
        own.has_gradient |= event in gradients
        if _is_outermost(event, context, own):
            own.num_operators = 1
            own.num_kinds = int(own.known is not None and KIND_OF[own.known.name] not in _OF_A_MODULE)
        if _is_mark(event, context):
            if _is_around_one_module(event, own, [] if context.is_recomputed else backward_us):
                marks.add(event)
            elif own.num_operators and not (own.has_module or own.has_other):
                unused.append(event.name)
        if event.parent is not None:
            _add(found[event.parent], own, event, is_mark=event in marks)
    return found, marks, unused[::-1]


def _add(outer: _Inside, own: _Inside, event: Event, is_mark: bool) -> None:
    outer.has_module |= own.has_module or _is_module(event)
    outer.has_mark |= own.has_mark or is_mark
    outer.has_other |= own.has_other or event.name.startswith((BACKWARD, OPTIMIZER))
    outer.has_gradient |= own.has_gradient
    outer.num_operators += own.num_operators
    outer.num_kinds += own.num_kinds
    outer.known = own.known or outer.known


def _is_mark(event: Event, context: EventContext) -> bool:
    """Say whether a range is a user's mark in the forward pass."""
    is_own = event.kind == "range" and not event.name.startswith((MODULE, *_NO_MARKS))
    is_backward = context.backward is not None and not context.is_recomputed
    return is_own and not (context.in_communication or context.in_optimizer or is_backward or context.has_sequence)


def _is_around_one_module(event: Event, own: _Inside, backward_us: list[float]) -> bool:
    """Say whether a mark has the operators of one module inside, and nothing of backward runs meanwhile."""
    if own.has_module or own.has_mark or own.has_other or not own.num_operators or own.num_kinds > 1:
        return False
    at = bisect_left(backward_us, event.start_us)
    return at == len(backward_us) or backward_us[at] >= event.end_us


def _name_layers(
    events: Sequence[Event],
    contexts: dict[Event, EventContext],
    inside: dict[Event, _Inside],
    marks: set[Event],
    steps: Steps,
) -> None:
    """Name calls of modules, and operators between them, such that names are the same in every step."""
    counts: dict[tuple[int | None, bool, str], int] = {}
    for event in events:
        context = contexts[event]
        around = contexts[event.parent].layer if event.parent is not None else None
        name = None if around is not None else _own_name(event, context, inside, marks)
        if name is None:
            context.layer = around
            continue
        key = (steps.number(event.start_us), context.is_recomputed, name)
        count = counts[key] = counts.get(key, 0) + 1
        context.layer = (name if count == 1 else f"{name}#{count}", inside[event].known or event)


def _own_name(event: Event, context: EventContext, inside: dict[Event, _Inside], marks: set[Event]) -> str | None:
    if event in marks:
        return event.name
    if _is_module(event):
        return None if inside[event].has_module else module_name(event)
    if not _is_outermost(event, context, inside[event]) or inside[event].has_module:
        return None
    short = event.name.removeprefix("aten::")
    return short if context.container is None else f"{module_name(context.container)}/{short}"
