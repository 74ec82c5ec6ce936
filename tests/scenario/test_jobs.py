"""Several jobs on one cluster: each is the scenario with its own keys merged in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clustersim.errors import Mistake
from clustersim.scenario import Scenario

Load = Callable[..., Scenario]
Mistakes = Callable[..., list[Mistake]]
CheckMistake = Callable[[str, str | None, int, str], None]


def test_a_number_of_jobs_means_that_many_copies(load: Load) -> None:
    (point,) = load("jobs: 2").points()
    jobs = point.point.each_job()
    assert [(job.name, job.start_s) for job in jobs] == [("job 0", 0.0), ("job 1", 0.0)]
    assert all(job.point == point.point for job in jobs)


def test_a_job_of_a_list_is_the_scenario_with_its_own_keys_merged_in(load: Load) -> None:
    added = "jobs: [{}, {name: other, model: vgg16, batch: {global: 6}, num_gpus: 3, start: 20 ms}]"
    first, second = load(added).points()[0].point.each_job()
    assert (first.name, first.point.model, first.point.num_gpus) == ("job 0", "alexnet", 4)
    assert (second.name, second.point.model, second.point.num_gpus) == ("other", "vgg16", 3)
    assert (second.start_s, second.point.per_gpu_batch) == (0.02, 2)
    assert second.point.strategy == first.point.strategy


def test_another_kind_in_a_job_replaces_that_of_the_scenario_with_its_options(load: Load) -> None:
    (_, second) = load("jobs: [{}, {strategy: {kind: async}}]").points()[0].point.each_job()
    assert second.point.strategy.kind == "async"


def test_numbers_in_a_list_are_an_axis_and_so_is_a_list_in_a_job(load: Load) -> None:
    assert load("jobs: [1, 2]").axes == {"jobs": [1, 2]}
    assert load("jobs: [{}, {num_gpus: [2, 4]}]").axes == {"jobs.1.num_gpus": [2, 4]}


def test_an_axis_of_the_scenario_is_one_for_all_jobs(load: Load) -> None:
    points = load("num_gpus: [1, 4]\njobs: [{}, {model: vgg16}]").points()
    assert [[job.point.num_gpus for job in each.point.each_job()] for each in points] == [[1, 1], [4, 4]]


def test_an_override_reaches_into_a_job(load: Load) -> None:
    point = load("jobs: [{}, {model: vgg16}]", overrides=("jobs.1.model=nin",)).points()[0].point
    assert [job.point.model for job in point.each_job()] == ["alexnet", "nin"]


@pytest.mark.parametrize(
    ("added", "key", "column", "words"),
    [
        ("jobs: two", "jobs", 7, "expected a whole number or a list (got 'two')"),
        ("jobs: 0", "jobs", 7, "expected a number of at least 1 (got 0)"),
        ("jobs: []", "jobs", 7, "expected a list of at least 1 (got an empty list)"),
        ("jobs: 3", "jobs", 7, "job 2: 4 GPUs are asked for, but the cluster 'star' has 0 left of 8"),
        (
            "jobs: [{}, {num_gpus: 5}]",
            "jobs.1.num_gpus",
            23,
            "job 1: 5 GPUs are asked for, but the cluster 'star' has 4 left",
        ),
        ("jobs: [{num_gpus: 9}]", "jobs.0.num_gpus", 19, "job 0: 9 GPUs are asked for, but the cluster 'star' has 8"),
        ("jobs: [{placement: [8, 9, 1, 2]}]", "jobs.0.placement", 20, "there is no GPU 9: 'star' has 8 GPUs"),
        ("jobs: [{batch: {per_gpu: 8000}}]", "jobs.0.batch.per_gpu", 26, " GB: weights 244 MB + gradients 244 MB"),
        (
            "jobs: 2\nnum_gpus: 3\nstrategy: {kind: async, servers: {on: own-hosts, num: 2}}",
            "strategy.servers.num",
            55,
            "need as many hosts without workers, and the cluster 'star' of 8 hosts has 0 left",
        ),
        (
            "jobs: [{}, {strategy: {kind: async, servers: {on: own-hosts}}}]\nnum_gpus: 4",
            "jobs.1.strategy.servers.on",
            51,
            "the cluster 'star' of 8 hosts has 0 left",
        ),
        (
            "jobs: 2\nplacement: [0, 1, 2, 3]",
            "jobs",
            7,
            "has 4 GPUs; the jobs before this one leave 0 of them for 4",
        ),
        ("jobs: [{}, {start: 3}]", "jobs.1.start", 20, "a number needs a unit"),
        ("jobs: [{}, {modle: nin}]", "jobs.1.modle", 13, "did you mean 'model'?"),
        ("jobs: [{}, {model: nim}]", "jobs.1.model", 20, "did you mean 'nin'?"),
        ("jobs: [{}, {topology: titan}]", "jobs.1.topology", 13, "jobs on one cluster share 'topology'"),
        ("jobs: [{}, {seed: 3}]", "jobs.1.seed", 13, "jobs on one cluster share 'seed'"),
        ("jobs: [{jobs: 2}]", "jobs.0.jobs", 9, "share 'jobs', or only the first has it; give it at the top level"),
        ("jobs: [{}, {batch: {global: 9}}]", "jobs.1.batch.global", 29, "9 does not divide over 4 GPUs"),
        ("jobs: [{}, {strategy: {kind: all-reduce, algorithm: rng}}]", "jobs.1.strategy.algorithm", 53, "'ring'?"),
        (
            "jobs: [{}, {stragglers: [{kind: constant, factor: 2, of: [4]}]}]",
            "jobs.1.stragglers.0.of",
            58,
            "the job has 4 GPUs, with ranks 0 to 3 (got 4)",
        ),
        (
            "jobs: [{}, {stragglers: [{kind: constant, factor: 2, of: {hosts: [4]}}]}]",
            "jobs.1.stragglers.0.of.hosts",
            66,
            "the job is on 4 hosts",
        ),
    ],
)
def test_a_mistake_in_a_job_has_its_place(
    check_mistake: CheckMistake, added: str, key: str, column: int, words: str
) -> None:
    check_mistake(added, key, column, words)


def test_only_the_first_job_may_have_stragglers_on_links(mistakes: Mistakes, load: Load) -> None:
    slow_downs = "{kind: link-slow-downs, factor: 2, every: 1 s, lasts: 1 ms}"
    (mistake,) = mistakes(f"jobs: [{{}}, {{stragglers: [{slow_downs}]}}]")
    assert "only the scenario or its first job can have stragglers on links" in mistake.message
    assert mistake.key == "jobs.1.stragglers"
    assert load(f"stragglers: [{slow_downs}]\njobs: [{{}}, {{model: nin}}]").points()


def test_a_mistake_of_the_scenario_is_not_repeated_for_every_job(mistakes: Mistakes) -> None:
    assert [each.key for each in mistakes("modl: nin\njobs: [{}, {}]")] == ["modl"]
    assert [each.key for each in mistakes("model: nim\njobs: [{}, {}]")] == ["model"]
    assert [each.key for each in mistakes("model: nim\njobs: [{}, {model: nip}]")] == ["model", "jobs.1.model"]
