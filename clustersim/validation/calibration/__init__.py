"""Constants of transports from measured collectives and copies: a user's own logs, or the microbenchmarks of all cases.

It fits what a transport sheet has and nothing else, and never to a figure that is scored. Whose logs it reads is told
by `interchange`; how a collective runs, by the simulator itself.
"""

from clustersim.validation.calibration.calibrate import Calibration, Source, calibrate
from clustersim.validation.calibration.constants import CONSTANTS, Constant, Fit, Residual
from clustersim.validation.calibration.fit import fit_transport
from clustersim.validation.calibration.sheet_text import sheet_name, sheet_text
from clustersim.validation.calibration.shipped import ShippedFit, calibrate_shipped, fit_shipped, microbenchmarks, store

__all__ = [
    "CONSTANTS",
    "Calibration",
    "Constant",
    "Fit",
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
