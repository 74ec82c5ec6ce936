"""Reads a Kineto trace: the nesting of operators and modules."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake

MAX_BYTES = 2_000_000_000
_LAUNCHES = frozenset({"cuda_runtime", "cuda_driver"})
_ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MODULE = "nn.Module: "
_OTHERS_RANGES = ("ProfilerStep#", "Optimizer.", "DataLoader", "enumerate(DataLoader)", "nccl:", "gloo:", "Distributed")


@dataclass(eq=False)
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


@dataclass(frozen=True)
class TraceWork:
    """Duration of work, with the operator that issued it; `kernel` is empty for work on the CPU."""

    op: Event
    kernel: str
    duration_us: float


@dataclass(frozen=True)
class Trace:
    """A trace of one process: operators and module ranges in the order of their start."""

    file: str
    device: str
    events: tuple[Event, ...]
    work: tuple[TraceWork, ...]
    steps: tuple[Event, ...]
    compute_major: int | None  # the first GPU's major compute capability, None if unknown

    def refused(self, message: str) -> InputError:
        return InputError(Mistake(message, file=self.file))


def read_trace(path: str | Path) -> Trace:
    """Return a trace (.json or .json.gz); a truncated file, or another kind of file, is an InputError."""
    document = _document(Path(path))
    found = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(found, list) or not isinstance(document, dict):
        raise _wrong(
            path, "is not a trace of torch.profiler: it has no list 'traceEvents'; export_chrome_trace writes one"
        )
    raw = [event for event in found if isinstance(event, dict) and event.get("ph") == "X" and _is_timed(event)]
    events = _nested(raw)
    ops = [event for event in events if event.kind == "op"]
    if not ops:
        raise _wrong(
            path,
            "has no operators (events of category cpu_op); profile with activities=[ProfilerActivity.CPU, "
            "ProfilerActivity.CUDA]",
        )
    steps = tuple(event for event in events if event.name.startswith("ProfilerStep#"))
    device = _device(document)
    major = device.get("computeMajor")
    return Trace(
        file=str(path),
        device=str(device.get("name", "")),
        events=tuple(events),
        work=tuple(_work(raw, events, ops)),
        steps=steps,
        compute_major=major if isinstance(major, int) else None,
    )


def _document(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _wrong(path, f"a trace is under {MAX_BYTES // 10**9} GB; profile fewer steps")
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (EOFError, zlib.error):
        raise _wrong(
            path, "is truncated: the gzip data ends too early; copy the whole file, or export it again"
        ) from None
    except OSError as error:
        raise _wrong(path, f"cannot read this trace: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise _wrong(path, "is not a trace of torch.profiler: it is not text; use export_chrome_trace") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _not_json(path, text, error) from None
    except RecursionError:
        raise _wrong(path, "is not a trace of torch.profiler: it is nested too deeply") from None


def _not_json(path: Path, text: str, error: json.JSONDecodeError) -> InputError:
    whole = text.rstrip()
    if text.lstrip()[:1] == "{" and (error.pos >= len(whole) or not whole.endswith("}")):
        place = f"after {len(text):,} characters, line {text.count(chr(10)) + 1:,}"
        return _wrong(path, f"is truncated {place}; copy the whole file, or export it again and let it finish")
    return InputError(
        Mistake(f"is not JSON: {error.msg}; export_chrome_trace writes it", file=str(path), line=error.lineno,
                column=error.colno)
    )  # fmt: skip


def _is_timed(event: Mapping[str, Any]) -> bool:
    return all(isinstance(event.get(key), int | float) for key in ("ts", "dur"))


def _nested(raw: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Return operators, ranges and launches, each inside the event that was running on its thread at its start."""
    threads: dict[tuple[Any, Any], list[Event]] = {}
    for each in raw:
        kind = _kind(each)
        if kind is not None:
            args = each.get("args")
            one = Event(kind, str(each.get("name")), each["ts"], each["dur"], args if isinstance(args, dict) else {})
            threads.setdefault((each.get("pid"), each.get("tid")), []).append(one)
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


def _kind(event: Mapping[str, Any]) -> str | None:
    category, name = event.get("cat"), str(event.get("name"))
    if category == "cpu_op":
        return "op"
    if category in _LAUNCHES:
        return "launch"
    if category == "user_annotation" or (category == "python_function" and name.startswith(_MODULE)):
        return "range"
    return None


def _work(raw: Iterable[Mapping[str, Any]], events: Iterable[Event], ops: Iterable[Event]) -> Iterable[TraceWork]:
    """Yield timed work: kernels with the operator that launched them, or, without a GPU, the operators themselves."""
    on_device = [event for event in raw if event.get("cat") in _ON_DEVICE]
    if not on_device:
        for op in ops:
            inside_us = sum(child.duration_us for child in op.children if child.kind == "op")
            yield TraceWork(op, "", max(op.duration_us - inside_us, 0.0))
        return
    launches = {event.args.get("correlation"): event for event in events if event.kind == "launch"}
    by_id = {op.args.get("External id"): op for op in ops}
    for event in on_device:
        args = event.get("args") or {}
        launch = launches.get(args.get("correlation"))
        operator = launch.parent if launch is not None else None
        while operator is not None and operator.kind != "op":
            operator = operator.parent
        operator = operator or by_id.get(args.get("External id"))
        if operator is not None:
            yield TraceWork(operator, str(event.get("name")), float(event["dur"]))


def is_module(event: Event) -> bool:
    """Say whether a range is a module: one recorded by torch, or one named by the user."""
    return event.kind == "range" and not event.name.startswith(_OTHERS_RANGES)


def module_name(event: Event) -> str:
    """Return a module's name without torch's prefix."""
    return event.name.removeprefix(_MODULE)


def _device(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a trace's properties of its first GPU, empty if there is none."""
    devices = document.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    return first if isinstance(first, dict) else {}


def _wrong(path: str | Path, message: str) -> InputError:
    return InputError(Mistake(message, file=str(path)))
