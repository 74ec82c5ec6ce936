"""Results in other tools' formats: Perfetto traces, CSV tables, update logs.

Reads results and writes files; simulates nothing and draws nothing.
"""

from clustersim.interchange.csv_table import csv_rows, write_csv
from clustersim.interchange.perfetto import trace_events, write_perfetto
from clustersim.interchange.update_log import update_lines, write_updates

__all__ = ["csv_rows", "trace_events", "update_lines", "write_csv", "write_perfetto", "write_updates"]
