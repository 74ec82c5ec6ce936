"""The events of a trace as they stand in the file, with every type checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clustersim.errors import InputError, Mistake

LAUNCHES = frozenset(
    f"{kind}_{what}" for kind in ("cuda", "xpu", "mtia", "privateuse1") for what in ("runtime", "driver")
)
"""Categories of calls that launch work on a device."""

ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
"""Categories of work on a device."""

_OTHERS = ("mtia_", "privateuse1_", "hpu_")
_IDS = ("correlation", "External id", "Sequence number")
_LISTS = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
_OF_SIZES = ("Input Dims", "Input Strides")
_USED = frozenset({"cpu_op", "user_annotation", "python_function"}) | ON_DEVICE | LAUNCHES
_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
_MOST_DURATION_US, _MOST_TIME_US = 1e12, 1e18  # eleven days; since 1970, also in nanoseconds
_BETWEEN = re.compile(r"[\s,]*")


class RawEvent(NamedTuple):
    """An event with a duration."""

    category: str
    name: str
    pid: object
    tid: object
    start_us: float
    duration_us: float
    args: Mapping[str, Any]


def raw_events(found: Sequence[object], file: str, data: bytes) -> Iterator[RawEvent]:
    """Yield the events with a duration whose category is used; a wrong type is an InputError with its line and key.

    `found` is the list of events and `data` the file that it is from.
    """
    for number, event in enumerate(found):
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        wrong = _wrong(event)
        if wrong is not None:
            key, allowed = wrong
            raise _refused(number, key, event, allowed, file, data)
        category = event.get("cat")
        if category in _USED:
            yield RawEvent(
                category, event["name"], event.get("pid"), event.get("tid"), event["ts"], event["dur"],
                event.get("args") or {},
            )  # fmt: skip


def unread_categories(found: Sequence[object]) -> list[str]:
    """Return the categories of work on other accelerators than those whose kernels are read."""
    categories = {event.get("cat") for event in found if isinstance(event, dict) and isinstance(event.get("cat"), str)}
    return sorted(each for each in categories if each and each.startswith(_OTHERS) and each not in LAUNCHES)


def _wrong(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first key of an event that has a wrong type, and what is allowed; None if all are right."""
    if not isinstance(event.get("cat", ""), str):
        return "cat", "text"
    if event.get("cat") not in _USED:
        return None
    if not isinstance(event.get("name"), str):
        return "name", "text"
    for key in ("ts", "dur"):
        value: Any = event.get(key)
        least, most = (0, _MOST_DURATION_US) if key == "dur" else (-_MOST_TIME_US, _MOST_TIME_US)
        if type(value) not in (int, float) or not least <= value <= most:
            return key, f"microseconds, {least:g} to {most:g}"
    for key in ("pid", "tid"):
        if not isinstance(event.get(key), int | str | None):
            return key, "a number or text"
    args = event.get("args")
    if args is None:
        return None
    return _wrong_args(args) if isinstance(args, dict) else ("args", "a map")


def _wrong_args(args: Mapping[str, Any]) -> tuple[str, str] | None:
    for key in _IDS:
        if not isinstance(args.get(key), int | str | None):
            return f"args.{key}", "a number"
    for key in _LISTS:
        value = args.get(key)
        if value is not None and not isinstance(value, list):
            return f"args.{key}", "a list"
    for key in _OF_SIZES:
        for size in args.get(key) or ():
            if not _is_size(size) and not (isinstance(size, list) and all(map(_is_size, size))):
                return f"args.{key}", "a list of sizes for each input"
    return None


def _is_size(value: object) -> bool:
    """Say whether a value is the sizes of a tensor; a list of these belongs to an input that is a list of tensors."""
    return isinstance(value, list) and all(type(each) is int for each in value)


def _refused(number: int, key: str, event: Mapping[str, Any], allowed: str, file: str, data: bytes) -> InputError:
    got: object = event
    for part in key.split(".", 1):
        got = got.get(part) if isinstance(got, Mapping) else None
    shown = "nothing" if got is None else json.dumps(got)[:60]
    message = f"expected {allowed} (got {shown})"
    line, key = _line(data, number), f"traceEvents.{number}.{key}"
    return InputError(Mistake(message, key, file, line, got=shown, allowed=allowed))


def _line(data: bytes, number: int) -> int | None:
    """Return the line of an event of the list, None where it cannot be found."""
    text = data.decode("utf-8-sig")
    start = _LIST.search(text)
    if start is None:
        return None
    decoder, at = json.JSONDecoder(), start.end()
    try:
        for _ in range(number):
            between = _BETWEEN.match(text, at)
            at = decoder.raw_decode(text, between.end() if between else at)[1]
    except ValueError:
        return None
    between = _BETWEEN.match(text, at)
    return text.count("\n", 0, between.end() if between else at) + 1
