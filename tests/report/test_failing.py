"""Points without a forecast: the sentence, the tables, and everything else about the points that have one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim import report_html, report_text
from clustersim.interchange import write_perfetto, write_updates
from clustersim.report import FIGURES
from clustersim.report.answer import rows
from clustersim.report.failing import failing_rows, failing_sentence, failing_table, reason
from clustersim.report.findings import findings
from clustersim.report.text_table import plain
from clustersim.results import PointError, Run, Sweep
from clustersim.results.html import run_html, sweep_html
from tests.report.synthetic import make_comparison, make_sweep

LACK = PointError("does-not-fit", "one k80 holds 17.2 GB", 2.13e10, 1.72e10, "parallelism {micro_batches: 8}")
STUCK = PointError("stuck", "at 3 s the simulation is stuck, and these wait for ever:\n  rank 0")


def failing(sweep: Sweep, errors: dict[int, PointError]) -> Sweep:
    """Return a sweep of which some points, by number, have an error."""
    runs = [
        Run.failed(run.axes, run.num_gpus, errors[number]) if number in errors else run
        for number, run in enumerate(sweep.runs)
    ]
    return replace(sweep, runs=tuple(runs))


def sentence(sweep: Sweep) -> str:
    return plain(failing_sentence(sweep))


def test_a_reason_has_the_bytes_and_the_change_that_fits() -> None:
    assert plain(reason(LACK)) == "does not fit: 21.3 of 17.2 GB; parallelism {micro_batches: 8}"
    assert plain(reason(replace(LACK, remedy=None))) == "does not fit: 21.3 of 17.2 GB"
    assert plain(reason(replace(LACK, needed_bytes=3.76e12))).startswith("does not fit: 3.76 TB of 17.2 GB;")
    assert reason(STUCK) == "stuck: at 3 s the simulation is stuck, and these wait for ever: rank 0"


def test_the_answer_ends_with_the_number_of_points_without_a_forecast() -> None:
    assert failing_sentence(make_sweep()) == ""
    assert (
        plain(findings(failing(make_sweep(), {2: LACK}))[-1]) == "1 of 3 points does not fit, all those with 128 GPUs."
    )
    two = failing(make_comparison(), {3: LACK, 4: LACK, 5: LACK})
    assert sentence(two) == "3 of 6 points do not fit, all those with server"
    mixed = failing(make_comparison(), {0: STUCK, 3: LACK, 4: LACK, 5: LACK})
    assert sentence(mixed) == "3 of 6 points do not fit and 1 cannot end, all those with 8 GPUs or server"
    third = replace(mixed.runs[1], num_gpus=8, axes={"num_gpus": 8, "strategy.kind": "gossip"})
    more = replace(mixed, runs=(*mixed.runs, third))
    assert sentence(more) == "3 of 7 points do not fit and 1 cannot end, among them all those with server"
    assert sentence(failing(make_comparison(), {0: LACK, 5: LACK})) == "2 of 6 points do not fit"


def test_a_sweep_of_which_no_point_ran_says_so_everywhere() -> None:
    none = failing(make_sweep(), {0: LACK, 1: LACK, 2: STUCK})
    assert [plain(text) for text in findings(none)] == [
        "None of 3 points has a forecast: 2 do not fit and 1 cannot end."
    ]
    text = report_text(none)
    assert "does not fit: 21.3 of 17.2 GB" in text
    page = report_html(none)
    assert "None of 3 points has a forecast" in page
    assert "does not fit: 21.3" in page
    assert sentence(failing(make_sweep((8,)), {0: LACK})) == "the only point does not fit"


@pytest.mark.parametrize("columns", [40, 60, 140])
def test_a_table_below_that_of_the_runs_has_the_reason_of_each(columns: int) -> None:
    sweep = failing(make_comparison(), {3: LACK, 5: STUCK})
    lines = [line.strip() for line in report_text(sweep, columns).splitlines()]
    below = " ".join(" ".join(lines[next(i for i, line in enumerate(lines) if "points without" in line) :]).split())
    assert "does not fit: 21.3 of 17.2 GB; parallelism {micro_batches: 8}" in below.replace("─", "") or columns < 140
    assert all(len(line) <= columns for line in lines)


def test_a_table_names_axes_of_which_only_one_value_ran() -> None:
    sweep = failing(make_comparison(), {3: LACK, 4: LACK, 5: LACK})
    assert rows(sweep)[0][:2] == ["GPUs", "kind"]
    headings, body = failing_rows(sweep)
    assert headings == ["GPUs", "kind", "reason"]
    assert [row[:2] for row in body] == [["8", "server"], ["32", "server"], ["128", "server"]]
    assert failing_table(make_sweep()) is None


def test_the_page_has_the_table_and_says_how_many_ran() -> None:
    page = report_html(failing(make_comparison(), {3: LACK, 4: LACK, 5: LACK}))
    assert "3 of 6\u202fpoints ran" in page
    assert page.count("does not fit: 21.3") == 3
    assert "Points without a forecast" not in report_html(make_comparison())


def test_figures_and_sentences_are_those_of_a_sweep_without_these_points(tmp_path) -> None:
    sweep = failing(make_comparison(), {5: LACK})
    without = replace(sweep, runs=sweep.ran)
    assert findings(sweep)[:-1] == findings(without)
    for kind in FIGURES.values():
        if hasattr(kind, "make"):
            assert repr(kind.make(sweep)) == repr(kind.make(without))
    for write in (write_perfetto, write_updates):
        one, two = (
            write(each, tmp_path / f"{write.__name__}{number}.csv") for number, each in enumerate((sweep, without))
        )
        assert one.read_bytes() == two.read_bytes()


def test_a_notebook_shows_the_points_too() -> None:
    sweep = failing(make_comparison(), {5: LACK})
    assert "points without a forecast" in sweep_html(sweep)
    assert "does-not-fit" in run_html(sweep.runs[5])
    assert repr(sweep) == "<Sweep 'synthetic-googlenet': 6 runs, 8 to 128 GPUs, 1 without a forecast>"
    assert repr(sweep.runs[5]) == "<Run 128 GPUs: does-not-fit>"
