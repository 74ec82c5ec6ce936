"""What came out: traces, runs and sweeps as plain data.

No clock, no hardware and no drawing in here; a result can be saved, read and redrawn without simulating.
"""

from clustersim.results.cycles import NO_RANK, Cycle, Cycles
from clustersim.results.failures import FailureTimes
from clustersim.results.files import read_sweep, write_atomically, write_sweep
from clustersim.results.jobs import JobRun, mean_jobs
from clustersim.results.links import busiest_links, link_classes
from clustersim.results.memory import MemoryLine
from clustersim.results.metrics import breakdown, confidence_interval, staleness_summary
from clustersim.results.run import BREAKDOWN, WEIGHT_VERSIONS, Interval, LinkClass, LinkLoad, Published, Run, Sweep
from clustersim.results.synchronous import add_exchange, iteration_spans, parts, stretch_spans
from clustersim.results.trace import LASTING, Spans, Timesheet
from clustersim.results.updates import ALL_WORKERS, Update, UpdateLog

__all__ = [
    "ALL_WORKERS",
    "BREAKDOWN",
    "LASTING",
    "NO_RANK",
    "WEIGHT_VERSIONS",
    "Cycle",
    "Cycles",
    "FailureTimes",
    "Interval",
    "JobRun",
    "LinkClass",
    "LinkLoad",
    "MemoryLine",
    "Published",
    "Run",
    "Spans",
    "Sweep",
    "Timesheet",
    "Update",
    "UpdateLog",
    "add_exchange",
    "breakdown",
    "busiest_links",
    "confidence_interval",
    "iteration_spans",
    "link_classes",
    "mean_jobs",
    "parts",
    "read_sweep",
    "staleness_summary",
    "stretch_spans",
    "write_atomically",
    "write_sweep",
]
