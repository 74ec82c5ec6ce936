"""A collective as steps of messages: from which rank to which rank, in which step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clustersim.arguments import check_number, check_type
from clustersim.errors import InputError

if TYPE_CHECKING:
    from clustersim.collectives.run_length import RunLengthSteps


_MAX_CACHED = 16_384  # messages of a schedule


class Transfer(NamedTuple):
    """One message, of chunks `chunk` to `chunk + num_chunks - 1` of the buffer; if `reduce`, the receiver adds.

    Chunks are counted modulo the granularity: the one after the last is the first.
    """

    step: int
    src: int
    dst: int
    num_bytes: float
    chunk: int = 0
    num_chunks: int = 1
    reduce: bool = False


class Step(NamedTuple):
    """All messages of one step, in columns [num_transfers]."""

    src: np.ndarray
    dst: np.ndarray
    num_bytes: np.ndarray
    chunk: np.ndarray
    num_chunks: np.ndarray
    reduce: np.ndarray

    @classmethod
    def of(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        num_bytes: ArrayLike,
        chunk: ArrayLike = 0,
        num_chunks: ArrayLike = 1,
        reduce: ArrayLike = False,
    ) -> Step:
        """Return a step of columns; a value that all messages have in common may be a single number.

        >>> Step.of(src=[0, 1], dst=[1, 0], num_bytes=4.0).num_bytes.tolist()
        [4.0, 4.0]
        """
        given = (src, dst, num_bytes, chunk, num_chunks, reduce)
        shape = np.broadcast_shapes((1,), np.shape(src), np.shape(dst))
        kinds = (np.int64, np.int64, np.float64, np.int64, np.int64, np.bool_)
        return cls(*(_column(values, shape, kind) for values, kind in zip(given, kinds, strict=True)))

    def coalesced(self) -> Step:
        """Return the step with all messages from one rank to another as one message.

        It has the first message's chunk, and as many chunks as all of them. Messages that are added stay separate from
        others.

        >>> Step.of([0, 1, 0], [1, 0, 1], [1.0, 2.0, 3.0]).coalesced().num_bytes.tolist()
        [4.0, 2.0]
        """
        num_ranks = 1 + int(max(self.src.max(initial=0), self.dst.max(initial=0)))
        key = (self.src * num_ranks + self.dst) * 2 + self.reduce
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        kept = np.sort(first)
        message = np.argsort(np.argsort(first))[which]
        return Step(
            self.src[kept],
            self.dst[kept],
            np.bincount(message, self.num_bytes, len(kept)),
            self.chunk[kept],
            np.bincount(message, self.num_chunks, len(kept)).astype(np.int64),
            self.reduce[kept],
        )


class Relays(NamedTuple):
    """The hops of a chunk from rank to rank, in columns [num_hops].

    A hop counts `times`, which may be a fraction: with several parallel paths their mean is meant. It waits for the
    latency of its links and for `shares` of the transport's overhead, which depends on the protocol of the messages.
    """

    src: np.ndarray
    dst: np.ndarray
    times: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, src: ArrayLike, dst: ArrayLike, times: ArrayLike = 1.0, shares: ArrayLike = 1.0) -> Relays:
        """Return relays of columns; a value that all hops have in common may be a single number."""
        ranks = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
        return cls(*ranks, *(_column(values, ranks[0].shape, np.float64) for values in (times, shares)))


def cached_steps(step: Callable[[int], Step]) -> Callable[[int], Step]:
    """Return a function that makes steps and caches them, read-only, up to `_MAX_CACHED` messages.

    Users of a schedule ask for the first step of each pattern, and several do so one after another.
    """
    known: dict[int, Step] = {}
    num_kept = 0

    def find(number: int) -> Step:
        """Return a step, from the cache if it is there."""
        nonlocal num_kept
        if number in known:
            return known[number]
        made = step(number)
        if num_kept + len(made.src) <= _MAX_CACHED:
            num_kept += len(made.src)
            known[number] = made
        return made

    return find


def _unique(step: int) -> Hashable:
    return step


@dataclass(frozen=True, eq=False)
class Schedule:
    """Steps of messages between ranks 0 to `num_ranks` - 1; each step is made when it is asked for.

    No clock, no links and no randomness. `granularity` is the number of chunks of the buffer. A pattern that repeats is
    stored as a pattern, so memory grows with the ranks and not with the messages.

    `pattern(step)` says which steps are equal without making them: two steps with the same value have the
    same `src`, `dst`, `num_bytes` and `reduce`, and differ in their chunks at most. It is cheap.

    If one rank sends another several ranges of chunks in a step, `step` may have them as one message, as on the wire,
    with the first range's chunk; `finer` then makes the step with a separate message for each range.

    With `relays` ranks send ahead, and a chunk waits on each hop for that hop only. Every step then waits equally long,
    so that all steps together wait as long as a chunk does on its path, and `wait_s` seconds besides. That is time in
    which no message is on a link, such as that of starting a collective.

    `runs` has the messages of all steps at once if each of them is sent in many consecutive steps.

    If a schedule `passes_on`, a rank may send what it receives in the same step. `ranges` has such messages in order.
    """

    num_ranks: int
    num_steps: int
    step: Callable[[int], Step]
    granularity: int = 1
    pattern: Callable[[int], Hashable] = _unique
    finer: Callable[[int], Step] | None = None
    relays: Relays | None = None
    runs: RunLengthSteps | None = None
    wait_s: float = 0.0
    passes_on: bool = False

    @classmethod
    def repeat(
        cls,
        num_steps: int,
        src: np.ndarray,
        dst: np.ndarray,
        num_bytes: float | np.ndarray,
        chunk: Callable[[int], np.ndarray],
        reduce: Callable[[int], bool],
        granularity: int | None = None,
    ) -> Schedule:
        """Return a schedule in which every step has the same senders, receivers and sizes."""
        num_ranks = int(max(src.max(initial=-1), dst.max(initial=-1))) + 1

        def step(number: int) -> Step:
            return Step.of(src, dst, num_bytes, chunk(number), reduce=reduce(number))

        return cls(num_ranks, num_steps, step, granularity or num_ranks, reduce)

    @classmethod
    def idle(cls, num_ranks: int, granularity: int = 1) -> Schedule:
        """Return a schedule without steps, such as that of a single rank."""
        return cls(num_ranks, 0, _no_step, granularity)

    @classmethod
    def concatenate(cls, parts: Sequence[Schedule]) -> Schedule:
        """Return the schedule that runs these schedules one after another.

        They must have the same ranks and granularity, since chunk 3 of one has to be chunk 3 of the next, and all those
        that have steps have relays, or none has.
        """
        shapes = {(part.num_ranks, part.granularity) for part in parts}
        if len(shapes) != 1:
            raise InputError(
                f"schedules to concatenate need the same (ranks, chunks) (got {sorted(shapes)})",
                got=str(sorted(shapes)),
            )
        ends = np.cumsum([part.num_steps for part in parts]).tolist()

        def place(number: int) -> tuple[int, int]:
            part = bisect_right(ends, number)
            return part, number - (ends[part - 1] if part else 0)

        def step(number: int) -> Step:
            part, own = place(number)
            return parts[part].step(own)

        def pattern(number: int) -> Hashable:
            part, own = place(number)
            return part, parts[part].pattern(own)

        def finer(number: int) -> Step:
            part, own = place(number)
            return parts[part].ranges(own)

        relays, wait_s = _concatenated(parts), sum(part.wait_s for part in parts)
        return cls(parts[0].num_ranks, ends[-1], step, parts[0].granularity, pattern, finer, relays, wait_s=wait_s)

    @classmethod
    def from_steps(cls, num_ranks: int, steps: list[Step], granularity: int = 1) -> Schedule:
        """Return a schedule of explicit steps; equal steps are found by their columns."""
        return cls(num_ranks, len(steps), steps.__getitem__, granularity, _first_equal(steps).__getitem__)

    @classmethod
    def from_transfers(
        cls,
        transfers: Iterable[Transfer | Mapping[str, Any] | tuple[Any, ...]],
        num_ranks: int | None = None,
        granularity: int | None = None,
    ) -> Schedule:
        """Return a schedule of single messages, in any order.

        A message is a `Transfer`, a mapping of its fields, or (step, src, dst, num_bytes).

        >>> Schedule.from_transfers([Transfer(0, 0, 1, 8.0), Transfer(1, 1, 0, 8.0)]).num_steps
        2
        """
        check_type("transfers", transfers, Iterable, "a list of transfers")
        rows = [_transfer(transfer) for transfer in transfers]
        for row in rows:
            _check_transfer(row)
        least = max((max(row.src, row.dst) for row in rows), default=0) + 1
        if num_ranks is None:
            num_ranks = least
        check_number("num_ranks", num_ranks, least=least, is_whole=True)
        if granularity is None:
            granularity = max((row.chunk + row.num_chunks for row in rows), default=1)
        by_step: list[list[Transfer]] = [[] for _ in range(max((row.step for row in rows), default=-1) + 1)]
        for row in rows:
            by_step[row.step].append(row)
        return cls.from_steps(num_ranks, [_columns(step) for step in by_step], granularity)

    def on_wire(self, factor: float) -> Schedule:
        """Return the schedule with `factor` bytes on the wire for each byte of the buffer.

        >>> [t.num_bytes for t in Schedule.from_transfers([(0, 0, 1, 8.0)]).on_wire(2.0).transfers()]
        [16.0]
        """
        if factor == 1:
            return self

        def scaled(make: Callable[[int], Step]) -> Callable[[int], Step]:
            return lambda number: _times(make(number), factor)

        return replace(
            self,
            step=cached_steps(scaled(self.step)),
            finer=None if self.finer is None else scaled(self.finer),
            runs=None if self.runs is None else self.runs._replace(columns=_times(self.runs.columns, factor)),
        )

    def ranges(self, number: int) -> Step:
        """Return a step with a separate message for each range of chunks, whereas `step` is what is sent."""
        return (self.finer or self.step)(number)

    def transfers(self) -> Iterator[Transfer]:
        """Yield the messages one by one, for reading and for tests."""
        for number in range(self.num_steps):
            columns = self.step(number)
            for src, dst, num_bytes, chunk, num_chunks, reduce in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                yield Transfer(number, src, dst, num_bytes, chunk, num_chunks, reduce)

    def num_transfers(self) -> int:
        """Return the number of messages of all steps."""
        return self._num_transfers

    @cached_property
    def _num_transfers(self) -> int:
        if self.runs is not None:
            return self.runs.num_transfers()
        sizes: dict[Hashable, int] = {}
        num = 0
        for number in range(self.num_steps):
            pattern = self.pattern(number)
            if pattern not in sizes:
                sizes[pattern] = len(self.step(number).src)
            num += sizes[pattern]
        return num


def _times(step: Step, factor: float) -> Step:
    return step._replace(num_bytes=step.num_bytes * factor)


def _concatenated(parts: Sequence[Schedule]) -> Relays | None:
    """Return the relays of schedules one after another: all that have steps have them, or none."""
    relays = [part.relays for part in parts if part.num_steps]
    found = [own for own in relays if own is not None]
    if found and len(found) < len(relays):
        raise InputError("of schedules to concatenate, all have relays or none (got some)", got="some")
    return Relays(*map(np.concatenate, zip(*found, strict=True))) if found else None


def _transfer(given: Transfer | Mapping[str, Any] | tuple[Any, ...]) -> Transfer:
    """Return a message that was given in any of the forms that `Schedule.from_transfers` takes."""
    try:
        return Transfer(**given) if isinstance(given, Mapping) else Transfer(*given)
    except TypeError:
        fields = ", ".join(Transfer._fields)
        raise InputError(f"a transfer is a mapping or a tuple of {fields} (got {given!r})", got=repr(given)) from None


def _check_transfer(row: Transfer) -> None:
    """Raise InputError for a step, rank or chunk that is not a whole number from 0 on, or bytes that are not finite."""
    counts = row.step, row.src, row.dst, row.chunk, row.num_chunks - 1 if type(row.num_chunks) is int else None
    is_float = type(row.num_bytes) is float and 0 <= row.num_bytes < math.inf
    if is_float and all(type(count) is int and count >= 0 for count in counts):
        return  # the fast path
    for name, least in (("step", 0), ("src", 0), ("dst", 0), ("chunk", 0), ("num_chunks", 1)):
        check_number(f"the {name} of a transfer", getattr(row, name), least=least, is_whole=True)
    check_number("the num_bytes of a transfer", row.num_bytes, least=0)


def _columns(rows: list[Transfer]) -> Step:
    return Step(
        np.array([row.src for row in rows], dtype=np.int64),
        np.array([row.dst for row in rows], dtype=np.int64),
        np.array([row.num_bytes for row in rows], dtype=float),
        np.array([row.chunk for row in rows], dtype=np.int64),
        np.array([row.num_chunks for row in rows], dtype=np.int64),
        np.array([row.reduce for row in rows], dtype=bool),
    )


def _first_equal(steps: Sequence[Step]) -> list[int]:
    """Return for each step the first one with the same senders, receivers, sizes and sums."""
    first: dict[tuple[bytes, ...], int] = {}
    return [
        first.setdefault(
            tuple(column.tobytes() for column in (step.src, step.dst, step.num_bytes, step.reduce)), number
        )
        for number, step in enumerate(steps)
    ]


def _column(values: ArrayLike, shape: tuple[int, ...], kind: type[np.generic]) -> np.ndarray:
    array = np.asarray(values, dtype=kind)
    return array if array.shape == shape else np.full(shape, array, dtype=kind)


def _no_step(number: int) -> Step:
    raise InputError(f"an idle schedule has no step {number}", got=str(number), allowed="no step at all")
