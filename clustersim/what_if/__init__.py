"""What if: which values of a scenario may be changed, and the forecast with other values.

It knows scenarios, sweeps and the figures of the report. It knows neither web servers nor web pages: `clustersim serve`
and the static page show what this package returns.
"""

from clustersim.what_if.base import Base, base_of
from clustersim.what_if.evaluation import FIGURE_NAMES, Evaluation
from clustersim.what_if.knob import Knob, Stop, value_text
from clustersim.what_if.knobs import knobs
from clustersim.what_if.study import WhatIf

__all__ = ["FIGURE_NAMES", "Base", "Evaluation", "Knob", "Stop", "WhatIf", "base_of", "knobs", "value_text"]
