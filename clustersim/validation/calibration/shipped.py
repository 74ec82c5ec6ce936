"""Fits the constants of the shipped transports to the microbenchmarks of all cases.

Only figures that calibrate by rule are used: collectives and copies on an idle cluster. Constants from a document are
held; only assumed constants of a sheet may change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from clustersim.collectives import busbw_factor
from clustersim.errors import InputError
from clustersim.hardware import TRANSPORTS, Transport
from clustersim.results import write_atomically
from clustersim.scenario.files import read_scenario
from clustersim.simulate.transport_fit.collectives import collective_on
from clustersim.simulate.transport_fit.constants import CONSTANTS, FITTED, Fit
from clustersim.simulate.transport_fit.experiment import Experiment
from clustersim.simulate.transport_fit.fit import fit_transport
from clustersim.simulate.transport_fit.problem import OnProgress
from clustersim.simulate.transport_fit.sheet_text import sheet_text
from clustersim.topology import Topology, load_topology, place
from clustersim.topology.placement import Block
from clustersim.validation.calibration.calibrate import Calibration, Source
from clustersim.validation.case import Case
from clustersim.validation.leave_one_out import SHEETS, before_any_fit
from clustersim.validation.measured import Measured
from clustersim.validation.metrics import units_of
from clustersim.validation.question import CollectiveQuestion, read_collective

_CLUSTERS = "the cases' own clusters"


@dataclass(frozen=True)
class ShippedFit:
    """A shipped transport fitted with all constants free, and with only its assumed constants free.

    `assumed` is None if the sheet assumes no constant; `without` has the fits of the assumed constants to the figures
    of all cases except one, by the name of that case, if the figures determine any.
    """

    transport: str
    free: Fit
    assumed: Fit | None = None
    without: Mapping[str, Fit | None] = field(default_factory=dict)

    @property
    def changes(self) -> tuple[str, ...]:
        """The assumed constants that the figures determine."""
        constants = self.assumed.constants if self.assumed else ()
        return tuple(constant.key for constant in constants if constant.state == FITTED)


def microbenchmarks(cases: Sequence[Case]) -> dict[str, list[Experiment]]:
    """Return the calibration figures of collectives that were read in their source, by transport."""
    found: dict[str, list[Experiment]] = {}
    read = cache(read_scenario)
    for case in cases:
        for row in case.rows:
            asked = read_collective(case.question(row), read) if row.role == "calibration" else None
            if asked is not None and row.provenance == "read":
                found.setdefault(asked.transport, []).append(_experiment(case.name, row, asked))
    return found


def fit_shipped(
    cases: Sequence[Case], transport: str | None = None, on_progress: OnProgress = lambda share, what: None
) -> tuple[ShippedFit, ...]:
    """Fit every transport with microbenchmarks in these cases, or only the given one.

    Every case has equal weight, however many figures it has.
    """
    by_transport = microbenchmarks(cases)
    names = sorted(by_transport) if transport is None else [transport]
    for name in names:
        if not by_transport.get(name):
            known = ", ".join(sorted(by_transport))
            message = f"no case has microbenchmarks of the transport '{name}' (known: {known}); give logs"
            raise InputError(message, got=name, allowed=known)
    return tuple(_fit(name, by_transport[name], on_progress) for name in names)


def calibrate_shipped(fits: Sequence[ShippedFit]) -> list[Calibration]:
    """Return each fit as a calibration whose sources are cases, with the constants of the fit with all free."""
    return [
        Calibration(
            fit.transport, None, tuple(Source(case, "case") for case in fit.free.sources), fit.free, fit.changes
        )
        for fit in fits
    ]


def store(fit: ShippedFit, folder: Path = SHEETS, sheets: Path | None = None) -> list[Path]:
    """Write the determined constants into a transport's sheet, and the sheets that leave one case out.

    `sheets` is the folder of the shipped transports. Nothing is written if no constant is determined.
    """
    if fit.assumed is None or not fit.changes:
        return []
    name = fit.transport
    shipped = TRANSPORTS.find(name) if sheets is None else sheets / f"{name}.yaml"
    before = folder / "before" / f"{name}.yaml"
    if not before.is_file():
        write_atomically(before, shipped.read_text(encoding="utf-8"))
    written = [before, write_atomically(shipped, sheet_text(fit.assumed, name, _CLUSTERS))]
    for case, left in fit.without.items():
        text = before.read_text(encoding="utf-8") if left is None else sheet_text(left, name, _CLUSTERS)
        written.append(write_atomically(folder / f"without-{case}" / f"{name}.yaml", text))
    return written


def _fit(name: str, points: Sequence[Experiment], on_progress: OnProgress) -> ShippedFit:
    start = before_any_fit(name)
    free = fit_transport(points, start, equal_sources=True, on_progress=on_progress)
    keys = [key for key in CONSTANTS if start.sources.get(key, "").startswith("assumed")]
    if not keys:
        return ShippedFit(name, free)
    fit = ShippedFit(name, free, _assumed(points, start, keys, on_progress))
    if not fit.changes:
        return fit
    others = {case: [point for point in points if point.source != case] for case in free.sources}
    return replace(fit, without={case: _assumed(left, start, keys, on_progress) for case, left in others.items()})


def _assumed(
    points: Sequence[Experiment], start: Transport, keys: Sequence[str], on_progress: OnProgress
) -> Fit | None:
    return fit_transport(points, start, keys, equal_sources=True, on_progress=on_progress) if points else None


def _experiment(case: str, row: Measured, asked: CollectiveQuestion) -> Experiment:
    cluster = _cluster(json.dumps(asked.topology, sort_keys=True))
    gpus = place(Block(), cluster, asked.num_gpus, seed=0)
    what = f"{asked.collective}, {row.scenario}"
    run = collective_on(cluster, asked.collective, asked.algorithm, gpus, asked.bytes)
    return Experiment(what, case, row.line, asked.bytes, asked.num_gpus, _measured_s(row, asked), run)


@cache
def _cluster(described: str) -> Topology:
    return load_topology(json.loads(described))


def _measured_s(row: Measured, asked: CollectiveQuestion) -> float:
    """Return the time of a figure, which may be a time or one of nccl-tests' two bandwidths."""
    value = row.value * units_of(row.metric)[row.unit]
    if row.metric == "time_s":
        return value
    factor = busbw_factor(asked.collective, asked.num_gpus) if row.metric == "busbw_bytes_per_s" else 1.0
    return asked.bytes * factor / value
