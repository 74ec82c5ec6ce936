"""A training in the quick order is that in the exact order, and failures change only its times."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.results.learning import LearningRun
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast

pytestmark = pytest.mark.learning

FAILURES = {"gpu": {"mtbf": "2 s"}, "checkpoint": {"every": "0.3 s", "write": "10 ms"}, "restart": "50 ms"}


def trained(strategy: dict[str, Any], exact: bool = False, **more: Any) -> LearningRun:
    asked = {
        "model": "alexnet",
        "num_gpus": 4,
        "batch": {"per_gpu": 32},
        "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "v100"}, "link": "25 Gbit/s", "hop": "5 us"},
        "software": "plain",
        "transport": "nccl",
        "num_iterations": 4,
        "seed": 3,
        "strategy": strategy,
        "learning": {"task": "digits", "epochs": 2, "optimizer": {"rate": 0.1}, "seeds": 2},
        **more,
    }
    (point,) = load_scenario(asked).points()
    run = forecast(point.point, point.axes, exact=exact, learns=True).run
    assert run.learning is not None
    return run.learning


@pytest.mark.parametrize(
    "strategy",
    [{"kind": "all-reduce"}, {"kind": "gossip"}, {"kind": "async"}, {"kind": "local", "steps": 3}],
    ids=lambda strategy: strategy["kind"],
)
def test_quick_equals_exact(strategy: dict[str, Any]) -> None:
    quick, exact = trained(strategy), trained(strategy, exact=True)
    assert [point[1:] for point in quick.curve] == [point[1:] for point in exact.curve]
    assert [point.seconds for point in quick.curve] == pytest.approx([point.seconds for point in exact.curve], rel=1e-9)


def test_failures_change_only_times() -> None:
    plain, failing = (
        trained({"kind": "all-reduce"}),
        trained({"kind": "all-reduce"}, failures=FAILURES | {"length": "1 min"}),
    )
    assert [point[1:] for point in failing.curve] == [point[1:] for point in plain.curve]
    assert all(one.seconds >= other.seconds for one, other in zip(failing.curve, plain.curve, strict=True))
    assert failing.curve[-1].seconds > 1.05 * plain.curve[-1].seconds
    assert any(len(curve) > len(plain.curve) for curve in failing.seed_curves)
