"""Results in the formats of other tools, and imports of models, profiles and measurements.

Exports: Perfetto traces, CSV and Parquet tables, update logs, and curves of trainings. Imports: torch modules, ONNX
files, Hugging Face configs, torch.profiler traces, and logs of communication benchmarks. Simulates nothing and draws
nothing; torch, onnx and pyarrow are loaded when they are used.
"""

from clustersim.interchange.csv_file import write_csv, write_rows
from clustersim.interchange.hf_config import import_hf
from clustersim.interchange.imported import Imported
from clustersim.interchange.learning_curves import write_curves
from clustersim.interchange.onnx_model import import_onnx
from clustersim.interchange.parquet_file import check_parquet, write_parquet
from clustersim.interchange.perfetto import trace_events, write_perfetto
from clustersim.interchange.torch_model import InputSpec, import_torch, parse_input
from clustersim.interchange.update_log import update_lines, write_updates
from clustersim.reading.benchmark_logs import BenchmarkLog, read_benchmark

__all__ = [
    "BenchmarkLog",
    "Imported",
    "InputSpec",
    "check_parquet",
    "import_hf",
    "import_onnx",
    "import_torch",
    "parse_input",
    "read_benchmark",
    "trace_events",
    "update_lines",
    "write_csv",
    "write_curves",
    "write_parquet",
    "write_perfetto",
    "write_rows",
    "write_updates",
]
