"""Results: traces, runs and sweeps as plain data.

No clock, no hardware and no drawing: a result can be saved, read and drawn again without simulating.
"""

from clustersim.results.anchor import Anchor, MeasuredNetwork, MeasuredPoint
from clustersim.results.baseline import Baseline
from clustersim.results.failures import FailureTimes
from clustersim.results.files import read_sweep, save_run, write_atomically, write_sweep
from clustersim.results.learning import CurvePoint, LearningRun
from clustersim.results.metrics import (
    breakdown,
    busiest_links,
    confidence_interval,
    link_classes,
    staleness_summary,
)
from clustersim.results.point_error import ERROR_KINDS, ErrorKind, PointError
from clustersim.results.run import (
    BREAKDOWN,
    WEIGHT_VERSIONS,
    Interval,
    JobRun,
    LinkClass,
    LinkLoad,
    MemoryLine,
    PublishedFigure,
    Run,
    Sweep,
    mean_jobs,
)
from clustersim.results.synchronous import add_exchange, iteration_spans, parts, window_spans
from clustersim.results.trace import DURATION_COLUMNS, Spans, Timesheet
from clustersim.results.updates import ALL_WORKERS, Update, UpdateLog
from clustersim.results.worker_iterations import NO_RANK, WorkerIteration, WorkerIterations

__all__ = [
    "ALL_WORKERS",
    "BREAKDOWN",
    "DURATION_COLUMNS",
    "ERROR_KINDS",
    "NO_RANK",
    "WEIGHT_VERSIONS",
    "Anchor",
    "Baseline",
    "CurvePoint",
    "ErrorKind",
    "FailureTimes",
    "Interval",
    "JobRun",
    "LearningRun",
    "LinkClass",
    "LinkLoad",
    "MeasuredNetwork",
    "MeasuredPoint",
    "MemoryLine",
    "PointError",
    "PublishedFigure",
    "Run",
    "Spans",
    "Sweep",
    "Timesheet",
    "Update",
    "UpdateLog",
    "WorkerIteration",
    "WorkerIterations",
    "add_exchange",
    "breakdown",
    "busiest_links",
    "confidence_interval",
    "iteration_spans",
    "link_classes",
    "mean_jobs",
    "parts",
    "read_sweep",
    "save_run",
    "staleness_summary",
    "window_spans",
    "write_atomically",
    "write_sweep",
]
