"""A calibration as text for a terminal: the figures, then the constants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from clustersim.simulate.transport_fit.constants import FittedConstant
from clustersim.simulate.transport_fit.sheet_text import error_text, value_text
from clustersim.units import format_duration, format_size
from clustersim.validation.calibration.calibrate import Calibration
from clustersim.validation.text import aligned, percent_text

MEANINGS = {
    "overhead_s": "cost of a message",
    "host_overhead_s": "cost of a message inside a host",
    "efficiency": "share of the links' rate",
    "add_s_per_byte": "adding a byte",
}

_POINTS = ("what", "GPUs", "size", "measured", "before", "fitted", "error", "where")
_CASES = ("case", "figures", "median error before", "fitted")
_CONSTANTS = ("constant", "meaning", "sheet", "fitted", "standard error", "")


def calibration_text(calibration: Calibration) -> str:
    """Return the constants as text, with every figure of a user's logs, or the cases of shipped figures."""
    fit = calibration.fit
    on = f" on {calibration.topology}" if calibration.topology else ""
    lines = [f"{calibration.transport}{on}: {summary(calibration)}", ""]
    if calibration.topology:
        lines += [*aligned([_POINTS, *_point_cells(calibration)], ("what", "where"), indent="  "), ""]
    else:
        lines += [*aligned([_CASES, *_case_cells(calibration)], ("case",), indent="  "), ""]
    lines += aligned([_CONSTANTS, *map(constant_cells, fit.constants)], ("constant", "meaning", ""), indent="  ")
    if not calibration.topology:
        determined = ", ".join(calibration.changes) or "none"
        lines += ["", f"  assumed constants that these figures determine with documented ones held: {determined}"]
    lines += [f"  note: {source.file}: {note}" for source in calibration.sources for note in source.notes]
    return "\n".join(lines)


def summary(calibration: Calibration) -> str:
    """Return the median errors of the figures as text, before and after the fit.

    >>> from types import SimpleNamespace as Some
    >>> summary(Some(fit=Some(residuals=[1], median_abs_error=0.02, median_abs_error_before=0.3)))
    '1 figure, median error 2.0% (30.0% with the sheet as it was)'
    """
    fit = calibration.fit
    now, before = (percent_text(error, signed=False) for error in (fit.median_abs_error, fit.median_abs_error_before))
    figures = "1 figure" if len(fit.residuals) == 1 else f"{len(fit.residuals)} figures"
    return f"{figures}, median error {now} ({before} with the sheet as it was)"


def constant_cells(constant: FittedConstant) -> tuple[str, ...]:
    """Return the cells of a constant: key, meaning, before, after, standard error, state."""
    before, value = (value_text(constant.key, each) for each in (constant.before, constant.value))
    return constant.key, MEANINGS[constant.key], before, value, error_text(constant), constant.state


def _point_cells(calibration: Calibration) -> Iterator[tuple[str, ...]]:
    for point in calibration.fit.residuals:
        times = (format_duration(time_s) for time_s in (point.measured_s, point.before_s, point.simulated_s))
        where = f"{Path(point.source).name}:{point.line}"
        yield (point.what, str(point.num_gpus), format_size(point.num_bytes), *times, percent_text(point.error), where)


def _case_cells(calibration: Calibration) -> Iterator[tuple[str, ...]]:
    for case in calibration.fit.sources:
        points = [point for point in calibration.fit.residuals if point.source == case]
        before, after = (
            median(abs(point.error_before) for point in points),
            median(abs(point.error) for point in points),
        )
        yield case, str(len(points)), percent_text(before, signed=False), percent_text(after, signed=False)
