"""Fits constants of transports to measured collectives and copies: a user's logs, or the microbenchmarks of all cases.

It fits only the constants of a transport sheet, and never to a figure that is scored. `interchange` reads the logs, and
the simulator runs the collectives.
"""

from clustersim.validation.calibration.calibrate import Calibration, Source, calibrate
from clustersim.validation.calibration.constants import CONSTANTS, Fit, FittedConstant, Residual
from clustersim.validation.calibration.fit import fit_transport
from clustersim.validation.calibration.sheet_text import sheet_name, sheet_text
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
