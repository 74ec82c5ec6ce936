"""The table of runs in a terminal: nothing is cut, and speedups have their baseline."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from clustersim.report import tables
from clustersim.report.answer import rows
from clustersim.report.sections import all_runs
from clustersim.report.words import THIN
from clustersim.results import Sweep
from tests.report.synthetic import make_run, make_sweep

NAMES = ("all-reduce algorithm=hierarchical", "bounded-staleness bound=4")


def of_two_axes() -> Sweep:
    runs = [
        make_run(num, axes={"num_gpus": num, "strategy": name, "batch.per_gpu": 32})
        for num in (8, 16)
        for name in NAMES
    ]
    return replace(make_sweep((8,)), runs=tuple(runs))


def printed(sweep: Sweep, columns: int) -> list[str]:
    console = Console(width=columns)
    with console.capture() as capture:
        for each in tables(sweep, columns):
            console.print(each)
    return capture.get().splitlines()


def test_a_second_table_has_what_does_not_fit_and_nothing_is_cut() -> None:
    lines = printed(of_two_axes(), 80)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    assert len(tables(of_two_axes(), 80)) == 2
    for word in ("hierarchical", "bounded-staleness", "efficiency", "compute", "time shares"):
        assert word in text
    assert len(tables(of_two_axes(), 200)) == 1


def test_runs_with_baselines_of_their_own_have_a_column_of_them() -> None:
    sweep = of_two_axes()
    assert "baseline" not in rows(sweep)[0]
    first, *others = sweep.runs
    apart = replace(sweep, runs=(replace(first, speedup_basis="one GPU at a batch of 8"), *others))
    headings, body = rows(apart)
    column = headings.index("baseline")
    assert float(body[0][column].replace(THIN, "")) > 0
    assert headings[column + 1] == "speedup"
    assert "Each run has its own baseline" in all_runs(apart)
