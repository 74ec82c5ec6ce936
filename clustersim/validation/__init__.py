"""Accuracy of the forecasts: published figures against the simulator, case by case.

A case is a folder of `validate/`: measured figures (`measured.csv`), the hardware and the assumptions (`source.md`),
and the scenarios that forecast them. Figures that calibrate are inputs and never scored; nothing here is fitted to a
predicted figure. The score is a pure function; only `question` calls the simulator.
"""

from clustersim.validation.case import Case, load_case, load_cases, own_cases, shipped_cases
from clustersim.validation.score import Summary, summarise
from clustersim.validation.validate import validate
from clustersim.validation.verdict import CaseVerdict, Compared, Skipped, Verdict

__all__ = [
    "Case",
    "CaseVerdict",
    "Compared",
    "Skipped",
    "Summary",
    "Verdict",
    "load_case",
    "load_cases",
    "own_cases",
    "shipped_cases",
    "summarise",
    "validate",
]
