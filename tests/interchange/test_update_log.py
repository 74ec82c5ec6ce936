"""The update log as text and as a table."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.interchange import update_lines, write_updates
from clustersim.results import read_sweep, write_sweep


@pytest.fixture(scope="module")
def sweep():
    return clustersim.sweep(
        {
            "name": "log",
            "model": "squeezenet-1.0",
            "num_gpus": 4,
            "batch": {"per_gpu": 8},
            "topology": {"kind": "star", "num_hosts": 4, "gpu": "k80", "link": "10 GB/s", "hop": "1 us"},
            "software": "plain",
            "strategy": [{"kind": "async", "staleness_aware_rate": True}, {"kind": "all-reduce"}],
            "num_iterations": 5,
            "stragglers": [{"kind": "lognormal", "cv": 0.2}],
            "replicates": 3,
        }
    )


def test_a_line_says_which_gradient_made_which_version(sweep):
    log = sweep.runs[0].updates
    lines = list(update_lines(sweep.runs[0]))
    assert len(lines) == len(log)
    rate = "lr" if log.learning_rate[0] == 1.0 else f"{log.learning_rate[0]:.4g} lr"
    assert lines[0] == (
        f"W_{log.version_written[0]} = W_{log.version_written[0] - 1} - {rate} * dW_{log.version_read[0]} "
        f"(worker {log.worker[0]}, staleness {log.staleness[0]})"
    )
    assert next(update_lines(sweep.runs[1])) == "W_1 = W_0 - lr * dW_0 (all workers, staleness 0)"


def test_every_replicate_of_every_run_has_its_heading(sweep, tmp_path):
    text = write_updates(sweep, tmp_path / "updates.txt").read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        f"# strategy {kind}, replicate {number}" for kind in ("async", "all-reduce") for number in (1, 2, 3)
    ]
    first, second = (list(update_lines(sweep.runs[0], number)) for number in (1, 2))
    assert first != second
    assert "\n".join(second) in text


def test_a_run_of_one_replicate_is_not_numbered(sweep, tmp_path):
    alone = replace(sweep, runs=tuple(replace(run, more_updates=()) for run in sweep.runs))
    text = write_updates(alone, tmp_path / "updates.txt").read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# strategy async", "# strategy all-reduce"]


@pytest.mark.parametrize("replicate", [0, 4])
def test_a_replicate_that_was_not_played_is_refused(sweep, replicate):
    with pytest.raises(InputError, match=f"no replicate {replicate}") as caught:
        update_lines(sweep.runs[0], replicate)
    assert caught.value.mistakes[0].allowed == "a number from 1 to 3"


def test_the_table_has_what_the_logs_have_and_survives_saving(sweep, tmp_path):
    saved = read_sweep(write_sweep(sweep, tmp_path / "result.json"))
    with write_updates(saved, tmp_path / "updates.csv").open() as file:
        rows = list(csv.DictReader(file))
    run = sweep.runs[0]
    for replicate, log in enumerate((run.updates, *run.more_updates), 1):
        own = [row for row in rows if row["run"] == "strategy async" and row["replicate"] == str(replicate)]
        assert [int(row["staleness"]) for row in own] == log.staleness.tolist()
        assert float(own[0]["time_s"]) == log.time_s[0]
    assert saved.runs[0].updates == run.updates
    assert saved.runs[0].more_updates == run.more_updates
    assert saved.runs[0].cycles == run.cycles
