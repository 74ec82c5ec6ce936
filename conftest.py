"""Leaves out the modules that need an extra which is not installed, so that no doctest is looked for in them.

Every other module has to import: one that fails to by mistake fails the run, and does not silently lose its doctests.
Measured tables of kernels change forecasts, so tests run as if none were installed, except those marked `tables`.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

_ONNX_MODEL = ("graph", "layers", "operators", "shapes")
_TORCH_MODEL = ("functions", "layers", "operators", "passes", "record", "target")
_PROFILING = (
    "cuda_timer", "device", "layers", "measure", "models/*", "modules", "net", "node", "optimizers", "phases",
    "precision", "run", "whole",
)  # fmt: skip

NEEDS = {
    "dask": ["clustersim/sweep/dask_workers.py"],
    "mpi4py": ["clustersim/sweep/mpi.py"],
    "dash": ["clustersim/what_if/app/page.py", "clustersim/what_if/app/controls.py"],
    "onnx": [f"clustersim/interchange/onnx_model/{name}.py" for name in _ONNX_MODEL],
    "mnist1d": ["clustersim/learning/training/mnist1d.py"],
    "sklearn": ["clustersim/learning/training/digits.py"],
    "torch": [
        *(f"clustersim/interchange/torch_model/{name}.py" for name in _TORCH_MODEL),
        *(f"clustersim/profiling/{name}.py" for name in _PROFILING),
        "clustersim/learning/training/[!_]*.py",
        "tests/learning/training/*.py",
    ],
}

collect_ignore_glob = [path for extra, paths in NEEDS.items() if find_spec(extra) is None for path in paths]


@pytest.fixture(autouse=True)
def _no_measured_tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide installed tables of kernels, so that a test finds the same with the extra and without."""
    if request.node.get_closest_marker("tables") is None:
        from clustersim.kernels.measured_tables import installed

        monkeypatch.setattr(installed, "search_tables", lambda: installed.NOT_INSTALLED)
