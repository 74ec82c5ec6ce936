"""A forecast: its parts add up, it is reproducible, and it lists its assumptions."""

from __future__ import annotations

import json

import pytest

import clustersim
from clustersim.collectives import ALL_REDUCE, closed_form
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
        "software": {"name": "plain", "bucket_copies": "none"},
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


@pytest.mark.parametrize("num_iterations", [1, 2, 10])
def test_an_iteration_with_a_slow_rank_is_that_ranks_whatever_is_simulated_of_it(scenario, num_iterations):
    slow = [{"kind": "constant", "factor": 4, "of": [0]}]
    run = clustersim.simulate({**scenario, "stragglers": slow, "num_iterations": num_iterations})
    alone_s = clustersim.simulate({**scenario, "num_gpus": 1}).iteration_s
    exchange_s = closed_form("all-reduce", "ring", 4, 8e6, 2e-6, 1e9)
    assert run.iteration_s == pytest.approx(4 * alone_s + exchange_s, rel=1e-9)
    assert run.breakdown_s["waiting"] == pytest.approx(3 / 4 * 3 * alone_s, rel=1e-9)


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


def test_strategies_get_the_same_stragglers(scenario):
    scenario |= {"stragglers": [{"kind": "lognormal", "cv": 0.3}]}
    compute = [
        clustersim.simulate(
            {**scenario, "software": "plain", "strategy": {"kind": kind, "buckets": "whole"}}
        ).breakdown_s["compute"]
        for kind in ("all-reduce", "server")
    ]
    update_s = compute[0] - compute[1]  # the server updates itself
    assert 0 < update_s < 1e-3


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
@pytest.mark.parametrize("num_gpus", [5, 8])
@pytest.mark.parametrize("slow", [[], [{"kind": "constant", "factor": 1.5, "of": [2]}]])
def test_identical_iterations_are_repeated_and_exact_gives_the_same(scenario, algorithm, num_gpus, slow):
    scenario |= {"num_iterations": 7, "num_gpus": num_gpus, "stragglers": slow, "software": "plain"}
    scenario["strategy"] = {"kind": "all-reduce", "algorithm": algorithm, "buckets": "layer"}
    if algorithm == "torus-ring":
        scenario["strategy"]["dims"] = [num_gpus]
    quick, exact = clustersim.sweep(scenario), clustersim.sweep(scenario, exact=True)
    assert exact.shortcuts == ()
    for key in ("iteration_s", "update_s", "samples_per_s", "efficiency"):
        assert getattr(quick.runs[0], key) == pytest.approx(getattr(exact.runs[0], key), rel=1e-9)
    assert quick.runs[0].iterations_s == pytest.approx(exact.runs[0].iterations_s, rel=1e-9)
    assert quick.runs[0].breakdown_s == pytest.approx(exact.runs[0].breakdown_s, rel=1e-9, abs=1e-12)
    assert quick.runs[0].update_s == quick.runs[0].iteration_s


def test_a_run_with_identical_iterations_says_so(scenario):
    shortcuts = clustersim.sweep({**scenario, "num_iterations": 12}).shortcuts
    assert any("Simulated 1 of 12 identical iterations" in shortcut for shortcut in shortcuts)


def test_replicates_give_an_interval_around_the_mean(scenario):
    scenario |= {"stragglers": [{"kind": "lognormal", "cv": 0.3}], "replicates": 4}
    run = clustersim.simulate(scenario)
    low, high = run.interval.samples_per_s
    assert low < run.samples_per_s < high
    assert run.interval.iteration_s[0] < run.iteration_s < run.interval.iteration_s[1]


def test_an_interval_of_times_is_never_negative(scenario):
    scenario |= {"stragglers": [{"kind": "pareto", "cv": 50}], "replicates": 3, "num_iterations": 2}
    interval = clustersim.simulate(scenario).interval
    assert 0 < interval.iteration_s[0] < interval.iteration_s[1]
    assert 0 < interval.speedup[0] < interval.speedup[1]


def test_replicates_of_what_is_not_random_are_warned_about(scenario):
    warnings = clustersim.sweep({**scenario, "replicates": 3}).warnings
    assert any("nothing in this scenario is random" in warning for warning in warnings)


def test_every_replicate_has_a_seed_of_its_own(scenario):
    scenario["stragglers"] = [{"kind": "lognormal", "cv": 0.3}]
    both = clustersim.simulate({**scenario, "seed": 0, "replicates": 2}).iteration_s
    first, second = (clustersim.simulate({**scenario, "seed": seed}).iteration_s for seed in (0, 1))
    assert both != pytest.approx((first + second) / 2, rel=1e-12)


def test_each_replicate_computes_on_the_gpus_that_it_is_placed_on(scenario):
    del scenario["model"], scenario["topology"]["gpu"], scenario["topology"]["num_hosts"]
    scenario |= {"model": "squeezenet-1.0", "num_gpus": 2, "placement": "random", "replicates": 20, "num_iterations": 1}
    scenario["topology"]["hosts"] = [{"count": 2, "host": {"gpu": "k80"}}, {"count": 2, "host": {"gpu": "v100"}}]
    mixed = clustersim.simulate(scenario)
    low, high = mixed.interval.iteration_s
    assert low < high  # two V100 here, a K80 among them there


def test_half_precision_sends_half_the_bytes(scenario):
    scenario |= {"model": "squeezenet-1.0", "num_iterations": 1}
    scenario["topology"]["gpu"] = "p100"
    sent = {
        precision: clustersim.simulate({**scenario, "precision": precision}).buckets[0][1]
        for precision in ("fp32", "fp16")
    }
    assert sent["fp16"] == pytest.approx(sent["fp32"] / 2)


def test_a_servers_update_takes_its_time_whatever_the_wire_carries(scenario):
    """Momentum instead of plain SGD costs the server the same, compressed or not."""
    scenario |= {"strategy": {"kind": "server", "buckets": "whole", "overlap": False}, "num_iterations": 1}

    def seconds(optimizer: str, compression: str) -> float:
        return clustersim.simulate({**scenario, "optimizer": optimizer, "compression": compression}).iteration_s

    extra = [seconds("momentum", wire) - seconds("sgd", wire) for wire in ("none", "fp16")]
    assert extra[0] > 1e-6
    assert extra[1] == pytest.approx(extra[0], rel=1e-6)


def test_one_gpu_stages_nothing(scenario):
    scenario["topology"] = {"kind": "star", "num_hosts": 1, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"}
    alone = clustersim.simulate({**scenario, "num_gpus": 1, "transport": "mpi"})
    assert alone.breakdown_s["communication_exposed"] == 0
    assert alone.speedup == pytest.approx(1.0)


def test_a_gpu_twice_as_slow_by_stragglers_doubles_compute(scenario):
    scenario["stragglers"] = [{"kind": "constant", "factor": 2, "of": "all"}]
    slow = clustersim.simulate(scenario)
    del scenario["stragglers"]
    assert slow.breakdown_s["compute"] == pytest.approx(2 * clustersim.simulate(scenario).breakdown_s["compute"])


def test_stragglers_per_layer_change_when_buckets_are_ready(scenario):
    scenario |= {"software": "plain", "strategy": {"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"}}
    scenario["stragglers"] = [{"kind": "lognormal", "cv": 0.5, "per": "layer"}]
    run = clustersim.simulate(scenario)
    assert len(set(run.iterations_s)) > 1


def test_a_model_that_does_not_fit_is_refused_with_the_sum_or_only_warned_about():
    scenario = {
        "model": "vgg16",
        "num_gpus": 2,
        "batch": {"per_gpu": 512},
        "topology": {"kind": "star", "num_hosts": 2, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
        "software": "plain",
        "strategy": {"kind": "all-reduce"},
        "num_iterations": 1,
    }
    with pytest.raises(InputError, match="activations"):
        clustersim.sweep(scenario)
    warned = clustersim.sweep({**scenario, "memory_check": False})
    assert any("activations" in warning for warning in warned.warnings)


def test_every_assumption_is_listed(scenario):
    scenario["topology"]["gpu"] = "k20x"
    sweep = clustersim.sweep({**scenario, "model": "googlenet", "num_iterations": 1})
    assert any("launch_s" in assumption for assumption in sweep.assumptions)


def test_overlap_with_one_bucket_is_warned_about(scenario):
    scenario["strategy"]["overlap"] = True
    assert any("overlap can hide no communication" in warning for warning in clustersim.sweep(scenario).warnings)


def test_a_network_that_no_message_used_is_warned_about(scenario):
    scenario["topology"] |= {"host": {"template": "single-socket", "gpu": "k80", "num_gpus": 4}, "num_hosts": 2}
    inside = clustersim.sweep(scenario).warnings
    assert any("no message left a host over links of kind access" in warning for warning in inside)
    scenario["topology"]["num_hosts"] = 1  # to which there is no other host
    assert not any("no message left a host" in warning for warning in clustersim.sweep(scenario).warnings)
    scenario["topology"]["num_hosts"] = 2
    between = clustersim.sweep({**scenario, "num_gpus": 8}).warnings
    assert not any("no message left a host" in warning for warning in between)


def test_a_straggling_host_that_the_job_is_not_on_is_refused(scenario):
    scenario["stragglers"] = [{"kind": "constant", "factor": 2, "of": {"hosts": [4]}}]
    with pytest.raises(InputError, match="the job is on 4 hosts"):
        clustersim.simulate(scenario)


def test_other_jobs_leave_less_of_the_links_between_switches_only(scenario):
    scenario["topology"] = {"kind": "torus", "dims": [4], "gpu": "k80", "link": "1 GB/s", "hop": "0 s"}
    alone = clustersim.simulate({**scenario, "topology": {**scenario["topology"], "injection": "9 GB/s"}})
    beside = clustersim.simulate(
        {**scenario, "topology": {**scenario["topology"], "injection": "9 GB/s"}, "background_traffic": 0.5}
    )
    exposed = [run.breakdown_s["communication_exposed"] for run in (alone, beside)]
    assert exposed[1] == pytest.approx(2 * exposed[0], rel=1e-9)
    star = {**scenario, "topology": {"kind": "star", "num_hosts": 4, "gpu": "k80", "link": "1 GB/s", "hop": "0 s"}}
    busy = clustersim.simulate({**star, "background_traffic": 0.5})
    assert busy.iteration_s == clustersim.simulate(star).iteration_s  # a star has no links between switches


@pytest.mark.parametrize(
    ("num_gpus", "algorithm", "adapters"),
    [(4, "ring", None), (8, "ring", (1, 4)), (8, "hierarchical", (4, 4))],
)
def test_a_ring_that_leaves_hosts_by_one_of_their_adapters_says_so(scenario, num_gpus, algorithm, adapters):
    host = {"template": "dgx-h100", "num_gpus": 4, "nics": 4}
    scenario["topology"] = {"kind": "star", "num_hosts": 2, "host": host, "link": "infiniband-ndr"}
    strategy = {"kind": "all-reduce", "algorithm": algorithm}
    result = clustersim.sweep({**scenario, "num_gpus": num_gpus, "software": "plain", "strategy": strategy})
    assert result.runs[0].adapters == adapters
    found = any("through 1 of its 4 network adapters" in warning for warning in result.warnings)
    assert found == (adapters == (1, 4))
    assert clustersim.results.Run.from_dict(result.runs[0].to_dict()).adapters == adapters


def test_a_sweep_is_no_single_run(scenario):
    with pytest.raises(InputError, match="a sweep of 2 points"):
        clustersim.simulate({**scenario, "num_gpus": [1, 2]})


def test_a_cluster_without_gpu_sheets_has_no_compute_times(scenario):
    del scenario["topology"]["gpu"]
    with pytest.raises(InputError, match=r"topology\.gpu"):
        clustersim.simulate(scenario)


def test_replicates_of_workers_in_random_pairs_differ_and_are_those_of_the_exact_run(scenario):
    slow = [{"kind": "constant", "factor": 1.7, "of": [0, 1, 2]}]
    scenario["topology"]["link"] = "0.1 GB/s"
    strategy = {"kind": "gossip", "asynchronous": True, "graph": "complete"}
    asked = {**scenario, "num_gpus": 7, "strategy": strategy, "stragglers": slow, "replicates": 3, "num_iterations": 10}
    quick, exact = (clustersim.simulate(asked, exact=exact) for exact in (False, True))
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)
    low, high = quick.interval.iteration_s
    assert low < high
