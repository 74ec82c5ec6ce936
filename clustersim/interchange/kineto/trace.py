"""Reads a Kineto trace: the nesting of operators and ranges, and the work that they issued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.interchange.kineto.raw import LAUNCHES, ON_DEVICE, RawEvent, raw_events, unread_categories
from clustersim.reading import parse_json, read_members

MAX_BYTES = 2_000_000_000
"""The most that a trace may unpack to."""

BACKWARD = "autograd::engine::evaluate_function: "
MODULE = "nn.Module: "
OPTIMIZER = "Optimizer.step"
STEP = "ProfilerStep#"

_OF_GRAPHS = "GraphLaunch"  # cudaGraphLaunch, cuGraphLaunch, hipGraphLaunch
_NODE = "graph node id"


@dataclass(eq=False, slots=True)
class Event:
    """A timed event on a thread; `parent` is the event around it."""

    kind: str  # op, range, launch
    name: str
    start_us: float
    duration_us: float
    args: Mapping[str, Any]
    parent: Event | None = None
    children: list[Event] = field(default_factory=list)

    @property
    def end_us(self) -> float:
        return self.start_us + self.duration_us

    @property
    def sequence(self) -> int | None:
        found = self.args.get("Sequence number")
        return found if isinstance(found, int) else None

    @property
    def sizes(self) -> list[list[int]] | None:
        """The sizes of each input, empty for one that is no tensor; None without recorded shapes."""
        values = self.args.get("Input Dims")
        return [_integers(value) for value in values] if isinstance(values, list) else None

    @property
    def strides(self) -> list[list[int]] | None:
        """The strides of each input, empty for one that is no tensor; None where they were not recorded."""
        values = self.args.get("Input Strides")
        return [_integers(value) for value in values] if isinstance(values, list) else None

    def and_all_inside(self) -> Iterator[Event]:
        """Yield this event and those inside it, at any depth, in the order of their start."""
        waiting = [self]
        while waiting:
            event = waiting.pop()
            yield event
            waiting += reversed(event.children)

    @property
    def types(self) -> list[str]:
        """The type of each input, empty without recorded shapes."""
        values = self.args.get("Input type")
        return [str(value) for value in values] if isinstance(values, list) else []


@dataclass(frozen=True, slots=True)
class TraceWork:
    """Duration of work, with the operator that issued it; `kernel` is empty for work on the CPU.

    `op` is None where the trace does not have it, as for the kernels of a CUDA graph (`is_graph`).
    """

    op: Event | None
    kernel: str
    duration_us: float
    start_us: float  # when it was issued
    is_graph: bool = False


@dataclass(frozen=True)
class Trace:
    """A trace of one process: operators and ranges in the order of their start, each after what is around it.

    Work is in the order in which it was issued.
    """

    file: str
    device: str
    events: tuple[Event, ...]
    work: tuple[TraceWork, ...]
    compute_major: int | None  # the first GPU's major compute capability, None if unknown

    def refused(self, message: str) -> InputError:
        return InputError(Mistake(message, file=self.file))


def read_traces(path: str | Path) -> Iterator[Trace]:
    """Yield the traces of a file: .json, .json.gz, or a .zip of them; another kind of file is an InputError."""
    for name, data in read_members(Path(path), MAX_BYTES):
        yield _trace(name, data)


def _trace(file: str, data: bytes) -> Trace:
    document = parse_json(data, file, "a trace of torch.profiler, which export_chrome_trace writes")
    found = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(found, list) or not isinstance(document, dict):
        raise _wrong(
            file, "is not a trace of torch.profiler: it has no list 'traceEvents'; export_chrome_trace writes one"
        )
    raw = list(raw_events(found, file, data))
    events = _nested(raw)
    if not any(event.kind == "op" for event in events):
        raise _wrong(
            file,
            "has no operators (events of category cpu_op); profile with activities=[ProfilerActivity.CPU, "
            "ProfilerActivity.CUDA]",
        )
    others = unread_categories(found)
    if others and not any(event.category in ON_DEVICE for event in raw):
        read = ", ".join(sorted(ON_DEVICE))
        raise _wrong(file, f"has work of the category {', '.join(others)}, which is not read (read are {read})")
    device = _device(document)
    major, name = device.get("computeMajor"), device.get("name")
    return Trace(
        file=file,
        device=name if isinstance(name, str) else "",
        events=tuple(events),
        work=tuple(sorted(_work(raw, events), key=lambda work: work.start_us)),
        compute_major=major if isinstance(major, int) else None,
    )


def _nested(raw: Iterable[RawEvent]) -> list[Event]:
    """Return operators, ranges and launches, each inside the event that was running on its thread at its start."""
    threads: dict[tuple[object, object], list[Event]] = {}
    for each in raw:
        kind = _kind(each)
        if kind is not None:
            event = Event(kind, each.name, each.start_us, each.duration_us, each.args)
            threads.setdefault((each.pid, each.tid), []).append(event)
    for events in threads.values():
        events.sort(key=lambda event: (event.start_us, -event.duration_us))
        around: list[Event] = []
        for event in events:
            while around and around[-1].end_us <= event.start_us:
                around.pop()
            if around:
                event.parent = around[-1]
                around[-1].children.append(event)
            around.append(event)
    return sorted((event for events in threads.values() for event in events), key=lambda event: event.start_us)


def _kind(event: RawEvent) -> str | None:
    if event.category == "cpu_op":
        return "op"
    if event.category in LAUNCHES:
        return "launch"
    if event.category == "user_annotation":
        return "range"
    return "range" if event.category == "python_function" and event.name.startswith(MODULE) else None


def _work(raw: Iterable[RawEvent], events: Sequence[Event]) -> Iterator[TraceWork]:
    """Yield timed work: kernels with the operator that launched them, or, without a GPU, the operators themselves."""
    on_device = [event for event in raw if event.category in ON_DEVICE]
    if not on_device:
        yield from _on_processor(events)
        return
    launches, by_id = _by(events, "launch", "correlation"), _by(events, "op", "External id")
    for event in on_device:
        launch = launches.get(event.args.get("correlation"))
        if (launch is not None and _OF_GRAPHS in launch.name) or event.args.get(_NODE):
            start_us = event.start_us if launch is None else launch.start_us
            yield TraceWork(None, event.name, event.duration_us, start_us, is_graph=True)
            continue
        operator = launch.parent if launch is not None else None
        while operator is not None and operator.kind != "op":
            operator = operator.parent
        operator = operator or by_id.get(event.args.get("External id"))
        issued = operator or launch
        yield TraceWork(operator, event.name, event.duration_us, event.start_us if issued is None else issued.start_us)


def _by(events: Iterable[Event], kind: str, key: str) -> dict[object, Event]:
    """Return the events of a kind by an argument, without those that do not have it."""
    return {event.args[key]: event for event in events if event.kind == kind and event.args.get(key) is not None}


def _on_processor(events: Sequence[Event]) -> Iterator[TraceWork]:
    """Yield the time of each operator without that of the operators inside it."""
    around: dict[Event, Event | None] = {}
    inside_us: dict[Event, float] = {}
    for event in events:
        parent = event.parent
        around[event] = parent if parent is None or parent.kind == "op" else around[parent]
        outer = around[event]
        if event.kind == "op" and outer is not None:
            inside_us[outer] = inside_us.get(outer, 0.0) + event.duration_us
    for event in events:
        if event.kind == "op":
            own_us = max(event.duration_us - inside_us.get(event, 0.0), 0.0)
            yield TraceWork(event, "", own_us, event.start_us)


def _integers(value: object) -> list[int]:
    """Return the sizes of a tensor; empty for a list of tensors."""
    return list(value) if isinstance(value, list) and all(type(each) is int for each in value) else []


def _device(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a trace's properties of its first GPU, empty if there is none."""
    devices = document.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    return first if isinstance(first, dict) else {}


def _wrong(path: str | Path, message: str) -> InputError:
    return InputError(Mistake(message, file=str(path)))
