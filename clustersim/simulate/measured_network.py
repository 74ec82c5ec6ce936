"""Fits the transport of a scenario to logs of collectives that were measured on its cluster."""

from __future__ import annotations

import atexit
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.reading.benchmark_logs import read_benchmark
from clustersim.results import MeasuredNetwork, Run
from clustersim.scenario import AnchorPoint, Point, build_topology
from clustersim.simulate.transport_fit import Fit, experiments, fit_transport, sheet_text
from clustersim.simulate.transport_fit.constants import FITTED, LIMIT


@dataclass(frozen=True)
class NetworkFit:
    """The transport of a scenario fitted to logs, and the file of its sheet, which points name in its place."""

    transport: str
    sheet: str
    fit: Fit

    def applied(self, point: Point) -> Point:
        """Return a point with the fitted transport, if it has the one that was fitted."""
        return point.model_copy(update={"transport": self.sheet}) if self.fits(point) else point

    def fits(self, point: Point) -> bool:
        """Say whether a point has the transport that was fitted."""
        return point.transport == self.transport

    def name_of(self, run: Run) -> str:
        """Return the transport of a run without the folder of the fitted sheet, which differs between processes."""
        return Path(self.sheet).stem if run.transport == self.sheet else run.transport

    def to_result(self) -> MeasuredNetwork:
        """Return what a run says of the fit."""
        return MeasuredNetwork(
            transport=self.transport,
            logs=self.fit.sources,
            num_figures=len(self.fit.residuals),
            median_abs_error=self.fit.median_abs_error,
            median_abs_error_without=self.fit.median_abs_error_before,
            constants={
                each.key: (each.before, each.value) for each in self.fit.constants if each.state in (FITTED, LIMIT)
            },
        )


def fit_network(runs: Sequence[AnchorPoint], on_progress: Callable[[str], None]) -> NetworkFit | None:
    """Return the transport fitted to the logs among measured runs; None without logs."""
    logs = [run for run in runs if run.measured.collectives is not None]
    if not logs:
        return None
    transports = list(dict.fromkeys(run.point.transport for run in logs))
    if len(transports) > 1 or transports[0] == "ideal":
        got = ", ".join(transports)
        message = f"logs of collectives fit one message library that the scenario names (got transport {got})"
        raise InputError(message, key="transport", got=got, allowed="one transport that is not ideal")
    points = []
    for measured, point in logs:
        assert measured.collectives is not None
        cluster = build_topology(point.topology)
        points += experiments(read_benchmark(measured.collectives, measured.collective), cluster, measured.num_gpus)
    on_progress("measured collectives")
    fit = fit_transport(points, load_transport(transports[0]))
    return NetworkFit(transports[0], str(_sheet(fit, cluster.name)), fit)


def _sheet(fit: Fit, topology: str) -> Path:
    """Write the sheet of a fitted transport to a file that lives as long as the process."""
    name = f"{fit.after.library}-as-measured"
    text = sheet_text(fit, name, topology)
    path = _folder() / hashlib.sha256(text.encode()).hexdigest()[:16] / f"{name}.yaml"
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    return path


@cache
def _folder() -> Path:
    folder = TemporaryDirectory(prefix="clustersim-")
    atexit.register(folder.cleanup)
    return Path(folder.name)
