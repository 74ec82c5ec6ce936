"""Staleness over time, and the learning rate with which gradients are applied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.series import run_label
from clustersim.report.words import plural, time_unit
from clustersim.results import Run, Sweep

MAX_BINS = 80
_PER_BIN = 8
"""Gradients per bin on average, where there are enough."""


@dataclass(frozen=True)
class StalenessTime:
    """The figure in numbers, in bins of equal numbers of gradients [num_bins].

    `time_s` is the mean time from the first gradient on; `mean`, `low` and `high` (10th and 90th percentile)
    are versions; `rate` is the mean learning rate relative to the configured one, empty where it is always 1.
    """

    title: str
    run: str
    time_s: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    rate: list[float]
    num_gradients: int
    quiet: str


def staleness_time_data(sweep: Sweep, run: Run, max_bins: int = MAX_BINS) -> StalenessTime | None:
    """Return the staleness of applied gradients over time; None where every gradient was fresh."""
    log = run.updates
    accepted = log.is_accepted
    age = log.staleness[accepted]
    if len(age) < 4 or not age.any():
        return None
    time_s, rate = np.asarray(log.time_s)[accepted], np.asarray(log.learning_rate)[accepted]
    parts = np.array_split(np.arange(len(age)), max(2, min(max_bins, len(age) // _PER_BIN)))
    mean = [float(age[part].mean()) for part in parts]
    varies = bool(np.ptp(rate) > 1e-12 or abs(rate[0] - 1.0) > 1e-12)
    rates = [float(rate[part].mean()) for part in parts] if varies else []
    return StalenessTime(
        title=_title(age, rate if varies else None),
        run=run_label(sweep, run),
        time_s=[float(time_s[part].mean() - time_s[0]) for part in parts],
        mean=mean,
        low=[float(np.quantile(age[part], 0.1)) for part in parts],
        high=[float(np.quantile(age[part], 0.9)) for part in parts],
        rate=rates,
        num_gradients=len(age),
        quiet="" if varies or _change(age) is not None else f"{_title(age, None)}.",
    )


def _change(age: np.ndarray) -> tuple[float, float] | None:
    """Return the mean staleness of the first and of the second half; None where the difference may be chance."""
    half = len(age) // 2
    before, after = float(age[:half].mean()), float(age[half:].mean())
    threshold = 2.0 * float(age.std()) * (2.0 / half) ** 0.5
    return None if abs(after - before) <= max(threshold, 0.05 * before) else (before, after)


def _title(age: np.ndarray, rate: np.ndarray | None) -> str:
    if rate is not None:
        return (
            f"Gradients are {age.mean():.1f} versions old on average and applied with {rate.mean():.2f} of the "
            f"learning rate; the smallest factor is {rate.min():.2f}"
        )
    change = _change(age)
    if change is None:
        half = len(age) // 2
        before, after = float(age[:half].mean()), float(age[half:].mean())
        return f"Staleness is steady: {before:.1f} versions in the first half, {after:.1f} in the second"
    before, after = change
    return f"Staleness {'grows' if after > before else 'falls'} from {before:.1f} versions to {after:.1f}"


def draw_staleness_time(data: StalenessTime) -> Figure:
    """Draw the mean with its band, and the learning rate below if it changes."""
    unit, factor = time_unit(data.time_s[-1])
    x = [float(f"{time / factor:.6g}") for time in data.time_s]
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "10th to 90th percentile",
            "x": [*x, *x[::-1]],
            "y": [*data.high, *data.low[::-1]],
            "fill": "toself",
            "fillcolor": "@grid",
            "line": {"width": 0},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "mean",
            "x": x,
            "y": data.mean,
            "line": {"color": "@series0", "width": 2.2},
            "hovertemplate": f"%{{x:.4g}} {unit}: %{{y:.2f}} versions<extra></extra>",
        },
    ]
    parts: Json = {
        "xaxis": axis(f"time ({unit})", showgrid=False),
        "yaxis": axis("staleness (versions)", rangemode="tozero"),
    }
    if data.rate:
        traces.append(_rate(data, x, unit))
        parts["xaxis"] = axis(showgrid=False, showticklabels=False, anchor="y")
        parts["yaxis"] = axis("staleness (versions)", rangemode="tozero", domain=[0.46, 1.0])
        parts["xaxis2"] = axis(f"time ({unit})", showgrid=False, matches="x", anchor="y2")
        parts["yaxis2"] = axis("learning rate", range=[0, 1.05], domain=[0.0, 0.36], anchor="x2")
    below = "; below: learning rate relative to the configured one" if data.rate else ""
    per_point = plural(max(1, data.num_gradients // len(data.time_s)), "gradient")
    under = f"Staleness of applied gradients over time ({unit}), {per_point} per point{below}: {data.run}."
    height = 420 if data.rate else 320
    drawn = layout(height, showlegend=True, legend=legend(), **parts)
    return Figure(data.title, under, traces, drawn, {"xaxis": {"nticks": 5}}, label=data.run, quiet=data.quiet)


def _rate(data: StalenessTime, x: list[float], unit: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "learning rate",
        "x": x,
        "y": data.rate,
        "xaxis": "x2",
        "yaxis": "y2",
        "line": {"color": "@series1", "width": 2.2},
        "hovertemplate": f"%{{x:.4g}} {unit}: %{{y:.3f}} of the configured rate<extra></extra>",
        "showlegend": False,
    }
