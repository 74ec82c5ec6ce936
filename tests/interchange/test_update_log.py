"""The update log can be read by people and by spreadsheets."""

from __future__ import annotations

import csv

import pytest

import clustersim
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
            "strategy": [{"kind": "async", "staleness_aware_rate": True}, {"kind": "all-reduce"}],
            "num_iterations": 5,
        }
    )


def test_a_line_says_which_gradient_made_which_version(sweep):
    lines = list(update_lines(sweep.runs[0]))
    assert len(lines) == 20
    assert lines[0].startswith("W_5 = W_4 - 0.3333 lr * dW_1 (worker ")
    assert lines[0].endswith(", staleness 3)")
    assert next(update_lines(sweep.runs[1])) == "W_1 = W_0 - lr * dW_0 (all workers, staleness 0)"


def test_every_run_has_its_heading(sweep, tmp_path):
    text = write_updates(sweep, tmp_path / "updates.txt").read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# strategy async", "# strategy all-reduce"]


def test_the_table_has_what_the_log_has_and_survives_saving(sweep, tmp_path):
    saved = read_sweep(write_sweep(sweep, tmp_path / "result.json"))
    with write_updates(saved, tmp_path / "updates.csv").open() as file:
        rows = list(csv.DictReader(file))
    log = sweep.runs[0].updates
    assert [int(row["staleness"]) for row in rows[: len(log)]] == log.staleness.tolist()
    assert float(rows[0]["time_s"]) == log.time_s[0]
    assert saved.runs[0].updates == log
    assert saved.runs[0].cycles == sweep.runs[0].cycles
