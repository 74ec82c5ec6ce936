"""A small scenario that trains."""

from __future__ import annotations

from typing import Any

SCENARIO: dict[str, Any] = {
    "model": "alexnet",
    "num_gpus": 4,
    "batch": {"per_gpu": 16},
    "topology": {
        "kind": "star",
        "num_hosts": 8,
        "link": "10 Gbit/s",
        "hop": "1 us",
        "host": {"gpu": "k80"},
    },
    "software": "plain",
    "num_iterations": 4,
    "strategy": {"kind": "async", "servers": {"on": "own-hosts"}},
}
LEARNING: dict[str, Any] = {"task": "digits", "epochs": 0.5, "target": {"accuracy": 0.95}}
TRAINS: dict[str, Any] = {**SCENARIO, "learning": LEARNING}
