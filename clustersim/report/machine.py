"""What every forecast says of its program and its network, in one line."""

from __future__ import annotations

from clustersim.report.words import THIN, plural
from clustersim.results import Run, Sweep

_MOST = 3

IDEAL = "ideal network"
"""What the headline says where messages take no time but that of their bytes."""


def machine(sweep: Sweep) -> str:
    """Return the programs, message libraries and network cards of the runs, at most three of them."""
    lines = list(dict.fromkeys(filter(None, map(_of_run, sweep.runs))))
    more = f"; and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
    return "; or ".join(lines[:_MOST]) + more


def is_ideal(sweep: Sweep) -> bool:
    """Return whether any run has an ideal network."""
    return any(run.has_ideal_network for run in sweep.runs)


def _of_run(run: Run) -> str:
    parts = [f"software {run.software}"] if run.software else []
    if run.num_gpus > 1 and run.transport:
        parts.append(IDEAL if run.has_ideal_network else f"transport {run.transport}")
    if run.cards:
        rate = f"{8e-9 * run.cards['bytes_per_s']:.3g}{THIN}Gbit/s"
        parts.append(f"{plural(int(run.cards['per_host']), 'network card')} of {rate} in each host")
    return ", ".join(parts)
