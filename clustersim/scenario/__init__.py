"""The scenario: what a user asks, read from a file, checked, and every mistake told with its line.

It knows what may be asked (the members of the rooms below) and nothing of how it is simulated.
"""

from __future__ import annotations

from clustersim.scenario.checks import check_point
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.loader import load_scenario
from clustersim.scenario.memory import compression_of, gpu_memory
from clustersim.scenario.parts import Baseline, Batch, Published
from clustersim.scenario.point import JobOfMany, Point
from clustersim.scenario.reference import reference_page
from clustersim.scenario.scenario import Scenario, SweepPoint
from clustersim.scenario.schema import json_schema
from clustersim.scenario.straggler_checks import link_table
from clustersim.scenario.told_once import at_points

__all__ = [
    "Baseline",
    "Batch",
    "JobOfMany",
    "Point",
    "Published",
    "Scenario",
    "SweepPoint",
    "at_points",
    "build_topology",
    "check_point",
    "compression_of",
    "gpu_memory",
    "json_schema",
    "link_table",
    "load_scenario",
    "reference_page",
]
