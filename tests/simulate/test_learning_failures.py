"""The task of a training that fails has the failures and checkpoints of the long training."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clustersim.learning import LearningSpec, learning_run
from clustersim.results.learning import CurvePoint, SeedRun
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.learning import Training, _on_wall_clock
from clustersim.simulate.setup import Setup

LAYERS = "name: one\nlayers: [{name: a, parameter_bytes: 4000, activation_bytes: 4, forward_s: 0.4, backward_s: 0.6}]\n"
HOURS = 3600.0


@pytest.fixture
def scenario(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "one.yaml").write_text(LAYERS)
    checkpoint = {"every": "1 h", "write": "1 min"}
    return {
        "model": str(tmp_path / "one.yaml"),
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": {"kind": "star", "num_hosts": 8, "gpu": "k80", "link": "10 GB/s", "hop": "1 us"},
        "software": "plain",
        "transport": "nccl",
        "num_iterations": 2,
        "strategy": {"kind": "all-reduce"},
        "failures": {"gpu": {"mtbf": "20 h"}, "checkpoint": checkpoint, "restart": "5 min", "length": "40 h"},
        "seed": 4,
    }


def run_of(hours: int) -> SeedRun:
    """Return a training with an evaluation every minute."""
    points = (CurvePoint(60.0 * minute, minute, 1.0, 1.0) for minute in range(60 * hours + 1))
    return SeedRun(tuple(points), consensus=((0.0, 0.0), (hours * HOURS, 1.0)))


def test_the_curve_goes_back_when_the_long_training_does(scenario: dict[str, Any]) -> None:
    point = load_scenario(scenario).points()[0].point
    found, setup = forecast(point).run.failures, Setup(point)
    assert found is not None
    run = _on_wall_clock(run_of(20), setup, found, 0)
    restarts_s = [one.seconds for before, one in pairwise(run.curve) if one.updates <= before.updates]
    until_s = [until_s for *_, until_s in found.downtimes if until_s <= run.curve[-1].seconds]
    assert len(until_s) >= 2
    assert restarts_s == pytest.approx(until_s)
    assert run.consensus[1][0] == run.curve[-1].seconds > 20 * HOURS


def test_a_training_shorter_than_the_first_failure_is_not_stretched(scenario: dict[str, Any]) -> None:
    point = load_scenario(scenario).points()[0].point
    found = forecast(point).run.failures
    assert found is not None
    short = SeedRun(run_of(1).curve[:5])
    assert _on_wall_clock(short, Setup(point), found, 0) == short


def test_each_replicate_has_its_own_failures(scenario: dict[str, Any]) -> None:
    point = load_scenario(scenario).points()[0].point
    found, setup = forecast(point).run.failures, Setup(point)
    assert found is not None
    one, other = (_on_wall_clock(run_of(20), setup, found, replicate).curve for replicate in (0, 1))
    assert one != other


def test_the_mean_curve_has_each_update_at_its_first_time() -> None:
    """Seed 0 makes update 1 at 1 s, and again at 4 s; seed 1 at 3 s. Update 2 is there at 5 and 4 s."""
    first = tuple(CurvePoint(*row) for row in [(0.0, 0, 9.0, None), (1.0, 1, 5.0, None), (3.0, 0, 9.0, None),
                                                (4.0, 1, 5.0, None), (5.0, 2, 1.0, None)])  # fmt: skip
    second = tuple(CurvePoint(*row) for row in [(0.0, 0, 9.0, None), (3.0, 1, 6.0, None), (4.0, 2, 2.0, None)])
    spec = LearningSpec.model_validate({"task": "digits", "target": {"loss": 5.5}})
    run = learning_run(spec, [SeedRun(first), SeedRun(second)], 1.0)
    mean = [(point.seconds, point.updates, point.loss) for point in run.curve]
    assert mean == [
        (0, 0, 9),
        (2, 1, 5.5),
        (4.5, 2, 1.5),
    ]
    assert run.seed_curves == (first, second)
    assert run.time_to_target_s == pytest.approx((1.0 + 4.0) / 2)


def test_assumptions_say_what_failures_and_given_times_mean(scenario: dict[str, Any]) -> None:
    pauses = [{"kind": "pauses", "at": ["10 s"], "lasts": "1 s"}]
    asked = scenario | {"learning": {"task": "digits"}, "stragglers": pauses}
    point = load_scenario(asked).points()[0].point
    assert point.learning is not None
    first: Any = None
    sentences = Training(point.learning, Setup(point), (), 1, first).assumptions()
    assert any("count from the start of the job" in sentence for sentence in sentences)
    assert any("back to its last checkpoint" in sentence for sentence in sentences)
