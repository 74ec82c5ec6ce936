"""Names of cases, and the input files of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from validate.lab.layout import Layout
from validate.lab.servers import Mode


def place_text(layout: Layout, megabits_per_s: float) -> str:
    """Return the name of a cluster.

    >>> place_text(Layout.torus(3, 3), 80)
    'torus of 3 x 3, 80 Mbit/s'
    """
    if not layout.dims:
        shape = f"star of {layout.num_hosts}"
    elif len(layout.dims) == 1:
        shape = f"ring of {layout.num_hosts}"
    else:
        shape = f"torus of {' x '.join(map(str, layout.dims))}"
    return f"{shape}, {megabits_per_s:g} Mbit/s"


def mode_text(mode: Mode) -> str:
    """Return the name of a server's mode."""
    words = {
        "server": "waits for all",
        "backup": f"does without {mode.backups}",
        "async": "asynchronous",
        "softsync": f"softsync {mode.n}",
    }
    return words.get(mode.kind, f"staleness bound {mode.bound}")


def common_keys(layout: Layout, megabits_per_s: float, num_workers: int, name: str) -> dict[str, Any]:
    """Return the common keys of all scenarios of the lab."""
    return {
        "name": f"lab-{name}",
        "model": "net.yaml",
        "num_gpus": num_workers,
        "batch": {"per_gpu": 2},
        "topology": layout.topology(megabits_per_s),
        "software": "plain",
        "transport": "gloo",
        "optimizer": "sgd",
        "memory_check": False,
    }


def layer_line(number: int, num_bytes: int, forward_s: float, backward_s: float) -> str:
    """Return a layer of a workload file."""
    times = f"forward_s: {forward_s:.6f}, backward_s: {backward_s:.6f}"
    return (
        f"  - {{name: layer-{number}, op: linear, flop: 1, parameter_bytes: {num_bytes}, activation_bytes: 4, {times}}}"
    )


def workload_text(name: str, layers: Sequence[str]) -> str:
    """Return a workload file."""
    return "\n".join([f"name: {name}", "layers:", *layers]) + "\n"


def table_text(names: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Return a CSV file of numbers with four decimals."""
    return "\n".join([",".join(names), *(",".join(f"{value:.4f}" for value in row) for row in rows)]) + "\n"
