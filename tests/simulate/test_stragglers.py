"""Stragglers in a forecast: the simulation agrees with the closed forms of the slowest worker."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import clustersim
from clustersim.collectives import closed_form
from clustersim.report.answer import limits
from clustersim.strategies import STRATEGIES
from clustersim.strategies.synchronous import Synchronous

WORKLOAD = """
name: one-layer
layers:
  - {name: a, parameter_bytes: 4000000, activation_bytes: 4000, forward_s: 0.02, backward_s: 0.04}
"""
COMPUTE_S = 0.06


@pytest.fixture
def scenario(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "one-layer.yaml").write_text(WORKLOAD)
    return {
        "model": str(tmp_path / "one-layer.yaml"),
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": {"kind": "star", "num_hosts": 8, "gpu": "k80", "link": "1 GB/s", "hop": 0},
        "software": {"name": "plain", "bucket_copies": "none"},
        "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False, "buckets": "whole"},
        "optimizer": {"kind": "sgd"},
    }


def ideal(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario with a network that takes no time to speak of."""
    return scenario | {"topology": scenario["topology"] | {"link": "1000000 GB/s"}}


def compute_s(scenario: dict[str, Any]) -> float:
    return clustersim.simulate({**scenario, "num_gpus": 1}).iteration_s


def expected_maximum(law: Any, num: int) -> float:
    """Return the mean of the largest of so many draws: the integral of x n F(x)^(n - 1) f(x)."""
    return integrate.quad(lambda u: law.ppf(u ** (1 / num)), 0, 1, limit=400)[0]


@pytest.mark.parametrize(
    ("straggler", "law"),
    [
        ({"kind": "exponential", "cv": 0.3}, stats.expon(loc=0.7, scale=0.3)),
        ({"kind": "lognormal", "sigma": 0.4}, stats.lognorm(0.4, scale=math.exp(-0.08))),
        ({"kind": "gamma", "cv": 0.5}, stats.gamma(4, scale=0.25)),
    ],
)
@pytest.mark.parametrize("num_gpus", [2, 8])
def test_a_synchronous_iteration_lasts_as_long_as_the_slowest_draw(
    scenario: dict[str, Any], straggler: dict[str, Any], law: Any, num_gpus: int
) -> None:
    scenario = ideal(scenario)
    alone_s, num_iterations = compute_s(scenario), 400
    run = clustersim.simulate(
        scenario | {"num_gpus": num_gpus, "stragglers": [straggler], "num_iterations": num_iterations}
    )
    assert np.mean(run.iterations_s) == pytest.approx(run.iteration_s, rel=1e-9)
    error = 4 * np.std(run.iterations_s) / math.sqrt(num_iterations)
    # the update, a sliver of the iteration, is not in step with the rest: a rank is as slow in it as before
    assert run.iteration_s == pytest.approx(alone_s * expected_maximum(law, num_gpus), abs=error + 1e-3 * alone_s)


def test_the_maximum_of_exponentials_is_the_harmonic_number() -> None:
    law = stats.expon(loc=0.7, scale=0.3)
    assert expected_maximum(law, 8) == pytest.approx(0.7 + 0.3 * sum(1 / k for k in range(1, 9)), rel=1e-6)


def test_gpus_of_one_host_that_draw_the_same_do_not_wait_for_each_other(scenario: dict[str, Any]) -> None:
    cluster = {"kind": "star", "num_hosts": 2, "host": {"gpu": "k80", "num_gpus": 4}, "link": "1000000 GB/s", "hop": 0}
    scenario = scenario | {"topology": cluster, "num_iterations": 30}
    spread = {"kind": "lognormal", "cv": 0.3}
    apart, together = (
        clustersim.simulate(scenario | {"stragglers": [spread | {"host_correlation": c}]}) for c in (0, 1)
    )
    assert together.breakdown_s["waiting"] == pytest.approx(0.0, abs=1e-9)
    assert apart.breakdown_s["waiting"] > 0.1 * apart.iteration_s


def test_slow_periods_of_a_lone_gpu_cost_their_share(scenario: dict[str, Any]) -> None:
    slow = {"kind": "slow-periods", "factor": 3, "every": "1 s", "lasts": "200 ms"}
    alone_s = compute_s(scenario)
    run = clustersim.simulate(scenario | {"num_gpus": 1, "stragglers": [slow], "num_iterations": 4000})
    assert run.iteration_s == pytest.approx(alone_s / (0.8 + 0.2 / 3), rel=0.05)
    assert run.breakdown_s["compute"] == pytest.approx(run.iteration_s)


def test_pauses_of_the_whole_job_cost_it_less_than_pauses_of_each_gpu(scenario: dict[str, Any]) -> None:
    pause = {"kind": "pauses", "every": "1 s", "lasts": "50 ms"}
    scenario = ideal(scenario) | {"num_gpus": 8, "num_iterations": 150}
    alone_s = compute_s(scenario)
    together, apart = (clustersim.simulate(scenario | {"stragglers": [pause | {"per": per}]}) for per in ("job", "gpu"))
    assert together.iteration_s == pytest.approx(alone_s / 0.95, rel=0.01)
    assert apart.iteration_s > alone_s * (1 + 4 * 0.05)  # nearly every one of the eight pauses stops all


def test_a_trace_in_order_gives_its_own_times(scenario: dict[str, Any], tmp_path: Path) -> None:
    times_s = [0.06, 0.09, 0.12]
    (tmp_path / "times.csv").write_text("worker,seconds\n" + "".join(f"0,{time}\n" for time in times_s))
    trace = {
        "kind": "trace",
        "file": str(tmp_path / "times.csv"),
        "column": "seconds",
        "order": "in-order",
        "relative_to": "60 ms",
    }
    update_s = compute_s(scenario) - COMPUTE_S
    run = clustersim.simulate(scenario | {"num_gpus": 1, "stragglers": [trace], "num_iterations": 30})
    factors = np.array(times_s) / 0.06
    assert sorted({round(time, 9) for time in run.iterations_s}) == pytest.approx(
        sorted(np.round(factors * (COMPUTE_S + update_s), 9))
    )


def exchange_s(rate: float) -> float:
    return closed_form("all-reduce", "ring", 4, 4e6, 0.0, rate)


@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_a_link_that_is_always_slow_is_the_rate_of_the_ring(scenario: dict[str, Any], factor: float) -> None:
    slow = {"kind": "link-slow-downs", "factor": factor, "at": [0], "lasts": "10 h", "of": {"hosts": [2]}}
    run = clustersim.simulate(scenario | {"stragglers": [slow]})  # of the first iteration, some ranks are early
    assert run.iterations_s[-1] == pytest.approx(compute_s(scenario) + exchange_s(1e9 / factor), rel=1e-9)


def test_an_outage_stops_the_exchange_until_it_is_over(scenario: dict[str, Any]) -> None:
    alone_s, usual_s = compute_s(scenario), clustersim.simulate(scenario).iteration_s
    outage = {"kind": "link-outages", "lasts": "3 s", "of": {"hosts": [1]}}
    update_s = alone_s - COMPUTE_S
    begins_s = 2 * usual_s + COMPUTE_S + 0.001  # in the exchange of the third iteration
    run = clustersim.simulate(scenario | {"stragglers": [outage | {"at": [f"{begins_s:.9f} s"]}], "num_iterations": 5})
    assert update_s < 1e-3
    assert max(run.iterations_s) == pytest.approx(usual_s + 3.0, rel=1e-9)
    assert sorted(run.iterations_s)[-2] == pytest.approx(usual_s, rel=1e-9)


def test_stragglers_come_at_the_same_times_with_every_strategy(scenario: dict[str, Any]) -> None:
    slow = {"kind": "slow-periods", "factor": 5, "at": ["100 ms"], "lasts": "10 h", "of": [0]}
    ring, server = (
        clustersim.simulate(
            ideal(scenario) | {"strategy": strategy, "stragglers": [slow], "num_iterations": 20, "num_gpus": 2}
        )
        for strategy in (scenario["strategy"], {"kind": "server"})
    )
    assert ring.iteration_s == pytest.approx(server.iteration_s, rel=0.01)
    assert ring.iterations_s[-1] == pytest.approx(5 * compute_s(scenario), rel=1e-3)


@pytest.mark.parametrize("kind", ["all-reduce", "server", "async", "local", "gossip", "softsync", "backup"])
def test_what_is_measured_begins_at_0_s(scenario: dict[str, Any], kind: str) -> None:
    """A pause at 0 s falls into the first iteration that counts: neither into the warm-up nor between them."""
    scenario = ideal(scenario) | {"num_iterations": 4, "software": "plain", "strategy": {"kind": kind}}
    pause = {"kind": "pauses", "at": [0], "lasts": "50 ms", "per": "job"}
    plain, paused = (clustersim.simulate(scenario | {"stragglers": each}) for each in ([], [pause]))
    lost_s = np.array(paused.iterations_s) - plain.iterations_s
    first = int(lost_s.argmax())  # a window may open while an iteration is still pulling: that is the one after it
    assert first <= (0 if kind in {"all-reduce", "server", "local", "gossip"} else 1)
    assert lost_s[first] == pytest.approx(0.05, rel=0.02)
    assert lost_s.sum() == pytest.approx(0.05, rel=0.05)


def test_an_outage_of_some_hosts_does_not_delay_the_others(scenario: dict[str, Any]) -> None:
    """While the others' links are down, one of four workers makes all the updates that are asked for."""
    outage = {"kind": "link-outages", "at": ["0 s"], "lasts": "10 h", "of": {"hosts": [1, 2, 3]}}
    scenario = ideal(scenario) | {"strategy": {"kind": "async", "servers": {"on": "host-memory"}}}
    run = clustersim.simulate(scenario | {"stragglers": [outage], "num_iterations": 50})
    assert run.gradients == {"applied": 50, "dropped": 0}
    assert set(run.updates.worker[-40:]) == {0}
    cycle_s = run.worker_breakdown_s[0]["compute"]
    assert run.update_s == pytest.approx(cycle_s, rel=0.1)
    assert run.worker_breakdown_s[1]["communication_exposed"] > 40 * cycle_s


@pytest.mark.parametrize("kind", ["all-reduce", "async"])
def test_a_warning_names_a_spell_after_the_measured_time(scenario: dict[str, Any], kind: str) -> None:
    scenario = scenario | {"software": "plain", "strategy": {"kind": kind}, "num_iterations": 5}
    late = {"kind": "pauses", "at": ["0 s", "50 s", "2 h"], "lasts": "1 ms"}
    warnings = clustersim.sweep(scenario | {"stragglers": [late]}).warnings
    assert any(
        warning.startswith("stragglers.0.at: the measured time lasts ")
        and "so pauses at 50.0 s, 2.00 h change nothing; raise num_iterations to reach them" in warning
        for warning in warnings
    )
    in_time = clustersim.sweep(scenario | {"stragglers": [late | {"at": ["0 s"]}]}).warnings
    assert not any("change nothing; raise num_iterations" in warning for warning in in_time)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_gradients_applied_over_their_time_are_the_samples_per_second(scenario: dict[str, Any], kind: str) -> None:
    knobs = {"bounded-staleness": {"bound": 1}, "backup": {"backups": 2}, "local": {"steps": 3}}.get(kind, {})
    if kind == "data-parallel":
        host = {"template": "single-socket", "gpu": "k80", "num_gpus": 6}
        scenario["topology"] = {"kind": "star", "num_hosts": 1, "link": "1 GB/s", "host": host}
    run = clustersim.simulate(
        scenario
        | {"software": "plain", "strategy": {"kind": kind, **knobs}}
        | {"num_gpus": 6, "num_iterations": 9, "replicates": 2}
        | {"stragglers": [{"kind": "lognormal", "cv": 0.4}]}
    )
    assert run.window_s is not None
    assert run.gradients["applied"] * 8 / run.window_s == pytest.approx(run.samples_per_s, rel=1e-9)
    share = run.gradients["applied"] / sum(run.gradients.values())
    assert run.samples_per_s * run.iteration_s == pytest.approx(6 * 8 * share, rel=1e-9)
    assert sum(count for _, count in run.staleness["histogram"]) == run.gradients["applied"]
    per_update = run.gradients["applied"] * run.update_s / run.window_s
    assert per_update == pytest.approx(
        {"backup": 4, "softsync": 6}.get(kind, 6 if issubclass(STRATEGIES[kind], Synchronous) else 1)
    )


@pytest.mark.parametrize("num_gpus", [8, 7])
def test_a_hosts_sum_counts_as_the_gradients_in_it(scenario: dict[str, Any], num_gpus: int) -> None:
    topology = {**scenario["topology"], "num_hosts": 4, "host": {"gpu": "k80", "num_gpus": 2}}
    topology.pop("gpu", None)
    run = clustersim.simulate(
        scenario
        | {"strategy": {"kind": "hierarchical"}, "topology": topology, "num_gpus": num_gpus, "num_iterations": 24}
        | {"stragglers": [{"kind": "lognormal", "cv": 0.4}]}
    )
    assert run.gradients["applied"] == sum(count for _, count in run.staleness["histogram"])
    assert run.gradients["applied"] * 8 / run.window_s == pytest.approx(run.samples_per_s, rel=1e-9)
    assert 24 < run.gradients["applied"] <= 48
    assert run.update_s * 24 == pytest.approx(run.window_s, rel=1e-9)


@pytest.mark.parametrize("rate", ["56 Gbit/s", "4000 Gbit/s"])
def test_a_server_that_queues_gradients_all_the_time_is_named_and_not_the_network(rate):
    """16 workers push faster than one server updates: a round takes 16 updates, whatever the network."""
    given: dict[str, Any] = {
        "model": "googlenet",
        "num_gpus": 16,
        "batch": {"per_gpu": 64},
        "topology": {"kind": "star", "num_hosts": 20, "host": {"gpu": "p100"}, "link": rate},
        "software": "plain",
        "strategy": {"kind": "async", "buckets": "whole", "overlap": False, "servers": {"on": "own-hosts"}},
        "num_iterations": 48,
    }
    one = clustersim.sweep(given)
    run = one.runs[0]
    assert run.facts["server_busy"] == pytest.approx(1.0, abs=0.01)
    assert run.iteration_s == pytest.approx(16 * run.facts["server_s_per_gradient"], rel=0.01)
    assert "the busiest server is at" in limits(one)[0]
    four = clustersim.sweep(given | {"strategy": given["strategy"] | {"servers": {"on": "own-hosts", "num": 4}}})
    assert four.runs[0].facts["server_s_per_gradient"] == pytest.approx(run.facts["server_s_per_gradient"] / 4)
    assert four.runs[0].facts["server_busy"] < 0.5
    assert "server" not in limits(four)[0]


def test_few_rounds_of_workers_out_of_step_are_told():
    few, more = (
        clustersim.sweep(
            clustersim.load_scenario(
                "stragglers", overrides=["strategy={kind: async}", "replicates=1", f"num_iterations={num}"]
            )
        )
        for num in (16, 48)
    )
    assert any("only 1 rounds of gradients" in warning for warning in few.warnings)
    assert not any("rounds of gradients" in warning for warning in more.warnings)
