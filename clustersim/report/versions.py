"""Model versions over a short time: the version that each gradient was computed on and the one it produced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import load_colour
from clustersim.report.series import run_label
from clustersim.report.words import count, duration, plural, time_unit
from clustersim.results import Run, Sweep
from clustersim.results.read_times import read_times

MAX_LANES = 16
"""Workers whose arrows fit a screen; of more, some evenly spaced, and the one with the most stale gradient."""

MAX_VERSIONS = 90
"""Versions with a line of their own; of more, every second, fifth, tenth and so on."""

_SHOWN = 2.5
"""Length of the figure, in mean times from reading to applying."""


@dataclass(frozen=True)
class Arrow:
    """A gradient, computed from `read_s` on with version `read`; at `applied_s` it makes `written` or is dropped."""

    worker: int
    read_s: float
    applied_s: float
    read: int
    written: int
    accepted: bool

    @property
    def staleness(self) -> int:
        """Versions between reading the weights and applying the gradient."""
        return self.written - 1 - self.read


@dataclass(frozen=True)
class Versions:
    """The figure in numbers: arrows, and the times of every `every`-th model version.

    Seconds are relative to the start of the first arrow.
    """

    title: str
    run: str
    workers: tuple[int, ...]
    arrows: tuple[Arrow, ...]
    version: list[int]
    since_s: list[float]
    every: int
    length_s: float
    note: str


def versions_data(sweep: Sweep, run: Run, max_lanes: int = MAX_LANES) -> Versions | None:
    """Return the last gradients of a run as arrows; None where all were fresh and applied."""
    log = run.updates
    if not (log.staleness > 0).any() and log.is_accepted.all():
        return None
    read_s, applied_s = read_times(log, run.cycles, run.stashes_weights), np.asarray(log.time_s)
    known = np.flatnonzero(~np.isnan(read_s))
    if not len(known):
        return None
    end_s = float(applied_s[known].max())
    window_s = _SHOWN * float((applied_s[known] - read_s[known]).mean())
    rows = known[applied_s[known] > end_s - window_s]
    if not len(rows):
        return None
    every = np.asarray(log.worker)
    workers = _workers(sorted(set(every[rows].tolist())), every[rows[log.staleness[rows].argmax()]], max_lanes)
    rows = rows[np.isin(every[rows], workers)]
    origin_s = float(read_s[rows].min())
    arrows = tuple(
        Arrow(
            log.worker[row],
            float(read_s[row]) - origin_s,
            log.time_s[row] - origin_s,
            log.version_read[row],
            log.version_written[row],
            bool(log.accepted[row]),
        )
        for row in rows.tolist()
    )
    version, since_s, step = _versions(run, origin_s, end_s)
    left_out = len(workers) < len(set(every.tolist()))
    return Versions(
        title=_title(arrows),
        run=run_label(sweep, run),
        workers=tuple(workers),
        arrows=arrows,
        version=version,
        since_s=since_s,
        every=step,
        length_s=end_s - origin_s,
        note=f"{len(workers)} of {count(run.num_gpus)} workers are shown." if left_out else "",
    )


def _workers(found: list[int], oldest: int, limit: int) -> list[int]:
    if len(found) <= limit:
        return found
    spread = [found[round(place * (len(found) - 1) / (limit - 1))] for place in range(limit)]
    return sorted(list(dict.fromkeys([int(oldest), *spread]))[:limit])


def _versions(run: Run, start_s: float, end_s: float) -> tuple[list[int], list[float], int]:
    """Return the versions made between two times, the time of each, and the step between the versions shown."""
    accepted = run.updates.is_accepted
    version, first = np.unique(np.asarray(run.updates.version_written)[accepted], return_index=True)
    since_s = np.asarray(run.updates.time_s)[accepted][first]
    inside = (since_s >= start_s) & (since_s <= end_s)
    total = int(inside.sum())
    step = next(ten * one for ten in (10**power for power in range(9)) for one in (1, 2, 5)
                if total <= MAX_VERSIONS * ten * one)  # fmt: skip
    chosen = inside & (version % step == 0)
    return version[chosen].tolist(), (since_s[chosen] - start_s).tolist(), step


def _title(arrows: tuple[Arrow, ...]) -> str:
    applied = [arrow for arrow in arrows if arrow.accepted]
    dropped = len(arrows) - len(applied)
    if dropped:
        verb = "is" if dropped == 1 else "are"
        return f"{count(dropped)} of the last {plural(len(arrows), 'gradient')} {verb} too late and dropped"
    oldest = max(applied, key=lambda arrow: arrow.staleness)
    return (
        f"The gradient that worker {oldest.worker} computes on W_{oldest.read} produces W_{oldest.written}: its "
        f"staleness is {plural(oldest.staleness, 'version')}"
    )


def draw_versions(data: Versions) -> Figure:
    """Draw one arrow per gradient in its worker's lane, over a thin line per model version."""
    unit, factor = time_unit(data.length_s)
    place = {worker: number for number, worker in enumerate(data.workers)}
    ages = sorted({arrow.staleness for arrow in data.arrows if arrow.accepted})
    oldest = max([*ages, 1])
    traces = [_lines(data, age, oldest, place, factor) for age in ages]
    if any(not arrow.accepted for arrow in data.arrows):
        traces.append(_lines(data, None, oldest, place, factor))
    lanes = len(place)
    lane_px = 32 if lanes <= 8 else 28
    drawn = layout(
        130 + lane_px * lanes,
        xaxis=axis(f"time ({unit})", range=[-0.01 * data.length_s / factor, 1.02 * data.length_s / factor],
                   showgrid=False),
        yaxis=axis("worker", tickvals=list(range(lanes)), ticktext=[str(worker) for worker in data.workers],
                   range=[lanes - 0.4, -1.3], showgrid=False),
        shapes=[_version_line(since_s / factor, lanes) for since_s in data.since_s],
        annotations=[*_version_names(data, factor), *_arrow_names(data, place, factor)],
        showlegend=len(traces) <= 12,
        legend=legend(),
    )  # fmt: skip
    which = "version" if data.every == 1 else f"{count(data.every)}th version"
    counted = "; an arrow crosses as many as its staleness" if data.every == 1 else ""
    under = (
        f"Gradients from reading the weights to the update, over time ({unit}): {data.run}. Labels: version read → "
        f"version produced. Vertical lines: a new {which}{counted}."
    )
    names = [*_version_names(data, factor, apart=0.2), *_arrow_names(data, place, factor, least=0.22)]
    narrow = {"xaxis": {"nticks": 5}, "annotations": names}
    return Figure(data.title, under, traces, drawn, narrow, label=data.run, note=data.note)


def _version_line(x: float, lanes: int) -> Json:
    line = {"color": "@grid", "width": 1}
    return {"type": "line", "x0": x, "x1": x, "y0": -0.6, "y1": lanes - 0.4, "line": line, "layer": "below"}


def _version_names(data: Versions, factor: float, apart: float = 0.05) -> list[Json]:
    """Return the numbers of versions above their lines, at least `apart` of the figure's length apart."""
    names: list[Json] = []
    free = -1.0
    for version, since_s in zip(data.version, data.since_s, strict=True):
        if since_s >= free:
            free = since_s + apart * data.length_s
            names.append(
                {"x": since_s / factor, "y": -0.95, "text": f"W_{version}", "showarrow": False,
                 "font": {"size": 11, "color": "@muted"}}
            )  # fmt: skip
    return names


def _arrow_names(data: Versions, place: dict[int, int], factor: float, least: float = 0.08) -> list[Json]:
    """Return the labels of the arrows that are at least `least` of the figure's length long."""
    return [
        {
            "x": (arrow.read_s + arrow.applied_s) / 2 / factor,
            "y": place[arrow.worker] + 0.08,
            "text": f"{arrow.read} → {arrow.written}" if arrow.accepted else f"{arrow.read}, dropped",
            "showarrow": False,
            "yanchor": "bottom",
            "font": {"size": 11, "color": "@ink"},
        }
        for arrow in data.arrows
        if arrow.applied_s - arrow.read_s > least * data.length_s
    ]


def _lines(data: Versions, age: int | None, oldest: int, place: dict[int, int], factor: float) -> Json:
    """Return the gradients of one staleness, or the dropped ones, as one trace of arrows."""
    if age is None:
        arrows = [arrow for arrow in data.arrows if not arrow.accepted]
    else:
        arrows = [arrow for arrow in data.arrows if arrow.accepted and arrow.staleness == age]
    xs: list[float | None] = []
    ys: list[float | None] = []
    hover: list[str] = []
    for arrow in arrows:
        lane = place[arrow.worker] + 0.25
        xs += [float(f"{arrow.read_s / factor:.6g}"), float(f"{arrow.applied_s / factor:.6g}"), None]
        ys += [lane, lane, None]
        hover += [_hover(arrow), _hover(arrow), ""]
    colour = "@muted" if age is None else load_colour(age / oldest * 0.999)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "dropped" if age is None else f"staleness {age}",
        "x": xs,
        "y": ys,
        "hovertext": hover,
        "hoverinfo": "text",
        "line": {"color": colour, "width": 3, **({"dash": "dot"} if age is None else {})},
        "marker": {
            "symbol": ["line-ns-open", "x" if age is None else "triangle-right", "circle"] * len(arrows),
            "size": [9, 11, 0] * len(arrows),
            "color": colour,
            "line": {"color": colour, "width": 2},
        },
    }


def _hover(arrow: Arrow) -> str:
    took = duration(arrow.applied_s - arrow.read_s)
    if not arrow.accepted:
        return (
            f"<b>worker {arrow.worker}</b>: dW_{arrow.read} is dropped<br>it arrived at W_{arrow.written - 1}"
            f"<br>{took} after reading the weights"
        )
    return (
        f"<b>worker {arrow.worker}</b>: W_{arrow.written} = W_{arrow.written - 1} − lr · dW_{arrow.read}"
        f"<br>staleness {arrow.staleness}, {took} after reading the weights"
    )
