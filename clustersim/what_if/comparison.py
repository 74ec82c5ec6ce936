"""Two evaluations beside each other: their curves in one figure, and what differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from clustersim.report.breakdown import breakdown_data, draw_breakdown
from clustersim.report.figure import Figure
from clustersim.report.scaling import draw_scaling, scaling_data
from clustersim.report.words import count, duration, percent, size
from clustersim.results import Run, Sweep
from clustersim.what_if.evaluation import Evaluation
from clustersim.what_if.knob import Knob

NOW, PINNED = "now", "pinned"
_AXIS = "what"

HEADINGS = ("", PINNED, NOW, "change")


@dataclass(frozen=True)
class PinnedComparison:
    """A pinned evaluation and the present one: figures that have both, and a row of texts for each difference."""

    figures: dict[str, Figure]
    rows: tuple[tuple[str, str, str, str], ...]


def compare(pinned: Evaluation, now: Evaluation, knobs: tuple[Knob, ...]) -> PinnedComparison | None:
    """Return the comparison of two evaluations, each at its own number of GPUs; None where one was refused.

    Curves are in samples per second: each evaluation may have its own baseline.
    """
    if pinned.sweep is None or now.sweep is None or pinned.run is None or now.run is None:
        return None
    both = _together(pinned.sweep, now.sweep)
    figures = {
        **now.figures,
        "scaling": draw_scaling(scaling_data(both)),
        "breakdown": draw_breakdown(breakdown_data(both)),
    }
    return PinnedComparison(figures, (*_turned(pinned, now, knobs), *_measures(pinned.run, now.run)))


def _together(pinned: Sweep, now: Sweep) -> Sweep:
    """Return one sweep with the runs of both, told apart by one more axis."""
    runs = [_marked(run, name) for sweep, name in ((now, NOW), (pinned, PINNED)) for run in sweep.ran]
    return replace(now, runs=tuple(runs))


def _marked(run: Run, name: str) -> Run:
    sizes = {key: value for key, value in run.axes.items() if key == "num_gpus"}
    return replace(run, axes={_AXIS: name, **sizes}, speedup=None)


def _turned(pinned: Evaluation, now: Evaluation, knobs: tuple[Knob, ...]) -> list[tuple[str, str, str, str]]:
    """Return a row for each knob that differs."""
    rows = []
    for knob in knobs:
        texts = [each.settings.get(knob.name, knob.now.text) for each in (pinned, now)]
        if texts[0] != texts[1]:
            first, second = (knob.stop(text).label for text in texts)
            rows.append((knob.label, first, second, ""))
    return rows


def _measures(pinned: Run, now: Run) -> list[tuple[str, str, str, str]]:
    """Return a row for each measure that both runs have."""
    rows = []
    for label, of, text in _MEASURES:
        first, second = of(pinned), of(now)
        if first is not None and second is not None:
            change = percent(second / first - 1.0, signed=True) if first else ""
            rows.append((label, text(first), text(second), change))
    return rows


_Of = Callable[[Run], float | None]
_MEASURES: tuple[tuple[str, _Of, Callable[[float], str]], ...] = (
    ("samples/s", lambda run: run.samples_per_s, count),
    ("tokens/s", lambda run: run.tokens_per_s, count),
    ("iteration", lambda run: run.iteration_s, duration),
    ("efficiency", lambda run: run.efficiency, percent),
    ("MFU", lambda run: run.mfu, percent),
    ("exposed communication", lambda run: run.breakdown_s.get("communication_exposed"), duration),
    ("waiting for other ranks", lambda run: run.breakdown_s.get("waiting"), duration),
    ("memory of the fullest GPU", lambda run: run.memory_bytes or None, size),
    ("$/h", lambda run: run.dollars_per_hour, count),
)
