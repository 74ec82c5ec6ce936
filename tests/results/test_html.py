"""A run and a sweep show themselves in a notebook."""

from __future__ import annotations

from dataclasses import replace

from tests.report.synthetic import make_comparison, make_run


def test_a_run_shows_its_numbers_and_where_the_time_goes():
    run = make_run(8)
    html = run._repr_html_()
    assert html.startswith("<table>")
    assert f"{run.speedup:.2f}×" in html
    assert "of it waiting" in html


def test_what_a_run_does_not_know_has_no_row():
    html = replace(make_run(8), speedup=None, time_to_train_s=None)._repr_html_()
    assert "speedup" not in html
    assert "time to train" not in html


def test_a_sweep_has_a_row_for_each_run_and_a_column_for_each_axis():
    sweep = make_comparison()
    html = sweep._repr_html_()
    assert html.count("<tr>") == 1 + len(sweep.runs)
    assert "strategy.kind" in html


def test_names_are_never_markup():
    sweep = replace(make_comparison(), scenario={"name": "<img src=x>"})
    assert "<img" not in sweep._repr_html_()
