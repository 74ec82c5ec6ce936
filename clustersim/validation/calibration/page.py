"""The HTML page of a calibration: residuals, constants, and every figure; one self-contained file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from clustersim import __version__
from clustersim.report.page import bullets, card, grid, page
from clustersim.report.panel import Panel
from clustersim.report.words import duration, percent, plural, size
from clustersim.results import write_atomically
from clustersim.validation.calibration.calibrate import Calibration
from clustersim.validation.calibration.figure import draw_residuals, residuals_data
from clustersim.validation.calibration.text import constant_cells, summary

_CONSTANTS = ("constant", "meaning", "before", "fitted", "standard error", "state")
_POINTS = ("what", "GPUs", "size", "measured", "before", "fitted", "error", "where")


def write_calibration(calibrations: Sequence[Calibration], path: str | Path) -> Path:
    """Write the page of one calibration or several as one self-contained HTML file."""
    return write_atomically(path, calibration_html(calibrations))


def calibration_html(calibrations: Sequence[Calibration]) -> str:
    """Return the page."""
    figures = tuple(draw_residuals(residuals_data(calibration)) for calibration in calibrations)
    panel = Panel("residuals", figures, "transport", "Residuals")
    names = ", ".join(Path(calibration.transport).stem for calibration in calibrations)
    body = [
        f'<header><p class="name">clustersim calibrate</p><h1>{escape(_headline(calibrations))}</h1></header>',
        panel.html(),
        *(part for calibration in calibrations for part in _cards(calibration)),
        f"<footer>clustersim {__version__}. Figures need JavaScript; nothing is loaded from anywhere.</footer>",
    ]
    return page(f"clustersim: constants of {names}", __version__, body, [panel])


def _headline(calibrations: Sequence[Calibration]) -> str:
    first = calibrations[0]
    if first.topology is None:
        return f"{plural(len(calibrations), 'transport')} fitted to the cases' microbenchmarks"
    return f"{Path(first.transport).stem} as measured on {first.topology}"


def _cards(calibration: Calibration) -> Iterator[str]:
    name = calibration.transport
    rows = [list(constant_cells(constant)) for constant in calibration.fit.constants]
    words = ("constant", "meaning", "state")
    yield card(f"{name}: constants", summary(calibration), grid(_CONSTANTS, rows, words))
    notes = [f"{source.file}: {note}" for source in calibration.sources for note in source.notes]
    if notes:
        yield card("Notes on the logs", "", bullets(notes))
    points = [
        [point.what, str(point.num_gpus), size(point.num_bytes), duration(point.measured_s), duration(point.before_s),
         duration(point.simulated_s), percent(point.error, signed=True), f"{point.source}:{point.line}"]
        for point in calibration.fit.residuals
    ]  # fmt: skip
    yield card(f"{name}: every figure", "", grid(_POINTS, points, ("what", "where")), long=True)
