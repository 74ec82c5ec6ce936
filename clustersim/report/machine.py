"""What every forecast says of its program and its network, in one line."""

from __future__ import annotations

from collections.abc import Iterable

from clustersim.report.words import THIN, count, plural
from clustersim.results import Run, Sweep

_MOST = 4

IDEAL = "ideal network"
"""What the headline says where messages take no time but that of their bytes.

A real library may be quicker all the same, by its algorithms.
"""


def machine(sweep: Sweep) -> str:
    """Return the programs, message libraries, precisions and network cards of the runs, of each at most four."""
    sent = [run for run in sweep.ran if run.num_gpus > 1 and run.transport]
    parts = (
        ("software", _several(run.software for run in sweep.ran)),
        (
            "transport",
            _several(f"{run.transport} ({IDEAL})" if run.has_ideal_network else run.transport for run in sent),
        ),
        ("precision", _several(run.features.precision for run in sweep.ran if run.features is not None)),
        ("each host has", _several(_cards(run) for run in sent)),
    )
    return "; ".join(f"{what} {found}" for what, found in parts if found)


def is_ideal(sweep: Sweep) -> bool:
    """Return whether any run has an ideal network."""
    return any(run.has_ideal_network for run in sweep.ran)


def _cards(run: Run) -> str:
    if not run.cards:
        return ""
    gigabits = float(f"{8e-9 * run.cards['bytes_per_s']:.3g}")
    rate = f"{count(gigabits)}{THIN}Gbit/s"
    return f"{plural(int(run.cards['per_host']), 'network card')} of {rate}"


def _several(texts: Iterable[str]) -> str:
    found = list(dict.fromkeys(filter(None, texts)))
    if len(found) > _MOST:
        found = [*found[:_MOST], f"{(more := len(found) - _MOST)} other{'s' if more > 1 else ''}"]
    return " or ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
