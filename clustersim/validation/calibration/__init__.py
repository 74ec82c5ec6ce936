"""Fits constants of transports to measured collectives and copies: a user's logs, or the microbenchmarks of all cases.

It fits only the constants of a transport sheet, and never to a figure that is scored. `reading.benchmark_logs` reads
the logs, and `simulate.transport_fit` simulates the collectives.
"""

from clustersim.simulate.transport_fit.constants import CONSTANTS, Fit, FittedConstant, Residual
from clustersim.simulate.transport_fit.fit import fit_transport
from clustersim.simulate.transport_fit.sheet_text import sheet_name, sheet_text
from clustersim.validation.calibration.calibrate import Calibration, Source, calibrate
from clustersim.validation.calibration.shipped import ShippedFit, calibrate_shipped, fit_shipped, microbenchmarks, store

__all__ = [
    "CONSTANTS",
    "Calibration",
    "Fit",
    "FittedConstant",
    "Residual",
    "ShippedFit",
    "Source",
    "calibrate",
    "calibrate_shipped",
    "fit_shipped",
    "fit_transport",
    "microbenchmarks",
    "sheet_name",
    "sheet_text",
    "store",
]
