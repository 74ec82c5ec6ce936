"""How right the forecasts are: published figures against the simulator, case by case.

A case is a folder of `validate/`: what was measured (`measured.csv`), on what and what stands on what (`source.md`),
and the scenarios that forecast it. Figures that calibrate are inputs and never scored; nothing here is fitted to a
predicted figure. The score is pure; only `question` knows that there is a simulator.
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
