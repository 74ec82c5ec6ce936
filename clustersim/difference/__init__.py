"""Where the seconds went between two forecasts: by part of an iteration, layer, collective, link class and rank.

It compares results, which it reads or simulates first. It knows nothing of how they were made: what differs in them is
all that it says, and it names a cause only where the results name one.
"""

from clustersim.difference.basis import BASES, DiffBasis
from clustersim.difference.decompose import CauseChange, PartChange
from clustersim.difference.difference import Difference, KeyEffect, PointDifference
from clustersim.difference.links import LinkChange
from clustersim.difference.make import diff
from clustersim.difference.page import write_diff_report
from clustersim.difference.settings import SettingChange

__all__ = [
    "BASES",
    "CauseChange",
    "DiffBasis",
    "Difference",
    "KeyEffect",
    "LinkChange",
    "PartChange",
    "PointDifference",
    "SettingChange",
    "diff",
    "write_diff_report",
]
