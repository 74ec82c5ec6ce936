"""What came out, to look at: the report page and the table for the terminal.

Works on saved results alone: no simulation, no clock, no hardware in here. A figure is two functions: one
returns plain numbers and is tested, the other draws them and decides nothing. `FIGURES` is the table of
all figures in the order of the page.
"""

from clustersim.report.cluster import write_topology
from clustersim.report.figures import FIGURES
from clustersim.report.report import report_html, write_report
from clustersim.report.table import table, tables

__all__ = ["FIGURES", "report_html", "table", "tables", "write_report", "write_topology"]
