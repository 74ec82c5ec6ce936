"""The host that issues kernels: when it has issued each part of a GPU's work, and when the GPU has done it.

A host process issues the kernels of its GPU in order, and does not wait for them. A kernel starts at max(the stream is
free, it has been issued). For kernels 0 to n of one stream, with their seconds k and the times i at which they have
been issued, this is a max-plus scan:

    end of kernel n = max over j <= n of (i[j] + k[j] + ... + k[n]), and not before start + k[0] + ... + k[n]

So the GPU is idle before kernel j only if the host has issued it later than the GPU has done all before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

FASTEST = 0.5
"""Issue times that cannot keep the GPU waiting at this slowdown are left out: at a larger one they cannot either."""


class PassIssue(NamedTuple):
    """What the host issues for one pass of a layer: `kernels` kernels of equal length, in `host_s` seconds."""

    host_s: float = 0.0
    kernels: int = 0

    def __add__(self, other: tuple[object, ...]) -> PassIssue:
        """Return both passes as one."""
        assert isinstance(other, PassIssue)
        return PassIssue(self.host_s + other.host_s, self.kernels + other.kernels)

    def scaled(self, factor: float) -> PassIssue:
        """Return the same kernels, issued by a host that takes `factor` times as long."""
        return PassIssue(self.host_s * factor, self.kernels)


NOT_ISSUED = PassIssue()
"""Work that needs no host: its seconds contain the host already, or it is not simulated."""


class IssueTimes:
    """When work of a GPU has been issued.

    The work beyond `work_s[i]` seconds of kernels, at a slowdown of 1, cannot run before the host has issued for
    `issued_s[i]` seconds; both are [n], and ascend. `host_s` is the time in which all is issued. Treat as immutable.

    `parts` stand for the arrays until these are read: issue times of parts of the work, with the seconds of kernels and
    of the host before each. Most programs are compiled for their memory only.
    """

    __slots__ = ("_arrays", "_binding", "_parts", "host_s")

    def __init__(
        self,
        work_s: np.ndarray,
        issued_s: np.ndarray,
        host_s: float,
        parts: Sequence[tuple[float, float, IssueTimes]] = (),
    ):
        self._arrays, self.host_s, self._parts = (work_s, issued_s), host_s, parts
        self._binding: IssueTimes | None = None

    @property
    def work_s(self) -> np.ndarray:
        """Seconds of kernels before each issue time [n]."""
        return self._joined()[0]

    @property
    def issued_s(self) -> np.ndarray:
        """Seconds that the host needs up to each issue time [n]."""
        return self._joined()[1]

    def _joined(self) -> tuple[np.ndarray, np.ndarray]:
        if self._parts:
            done_s, before_s, parts = zip(*self._parts, strict=True)
            work_s, issued_s = zip(*[part._joined() for part in parts], strict=True)
            sizes = [len(each) for each in work_s]
            self._arrays = (
                np.repeat(done_s, sizes) + np.concatenate(work_s),
                np.repeat(before_s, sizes) + np.concatenate(issued_s),
            )
            self._parts = ()
        return self._arrays

    def __len__(self) -> int:
        return len(self._joined()[0])

    def __eq__(self, other: object) -> bool:
        """Say whether the issue times are the same."""
        if not isinstance(other, IssueTimes):
            return NotImplemented
        return self is other or (self.host_s == other.host_s and self.rows == other.rows)

    def __hash__(self) -> int:
        """Return a hash of the time in which all is issued."""
        return hash((len(self), self.host_s))

    @property
    def rows(self) -> list[tuple[float, float]]:
        """Pairs of `work_s` and `issued_s`."""
        return list(zip(self.work_s.tolist(), self.issued_s.tolist(), strict=True))

    def that_bind(self, slowdown: float = FASTEST) -> np.ndarray:
        """Return the numbers of the issue times that can keep the GPU waiting at this slowdown, or at a larger one.

        An issue time binds if it is later than the time at which the GPU reaches it, whatever the lead of the host.

        >>> issue_times([(1.0, PassIssue(1.0, 1)), (5.0, PassIssue(1.0, 1)), (1.0, PassIssue(1.0, 1))]).that_bind()
        array([0, 1])
        """
        late_s = self.issued_s - slowdown * self.work_s
        before_s = np.maximum.accumulate(np.concatenate([[-np.inf], late_s[:-1]]))
        return np.flatnonzero(late_s > before_s)

    @property
    def binding(self) -> IssueTimes:
        """The issue times that can keep a GPU waiting that is less than twice as fast as the mean one."""
        if self._binding is None:
            self._binding = self.only(self.that_bind()) if len(self) else self
        return self._binding

    def only(self, numbers: np.ndarray) -> IssueTimes:
        """Return some of the issue times."""
        return IssueTimes(self.work_s[numbers], self.issued_s[numbers], self.host_s)

    def between(self, first: int, end: int, done_s: float) -> IssueTimes:
        """Return the issue times from number `first` to before `end`, for work after `done_s` seconds of kernels."""
        if first == end:
            return NO_ISSUE
        return IssueTimes(self.work_s[first:end] - done_s, self.issued_s[first:end], self.host_s)

    def late_s(self, slowdown: np.ndarray, host_s: np.ndarray) -> np.ndarray:
        """Return how late the start of all work would have to be for each of the first issue times not to bind.

        [n, num_ranks]. `slowdown` and `host_s`, the time at which the host begins, are [num_ranks]. Work that ends
        after the first i issue times, w seconds of kernels from the start, ends at late[i - 1] + slowdown w at the
        earliest.
        """
        late_s: np.ndarray = host_s + self.issued_s[:, None] - slowdown * self.work_s[:, None]
        return np.maximum.accumulate(late_s, axis=0)

    def last_wait(self, start_s: float, host_s: float, slowdown: float) -> tuple[float, float] | None:
        """Return when the GPU goes on after its last wait for the host, and the seconds of kernels done by then.

        It starts at `start_s` with the host at `host_s`. None: it never waits.
        """
        if not len(self):
            return None
        late_s = host_s + self.issued_s - slowdown * self.work_s
        last = int(late_s.argmax())
        if late_s[last] <= start_s:
            return None
        return host_s + float(self.issued_s[last]), float(self.work_s[last])

    def end_s(self, start_s: float, host_s: float, work_s: float, slowdown: float) -> float:
        """Return when `work_s` seconds of kernels end, which start at `start_s` with the host at `host_s`."""
        from_s, done_s = self.last_wait(start_s, host_s, slowdown) or (start_s, 0.0)
        return from_s + slowdown * (work_s - done_s)


class IssueBuilder:
    """Builds issue times pass by pass. `work_s` are the seconds of kernels, `host_s` those of the host so far."""

    def __init__(self) -> None:
        self.work_s = self.host_s = 0.0
        self._rows: list[tuple[float, float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, seconds: float, issue: PassIssue) -> None:
        """Add a pass of some seconds of kernels: its first kernel and its last one have their issue times."""
        if issue.kernels and seconds:
            each_s, last_s = issue.host_s / issue.kernels, seconds / issue.kernels
            self._rows.append((self.work_s, self.host_s + each_s))
            if issue.kernels > 1:
                self._rows.append((self.work_s + seconds - last_s, self.host_s + issue.host_s))
        self.host_s += issue.host_s
        self.work_s += seconds

    def call(self, host_s: float) -> None:
        """Add a call that takes the host `host_s` seconds, such as of a collective, which is issued after this."""
        if host_s:
            self.host_s += host_s
            self._rows.append((self.work_s, self.host_s))

    def build(self) -> IssueTimes:
        """Return the issue times."""
        rows = np.array(self._rows, dtype=float).reshape(-1, 2)
        return IssueTimes(rows[:, 0], rows[:, 1], self.host_s)


def issue_times(passes: Iterable[tuple[float, PassIssue]]) -> IssueTimes:
    """Return the issue times of passes, each with the seconds of its kernels."""
    builder = IssueBuilder()
    for seconds, issue in passes:
        builder.add(seconds, issue)
    return builder.build()


@lru_cache(maxsize=4096)
def issue_of_pass(seconds: float, *issues: PassIssue) -> IssueTimes:
    """Return the issue times of one pass, of which several may be issued as one.

    Those of the latest passes are kept, since layers repeat.
    """
    issue = sum(issues[1:], issues[0])
    if seconds and issue.host_s:
        return issue_times([(seconds, issue)])
    return issue_of_call(issue.host_s)


def joined(parts: Sequence[tuple[float, IssueTimes]]) -> IssueTimes:
    """Return the issue times of parts of work, one after the other, each with the seconds of its kernels."""
    issued: list[tuple[float, float, IssueTimes]] = []
    done_s = host_s = 0.0
    for seconds, times in parts:
        if times.host_s:
            issued.append((done_s, host_s, times))
            host_s += times.host_s
        done_s += seconds
    if not issued:
        return NO_ISSUE
    if len(issued) == 1 and not issued[0][0]:
        return issued[0][2]
    return IssueTimes(NO_ISSUE.work_s, NO_ISSUE.issued_s, host_s, issued)


def issue_of_call(host_s: float) -> IssueTimes:
    """Return the issue times of a call that takes the host some seconds, and the GPU none."""
    if not host_s:
        return NO_ISSUE
    builder = IssueBuilder()
    builder.call(host_s)
    return builder.build()


NO_ISSUE = issue_times([])
"""The issue times of work that needs no host."""


@dataclass(frozen=True, slots=True, eq=False)
class IterationIssue:
    """The issue times of an iteration: of forward and backward, and of the update that follows them.

    `passes` begins with the iteration. `num_before` [num_cuts] are the numbers of its issue times before the end of
    forward, before each bucket is exchanged, and before the end of backward. `update` begins when backward has been
    issued.
    """

    passes: IssueTimes
    num_before: np.ndarray
    update: IssueTimes

    def __eq__(self, other: object) -> bool:
        """Say whether the issue times are the same."""
        if not isinstance(other, IterationIssue):
            return NotImplemented
        same_work = self.passes == other.passes and self.update == other.update
        return same_work and np.array_equal(self.num_before, other.num_before)

    def __hash__(self) -> int:
        """Return a hash of the issue times."""
        return hash((self.passes, self.update))

    def that_bind(self, slowdown: float) -> IterationIssue:
        """Return the issue times that can keep the GPU waiting at this slowdown, or at a larger one."""
        numbers, of_update = self.passes.that_bind(slowdown), self.update.that_bind(slowdown)
        num_before = np.searchsorted(numbers, self.num_before)
        return IterationIssue(self.passes.only(numbers), num_before, self.update.only(of_update))

    def delayed(self, before_s: float, seconds: Sequence[float]) -> IterationIssue:
        """Return the issue times with other kernels: `before_s` seconds first, `seconds` after each bucket."""
        if not before_s and not any(seconds):
            return self
        so_far_s = before_s + np.concatenate([[0.0], np.cumsum(seconds)])
        numbers = np.searchsorted(self.num_before[1:-1], np.arange(len(self.passes)), side="right")
        work_s = self.passes.work_s + so_far_s[numbers]
        passes = IssueTimes(work_s, self.passes.issued_s, self.passes.host_s)
        return IterationIssue(passes, self.num_before, self.update)

    def cut_ends_s(
        self, cuts_s: np.ndarray, start_s: np.ndarray, slowdown: np.ndarray, host_s: np.ndarray
    ) -> np.ndarray:
        """Return when the work up to each cut ends [num_cuts, num_ranks].

        `cuts_s` [num_cuts] or [num_cuts, num_ranks] are the seconds of kernels up to each cut, `start_s` and `host_s`
        [num_ranks] the times at which GPU and host begin.
        """
        cuts_s = cuts_s if cuts_s.ndim == 2 else cuts_s[:, None]
        late_s = self.passes.late_s(slowdown, host_s)
        begun_s = np.concatenate([start_s[None], np.maximum(start_s, late_s)])
        ends_s: np.ndarray = begun_s[self.num_before] + slowdown * cuts_s
        return ends_s
