"""The best layout of a model on a cluster: every layout bounded in closed form, the best of them simulated.

It asks the other rooms what a layout holds, takes at least, and takes when it is played; it models nothing itself.
"""

from clustersim.planner.objective import NAMES
from clustersim.planner.plan import PLAN_SCHEMA, Entry, Plan, plan
from clustersim.planner.space import Choice

__all__ = ["NAMES", "PLAN_SCHEMA", "Choice", "Entry", "Plan", "plan"]
