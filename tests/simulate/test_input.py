"""The input stage in a whole forecast: what is the bottleneck, and where the waiting shows."""

from __future__ import annotations

import pytest

import clustersim

STRATEGIES = {
    "all-reduce": {"kind": "all-reduce", "algorithm": "ring"},
    "server": {"kind": "server"},
    "async": {"kind": "async"},
    "local": {"kind": "local"},
    "gossip": {"kind": "gossip"},
    "pairwise": {"kind": "gossip", "asynchronous": True},
    "hierarchical": {"kind": "hierarchical"},
    "backup": {"kind": "backup", "backups": 0},
}


@pytest.fixture
def scenario():
    return {
        "name": "test",
        "model": "squeezenet-1.0",
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": {
            "kind": "star",
            "num_hosts": 2,
            "host": {"template": "dual-socket", "gpu": "p100", "num_gpus": 2},
            "link": "infiniband-fdr",
        },
        "software": "plain",
        "strategy": STRATEGIES["all-reduce"],
        "num_iterations": 8,
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_slow_decoder_sets_the_pace_of_every_strategy_and_its_time_shows_as_input(scenario, strategy):
    scenario["strategy"] = STRATEGIES[strategy]
    run = clustersim.simulate({**scenario, "input": {"decode": "100 samples/s"}})
    assert run.samples_per_s == pytest.approx(200, rel=1e-6 if strategy != "pairwise" else 0.05)
    assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=1e-9)
    assert run.breakdown_s["input"] > 0.5 * run.iteration_s
    assert "input" in run.spans.kind


@pytest.mark.parametrize("exact", [False, True])
def test_storage_that_all_hosts_share_sets_the_pace(scenario, exact):
    scenario["input"] = {"storage": "10 MB/s", "sample_bytes": "100 kB"}
    assert clustersim.simulate(scenario, exact=exact).samples_per_s == pytest.approx(100, rel=1e-9)


def test_samples_that_come_in_time_change_nothing(scenario):
    plain = clustersim.simulate(scenario)
    fed = clustersim.simulate({**scenario, "input": {"decode": "100000 samples/s"}})
    assert fed.breakdown_s["input"] == pytest.approx(0, abs=1e-9)
    assert fed.iteration_s == pytest.approx(plain.iteration_s, rel=1e-9)


def test_without_prefetching_every_iteration_waits_for_its_samples(scenario):
    plain = clustersim.simulate(scenario)
    fed = clustersim.simulate({**scenario, "input": {"decode": "1000 samples/s", "prefetch": 0}})
    assert fed.iteration_s == pytest.approx(plain.iteration_s + 2 * 8 / 1000, rel=1e-9)


def test_gpus_of_a_fuller_host_wait_longer(scenario):
    scenario |= {"num_gpus": 3, "strategy": {"kind": "async"}, "input": {"decode": "100 samples/s"}}
    waited = [parts["input"] for parts in clustersim.simulate(scenario).worker_breakdown_s]
    assert waited[0] == pytest.approx(waited[1], rel=0.1)
    assert waited[0] > 1.8 * waited[2] > 0


@pytest.mark.parametrize("num_gpus", [1, 2])
def test_gpus_wait_for_copies_of_samples_over_the_link_that_all_of_a_root_share(scenario, num_gpus):
    scenario["topology"]["host"] |= {"num_gpus": 4, "plx_per_socket": 1}
    scenario |= {"num_gpus": num_gpus, "transport": "ideal", "strategy": {"kind": "local", "steps": 100}}
    plain, some, more = (
        clustersim.simulate({**scenario, **({"input": {"copied_bytes": size}} if size else {})})
        for size in (None, "6 MB", "12 MB")
    )
    copying_s = num_gpus * 8 * 6e6 / 12e9
    assert more.iteration_s - some.iteration_s == pytest.approx(copying_s, rel=1e-9)
    assert more.breakdown_s["input"] - some.breakdown_s["input"] == pytest.approx(copying_s, rel=1e-9)
    assert some.iteration_s == pytest.approx(plain.iteration_s + some.breakdown_s["input"], rel=1e-3)


def test_the_next_samples_are_copied_while_gradients_are_exchanged(scenario):
    scenario["topology"]["link"] = "100 MB/s"
    plain = clustersim.simulate(scenario)
    fed = clustersim.simulate({**scenario, "input": {"copied_bytes": "6 MB"}})
    assert fed.iteration_s == pytest.approx(plain.iteration_s, rel=1e-3)
    assert fed.breakdown_s["input"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("file_samples", "share"), [(None, 0.0), (16, 1.0), (48, 1 / 3), (40, 0.4), (8, 1.0)])
def test_a_copy_ahead_hides_behind_computing_but_for_the_batch_that_begins_a_file(scenario, file_samples, share):
    """Of two GPUs with eight samples each: a file of 40 begins in the first and third of every five batches."""
    scenario |= {"num_gpus": 2, "transport": "ideal", "strategy": {"kind": "local", "steps": 30}, "num_iterations": 30}
    plain = clustersim.simulate(scenario)
    knobs = {"copied_bytes": "6 MB", "copied_ahead": True, "file_samples": file_samples, "prefetch": 0}
    fed = clustersim.simulate({**scenario, "input": {key: knob for key, knob in knobs.items() if knob is not None}})
    copying_s = share * 8 * 6e6 / 12e9
    assert fed.breakdown_s["input"] == pytest.approx(copying_s, rel=1e-6, abs=1e-12)
    assert fed.iteration_s == pytest.approx(plain.iteration_s + copying_s, rel=1e-6)


def test_copies_ahead_that_take_longer_than_all_else_set_the_pace(scenario):
    scenario |= {"num_gpus": 1, "input": {"copied_bytes": "600 MB", "copied_ahead": True}}
    assert clustersim.simulate(scenario).iteration_s == pytest.approx(8 * 600e6 / 12e9, rel=1e-9)


@pytest.mark.parametrize(("memory", "binding"), [("own-socket", 12e9), ("first-socket", 6e9 / 2)])
def test_batches_of_one_process_cross_the_sockets_link_to_the_gpus_of_the_other(scenario, memory, binding):
    """Two of four GPUs share QPI's 6 GB/s where everything lies with the first socket; else each has its own slot."""
    scenario["topology"] = {**scenario["topology"], "num_hosts": 1}
    scenario["topology"]["host"] |= {"num_gpus": 4, "plx_per_socket": 0}
    knobs = {"copied_bytes": "60 MB", "copied_ahead": True, "memory": memory}
    scenario |= {"transport": "ideal", "strategy": {"kind": "local", "steps": 100}}
    run = clustersim.simulate({**scenario, "num_gpus": 4, "input": knobs})
    far = [parts["input"] + parts["compute"] for parts in run.worker_breakdown_s[2:]]
    assert far == pytest.approx([8 * 60e6 / binding] * 2, rel=0.02)


def test_the_same_seed_decodes_at_the_same_pace_and_another_at_another(scenario):
    scenario["input"] = {"decode": "100 samples/s", "cv": 0.5}
    first, again, other = (clustersim.simulate({**scenario, "seed": seed}).iteration_s for seed in (1, 1, 2))
    assert first == again != other


def test_replicates_draw_their_own_decoding_and_are_those_of_the_exact_run(scenario):
    asked = {**scenario, "input": {"decode": "100 samples/s", "prefetch": 1, "cv": 0.2}, "replicates": 3}
    quick, exact = (clustersim.simulate(asked, exact=exact) for exact in (False, True))
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)
    assert quick.breakdown_s == pytest.approx(exact.breakdown_s, rel=1e-9, abs=1e-12)
    low, high = quick.interval.iteration_s
    assert low < high


def test_the_forecast_says_that_samples_and_compression_are_as_the_scenario_says(scenario):
    scenario |= {"input": {"decode": "100 samples/s"}, "compression": "fp16"}
    assumptions = clustersim.sweep(scenario).assumptions
    assert "Samples come as the scenario says: decode 100.0." in assumptions
    assert "Gradients are compressed as the scenario says: fp16." in assumptions
