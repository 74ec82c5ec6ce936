"""The one point of a scenario whose sensitivities are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clustersim.errors import InputError
from clustersim.parallelism import ModelLayout
from clustersim.scenario import Point, Scenario, SweepPoint, load_scenario
from clustersim.sensitivity.forecasts import forecast_alone
from clustersim.simulate import AnchorFit, Workloads, fit_scenario
from clustersim.what_if.base import SIZES, Base, base_of
from clustersim.what_if.changes import set_texts

MOST_POINTS = 32
"""Points with the most GPUs of which the fastest is looked for."""

Source = str | Path | Mapping[str, Any] | Scenario


class Chosen(NamedTuple):
    """A point as a scenario of its own, by the texts of `--set` that make it; `axes` are its values of the sweep's."""

    name: str
    source: Source
    texts: tuple[str, ...]
    axes: Mapping[str, Any]
    num_points: int
    base: Base
    found: AnchorFit | None

    @property
    def point(self) -> Point:
        """The point, with what measured runs say."""
        return self.anchored(self.base.point)

    def anchored(self, point: Point) -> Point:
        """Return a point with what measured runs of the scenario say."""
        return point if self.found is None else self.found.applied(point)


def choose(source: Source, overrides: Sequence[str], exact: bool, workloads: Workloads) -> Chosen:
    """Return the point to explain: of a sweep the one with the most GPUs, and of several such the fastest.

    Raise InputError if that would take more than `MOST_POINTS` forecasts.
    """
    loaded = load_scenario(source, overrides)
    points, found = loaded.points(), fit_scenario(loaded, exact, workloads)
    number = 0 if len(points) == 1 else _fastest(loaded, points, found, exact, workloads)
    axes = points[number].axes if len(points) > 1 else {}
    texts = (*overrides, *texts_of_point(loaded, number))
    return Chosen(loaded.name, source, texts, axes, len(points), base_of(load_scenario(source, texts)), found)


def with_stages_kept(point: Point, layout: ModelLayout | None) -> Point:
    """Return the point with the layers of its pipeline stages as they are, given its layout.

    Stages are balanced by the time of layers. Where rates differ a little they could be cut elsewhere, which is another
    change than that of a rate.
    """
    if layout is None or point.parallelism.kind != "grid" or point.parallelism.stages is not None:
        return point
    if len(layout.parts) == 1 or len(layout.parts) != point.grid.pipeline * point.parallelism.chunks:
        return point
    stages = [len(part.pieces) for part in layout.parts]
    return point.model_copy(update={"parallelism": point.parallelism.model_copy(update={"stages": stages})})


def _fastest(
    loaded: Scenario, points: Sequence[SweepPoint], found: AnchorFit | None, exact: bool, workloads: Workloads
) -> int:
    """Return the number of the point."""
    most = max(each.point.num_gpus for each in points)
    largest = [number for number, each in enumerate(points) if each.point.num_gpus == most]
    if len(largest) == 1:
        return largest[0]
    if len(largest) > MOST_POINTS:
        raise _refused(loaded, [points[number] for number in largest])
    alone = (points[number].point for number in largest)
    rates = [
        forecast_alone(point if found is None else found.applied(point), exact, workloads).samples_per_s
        for point in alone
    ]
    return largest[rates.index(max(rates))]


def texts_of_point(loaded: Scenario, number: int) -> list[str]:
    """Return texts of `--set` that leave a scenario this point alone.

    The conditions of `sweep` go too: they are for the sweep, and not for what a point would be with other values. A
    `kind` is set with the options beside it, which it would drop alone.
    """
    tree = loaded.trees()[number]
    texts = ["sweep=null"] if loaded.raw.get("sweep") else []
    for key, label in tree.axes.items():
        shown = key.removesuffix(".kind")
        node = tree.root.at(tuple(int(part) if part.isdecimal() else part for part in shown.split(".")))
        texts += set_texts({key: label} if node is None else {shown: node.plain()})
    return texts


def _refused(loaded: Scenario, points: Sequence[SweepPoint]) -> InputError:
    axes = ", ".join(dict.fromkeys(key for each in points for key in each.axes)) or SIZES
    message = f"'{loaded.name}' has {len(points)} points, and one is explained at a time; set {axes} (--set)"
    return InputError(message, got=str(len(points)), allowed=f"at most {MOST_POINTS} points with the most GPUs")
