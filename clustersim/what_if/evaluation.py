"""What a setting of the knobs gives: a sweep with its figures, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from clustersim.errors import Mistake
from clustersim.report.answer import answer, rows
from clustersim.report.breakdown import breakdown_data, draw_breakdown
from clustersim.report.figure import Figure
from clustersim.report.scaling import draw_scaling, scaling_data
from clustersim.report.series import headline
from clustersim.report.timeline import draw_timeline, timeline_data
from clustersim.results import Run, Sweep

FIGURE_NAMES = ("scaling", "breakdown", "timeline")
MAX_MARKS = 1_500
"""Bars of a timeline, so that it is drawn at once."""


@dataclass(frozen=True)
class Evaluation:
    """The forecast of a scenario with some values changed, or the mistakes for which it is refused.

    `settings` are the knobs that were turned, and `command` forecasts the same. `scenario_text` is the changed scenario
    as YAML. `left_out` says why smaller sizes are not on the curve, by the number of GPUs.
    """

    settings: Mapping[str, str]
    command: str
    sweep: Sweep | None = None
    mistakes: tuple[Mistake, ...] = ()
    left_out: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether there is no forecast."""
        return self.sweep is None

    @property
    def refusal(self) -> str:
        """The mistakes as one text, each with its file and key; empty for a forecast."""
        return "\n".join(str(replace(mistake, source_line=None)) for mistake in self.mistakes)

    @property
    def scenario_text(self) -> str:
        """The changed scenario as YAML; empty where it was refused."""
        return self.sweep.scenario_text if self.sweep else ""

    @cached_property
    def run(self) -> Run | None:
        """The run of the chosen number of GPUs."""
        return headline(self.sweep) if self.sweep else None

    @cached_property
    def headline(self) -> str:
        """The forecast in a sentence; empty where it was refused."""
        return answer(self.sweep) if self.sweep else ""

    @cached_property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """The headings and the rows of all sizes."""
        return rows(self.sweep) if self.sweep else ([], [])

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures of the report by name: the curve over sizes, and where the time of an iteration goes."""
        return self.drawn(MAX_MARKS)

    def drawn(self, most_marks: int) -> dict[str, Figure]:
        """Return the figures with at most so many bars in the timeline."""
        if self.sweep is None or self.run is None:
            return {}
        found = {
            "scaling": draw_scaling(scaling_data(self.sweep)),
            "breakdown": draw_breakdown(breakdown_data(self.sweep)),
        }
        timeline = timeline_data(self.sweep, self.run, most_marks)
        return found if timeline is None else {**found, "timeline": draw_timeline(timeline)}

    def to_dict(self, most_marks: int | None = None) -> dict[str, Any]:
        """Return the evaluation as plain data, figures included, for a page that draws it."""
        figures = self.figures if most_marks is None else self.drawn(most_marks)
        headings, body = self.table
        return {
            "settings": dict(self.settings),
            "command": self.command,
            "refusal": [_plain(mistake) for mistake in self.mistakes],
            "left_out": {str(size): why for size, why in self.left_out.items()},
            "headline": self.headline,
            "table": {"headings": headings, "rows": body},
            "figures": {name: _figure(figure) for name, figure in figures.items()},
            "scenario": self.scenario_text,
            "warnings": list(self.sweep.warnings) if self.sweep else [],
        }


def refusal_parts(mistake: Mistake) -> tuple[str, str]:
    """Return the first sentence of a mistake with its key, and the rest: the sums, and what to change.

    >>> refusal_parts(Mistake("this needs 97 GB: weights 9 GB + gradients 88 GB; use fewer", key="batch"))
    ('batch: this needs 97 GB', 'weights 9 GB + gradients 88 GB; use fewer')
    """
    sentence, *rest = re.split(r"; |: ", mistake.message, maxsplit=1)
    return ": ".join(filter(None, (mistake.key, sentence))), "".join(rest)


def _plain(mistake: Mistake) -> dict[str, Any]:
    keys = ("file", "line", "column", "key", "got", "allowed", "message")
    return {key: getattr(mistake, key) for key in keys} | {"text": str(mistake)}


def _figure(figure: Figure) -> dict[str, Any]:
    return {**figure.drawing(), "title": figure.title, "subtitle": figure.subtitle, "note": figure.note}
