"""Histogram of the staleness of the applied gradients."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.report.figure import Figure, axis, layout
from clustersim.report.series import run_label
from clustersim.report.words import count, percent, plural
from clustersim.results import Run, Sweep


@dataclass(frozen=True)
class StalenessHistogram:
    """The figure in numbers: the number of applied gradients by staleness, in versions of the model."""

    title: str
    run: str
    age: list[int]
    num_gradients: list[int]
    mean: float
    p99: float
    quiet: str


def staleness_data(sweep: Sweep, run: Run) -> StalenessHistogram | None:
    """Return the histogram of staleness; None where every gradient was fresh."""
    if not run.staleness.get("max"):
        return None
    rows = run.staleness["histogram"]
    mean, p99 = float(run.staleness["mean"]), float(run.staleness["p99"])
    older = "none is" if run.staleness["max"] <= p99 else "1 % are"
    title = f"Gradients are {mean:.1f} versions old on average when applied; {older} older than {count(p99)}"
    quiet = f"Every gradient is {plural(rows[0][0], 'version')} old when applied." if len(rows) == 1 else ""
    age, number = [row[0] for row in rows], [row[1] for row in rows]
    return StalenessHistogram(title, run_label(sweep, run), age, number, mean, p99, quiet)


def draw_staleness(data: StalenessHistogram) -> Figure:
    """Draw one bar per staleness, with the mean and the 99th percentile marked."""
    total = sum(data.num_gradients)
    hover = [
        f"{count(number)} of {count(total)} gradients ({percent(number / total)})<br>were {count(age)} versions old"
        for age, number in zip(data.age, data.num_gradients, strict=True)
    ]
    shares = [100.0 * number / total for number in data.num_gradients]
    bars = {"type": "bar", "x": data.age, "y": shares, "hovertext": hover, "hoverinfo": "text"}
    wide = max(data.age) - min(data.age)
    marks = [(data.mean, "mean", 1.0), (data.p99, "99 %", 0.91)]
    lines = [
        {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "@ink", "dash": "dot"}}
        for x, _, _ in marks
    ]
    texts = [
        {"x": x, "y": y, "yref": "paper", "text": f"{name} {x:.1f}", "showarrow": False, "xanchor": "left", "xshift": 4}
        for x, name, y in marks
    ]
    return Figure(
        data.title,
        f"Applied gradients (%) by staleness, in versions between the read of the weights and the update: {data.run}.",
        [{**bars, "marker": {"color": "@series0"}}],
        layout(
            320,
            bargap=0.1,
            shapes=lines,
            annotations=texts,
            xaxis=axis("staleness (versions)", showgrid=False, **({"dtick": 1} if wide <= 20 else {})),
            yaxis=axis("gradients (%)", range=[0, 1.2 * max(shares)]),
        ),
        label=data.run,
        quiet=data.quiet,
    )
