"""Maps useful time to the wall clock of a training that fails: work after the last checkpoint is done again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clustersim.failures.recovery import Recovery, writes_needed
from clustersim.results.learning import Curve, CurvePoint


class WorkSpan(NamedTuple):
    """Work without a failure: it begins at `begin_s` of the wall clock, with the state of the last checkpoint.

    That was saved after `saved_s` seconds of useful time. The span does the work up to `done_s` of useful time, with a
    checkpoint that takes `write_s` after every `interval_s` of work but the last.
    """

    begin_s: float
    saved_s: float
    done_s: float
    interval_s: float
    write_s: float

    def wall_s(self, useful_s: float) -> float:
        """Return when this useful time is reached; work that a checkpoint saves is done before it is written.

        >>> WorkSpan(begin_s=100.0, saved_s=20.0, done_s=60.0, interval_s=10.0, write_s=1.0).wall_s(40.0)
        121.0
        """
        work_s = useful_s - self.saved_s
        return self.begin_s + work_s + self.write_s * writes_needed(work_s, self.interval_s)


def work_spans(recovery: Recovery, interval_s: float, write_s: float) -> list[WorkSpan]:
    """Return the work between the failures of a training with a checkpoint of `write_s` after every `interval_s`."""
    spans, begin_s, saved_s = list[WorkSpan](), 0.0, 0.0
    for failure, lost_s, until_s in recovery.downtimes:
        num_saved = round((failure.time_s - begin_s - lost_s) / (interval_s + write_s))
        done_s = saved_s + num_saved * interval_s + min(lost_s, interval_s)
        spans.append(WorkSpan(begin_s, saved_s, done_s, interval_s, write_s))
        begin_s, saved_s = until_s, saved_s + num_saved * interval_s
    return [*spans, WorkSpan(begin_s, saved_s, math.inf, interval_s, write_s)]


def stretched(curve: Curve, spans: Sequence[WorkSpan]) -> Curve:
    """Return the curve of a training on the wall clock, from its curve over useful time.

    After a failure the model is that of the checkpoint, and the same updates are made again: at each restart there is a
    point with the last evaluation at or before the checkpoint, and later evaluations follow again.
    """
    return tuple(_points(curve, spans))


def _points(curve: Curve, spans: Sequence[WorkSpan]) -> Iterator[CurvePoint]:
    for number, span in enumerate(spans):
        before = [point for point in curve if point.seconds <= span.saved_s]
        if number:
            yield before[-1]._replace(seconds=span.begin_s)
        else:
            yield from before
        for point in curve[len(before) :]:
            if point.seconds <= span.done_s:
                yield point._replace(seconds=span.wall_s(point.seconds))


def first_wall_s(useful_s: float, spans: Sequence[WorkSpan]) -> float:
    """Return the first time of the wall clock at which this useful time is reached."""
    return next(span.wall_s(useful_s) for span in spans if useful_s <= span.done_s)
