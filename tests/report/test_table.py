"""The table of runs in a terminal: nothing is cut, and speedups have their baseline."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from clustersim.report import tables
from clustersim.report.answer import MORE_COLUMNS, SHORT, rows, time_rows
from clustersim.report.columns import COLUMNS
from clustersim.report.findings import findings
from clustersim.report.scaling import scaling_data
from clustersim.report.sections import all_runs
from clustersim.report.series import axis_headings, varied
from clustersim.report.table import lines_below
from clustersim.report.text_table import Row, TextTable, plain
from clustersim.report.words import THIN
from clustersim.results import BREAKDOWN, Baseline, Run, Sweep
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
    lines: list[str] = []
    for each in tables(sweep, columns):
        if isinstance(each, str):
            lines += each.splitlines()
            continue
        with console.capture() as capture:
            console.print(each)
        lines += capture.get().splitlines()
    return lines


def test_a_second_table_has_what_does_not_fit_and_nothing_is_cut() -> None:
    lines = printed(of_two_axes(), 80)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    assert len([each for each in tables(of_two_axes(), 80) if not isinstance(each, str)]) == 2
    for word in ("hierarchical", "bounded-staleness", "efficiency", "compute", "time shares"):
        assert word in text
    assert len([each for each in tables(of_two_axes(), 200) if not isinstance(each, str)]) == 1


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


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 140])
def test_every_number_is_whole_at_any_width(columns: int) -> None:
    sweep = of_two_axes()
    headings, body = rows(sweep)
    shares = time_rows(sweep)
    lines = printed(sweep, columns)
    assert not [line for line in lines if len(line) > columns and " " in line.strip()]
    for cell in {text for cells in body for text in cells[3:]} | {text for cells in shares[1] for text in cells}:
        assert any(cell.replace(f"{THIN}%", "%").replace(THIN, " ") in line for line in lines), cell
    for heading in (*headings[3:], *shares[0]):
        assert any(heading in line for line in lines), heading
    assert not [line for line in lines if "…" in line]


@pytest.mark.parametrize("columns", [20, 40, 60, 80])
def test_the_answer_stands_below_the_table_and_its_numbers_are_whole(columns: int) -> None:
    runs = [make_run(128, axes={"strategy": name}) for name in NAMES]
    fast = replace(runs[1], samples_per_s=12_345.0, iteration_s=0.01)
    sweep = replace(make_sweep((8,)), runs=(runs[0], fast))
    lines = printed(sweep, columns)
    assert any("12 345" in line for line in lines)
    below = " ".join(line.strip() for line in lines)
    assert plain(findings(sweep)[0]) in below
    assert plain(findings(sweep)[1]) in below


def test_language_models_have_tokens_per_gpu_hardware_flop_and_memory() -> None:
    run = replace(make_run(8), tokens_per_sample=1024.0, mfu=0.4, hfu=0.5, gpu_memory_bytes=8e9, iteration_dollars=0.01)
    headings, (cells,) = rows(replace(make_sweep((8,)), runs=(run,)))
    shown = dict(zip(headings, map(plain, cells), strict=True))
    assert float(shown["tokens/s"].replace(" ", "")) == pytest.approx(1024 * run.samples_per_s, rel=1e-3)
    assert float(shown["tokens/s/GPU"].replace(" ", "")) == pytest.approx(128 * run.samples_per_s, rel=1e-3)
    assert (shown["MFU"], shown["HFU"], shown["memory"]) == ("40%", "50%", "3.10 GB")
    assert {"$/h", "$/M tokens"} <= set(headings)
    same, alone = replace(run, hfu=0.4), replace(run, num_gpus=1)
    assert "HFU" not in rows(replace(make_sweep((8,)), runs=(same,)))[0]
    assert "tokens/s/GPU" not in rows(replace(make_sweep((8,)), runs=(alone,)))[0]


def test_memory_is_a_column_where_a_run_takes_half_of_it() -> None:
    run = make_run(8)
    for gpu_bytes, is_shown in ((None, False), (8e9, False), (6e9, True)):
        sweep = replace(make_sweep((8,)), runs=(replace(run, gpu_memory_bytes=gpu_bytes),))
        assert ("memory" in rows(sweep)[0]) == is_shown


def test_columns_that_do_not_fit_are_a_further_part() -> None:
    long = TextTable(
        "t", ("GPUs", "axis", "first", "second"), (Row(("8", f"{'a' * 14}_{'a' * 15}", "1" * 10, "2" * 10)),), 2
    )
    assert [each for each in long.parts(53) if isinstance(each, str)] == []
    assert [len(long.parts(columns)) for columns in (57, 43, 42, 32)] == [1, 1, 2, 2]
    assert long.parts(31) == [f"t\n\nGPUs 8\naxis\n  {'a' * 14}_{'a' * 15}\nfirst 1111111111\nsecond 2222222222"]


def test_published_figures_stand_in_the_part_of_their_column() -> None:
    rows_ = (Row(("8", "1", "2")), Row(("published", "", "3"), "dim"))
    first, second = TextTable("t", ("GPUs", "ab" * 8, "cd" * 8), rows_).parts(30)
    assert not isinstance(first, str)
    assert not isinstance(second, str)
    assert (first.row_count, second.row_count) == (1, 2)


def test_a_baseline_of_several_gpus_is_named_in_its_column_and_below_the_table() -> None:
    def on(num_gpus: int, run: Run) -> Run:
        over = Baseline(
            num_gpus, 64, 1, 50.0 * num_gpus, f"{num_gpus} NVIDIA A100 at a batch of 64", "not one GPU: too small"
        )
        basis = f"samples per second of {over.text}, forecast"
        return replace(run, baseline=over, speedup=run.samples_per_s / over.samples_per_s, speedup_basis=basis)

    sweep = of_two_axes()
    alike = replace(sweep, runs=tuple(on(4, run) for run in sweep.runs))
    assert lines_below(alike)[:2] == [
        "speedup: over samples per second of 4 NVIDIA A100 at a batch of 64, forecast",
        "baseline: not one GPU: too small",
    ]
    assert scaling_data(alike).metric == "speedup"
    apart = replace(sweep, runs=tuple(on(num, run) for num, run in zip((1, 2, 4, 8), sweep.runs, strict=True)))
    headings, body = rows(apart)
    assert {row[headings.index("baseline")] for row in body} == {
        "50",
        "100 on 2 GPUs",
        "200 on 4 GPUs",
        "400 on 8 GPUs",
    }
    assert "400.0 on 8 GPUs" in apart._repr_html_()
    assert scaling_data(apart).metric == "samples_per_s"


def test_speedups_over_unlike_baselines_of_one_batch_are_not_drawn_on_one_axis() -> None:
    def over(rate: float, batch: int, run: Run) -> Run:
        baseline = Baseline(1, batch, 1, rate, f"one GPU at a batch of {batch}")
        return replace(run, baseline=baseline, speedup_basis=baseline.text)

    sweep = make_sweep()
    for rates, batches, metric in (
        ((50.0, 50.0, 50.0), (8, 8, 8), "speedup"),
        ((50.0, 60.0, 70.0), (8, 16, 32), "speedup"),
        ((50.0, 40.0, 10.0), (8, 8, 8), "samples_per_s"),
    ):
        runs = tuple(map(over, rates, batches, sweep.runs))
        assert scaling_data(replace(sweep, runs=runs)).metric == metric


def test_the_efficiency_has_a_line_of_its_own_where_the_scenario_gives_the_baseline_of_speedups() -> None:
    over = Baseline(1, 1024, 16, 45.0, "one NVIDIA Tesla K20X at a batch of 1024 in 16 micro-batches")
    sweep = make_sweep()
    lines = lines_below(replace(sweep, runs=tuple(replace(run, baseline=over) for run in sweep.runs)))
    assert lines[0] == f"speedup: over {sweep.runs[0].speedup_basis}"
    assert lines[1] == "efficiency: per GPU, over one NVIDIA Tesla K20X at a batch of 1024 in 16 micro-batches"


def test_a_narrow_axis_breaks_between_words_and_never_inside_one() -> None:
    """At 60 columns layouts took two lines, `sequence_parallel=tru` and `e`."""
    cell = "tensor=8 sequence_parallel=true recompute=selective"
    table = TextTable("t", ("GPUs", "parallelism", "rate"), (Row(("32", cell, "1 000")),), 2)
    console = Console(width=40, file=io.StringIO(), color_system=None)
    (part,) = table.parts(27)
    console.print(part)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    found = [line[5:18].strip() for line in lines[3:]]
    assert found == ["tensor=8", "sequence_", "parallel=true", "recompute=", "selective"]


def test_stale_and_dropped_gradients_have_columns_where_there_are_any() -> None:
    sweep = of_two_axes()
    assert not {"stale", "dropped"} & set(rows(sweep)[0])
    first, *rest = sweep.runs
    old = replace(first, staleness={"mean": 14.9}, gradients={"applied": 90, "dropped": 10})
    headings, body = rows(replace(sweep, runs=(old, *rest)))
    assert {"15", "10\u202f%"} <= {body[0][headings.index(name)] for name in ("stale", "dropped")}


def test_every_column_is_explained() -> None:
    sweep = of_two_axes()
    shown = [
        *rows(sweep)[0],
        *(column.heading for column in MORE_COLUMNS),
        *(SHORT.get(part, part) for part in BREAKDOWN),
    ]
    axes = set(axis_headings(varied(sweep)))
    assert [name for name in shown if name not in axes and name not in COLUMNS] == []
