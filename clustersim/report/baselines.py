"""What speedups and efficiencies are relative to, as text."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.report.words import count
from clustersim.results import Run, Sweep

_SAME = 0.01
"""Difference of two rates up to which they count as the same."""


def speedups_compare(sweep: Sweep) -> bool:
    """Return whether one axis can have the speedups of all runs.

    All runs have one, over as many GPUs. Runs of one model and batch have the same baseline: otherwise speedups would
    hide by how much their settings, such as recomputation or the GPU, make the baseline slower as well.
    """
    rates: dict[tuple[str, int], set[float]] = {}
    for run in sweep.ran:
        over = run.speedup_baseline
        if over is not None:
            rates.setdefault((str(run.axes.get("model")), over.batch), set()).add(over.samples_per_s)
    sizes = {run.speedup_baseline.num_gpus for run in sweep.ran if run.speedup_baseline is not None}
    is_alike = all(max(each) <= (1 + _SAME) * min(each) for each in rates.values())
    return all(run.speedup is not None for run in sweep.ran) and len(sizes) <= 1 and is_alike


def baseline_cell(run: Run) -> str:
    """Return samples per second of what a speedup is over, and how many GPUs train them if they are several."""
    if run.speedup is None:
        return "–"
    rate, over = count(run.samples_per_s / run.speedup), run.speedup_baseline
    return f"{rate} on {over.short}" if over is not None and over.num_gpus > 1 else rate


def baseline_lines(sweep: Sweep) -> Iterator[str]:
    """Yield what the speedups and the efficiencies of all runs are over, and why that is not one GPU."""
    bases = list(dict.fromkeys(run.speedup_basis for run in sweep.ran if run.speedup is not None))
    if len(bases) == 1:
        yield f"speedup: over {bases[0]}"
    found = list(dict.fromkeys(run.baseline for run in sweep.ran if run.baseline is not None))
    if len(found) == 1 and not any(run.speedup_baseline for run in sweep.ran):
        yield f"efficiency: per GPU, over {found[0].text}"
    reasons = list(dict.fromkeys(each.why for each in found if each.why))
    if len(reasons) == 1:
        yield f"baseline: {reasons[0]}"
