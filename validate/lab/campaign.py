"""Campaigns: their experiments, rates and sizes.

The constants of the gloo and tcp sheets were set with collectives of 1 to 10 MB at 100 and 200 Mbit/s. No campaign
has these rates, so all its figures are predictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from validate.lab.experiments import OURS, TORCH, Collectives, DataParallel, Experiment, Flows, ParameterServer
from validate.lab.layout import Layout
from validate.lab.learning import Learning
from validate.lab.servers import Mode
from validate.lab.training import Net

MIB = 1024 * 1024

_SHARED_STAR = [
    ("incast", [(1, 0), (2, 0), (3, 0)]),
    ("everybody to everybody", [(src, dst) for src in range(4) for dst in range(4) if src != dst]),
    ("one flow at both ends of others", [(1, 0), (2, 0), (1, 3)]),
]
_SHARED_RING = [
    ("parking lot", [(0, 2), (0, 1), (1, 2)]),
    ("one passes through", [(0, 2), (1, 2)]),
    ("three over one link", [(0, 2), (1, 2), (1, 3)]),
]
_SHARED_TORUS = [
    ("two share a link", [(0, 2), (1, 2), (3, 0)]),
    (
        "shift along both dimensions",
        [(3 * row + col, 3 * ((row + 1) % 3) + (col + 1) % 3) for row in range(3) for col in range(3)],
    ),
]

_DIGITS = {"task": {"kind": "digits", "hidden": 512}}
"""A perceptron of 38,410 weights: messages of 154 kB."""


def _sgd(rate: float, target: float, **more: Any) -> dict[str, Any]:
    """Return the key `learning` of a scenario; an update with n gradients has n times the rate."""
    return {
        **_DIGITS,
        "optimizer": {"kind": "sgd", "rate": rate, "scaling": "linear", **more},
        "batch": 256,
        "target": {"loss": target},
    }


_MOMENTUM = _sgd(0.04, 0.15, kind="momentum")

LEARNING: Sequence[Learning] = (
    Learning(
        4,
        80,
        [
            (Mode("server"), 50),
            (Mode("backup", backups=1), 48),
            (Mode("async"), 65),
            (Mode("softsync", n=2), 95),
            (Mode("bounded-staleness", bound=1), 50),
            (Mode("bounded-staleness", bound=3), 50),
        ],
        _MOMENTUM,
        mean_s=0.2,
        straggler=3.0,
        seed=11,
    ),
    Learning(
        4,
        80,
        [
            (Mode("server"), 55),
            (Mode("backup", backups=1), 52),
            (Mode("async"), 65),
            (Mode("softsync", n=2), 85),
            (Mode("bounded-staleness", bound=1), 62),
            (Mode("bounded-staleness", bound=3), 60),
        ],
        _MOMENTUM,
        mean_s=0.2,
        seed=12,
    ),
    Learning(
        3,
        40,
        [
            (Mode("server"), 40),
            (Mode("backup", backups=1), 40),
            (Mode("async"), 40),
            (Mode("bounded-staleness", bound=1), 40),
        ],
        _sgd(0.2, 0.25),
        mean_s=0.15,
        seed=14,
    ),
    Learning(
        2,
        80,
        [
            (Mode("server"), 27),
            (Mode("async"), 27),
            (Mode("bounded-staleness", bound=0), 27),
            (Mode("bounded-staleness", bound=1), 27),
        ],
        _sgd(0.3, 0.25),
        mean_s=0.15,
        straggler=2.0,
        seed=15,
    ),
)
"""About ten minutes."""

_SHORT = Learning(3, 160, [(Mode("bounded-staleness", bound=1), 20)], _sgd(0.2, 0.4), 0.06, straggler=2.0, seed=21)

FULL: Sequence[Experiment] = (
    Collectives(Layout.star(4), 80, 960_000),
    Collectives(Layout.star(4), 160, 4_000_000, num_warm_up=1, num_repeats=3),
    Collectives(Layout.star(3), 240, 3_000_000),
    Collectives(Layout.star(8), 80, 800_000, num_warm_up=1, num_repeats=3),
    Collectives(Layout.torus(5), 80, 800_000, (TORCH[0], *OURS[1:3]), num_warm_up=1, num_repeats=3),
    DataParallel(Layout.star(4), 160, Net(8, MIB, 0.010, 0.020), (None, 2 * MIB, 25 * MIB)),
    DataParallel(Layout.star(4), 320, Net(8, MIB, 0.015, 0.030), (None, MIB, 3 * MIB)),
    ParameterServer(
        4,
        160,
        1_000_000,
        [
            (Mode("server"), 12),
            (Mode("backup", backups=1), 24),
            (Mode("async"), 300),
            (Mode("bounded-staleness", bound=1), 160),
            (Mode("bounded-staleness", bound=3), 200),
        ],
    ),
    _SHORT,
    Flows(Layout.star(4), 80, _SHARED_STAR),
    Flows(Layout.torus(5), 80, _SHARED_RING),
    Flows(Layout.torus(3, 3), 80, _SHARED_TORUS),
    Flows(Layout.star(4), 80, _SHARED_STAR[2:], queues="fifo"),
    Flows(Layout.torus(5), 80, _SHARED_RING[:1], queues="fifo"),
)
"""About five minutes."""

QUICK: Sequence[Experiment] = (
    Collectives(Layout.star(4), 160, 1_600_000, (*TORCH[:2], *OURS[1:]), num_warm_up=1, num_repeats=3),
    DataParallel(Layout.star(3), 160, Net(6, MIB, 0.010, 0.020), (2 * MIB,), num_warm_up=2, num_iterations=7),
    ParameterServer(4, 160, 1_000_000, [(Mode("backup", backups=1), 8)], num_repeats=3),
    _SHORT,
    Flows(Layout.torus(3, 3), 80, _SHARED_TORUS[:1], settle_s=0.7),
)
"""About fifty seconds."""

CAMPAIGNS: Mapping[str, Sequence[Experiment]] = {"full": FULL, "quick": QUICK, "learning": LEARNING}
