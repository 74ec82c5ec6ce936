"""The contract of every strategy: the default result equals the exact one, in whatever situation it runs.

A new member of `STRATEGIES` meets all of this as soon as it is registered. A shortcut that does not hold for it shows
here as a difference between the default run and `exact=True`, which simulates every event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate import forecast
from clustersim.strategies import STRATEGIES

REL = 1e-9
NUM_GPUS = 4

SITUATIONS: dict[str, dict[str, Any]] = {
    "alone": {},
    "one GPU a host": {"topology": {"num_hosts": 8, "host": {"num_gpus": 1}}},
    "one constant straggler": {"stragglers": [{"kind": "constant", "factor": 1.5, "of": [1]}]},
    "two constant stragglers": {"stragglers": [{"kind": "constant", "factor": 1.1, "of": [0, 3]}]},
    "GPUs that differ": {"stragglers": [{"kind": "lognormal", "cv": 0.1, "per": "gpu"}]},
    "jitter": {"stragglers": [{"kind": "lognormal", "cv": 0.2}], "replicates": 2},
    "jitter of layers": {"stragglers": [{"kind": "gamma", "cv": 0.3, "per": "layer"}]},
    "pauses": {"stragglers": [{"kind": "pauses", "every": "0.5 s", "lasts": "0.1 s"}]},
    "slow links": {"stragglers": [{"kind": "link-slow-downs", "every": "1 s", "lasts": "0.3 s", "factor": 3}]},
    "slow input": {"input": {"decode": "900 samples/s"}},
    "varying input": {"input": {"decode": "2000 samples/s", "cv": 0.3}},
    "two jobs": {"jobs": 2, "num_gpus": 2},
    "two jobs and jitter": {"jobs": 2, "num_gpus": 2, "stragglers": [{"kind": "lognormal", "cv": 0.2}]},
    "two stages": {"parallelism": {"pipeline": 2, "micro_batches": 4}},
    "split layers": {"parallelism": {"tensor": 2}},
    "split layers and a straggler": {
        "parallelism": {"tensor": 2},
        "stragglers": [{"kind": "constant", "factor": 1.2, "of": [2]}],
    },
    "compression": {"compression": "fp16"},
    "by way of host memory": {"transport": "mpi"},
    "no overlap": {"strategy": {"overlap": False}},
    "layer by layer": {"strategy": {"buckets": "layer"}},
}


def required(kind: str) -> dict[str, Any]:
    """Return a value for each option that a strategy must be given."""
    fields = STRATEGIES[kind].model_fields
    return {name: 2 for name, field in fields.items() if field.is_required() and name != "kind"}


def scenario(kind: str, situation: dict[str, Any]) -> dict[str, Any]:
    """Return a small training with a strategy in a situation; both may say something of topology and strategy."""
    host = {"template": "dual-socket", "gpu": "v100", "num_gpus": 4 if kind == "data-parallel" else 2}
    base: dict[str, Any] = {
        "model": "alexnet",
        "num_gpus": NUM_GPUS,
        "batch": {"per_gpu": 32},
        "topology": {"kind": "star", "num_hosts": 8, "host": host, "link": "25 Gbit/s", "hop": "5 us"},
        "transport": "nccl",
        "num_iterations": 6,
        "seed": 3,
        "strategy": {"kind": kind, **required(kind)},
    }
    return _merged(base, situation)


def _merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(base[key], value) for key, value in more.items() if isinstance(base.get(key), dict)}
    return base | more | both if isinstance(base, dict) and isinstance(more, dict) else more


def differences(left: Any, right: Any, where: str = "") -> Iterator[str]:
    """Yield every place in which two documents have other numbers."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            yield from differences(left.get(key), right.get(key), f"{where}.{key}")
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif isinstance(left, int | float) and isinstance(right, int | float):
        if left != pytest.approx(right, rel=REL, abs=1e-12):
            yield f"{where}: {left} and {right}"
    elif left != right:
        yield f"{where}: {left!r} and {right!r}"


COMPARED = (
    "iteration_s", "update_s", "samples_per_s", "efficiency", "speedup", "breakdown_s", "interval", "staleness",
    "memory_bytes", "jobs",
)  # fmt: skip


def check(told: dict[str, Any]) -> None:
    """Compare the default run of a scenario with its exact run; skip a scenario that is refused."""
    try:
        (point,) = load_scenario(told).points()
        quick = forecast(point.point, point.axes).run.to_dict()
    except InputError as error:
        pytest.skip(f"refused: {error}"[:160])
    exact = forecast(point.point, point.axes, exact=True).run.to_dict()
    assert list(differences({key: quick[key] for key in COMPARED}, {key: exact[key] for key in COMPARED})) == []


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_default_equals_exact(kind: str, situation: str) -> None:
    check(scenario(kind, SITUATIONS[situation]))


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_strategy_runs_alone_and_beside_stragglers(kind: str) -> None:
    """So that a member cannot pass the test above by being refused everywhere."""
    for situation in ("alone", "one constant straggler", "jitter"):
        assert clustersim.simulate(scenario(kind, SITUATIONS[situation])).iteration_s > 0
