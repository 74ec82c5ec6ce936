"""What came of really training a small model in the order in which a run was simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import chain, pairwise
from typing import Any, NamedTuple

MAX_LOSS = 1e6
"""The largest loss of a curve: that of a model whose loss is larger, infinite or not a number (it has diverged)."""


class CurvePoint(NamedTuple):
    """The model after some updates: the simulated time, its loss and its accuracy (None for tasks without classes).

    The loss is at most MAX_LOSS.
    """

    seconds: float
    updates: int
    loss: float
    accuracy: float | None


Curve = tuple[CurvePoint, ...]
Rows = tuple[tuple[float, float], ...]


class SeedRun(NamedTuple):
    """One training of one seed: its curve, and where they are known its rows of `consensus` and `noise`."""

    curve: Curve
    consensus: Rows = ()
    noise: Rows = ()


@dataclass(frozen=True)
class LearningRun:
    """Loss and accuracy against simulated time, over all seeds.

    `task` says what was trained, in a few words. `target_metric` is `loss` or `accuracy`, and `target` its value; both
    are None without a target. `time_to_target_s` is the mean over seeds, `time_to_target_interval` its 95 % confidence
    interval, in seconds; both are None if a seed does not reach the target, and the interval with one seed.
    `num_reached` seeds reach it. `final_loss` and `final_accuracy` are means over seeds after the last update, and
    `updates` is the number of updates of the model, each with the gradients of `samples_per_update` samples of the
    task. `samples_to_target` is the mean number of samples until the target. `curve` is the mean over seeds, each
    update at the first time at which it is made. `seed_curves` [seeds] has each; it goes back where a failure loses
    updates. `consensus` are rows of (seconds, distance) of the first seed where workers have their own weights: the
    root mean square distance of these from their mean, over the length of the mean. `noise` are rows of (updates,
    gradient noise scale in samples) of the first seed. `settings` says how it was trained, in a few words.
    """

    task: str
    seeds: int
    updates: int
    samples_per_update: float
    final_loss: float
    final_accuracy: float | None
    curve: Curve
    seed_curves: tuple[Curve, ...]
    target_metric: str | None = None
    target: float | None = None
    num_reached: int = 0
    time_to_target_s: float | None = None
    time_to_target_interval: tuple[float, float] | None = None
    samples_to_target: float | None = None
    consensus: Rows = ()
    noise: Rows = ()
    diverged: int = 0
    settings: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values; points of curves are [seconds, updates, loss, accuracy]."""
        document = asdict(self)
        document["curve"] = [list(point) for point in self.curve]
        document["seed_curves"] = [[list(point) for point in curve] for curve in self.seed_curves]
        return document

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot be true, of values of the right types: nothing for what a training gave."""
        if not self.seeds == len(self.seed_curves) > 0:
            yield f"seeds is {self.seeds}, and seed_curves has {len(self.seed_curves)}"
        if not all((self.curve, *self.seed_curves)):
            yield "a curve has no points"
        elif self.curve[-1].updates != self.updates:
            yield f"updates is {self.updates}, and the curve ends after {self.curve[-1].updates}"
        if any(one.updates >= other.updates for one, other in pairwise(self.curve)):
            yield "curve has updates that do not rise"
        for point in chain(self.curve, *self.seed_curves):
            if not (point.seconds >= 0 and point.updates >= 0 and 0 <= (point.accuracy or 0.0) <= 1):
                yield f"a curve has {list(point)}, which is no time, updates, loss and accuracy"
                break
        if not 0 <= self.num_reached <= self.seeds:
            yield f"num_reached is {self.num_reached} of {self.seeds} seeds"
        if self.target_metric not in ((None,) if self.target is None else ("loss", "accuracy")):
            yield f"target_metric is {self.target_metric!r}, of a target of {self.target}"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LearningRun:
        """Return the figures of `to_dict`."""
        values = {each.name: document[each.name] for each in fields(cls) if each.name in document}
        values["curve"] = _curve(values["curve"])
        values["seed_curves"] = tuple(_curve(each) for each in values.get("seed_curves", ()))
        for key in ("consensus", "noise"):
            values[key] = tuple((float(one), float(other)) for one, other in values.get(key, ()))
        if values.get("time_to_target_interval") is not None:
            low, high = values["time_to_target_interval"]
            values["time_to_target_interval"] = (low, high)
        return cls(**values)


def _curve(rows: Any) -> Curve:
    return tuple(CurvePoint(*row) for row in rows)
