"""Scenarios: read from a file and checked, with the line of every mistake.

This package depends on the models of all parts of a scenario, and not on the simulation.
"""

from __future__ import annotations

from clustersim.scenario.anchors import AnchorPoint
from clustersim.scenario.checks import check_point
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.compression import compression_of
from clustersim.scenario.duplicates import at_points
from clustersim.scenario.loader import load_scenario
from clustersim.scenario.memory import gpu_memory
from clustersim.scenario.parts import Batch, GivenBaseline, Published
from clustersim.scenario.point import JobOfMany, Point
from clustersim.scenario.point_tree import PointTree
from clustersim.scenario.reference import reference_page
from clustersim.scenario.scenario import Scenario, SweepPoint
from clustersim.scenario.schema import json_schema
from clustersim.scenario.straggler_checks import link_table

__all__ = [
    "AnchorPoint",
    "Batch",
    "GivenBaseline",
    "JobOfMany",
    "Point",
    "PointTree",
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
