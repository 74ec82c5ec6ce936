"""The contract of every strategy: the default result equals the exact one, in any situation.

These tests run for a new member of `STRATEGIES` as soon as it is registered. A shortcut that does not hold for it shows
here as a difference between the default run and `exact=True`, which simulates every event.
"""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.strategies import STRATEGIES
from clustersim.strategies.synchronous import Synchronous
from tests.contracts.exactness import check_exact

NUM_GPUS = 4
HOST_BOUND: dict[str, Any] = {
    "batch": {"per_gpu": 1},
    "software": {"name": "plain", "library": "eager", "host": "pytorch-eager"},
    "topology": {"host": {"gpu": "h100"}},
}
"""A host needs longer to issue kernels than the GPU needs to run them."""

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
    "replicates": {"replicates": 3},
    "many iterations": {"num_iterations": 24},
    "two jobs": {"jobs": 2, "num_gpus": 2},
    "two jobs and jitter": {"jobs": 2, "num_gpus": 2, "stragglers": [{"kind": "lognormal", "cv": 0.2}]},
    "two stages": {"parallelism": {"pipeline": 2, "micro_batches": 4}},
    "split layers": {"parallelism": {"tensor": 2}},
    "split layers and a straggler": {
        "parallelism": {"tensor": 2},
        "stragglers": [{"kind": "constant", "factor": 1.2, "of": [2]}],
    },
    "compression": {"compression": "fp16"},
    "staged in host memory": {"transport": "mpi"},
    "no overlap": {"strategy": {"overlap": False}},
    "layer by layer": {"strategy": {"buckets": "layer"}},
    "host-bound": HOST_BOUND,
    "host-bound and jitter": {**HOST_BOUND, "stragglers": [{"kind": "lognormal", "cv": 0.2}]},
    "equal hosts of one GPU each": {
        **HOST_BOUND,
        "topology": {"num_hosts": 8, "host": {"gpu": "h100", "num_gpus": 1}},
        "stragglers": [{"kind": "lognormal", "cv": 0.1}],
    },
}


def required(kind: str) -> dict[str, Any]:
    """Return a value for each required option of a strategy."""
    fields = STRATEGIES[kind].model_fields
    return {name: 2 for name, field in fields.items() if field.is_required() and name != "kind"}


def scenario(kind: str, situation: dict[str, Any]) -> dict[str, Any]:
    """Return a small training with a strategy in a situation, which may change keys of topology and strategy."""
    host = {"template": "dual-socket", "gpu": "v100", "num_gpus": 4 if kind == "data-parallel" else 2}
    base: dict[str, Any] = {
        "model": "alexnet",
        "num_gpus": NUM_GPUS,
        "batch": {"per_gpu": 32},
        "topology": {"kind": "star", "num_hosts": 8, "host": host, "link": "25 Gbit/s", "hop": "5 us"},
        "software": "plain",
        "transport": "nccl",
        "num_iterations": 6,
        "seed": 3,
        "strategy": {"kind": kind, **required(kind)},
    }
    return _merged(base, situation)


def _merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(base[key], value) for key, value in more.items() if isinstance(base.get(key), dict)}
    return base | more | both if isinstance(base, dict) and isinstance(more, dict) else more


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_default_equals_exact(kind: str, situation: str) -> None:
    check_exact(scenario(kind, SITUATIONS[situation]), may_be_refused=True)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_strategy_runs_alone_and_beside_stragglers(kind: str) -> None:
    """A member cannot pass the test above by being refused everywhere."""
    for situation in ("alone", "one constant straggler", "jitter"):
        assert clustersim.simulate(scenario(kind, SITUATIONS[situation])).iteration_s > 0


@pytest.mark.parametrize("kind", [kind for kind, member in STRATEGIES.items() if issubclass(member, Synchronous)])
def test_the_number_of_iterations_does_not_change_a_steady_iteration(kind: str) -> None:
    """A strategy that exchanges in one iteration of several is measured in whole rounds (`round_length`)."""
    each = [clustersim.simulate(scenario(kind, {"num_iterations": number})).iteration_s for number in (1, 4, 5, 7)]
    assert each == pytest.approx([each[0]] * 4, rel=1e-9)
