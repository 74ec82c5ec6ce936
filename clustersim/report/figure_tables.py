"""Tables of the numbers of figures whose traces are only a drawing, or lack some of them."""

from __future__ import annotations

from clustersim.report.checkpoints import CheckpointInterval
from clustersim.report.figure import FigureTable
from clustersim.report.links import BusyLinks
from clustersim.report.scaling import Scaling
from clustersim.report.staleness_time import StalenessTime


def scaling_table(data: Scaling) -> FigureTable:
    """Return a row for each run, with its interval and band where known, then the published figures."""
    rate = data.metric.replace("samples_per_s", "samples/s")
    headings = ["line", "GPUs", rate, f"{rate}, interval low", f"{rate}, interval high", f"{rate}, band low"]
    headings += [f"{rate}, band high", "efficiency", "iteration (s)"]
    rows: list[list[str | float | None]] = [
        [line.label or "forecast", gpus, value, low, high, *(band or (None, None)), efficiency, seconds]
        for line in data.lines
        for gpus, value, low, high, band, efficiency, seconds in zip(
            line.num_gpus, line.rate, line.low, line.high, line.band, line.efficiency, line.iteration_s, strict=True
        )
    ]
    for point in data.points:
        rows.append([f"published {point.label}".strip(), point.num_gpus, point.rate, *[None] * 6])
    return FigureTable(headings, rows)


def link_table(data: BusyLinks) -> FigureTable:
    """Return a row for each link that is drawn, the busiest first."""
    headings = ["link", "kind", "from", "to", "bytes per iteration", "utilisation (%)"]
    return FigureTable(
        headings,
        [
            [link.name, link.kind, link.src, link.dst, link.num_bytes, 100 * link.utilisation]
            for link in data.wide.links
        ],
    )


def checkpoint_table(data: CheckpointInterval) -> FigureTable:
    """Return a row for each simulated interval, then the named ones."""
    headings = ["interval", "useful time between checkpoints (s)", "total training time (s)", "expected time (s)"]
    simulated = zip(data.interval_s, data.total_s, data.expected_s, strict=True)
    rows: list[list[str | float | None]] = [["simulated", *row] for row in simulated]
    rows += [[name, each_s, total_s, None] for name, (each_s, total_s) in data.marks.items()]
    return FigureTable(headings, rows)


def staleness_time_table(data: StalenessTime) -> FigureTable:
    """Return a row for each bin."""
    headings = ["time (s)", "mean staleness (versions)", "10th percentile (versions)", "90th percentile (versions)"]
    columns = [data.time_s, data.mean, data.low, data.high, *([data.rate] if data.rate else [])]
    headings += ["learning rate, relative to the configured one"] if data.rate else []
    return FigureTable(headings, list(zip(*columns, strict=True)))
