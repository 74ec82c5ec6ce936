"""A plan for its reader: the answer in sentences, tables, and a page with the frontier of throughput, memory and cost.

Nothing is simulated or searched in here: `clustersim.planner` does that.
"""

from clustersim.plan_report.answer import answer
from clustersim.plan_report.page import plan_html, write_plan_report

__all__ = ["answer", "plan_html", "write_plan_report"]
