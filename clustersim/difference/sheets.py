"""The GPUs of two runs and what their data sheets say, where the clusters differ."""

from __future__ import annotations

from clustersim.difference.settings import SettingChange, at_point
from clustersim.errors import InputError
from clustersim.hardware import Gpu, load_gpu
from clustersim.report.words import THIN, count, size
from clustersim.results import Run, Sweep
from clustersim.scenario import build_topology, load_scenario
from clustersim.units import format_rate

SHEET_RATES = ("peak", "rate of its memory")
"""How the facts begin that bound the compute of a GPU."""


def sheet_changes(a: tuple[Sweep, Run], b: tuple[Sweep, Run]) -> tuple[SettingChange, ...]:
    """Return the values of the sheets of the GPUs that differ, as this version has them.

    Empty where a cluster has GPUs of several kinds, or where a file that its scenario names is not found.
    """
    gpus = [_gpu(*side) for side in (a, b)]
    first, second = ({} if gpu is None else _values(gpu, run) for gpu, (_, run) in zip(gpus, (a, b), strict=True))
    shared = [key for key in first if key in second]
    return tuple(SettingChange(key, first[key], second[key]) for key in shared if first[key] != second[key])


def _gpu(sweep: Sweep, run: Run) -> Gpu | None:
    """Return the only GPU of a run's cluster."""
    try:
        (point,) = load_scenario(at_point(sweep.scenario, run.axes)).points()
        names = set(build_topology(point.point.topology).gpu_sheets)
        return load_gpu(str(names.pop())) if len(names) == 1 and None not in names else None
    except (InputError, ValueError):
        return None


def _values(gpu: Gpu, run: Run) -> dict[str, str]:
    """Return what a sheet says, in words."""
    found = {"GPU": gpu.title}
    precision = "" if run.features is None else run.features.precision
    peak = gpu.flop_per_s.get(precision)
    if peak is not None:
        found[f"{SHEET_RATES[0]} in {precision}"] = f"{count(float(f'{1e-12 * peak:.4g}'))}{THIN}TFLOP/s"
    found[SHEET_RATES[1]] = format_rate(gpu.memory_bytes_per_s)
    found["memory of a GPU"] = size(gpu.memory_bytes)
    if gpu.power_w is not None:
        found["power limit"] = f"{count(gpu.power_w)}{THIN}W"
    return found
