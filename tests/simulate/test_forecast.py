"""A forecast adds up, is the same every time, and says what it stands on."""

from __future__ import annotations

import json

import pytest

import clustersim
from clustersim.collectives import closed_form
from clustersim.errors import InputError

WORKLOAD = """
name: two-layers
layers:
  - {name: a, parameter_bytes: 4000000, activation_bytes: 4000, forward_s: 0.01, backward_s: 0.02}
  - {name: b, parameter_bytes: 4000000, activation_bytes: 4000, forward_s: 0.01, backward_s: 0.02}
"""


@pytest.fixture
def scenario(tmp_path):
    (tmp_path / "two-layers.yaml").write_text(WORKLOAD)
    return {
        "name": "test",
        "model": str(tmp_path / "two-layers.yaml"),
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": {"kind": "star", "num_hosts": 8, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
        "transport": "ideal",
        "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False, "buckets": "whole"},
        "optimizer": {"kind": "sgd"},
    }


def test_a_workload_with_given_seconds_takes_them_and_the_closed_form(scenario):
    run = clustersim.simulate(scenario)
    exchange = closed_form("all-reduce", "ring", 4, 8e6, 2e-6, 1e9)
    update_s = run.breakdown_s["compute"] - 0.06
    assert 0 < update_s < 1e-3
    assert run.iteration_s == pytest.approx(0.06 + update_s + exchange, rel=1e-9)
    assert run.breakdown_s["communication_exposed"] == pytest.approx(exchange, rel=1e-9)
    assert run.samples_per_s == pytest.approx(32 / run.iteration_s)
    assert run.provenance["measured"] == pytest.approx(1.0)


def test_links_carry_what_a_ring_sends_in_an_iteration(scenario):
    run = clustersim.simulate(scenario)
    access = next(links for links in run.link_classes if links.kind == "access")
    assert access.num_bytes == pytest.approx(4 * 2 * 8e6 * 2 * 3 / 4)  # up and down of 4 GPUs, 2 (n - 1) / n each
    assert access.max_utilisation == pytest.approx(8e6 * 2 * 3 / 4 / 1e9 / run.iteration_s)
    assert run.links[0].num_bytes == pytest.approx(8e6 * 2 * 3 / 4)


def test_efficiency_and_speedup_are_over_one_gpu(scenario):
    run = clustersim.simulate(scenario)
    alone = clustersim.simulate({**scenario, "num_gpus": 1})
    assert run.speedup == pytest.approx(run.samples_per_s / alone.samples_per_s)
    assert run.efficiency == pytest.approx(run.speedup / 4)
    assert alone.speedup == pytest.approx(1.0)
    assert alone.efficiency == pytest.approx(1.0)


def test_the_parts_of_an_iteration_sum_to_it(scenario):
    scenario["stragglers"] = [{"kind": "lognormal", "cv": 0.3}]
    run = clustersim.simulate(scenario)
    assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=1e-9)
    assert run.breakdown_s["waiting"] > 0


def test_hours_come_from_epochs_and_speedup_from_the_baselines_hours(scenario):
    scenario |= {"epochs": 10, "dataset_size": 32000, "baseline": {"hours": 2.0, "source": "a test"}}
    run = clustersim.simulate(scenario)
    assert run.time_to_train_s == pytest.approx(10 * 32000 / run.samples_per_s)
    assert run.speedup == pytest.approx(2 * 3600 / run.time_to_train_s)
    assert run.speedup_basis == "a test (2 h)"


def test_half_size_gradients_halve_the_bytes_on_the_wire(scenario):
    whole = clustersim.simulate(scenario)
    half = clustersim.simulate({**scenario, "compression": "fp16"})
    latency = closed_form("all-reduce", "ring", 4, 0.0, 2e-6, 1e9)
    ratio = (half.breakdown_s["communication_exposed"] - latency) / (
        whole.breakdown_s["communication_exposed"] - latency
    )
    assert ratio == pytest.approx(0.5, rel=1e-9)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_ones(scenario):
    scenario["stragglers"] = [{"kind": "lognormal", "cv": 0.3}]
    first, second = (json.dumps(clustersim.sweep(scenario).to_dict()) for _ in range(2))
    assert first == second
    other = clustersim.sweep({**scenario, "seed": 9}).runs[0]
    assert other.iteration_s != clustersim.sweep(scenario).runs[0].iteration_s


def test_strategies_meet_the_same_bad_luck(scenario):
    scenario |= {"stragglers": [{"kind": "lognormal", "cv": 0.3}]}
    compute = [
        clustersim.simulate({**scenario, "strategy": {"kind": kind, "buckets": "whole"}}).breakdown_s["compute"]
        for kind in ("all-reduce", "server")
    ]
    update_s = compute[0] - compute[1]  # the server updates itself
    assert 0 < update_s < 1e-3


def test_steady_iterations_are_multiplied_and_exact_plays_them_all(scenario):
    scenario["num_iterations"] = 12
    quick, exact = clustersim.sweep(scenario), clustersim.sweep(scenario, exact=True)
    assert any("steady iterations multiplied" in shortcut for shortcut in quick.shortcuts)
    assert exact.shortcuts == ()
    assert len(exact.runs[0].iterations_s) == 12
    assert quick.runs[0].iteration_s == pytest.approx(exact.runs[0].iteration_s, rel=1e-9)


def test_replicates_give_an_interval_around_the_mean(scenario):
    scenario |= {"stragglers": [{"kind": "lognormal", "cv": 0.3}], "replicates": 4}
    run = clustersim.simulate(scenario)
    low, high = run.interval.samples_per_s
    assert low < run.samples_per_s < high
    assert run.interval.iteration_s[0] < run.iteration_s < run.interval.iteration_s[1]


def test_a_gpu_twice_as_slow_by_stragglers_doubles_compute(scenario):
    scenario["stragglers"] = [{"kind": "constant", "factor": 2, "of": "all"}]
    slow = clustersim.simulate(scenario)
    del scenario["stragglers"]
    assert slow.breakdown_s["compute"] == pytest.approx(2 * clustersim.simulate(scenario).breakdown_s["compute"])


def test_stragglers_per_layer_change_when_buckets_are_ready(scenario):
    scenario["strategy"] = {"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"}
    scenario["stragglers"] = [{"kind": "lognormal", "cv": 0.5, "per": "layer"}]
    run = clustersim.simulate(scenario)
    assert len(set(run.iterations_s)) > 1


def test_a_model_that_does_not_fit_is_refused_with_the_sum_or_only_warned_about():
    scenario = {
        "model": "vgg16",
        "num_gpus": 2,
        "batch": {"per_gpu": 512},
        "topology": {"kind": "star", "num_hosts": 2, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
        "strategy": {"kind": "all-reduce"},
        "num_iterations": 1,
    }
    with pytest.raises(InputError, match="activations"):
        clustersim.sweep(scenario)
    warned = clustersim.sweep({**scenario, "memory_check": False})
    assert any("activations" in warning for warning in warned.warnings)


def test_every_guess_is_told(scenario):
    scenario["topology"]["gpu"] = "k20x"
    sweep = clustersim.sweep({**scenario, "model": "googlenet", "num_iterations": 1})
    assert any("launch_s" in assumption for assumption in sweep.assumptions)


def test_overlap_with_one_bucket_is_warned_about(scenario):
    scenario["strategy"]["overlap"] = True
    assert any("nothing to hide" in warning for warning in clustersim.sweep(scenario).warnings)


def test_a_network_that_no_message_used_is_warned_about(scenario):
    scenario["topology"] |= {"host": {"template": "single-socket", "gpu": "k80", "num_gpus": 4}, "num_hosts": 2}
    inside = clustersim.sweep(scenario).warnings
    assert any("no message left a host by: access" in warning for warning in inside)
    between = clustersim.sweep({**scenario, "num_gpus": 8}).warnings
    assert not any("no message left a host" in warning for warning in between)


def test_a_sweep_is_no_single_run(scenario):
    with pytest.raises(InputError, match="a sweep of 2 points"):
        clustersim.simulate({**scenario, "num_gpus": [1, 2]})


def test_a_cluster_without_gpu_sheets_has_no_compute_times(scenario):
    del scenario["topology"]["gpu"]
    with pytest.raises(InputError, match=r"topology\.gpu"):
        clustersim.simulate(scenario)
