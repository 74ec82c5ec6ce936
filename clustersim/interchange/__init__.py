"""Results in other tools' formats: Perfetto traces and CSV tables.

Reads results and writes files; simulates nothing and draws nothing.
"""

from clustersim.interchange.csv_table import csv_rows, write_csv
from clustersim.interchange.perfetto import trace_events, write_perfetto

__all__ = ["csv_rows", "trace_events", "write_csv", "write_perfetto"]
