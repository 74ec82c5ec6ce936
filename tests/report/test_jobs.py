"""The table of jobs has a row for each, and is not there where a run has one job only."""

from __future__ import annotations

import clustersim
from clustersim.report.jobs import job_rows, job_table

SCENARIO = {
    "model": "squeezenet-1.0",
    "num_gpus": 2,
    "batch": {"per_gpu": 8},
    "topology": {"kind": "star", "num_hosts": 6, "gpu": "k80", "link": "1 GB/s", "hop": "1 us"},
    "strategy": {"kind": "all-reduce", "algorithm": "ring"},
    "num_iterations": 2,
}


def test_every_job_of_every_run_has_a_row():
    sweep = clustersim.sweep({**SCENARIO, "jobs": [{}, {"name": "other", "num_gpus": [1, 3]}]})
    headings, body = job_rows(sweep)
    assert headings == ["job", "num_gpus", "GPUs", "iteration", "alone", "slowdown"]
    assert [(row[0], row[2]) for row in body] == [("job 0", "2"), ("other", "1"), ("job 0", "2"), ("other", "3")]
    assert [row[-1] for row in body] == ["1.00×"] * 4
    assert job_table(sweep).row_count == 4


def test_a_job_that_has_the_cluster_to_itself_needs_no_table():
    assert job_table(clustersim.sweep(SCENARIO)) is None
