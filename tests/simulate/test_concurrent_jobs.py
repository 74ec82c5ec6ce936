"""Several jobs on one cluster: without shared links none is slowed down, and on a shared link each gets a part."""

from __future__ import annotations

import json

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.results import Run
from clustersim.strategies import STRATEGIES

BYTES = 8e6
RATE = 1e9
COMPUTE_S = 0.06
WORKLOAD = """
name: two-layers
layers:
  - {name: a, parameter_bytes: 4000000, activation_bytes: 4000, forward_s: 0.01, backward_s: 0.02}
  - {name: b, parameter_bytes: 4000000, activation_bytes: 4000, forward_s: 0.01, backward_s: 0.02}
"""
SHORT_WORKLOAD = "name: short\nlayers: [{name: a, parameter_bytes: 4000000, forward_s: 0.002, backward_s: 0.004}]\n"
STAR = {"kind": "star", "num_hosts": 8, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"}
HOSTS_OF_FOUR = {
    **{"kind": "star", "num_hosts": 2, "link": "1 GB/s", "hop": "1 us"},
    "host": {"template": "single-socket", "gpu": "k80", "num_gpus": 4},
}
TRUNK = {
    "kind": "explicit",
    "gpu": "k80",
    "link": "1000 GB/s",
    "hop": "0 s",
    "nodes": {"h0": "host", "h1": "host", "left": "switch", "right": "switch", "h2": "host", "h3": "host"},
    "links": [
        {"a": "h0", "b": "left"},
        {"a": "h1", "b": "left"},
        {"a": "left", "b": "right", "link": "1 GB/s"},
        {"a": "h2", "b": "right"},
        {"a": "h3", "b": "right"},
    ],
}
"""Two GPUs on either side of one link, which every ring between the sides crosses once each way."""

KNOBS = {"bounded-staleness": {"bound": 2}, "local": {"steps": 3}}


@pytest.fixture
def scenario(tmp_path):
    (tmp_path / "two-layers.yaml").write_text(WORKLOAD)
    (tmp_path / "short.yaml").write_text(SHORT_WORKLOAD)
    return {
        "model": str(tmp_path / "two-layers.yaml"),
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": STAR,
        "software": "plain",
        "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False, "buckets": "whole"},
        "num_iterations": 4,
    }


@pytest.fixture
def trunk(scenario):
    return {**scenario, "topology": TRUNK, "num_gpus": 2, "placement": [0, 2, 1, 3]}


@pytest.mark.parametrize("stragglers", [[], [{"kind": "lognormal", "cv": 0.3}]], ids=["steady", "jitter"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_jobs_on_links_of_their_own_are_as_fast_as_alone(scenario, kind, stragglers):
    strategy = {"kind": kind, **KNOBS.get(kind, {})}
    if kind == "data-parallel":
        scenario["topology"] = HOSTS_OF_FOUR
    run = clustersim.simulate({**scenario, "strategy": strategy, "stragglers": stragglers, "jobs": 2})
    assert [job.slowdown for job in run.jobs] == pytest.approx([1, 1], rel=1e-9)
    assert run.iteration_s == run.jobs[0].iteration_s
    assert run.samples_per_s == pytest.approx(run.jobs[0].samples_per_s, rel=1e-12)


def test_the_first_job_on_links_of_its_own_is_the_run_without_others(scenario):
    alone, beside = clustersim.simulate(scenario), clustersim.simulate({**scenario, "jobs": 2})
    assert beside.iteration_s == pytest.approx(alone.iteration_s, rel=1e-9)
    assert beside.breakdown_s == pytest.approx(alone.breakdown_s, rel=1e-9)
    assert beside.links[0].num_bytes == pytest.approx(alone.links[0].num_bytes, rel=1e-9)
    assert alone.jobs == ()


@pytest.mark.parametrize("num_gpus", [2])
def test_two_jobs_that_send_at_once_over_one_link_get_half_of_it_each(trunk, num_gpus):
    """A ring of two sends the buffer once each way, in 2 (n - 1) steps of 1 / n of it."""
    alone = clustersim.simulate(trunk)
    exchange_s = BYTES / RATE
    assert alone.breakdown_s["communication_exposed"] == pytest.approx(exchange_s, rel=1e-9)
    run = clustersim.simulate({**trunk, "jobs": 2})
    assert run.breakdown_s["communication_exposed"] == pytest.approx(2 * exchange_s, rel=1e-9)
    for job in run.jobs:
        assert job.alone_iteration_s == pytest.approx(alone.iteration_s, rel=1e-9)
        assert job.iteration_s == pytest.approx(alone.iteration_s + exchange_s, rel=1e-9)
        assert job.slowdown == pytest.approx(job.iteration_s / job.alone_iteration_s)


def test_a_shared_link_carries_what_all_jobs_send(trunk):
    run = clustersim.simulate({**trunk, "jobs": 2})
    shared = next(link for link in run.links if {link.src, link.dst} == {"left", "right"})
    assert shared.num_bytes == pytest.approx(2 * BYTES, rel=1e-9)
    assert shared.utilisation == pytest.approx(2 * BYTES / RATE / run.iteration_s, rel=1e-9)


def test_jobs_that_take_turns_on_a_link_do_not_slow_each_other(trunk):
    run = clustersim.simulate({**trunk, "jobs": [{}, {"start": "30 ms"}]})
    assert [job.slowdown for job in run.jobs] == pytest.approx([1, 1], rel=1e-9)
    assert [job.start_s for job in run.jobs] == [0.0, 0.03]


def test_a_job_that_starts_late_counts_beside_the_others_all_the_same(trunk):
    together = clustersim.simulate({**trunk, "jobs": 2})
    period_s = clustersim.simulate(trunk).iteration_s
    late = clustersim.simulate({**trunk, "jobs": [{}, {"start": f"{20 * period_s!r} s"}]})
    assert late.iteration_s == pytest.approx(together.iteration_s, rel=1e-9)


def test_a_quick_job_goes_on_until_the_slow_one_has_counted(trunk, tmp_path):
    """No job ends before the others: every exchange of the slow job meets those of the fast one."""
    jobs = [{}, {"model": str(tmp_path / "short.yaml"), "name": "quick"}]
    run = clustersim.simulate({**trunk, "jobs": jobs})
    slow, quick = run.jobs
    assert (slow.model, quick.name) == (trunk["model"], "quick")
    assert quick.iteration_s < slow.iteration_s / 4
    assert slow.slowdown > 1.01
    assert len(run.iterations_s) == 4


def test_the_first_job_of_a_list_is_the_run(scenario, tmp_path):
    jobs = [{"model": str(tmp_path / "short.yaml"), "num_gpus": 2}, {}]
    run = clustersim.simulate({**scenario, "jobs": jobs})
    alone = clustersim.simulate({**scenario, **jobs[0]})
    assert (run.num_gpus, [job.num_gpus for job in run.jobs]) == (2, [2, 4])
    assert run.iteration_s == pytest.approx(alone.iteration_s, rel=1e-9)
    assert run.efficiency == pytest.approx(alone.efficiency, rel=1e-9)


def test_jobs_draw_their_own_random_numbers(scenario):
    run = clustersim.simulate({**scenario, "stragglers": [{"kind": "lognormal", "cv": 0.3}], "jobs": 2})
    assert run.jobs[0].iteration_s != run.jobs[1].iteration_s


@pytest.mark.parametrize("placement", ["block", "spread", "random", {"kind": "fragmented", "free": 1.0}])
def test_no_gpu_is_given_twice(scenario, placement):
    from clustersim.scenario import load_scenario
    from clustersim.simulate.concurrent_jobs import setups_of

    point = load_scenario({**scenario, "placement": placement, "jobs": 2}).points()[0].point
    given = [gpu for setup in setups_of(point) for gpu in setup.gpus(1).tolist()]
    assert len(given) == len(set(given)) == 8


def test_servers_on_hosts_of_their_own_share_none_with_another_job(scenario):
    strategy = {"kind": "async", "servers": {"num": 2, "on": "own-hosts"}}
    small = {**scenario, "num_gpus": 2, "strategy": strategy}
    run = clustersim.simulate({**small, "jobs": 2})
    assert [job.slowdown for job in run.jobs] == pytest.approx([1, 1], rel=1e-9)
    with pytest.raises(InputError, match=r"2 servers on own hosts need .* has 1 left"):
        clustersim.simulate({**small, "jobs": [{"num_gpus": 3}, {}]})


def test_link_disturbances_slow_all_jobs_and_each_alone_too(trunk):
    slow_downs = [{"kind": "link-slow-downs", "factor": 4, "every": "50 ms", "lasts": "10 ms"}]
    run = clustersim.simulate({**trunk, "topology": STAR, "placement": "block", "stragglers": slow_downs, "jobs": 2})
    alone = clustersim.simulate({**trunk, "topology": STAR, "placement": "block"})
    assert run.jobs[0].alone_iteration_s > alone.iteration_s
    assert run.jobs[0].slowdown == pytest.approx(1, rel=1e-9)


def test_times_of_stragglers_count_from_the_end_of_all_warm_ups(trunk):
    pause = [{"kind": "pauses", "at": [0], "lasts": "50 ms", "per": "job"}]
    late = {**trunk, "topology": STAR, "placement": "block", "jobs": [{}, {"start": "300 ms"}]}
    plain, paused = (clustersim.simulate({**late, "stragglers": each}) for each in ([], pause))
    assert paused.iterations_s[0] == pytest.approx(plain.iterations_s[0] + 0.05, rel=1e-6)
    assert [job.slowdown for job in paused.jobs] == pytest.approx([1, 1], rel=1e-9)


def test_one_seed_gives_the_same_bytes_and_another_seed_others(trunk):
    jitter = {**trunk, "stragglers": [{"kind": "lognormal", "cv": 0.3}], "jobs": 2, "replicates": 2, "seed": 1}
    first, again, other = (clustersim.simulate({**jitter, "seed": seed}) for seed in (1, 1, 2))
    assert json.dumps(first.to_dict()) == json.dumps(again.to_dict())
    assert first.jobs != other.jobs
    assert first.interval is not None


def test_an_exact_run_gives_the_same_figures(trunk):
    simulated, exact = (clustersim.simulate({**trunk, "jobs": 2}, exact=exact) for exact in (False, True))
    for job, other in zip(simulated.jobs, exact.jobs, strict=True):
        assert job.iteration_s == pytest.approx(other.iteration_s, rel=1e-9)
        assert job.slowdown == pytest.approx(other.slowdown, rel=1e-9)


@pytest.mark.parametrize("kind", ["all-reduce", "async"])
def test_unlike_jobs_send_as_many_bytes_over_links_with_shortcuts_as_without(trunk, tmp_path, kind):
    """Both count from the end of all warm-ups to the time when the last job has done its iterations."""
    jobs = [{}, {"model": str(tmp_path / "short.yaml")}]
    unlike = {**trunk, "jobs": jobs, "strategy": {"kind": kind, "overlap": False}, "num_iterations": 10}
    simulated, exact = (clustersim.simulate(unlike, exact=exact) for exact in (False, True))
    assert {link.name: link.num_bytes for link in simulated.links} == pytest.approx(
        {link.name: link.num_bytes for link in exact.links}, rel=1e-9
    )


def test_jobs_come_back_from_a_file(trunk):
    run = clustersim.simulate({**trunk, "jobs": 2})
    document = json.loads(json.dumps(run.to_dict(detail=False)))
    assert [job["name"] for job in document["jobs"]] == ["job 0", "job 1"]
    assert Run.from_dict(document).jobs == run.jobs


def test_a_sweep_over_the_number_of_jobs_says_what_it_counts(trunk):
    sweep = clustersim.sweep({**trunk, "jobs": [1, 2]})
    assert [len(run.jobs) for run in sweep.runs] == [0, 2]
    assert any("2 jobs share the cluster" in each and "simulated alone" in each for each in sweep.assumptions)


def test_a_job_that_does_not_fit_a_gpu_is_refused(scenario):
    with pytest.raises(InputError, match=r"does not fit|memory"):
        clustersim.simulate({**scenario, "jobs": [{}, {"model": "vgg16", "batch": {"per_gpu": 4096}}]})


def test_jobs_that_exchange_nothing_are_simulated_to_their_end(scenario, tmp_path):
    (tmp_path / "silent.yaml").write_text("name: silent\nlayers: [{name: a, forward_s: 0.002, backward_s: 0.004}]\n")
    run = clustersim.simulate({**scenario, "model": str(tmp_path / "silent.yaml"), "jobs": 2})
    assert [job.slowdown for job in run.jobs] == pytest.approx([1, 1], rel=1e-9)
    assert run.iteration_s == pytest.approx(0.006, rel=1e-9)


def test_the_timeline_ends_with_the_last_recorded_iteration_of_a_rank_that_is_ahead() -> None:
    """A stage of one of two jobs has begun an iteration after those that count. The timesheet does not have it."""
    host = {"template": "dgx-1", "gpu": "h100", "num_gpus": 2, "nvlink": "100 GB/s"}
    run = clustersim.simulate(
        {
            "model": "gpt-4x256x4-seq1024-vocab512",
            "num_gpus": 8,
            "batch": {"global": 32},
            "precision": "amp-fp8",
            "topology": {"kind": "star", "num_hosts": 8, "link": "10 Gbit/s", "hop": "1 us", "host": host},
            "software": "plain",
            "transport": "ideal",
            "strategy": {"kind": "server"},
            "parallelism": {"pipeline": 2, "micro_batches": 4},
            "memory_check": False,
            "num_iterations": 3,
            "placement": "spread",
            "seed": 87,
            "jobs": 2,
        }
    )
    assert len(run.jobs) == 2
    assert len(run.spans) > 0
