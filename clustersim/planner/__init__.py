"""Search for the best layout of a model on a cluster: a closed-form bound for every layout, simulation of the best.

Memory and times of layouts come from the other packages; the planner models nothing itself.
"""

from clustersim.planner.objective import NAMES
from clustersim.planner.plan import PLAN_SCHEMA, STOPPED, Entry, Plan, plan
from clustersim.planner.space import Choice

__all__ = ["NAMES", "PLAN_SCHEMA", "STOPPED", "Choice", "Entry", "Plan", "plan"]
