"""Number of backup workers: time between updates, and samples per second, against the number of backups."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.palette import series_colour, series_marker
from clustersim.report.series import axis_value, varied
from clustersim.report.words import count, duration, gpus, percent, plot_text, plural, time_unit
from clustersim.results import Run, Sweep

_BACKUPS = "strategy.backups"


@dataclass(frozen=True)
class BackupLine:
    """Runs that differ only in the number of backup workers, fewest first.

    `update_s` is the mean time between updates; `low_s` and `high_s` are its interval over seeds, None without one.
    `samples_per_s` counts applied gradients only. `best` is the index of its maximum.
    """

    label: str
    num_gpus: int
    backups: tuple[int, ...]
    update_s: tuple[float, ...]
    low_s: tuple[float | None, ...]
    high_s: tuple[float | None, ...]
    samples_per_s: tuple[float, ...]

    @property
    def best(self) -> int:
        """Index of the most samples per second; of equals, the one with the fewest backups."""
        return max(range(len(self.backups)), key=lambda place: (self.samples_per_s[place], -self.backups[place]))

    @property
    def gain(self) -> float:
        """Relative gain of the best number of backups over the fewest."""
        return self.samples_per_s[self.best] / self.samples_per_s[0] - 1.0


@dataclass(frozen=True)
class Backups:
    """The figure in numbers, one line per other setting."""

    title: str
    lines: tuple[BackupLine, ...]
    level: float | None


def backups_data(sweep: Sweep) -> Backups | None:
    """Return iteration time and samples per second by number of backups; None where no line has two numbers."""
    others = tuple(key for key in varied(sweep) if key != _BACKUPS)
    groups: dict[str, list[Run]] = {}
    for run in sweep.ran:
        if isinstance(run.axes.get(_BACKUPS), int):
            groups.setdefault(repr([run.num_gpus, *(run.axes.get(key) for key in others)]), []).append(run)
    sizes = {run.num_gpus for runs in groups.values() for run in runs}
    lines = tuple(
        _line(runs, others, len(sizes) > 1) for runs in groups.values() if len({run.axes[_BACKUPS] for run in runs}) > 1
    )
    if not lines:
        return None
    levels = {run.interval.level for run in sweep.ran if run.interval}
    return Backups(_title(lines), lines, max(levels, default=None))


def _line(runs: list[Run], others: tuple[str, ...], sized: bool) -> BackupLine:
    runs = sorted(runs, key=lambda run: int(run.axes[_BACKUPS]))
    words = [gpus(runs[0].num_gpus)] if sized else []
    words += [axis_value(key, runs[0].axes.get(key)) for key in others]
    return BackupLine(
        label=", ".join(words),
        num_gpus=runs[0].num_gpus,
        backups=tuple(int(run.axes[_BACKUPS]) for run in runs),
        update_s=tuple(run.update_s for run in runs),
        low_s=tuple(_end(run, 0) for run in runs),
        high_s=tuple(_end(run, 1) for run in runs),
        samples_per_s=tuple(run.samples_per_s for run in runs),
    )


def _end(run: Run, end: int) -> float | None:
    """Return one end of the interval of the time between updates: scaled from that of a worker's iteration."""
    return run.update_s * run.interval.iteration_s[end] / run.iteration_s if run.interval else None


def _title(lines: tuple[BackupLine, ...]) -> str:
    most = max(lines, key=lambda line: line.gain)
    where = f" with {most.label}" if most.label else ""
    if most.best == 0:
        return (
            f"Backup workers do not pay{' in any setting' if len(lines) > 1 else ''}: "
            "each loses more samples than the time it saves"
        )
    number = most.backups[most.best]
    title = (
        f"{plural(number, 'backup')} among {count(most.num_gpus)} workers {'gives' if number == 1 else 'give'} "
        f"{percent(most.gain)} more samples per second{where}"
    )
    useless = [line for line in lines if line.best == 0]
    return f"{title}; with {useless[0].label} they do not pay" if useless and useless[0].label else title


def draw_backups(data: Backups) -> Figure:
    """Draw the time between updates, and below it samples per second, with a ring around the best of each line."""
    unit, factor = time_unit(max(max(line.update_s) for line in data.lines))
    traces: list[Json] = []
    for number, line in enumerate(data.lines):
        traces += _traces(line, number, factor)
    traces.append(_best(data))
    numbers = sorted({number for line in data.lines for number in line.backups})
    ticks: Json = {"tickvals": _apart(numbers)}
    drawn = layout(
        480,
        xaxis=axis(**ticks, showticklabels=False, anchor="y"),
        yaxis=axis(f"time between updates ({unit})", domain=[0.54, 1.0], rangemode="tozero"),
        xaxis2=axis("backup workers", **ticks, matches="x", anchor="y2"),
        yaxis2=axis("samples/s", domain=[0.0, 0.46], rangemode="tozero"),
        showlegend=True,
        legend=legend(),
    )
    band = f"; whiskers: {percent(data.level)} interval over seeds" if data.level else ""
    under = (
        f"Mean time between updates ({unit}){band}. Below: samples per second of the applied gradients; a ring "
        "marks the maximum of each line."
    )
    return Figure(data.title, under, traces, drawn, {"xaxis2": {"nticks": 6}})


def _apart(numbers: list[int]) -> list[int]:
    """Return the numbers that are at least a twentieth of the axis apart."""
    kept: list[int] = []
    for number in numbers:
        if not kept or number - kept[-1] >= 0.05 * (numbers[-1] - numbers[0]):
            kept.append(number)
    return kept


def _traces(line: BackupLine, number: int, factor: float) -> list[Json]:
    colour = series_colour(number)
    common: Json = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plot_text(line.label) or "backup workers",
        "legendgroup": str(number),
        "x": list(line.backups),
        "line": {"color": colour, "width": 2.2},
        "marker": {"color": colour, "symbol": series_marker(number), "size": 8},
        "hoverinfo": "text",
        "hovertext": [_hover(line, place) for place in range(len(line.backups))],
    }
    known = [low is not None for low in line.low_s]
    bars: Json = {
        "type": "data",
        "symmetric": False,
        "array": [((high or own) - own) / factor for high, own in zip(line.high_s, line.update_s, strict=True)],
        "arrayminus": [(own - (low or own)) / factor for low, own in zip(line.low_s, line.update_s, strict=True)],
        "visible": all(known),
        "thickness": 1.4,
    }
    return [
        {**common, "y": [seconds / factor for seconds in line.update_s], "error_y": bars},
        {**common, "y": list(line.samples_per_s), "xaxis": "x2", "yaxis": "y2", "showlegend": False},
    ]


def _best(data: Backups) -> Json:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "most samples/s",
        "x": [line.backups[line.best] for line in data.lines],
        "y": [line.samples_per_s[line.best] for line in data.lines],
        "xaxis": "x2",
        "yaxis": "y2",
        "text": [count(line.backups[line.best]) for line in data.lines],
        "textposition": "top center",
        "marker": {"symbol": "circle-open", "size": 17, "color": "@ink", "line": {"width": 2, "color": "@ink"}},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def _hover(line: BackupLine, place: int) -> str:
    words = [
        f"<b>{count(line.backups[place])} of {count(line.num_gpus)} workers are backups</b>",
        plot_text(line.label),
        f"one update every {duration(line.update_s[place])}",
        f"{count(line.samples_per_s[place])} samples/s",
    ]
    return "<br>".join(word for word in words if word)
