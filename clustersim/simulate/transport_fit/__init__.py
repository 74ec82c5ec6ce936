"""Fits constants of a transport to measured collectives and copies: each is simulated for any constants.

It fits only the constants of a transport sheet. `reading.benchmark_logs` reads the logs.
"""

from clustersim.simulate.transport_fit.constants import CONSTANTS, Fit, FittedConstant, Residual
from clustersim.simulate.transport_fit.fit import fit_transport
from clustersim.simulate.transport_fit.from_log import experiments
from clustersim.simulate.transport_fit.sheet_text import sheet_name, sheet_text

__all__ = [
    "CONSTANTS",
    "Fit",
    "FittedConstant",
    "Residual",
    "experiments",
    "fit_transport",
    "sheet_name",
    "sheet_text",
]
