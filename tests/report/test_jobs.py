"""The table and the figure of jobs have one row per job, and are absent for runs with one job."""

from __future__ import annotations

from dataclasses import replace

import pytest

import clustersim
from clustersim.report.jobs import draw_jobs, job_rows, job_table, jobs_data
from clustersim.results import JobRun
from tests.report.synthetic import make_run
from tests.report.worker_runs import sweep_of

SCENARIO = {
    "model": "squeezenet-1.0",
    "num_gpus": 2,
    "batch": {"per_gpu": 8},
    "topology": {"kind": "star", "num_hosts": 6, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "all-reduce", "algorithm": "ring"},
    "num_iterations": 2,
}


def test_every_job_of_every_run_has_a_row():
    sweep = clustersim.sweep({**SCENARIO, "jobs": [{}, {"name": "other", "num_gpus": [1, 3]}]})
    headings, body = job_rows(sweep)
    assert headings == ["job", "num gpus", "GPUs", "iteration", "alone", "slowdown"]
    assert [(row[0], row[2]) for row in body] == [("job 0", "2"), ("other", "1"), ("job 0", "2"), ("other", "3")]
    assert [row[-1] for row in body] == ["1.00×"] * 4
    assert len(job_table(sweep).rows) == 4


def test_a_job_that_has_the_cluster_to_itself_needs_no_table():
    assert job_table(clustersim.sweep(SCENARIO)) is None


def shared(slowdowns, **axes):
    jobs = tuple(
        JobRun(name, "resnet50", 8, 0.0, 0.1 * slow, 320.0 / slow, 0.1, slow)
        for name, slow in zip(("first", "second"), slowdowns, strict=True)
    )
    return replace(make_run(8), axes={"num_gpus": 8, **axes}, jobs=jobs)


def test_the_figure_names_the_job_that_suffers_most_and_where_none_does():
    sweep = sweep_of(shared((1.0, 1.0), placement="block"), shared((5.5, 2.0), placement="spread"))
    data = jobs_data(sweep)
    assert [label for label, _ in data.rows] == ["first, block", "second, block", "first, spread", "second, spread"]
    assert (
        data.title
        == "With the other job, first takes 5.50× as long as alone (spread); with block, no job is slowed down"
    )
    figure = draw_jobs(data)
    alone, together = figure.traces[1:]
    assert alone["x"] == pytest.approx([100.0] * 4)
    assert together["x"] == pytest.approx([100.0, 100.0, 550.0, 200.0])
    assert together["text"][2].strip() == "5.50×"
    assert "(ms)" in figure.subtitle


def test_a_figure_of_one_run_names_no_setting():
    assert jobs_data(sweep_of(shared((1.5, 1.2)))).title == "With the other job, first takes 1.50× as long as alone"
    assert jobs_data(sweep_of(shared((1.0, 1.0)))).title.startswith("No job is slowed down")


def test_of_many_jobs_those_that_suffer_most_are_drawn():
    sweep = sweep_of(*(shared((1.0, 1.0 + number / 10), bound=number) for number in range(20)))
    data = jobs_data(sweep, max_rows=5)
    assert [job.slowdown for _, job in data.rows] == pytest.approx([2.5, 2.6, 2.7, 2.8, 2.9])
    assert data.note == "The 5 of 40 jobs with the largest slowdown are shown."


def test_a_run_of_one_job_has_no_figure():
    assert jobs_data(sweep_of(make_run(8))) is None
