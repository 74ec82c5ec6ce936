"""Search for the best layout of a model on a cluster: a closed-form bound for every layout, simulation of the best.

Memory and times of layouts come from the other packages; the planner models nothing itself.
"""

from clustersim.planner.clusters import ClusterOption, read_clusters
from clustersim.planner.comparing import COMPARISON_SCHEMA, ClusterComparison, ClusterPlan, compare_clusters, path_for
from clustersim.planner.objective import NAMES
from clustersim.planner.plan import PLAN_SCHEMA, STOPPED, Entry, Plan, plan
from clustersim.planner.space import Choice
from clustersim.planner.totals import Totals, as_run, totals

__all__ = [
    "COMPARISON_SCHEMA",
    "NAMES",
    "PLAN_SCHEMA",
    "STOPPED",
    "Choice",
    "ClusterComparison",
    "ClusterOption",
    "ClusterPlan",
    "Entry",
    "Plan",
    "Totals",
    "as_run",
    "compare_clusters",
    "path_for",
    "plan",
    "read_clusters",
    "totals",
]
