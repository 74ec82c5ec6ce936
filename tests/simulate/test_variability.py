"""GPUs of one kind differ in speed: the expected slowest in a forecast, against jobs whose GPUs are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.hardware import load_gpu
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from clustersim.stragglers import Awaited, slowest, slowest_beside

CV = 0.05
ALL_REDUCE: dict[str, Any] = {"kind": "all-reduce"}


def scenario(strategy: dict[str, Any] = ALL_REDUCE, num_gpus: int = 8, **other: Any) -> dict[str, Any]:
    """Return a training whose messages take almost no time, so that ranks wait only for computation."""
    return {
        "model": "resnet50",
        "num_gpus": num_gpus,
        "batch": {"per_gpu": 512},
        "memory_check": False,
        "topology": {
            "kind": "star", "num_hosts": 4, "link": "1000000 GB/s", "hop": 0,
            "host": {"template": "dgx-1", "gpu": "v100", "num_gpus": 2, "nvlink": "1000000 GB/s"},
        },
        "software": "plain", "transport": "ideal",
        "strategy": strategy,
        "num_iterations": 4,
    } | other  # fmt: skip


def compute_of(found: clustersim.Run) -> float:
    return found.breakdown_s["compute"]


def seconds(strategy: dict[str, Any], **other: Any) -> float:
    return clustersim.simulate(scenario(strategy, **other)).iteration_s


def drawn(strategy: dict[str, Any], num: int = 60, **other: Any) -> float:
    """Return the mean simulated iteration of jobs whose GPU speeds are drawn."""
    every = {"stragglers": [{"kind": "lognormal", "cv": CV, "per": "gpu"}], "replicates": num}
    return seconds(strategy, **every, **other)


@pytest.fixture
def quick(tmp_path: Path) -> dict[str, Any]:
    """Return a model of one layer with given times, for tests that simulate many jobs."""
    layer = "{name: a, parameter_bytes: 4000, activation_bytes: 400, forward_s: 0.02, backward_s: 0.04}"
    (tmp_path / "one.yaml").write_text(f"name: one\nlayers:\n  - {layer}\n")
    return {"model": str(tmp_path / "one.yaml"), "optimizer": "sgd"}


@pytest.mark.parametrize(
    ("strategy", "other"),
    [
        (ALL_REDUCE, {}),
        ({"kind": "server"}, {}),
        ({"kind": "backup", "backups": 2}, {"num_iterations": 30}),
        ({"kind": "bounded-staleness", "bound": 1}, {"num_iterations": 1600, "num": 60}),
        ({"kind": "hierarchical"}, {"num_iterations": 100, "num": 100}),
        ({"kind": "async"}, {"num_iterations": 100, "num": 20}),
    ],
    ids=lambda each: each.get("kind") if isinstance(each, dict) else None,
)
def test_the_expected_slowest_is_what_drawn_gpus_come_to(
    strategy: dict[str, Any], other: dict[str, Any], quick: dict[str, Any]
) -> None:
    other = quick | other
    given = {key: value for key, value in other.items() if key != "num"}
    expected = seconds(strategy, compute={"variability": CV}, **given)
    assert expected == pytest.approx(drawn(strategy, **other), rel=0.012)
    if strategy["kind"] != "async":
        assert expected > 1.015 * seconds(strategy, compute={"variability": 0}, **given)


def test_layers_over_two_gpus_wait_for_the_slower_of_them() -> None:
    layout = {"parallelism": {"tensor": 2}, "num_gpus": 2, "model": "gpt2-small", "batch": {"per_gpu": 2}}
    layout["software"] = {"name": "plain", "launch": "graphs"}
    plain, found = (clustersim.simulate(scenario(compute={"variability": cv}, **layout)) for cv in (0, CV))
    longer = found.iteration_s - plain.iteration_s
    assert longer == pytest.approx(compute_of(plain) * (slowest(CV, Awaited(2, 2)) - 1), rel=1e-4)


def test_what_the_slowest_takes_beyond_the_mean_is_waiting() -> None:
    plain = clustersim.simulate(scenario(compute={"variability": 0}))
    found = clustersim.simulate(scenario(compute={"variability": CV}))
    assert compute_of(found) == pytest.approx(compute_of(plain), rel=1e-3)
    share = slowest(CV, Awaited(8, 8)) - 1
    assert found.breakdown_s["waiting"] == pytest.approx(share * compute_of(plain), rel=1e-3)
    assert found.efficiency == pytest.approx(plain.efficiency * plain.iteration_s / found.iteration_s)


def test_the_sheet_says_how_unequal_gpus_are_unless_the_scenario_does(quick: dict[str, Any]) -> None:
    of_sheet = load_gpu("v100").variability
    assert of_sheet == 0.015
    known = seconds(ALL_REDUCE)
    assert known == seconds(ALL_REDUCE, compute={"variability": of_sheet})
    assert known > 1.01 * seconds(ALL_REDUCE, compute={"variability": 0})
    every = {"kind": "lognormal", "cv": 1e-9, "per": "gpu"}
    assert seconds(ALL_REDUCE, stragglers=[every]) == pytest.approx(seconds(ALL_REDUCE, compute={"variability": 0}))
    assert seconds(ALL_REDUCE, **quick) == seconds(ALL_REDUCE, compute={"variability": 0}, **quick)


@pytest.mark.parametrize("factor", [1.0, 1.000001, 1.01, 1.5])
@pytest.mark.parametrize("of", [[3], "all"])
def test_a_constant_straggler_makes_no_synchronous_run_quicker(factor: float, of: list[int] | str) -> None:
    """The differences between GPUs stay: a straggler far slower than they are is the slowest anyway."""
    slow = seconds(ALL_REDUCE, stragglers=[{"kind": "constant", "factor": factor, "of": of}])
    assert slow >= seconds(ALL_REDUCE) * (1 - 1e-12)
    most = factor * (seconds(ALL_REDUCE) if of == "all" else seconds(ALL_REDUCE, compute={"variability": 0}))
    if factor in (1.0, 1.5):
        assert slow == pytest.approx(most if factor > 1 else seconds(ALL_REDUCE), rel=1e-3)


def test_the_slowest_beside_a_straggler_is_the_expected_maximum_of_draws() -> None:
    factors = np.array([1.0, 1.02, 1.0, 1.05])
    drawn = np.exp(np.random.default_rng(0).normal(0, 0.03, (400_000, 4)) - 0.03**2 / 2)
    for rank, found in enumerate(slowest_beside(np.sqrt(np.expm1(0.03**2)), factors)):
        expected = (np.minimum(factors, factors[rank]) * drawn).max(axis=1).mean()
        assert found == pytest.approx(expected, rel=2e-4)


def test_one_gpu_does_not_wait() -> None:
    assert seconds(ALL_REDUCE, num_gpus=1) == seconds(ALL_REDUCE, num_gpus=1, compute={"variability": 0})


def test_gpus_of_two_kinds_wait_for_the_slowest_of_each() -> None:
    topology = scenario()["topology"]
    host = {**topology["host"], "nvlink": None, "num_gpus": 4}
    hosts = [{"count": 1, "host": {**host, "gpu": kind}} for kind in ("v100", "p100")]
    plain = {key: value for key, value in topology.items() if key not in ("host", "num_hosts")}
    mixed = {"topology": plain | {"hosts": hosts}, "strategy": ALL_REDUCE | {"overlap": False}}
    even = clustersim.simulate(scenario(compute={"variability": 0}, **mixed))
    found = clustersim.simulate(scenario(compute={"variability": CV}, **mixed))
    of_four = slowest(CV, Awaited(4, 4)) - 1
    slow_s = max(part["compute"] for part in even.worker_breakdown_s)
    assert found.iteration_s - even.iteration_s == pytest.approx(of_four * slow_s, rel=1e-3)


def test_an_assumption_says_what_it_costs() -> None:
    from clustersim.scenario import load_scenario
    from clustersim.simulate.forecast import forecast

    point = load_scenario(scenario()).points()[0].point
    found = [each for each in forecast(point).assumptions if "compute.variability" in each]
    assert "2.2% longer" in found[0]
    assert "differs by 1.5%" in found[0]


TWO_KINDS: dict[str, Any] = {
    "topology": {
        "kind": "star",
        "link": "100 Gbit/s",
        "hosts": [{"count": 2, "host": {"template": "dgx-1", "gpu": gpu, "num_gpus": 4}} for gpu in ("v100", "p100")],
    }
}


def test_a_kind_that_only_later_replicates_have_has_a_pace_too() -> None:
    """One GPU, of either kind by chance, does not wait."""
    others = {"placement": "random", "replicates": 6, "batch": {"per_gpu": 16}}
    mean, even = (
        seconds(ALL_REDUCE, num_gpus=1, compute={"variability": each}, **TWO_KINDS, **others) for each in (CV, 0)
    )
    assert mean == even


@pytest.mark.parametrize("backups", [2, 9])
def test_of_two_kinds_each_has_its_share_of_those_that_are_awaited(backups: int) -> None:
    """Of 16 GPUs, eight of a kind, all but the backups are: of each kind half as many, and one at least."""
    setup = Setup(load_scenario(scenario({"kind": "backup", "backups": backups}, 16, **TWO_KINDS)).points()[0].point)
    expected = slowest(0.015, Awaited(round((16 - backups) / 2), 8))
    assert [setup.slowest_of(kind) for kind in ("v100", "p100")] == [expected] * 2


def test_waiting_for_fewer_than_the_mean_is_not_negative() -> None:
    found = clustersim.simulate(scenario({"kind": "backup", "backups": 5}, compute={"variability": CV}))
    assert min(found.breakdown_s.values()) >= 0
    assert sum(found.breakdown_s.values()) == pytest.approx(found.iteration_s, rel=1e-9)


def test_workers_that_average_in_pairs_do_not_wait_for_computation() -> None:
    pairs = {"kind": "gossip", "asynchronous": True}
    assert seconds(pairs, compute={"variability": CV}) == seconds(pairs, compute={"variability": 0})
