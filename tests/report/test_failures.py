"""The table of failures has time shares and checkpoint intervals."""

from __future__ import annotations

from dataclasses import replace

from clustersim.report.failures import failure_rows, failure_table
from clustersim.report.words import THIN
from clustersim.results import FailureTimes
from tests.report.synthetic import make_sweep

TIMES = FailureTimes(
    useful_s=8 * 3600.0,
    checkpoint_s=3600.0,
    lost_s=1800.0,
    restart_s=1800.0,
    num_failures=3.0,
    num_checkpoints=60.0,
    mtbf_s=12_000.0,
    write_s=60.0,
    down_s=360.0,
    interval_s=1200.0,
    young_s=1200.0,
    daly_s=1160.0,
    best_s=1000.0,
)


def test_shares_are_of_the_whole_training_and_rows_have_all_intervals() -> None:
    sweep = make_sweep()
    failing = replace(sweep, runs=(*sweep.runs[:1], replace(sweep.runs[1], failures=TIMES)))
    headings, rows = failure_rows(failing)
    (row,) = (dict(zip(headings, [cell.replace(THIN, " ") for cell in cells], strict=True)) for cells in rows)
    assert [row[part] for part in ("useful", "saving", "lost", "restart")] == ["80 %", "10 %", "5.0 %", "5.0 %"]
    assert (row["total"], row["failures"]) == ("10.0 h", "3")
    assert [row[name] for name in ("interval", "Young", "Daly", "best")] == [
        "20.0 min",
        "20.0 min",
        "19.3 min",
        "16.7 min",
    ]
    table = failure_table(failing)
    assert table is not None
    assert len(table.rows) == 1


def test_without_failures_there_is_no_table() -> None:
    assert failure_table(make_sweep()) is None
