"""Reports of results: the HTML page, and the tables for the terminal.

It needs saved results only: no simulation, no clock, no hardware. A figure is two functions. One returns plain numbers
and is tested; the other only draws them. `FIGURES` is the table of all figures in the order of the page.
"""

from clustersim.report.cluster import write_topology
from clustersim.report.figures import FIGURES
from clustersim.report.report import report_html, write_report
from clustersim.report.table import table, tables
from clustersim.report.terminal import report_text

__all__ = ["FIGURES", "report_html", "report_text", "table", "tables", "write_report", "write_topology"]
