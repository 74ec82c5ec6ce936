"""The runs among which a reader of the page chooses: figures, cards and name in the address of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

from clustersim.report.figure import Figure
from clustersim.report.figures import FIGURES, RunFigure
from clustersim.report.packed import packed
from clustersim.report.sections import run_cards
from clustersim.report.series import headline, run_label, runs_in_order, runs_with_figures
from clustersim.results import Run, Sweep

MOST_PACKED = 600_000
"""Characters of the packed figures of single runs: with plotly.js a page of up to 100 runs stays below 1.5 MB."""


@dataclass(frozen=True)
class PageRun:
    """A run of the page, in the order of its table.

    `slug` names it in the address. `packed` are the figures of its own; empty where the page was full before its turn.
    """

    label: str
    slug: str
    packed: str
    cards: Mapping[str, str]


@dataclass(frozen=True)
class RunDetails:
    """All runs of a page, the number of the one that it shows first, and the figures of that one by panel.

    `panels` are the names of the figures that any run has.
    """

    runs: tuple[PageRun, ...]
    first: int
    figures: Mapping[str, Figure]
    panels: frozenset[str]

    @property
    def num_kept(self) -> int:
        """Return how many runs have figures of their own in the page."""
        return sum(bool(run.packed) for run in self.runs)


def run_details(sweep: Sweep) -> RunDetails:
    """Return what the page has of each run: the most informative ones have figures, as many as fit."""
    runs = runs_in_order(sweep)
    labels = [run_label(sweep, run) for run in runs]
    figures = run_figures(sweep, headline(sweep))
    texts, panels = _figures_of_runs(sweep, figures)
    found = zip(runs, labels, slugs(labels), strict=True)
    return RunDetails(
        tuple(PageRun(label, slug, texts.get(id(run), ""), run_cards(run, label)) for run, label, slug in found),
        next(number for number, run in enumerate(runs) if run is headline(sweep)),
        figures,
        panels,
    )


def _figures_of_runs(sweep: Sweep, first: Mapping[str, Figure]) -> tuple[dict[int, str], frozenset[str]]:
    """Return the packed figures by the identity of the run, until the page is full, and the names of all of them.

    `first` are the figures of the headline run.
    """
    texts: dict[int, str] = {}
    panels: set[str] = set()
    left = MOST_PACKED
    for run in runs_with_figures(sweep):
        figures = run_figures(sweep, run) if texts else first
        text = packed({name: figure.document() for name, figure in figures.items()})
        left -= len(text)
        if texts and left < 0:
            break
        texts[id(run)] = text
        panels.update(figures)
    return texts, frozenset(panels)


def run_figures(sweep: Sweep, run: Run) -> dict[str, Figure]:
    """Return the figures of a run by name; those that it has no data for are absent."""
    drawn = {name: kind.draw(sweep, run) for name, kind in FIGURES.items() if isinstance(kind, RunFigure)}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def slugs(labels: Sequence[str]) -> list[str]:
    """Return distinct names for the address of the page.

    >>> slugs(["128 GPUs, ring", "128 GPUs, ring", "1 GPU"])
    ['128-gpus-ring', '128-gpus-ring-2', '1-gpu']
    """
    found: dict[str, None] = {}
    for label in labels:
        slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-") or "run"
        others = (f"{slug}-{number}" for number in count(2))
        found[next(name for name in chain([slug], others) if name not in found)] = None
    return list(found)
