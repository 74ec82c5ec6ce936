"""HTML of a run and of a sweep for notebooks."""

from __future__ import annotations

from dataclasses import replace

from clustersim.results import JobRun
from clustersim.results.html import sweep_html
from tests.report.synthetic import make_comparison, make_run, make_sweep
from tests.results.learning_runs import learning_run


def test_a_run_shows_its_numbers_and_where_the_time_goes():
    run = make_run(8)
    html = run._repr_html_()
    assert html.startswith("<table>")
    assert f"{run.speedup:.2f}×" in html
    assert "of which waiting" in html


def test_what_a_run_does_not_know_has_no_row():
    html = replace(make_run(8), speedup=None, time_to_train_s=None)._repr_html_()
    assert "speedup" not in html
    assert "time to train" not in html


def test_a_run_that_trained_shows_when_it_reaches_the_target():
    html = replace(make_run(8), learning=learning_run())._repr_html_()
    for text in (
        "a perceptron",
        "accuracy 0.9",
        "after 5.00 s",
        "loss at the end",
        "0.4",
        "accuracy at the end",
        "0.900",
    ):
        assert f">{text}<" in html
    assert "trained" not in make_run(8)._repr_html_()


def test_a_target_that_is_not_reached_says_by_how_many_seeds():
    some = learning_run(time_to_target_s=None, time_to_target_interval=None, num_reached=1, final_accuracy=None)
    html = replace(make_run(8), learning=some)._repr_html_()
    assert ">by 1 of 2 seeds<" in html
    assert "accuracy at the end" not in html
    none = learning_run(time_to_target_s=None, time_to_target_interval=None, num_reached=0)
    assert ">never<" in replace(make_run(8), learning=none)._repr_html_()


def test_a_sweep_has_a_row_for_each_run_and_a_column_for_each_axis():
    sweep = make_comparison()
    html = sweep_html(sweep)
    assert html.count("<tr>") == 1 + len(sweep.runs)
    assert ">kind</th>" in html


def test_runs_with_baselines_of_their_own_have_a_column_of_them():
    sweep = make_comparison()
    assert "baseline" not in sweep_html(sweep)
    runs = [replace(run, speedup_basis=f"baseline {number}") for number, run in enumerate(sweep.runs)]
    html = sweep_html(replace(sweep, runs=tuple(runs)))
    assert html.count("baseline, samples/s") == 1
    assert f"{runs[0].samples_per_s / runs[0].speedup:,.1f}" in html


def test_names_are_never_markup():
    sweep = replace(make_comparison(), scenario={"name": "<img src=x>"})
    assert "<img" not in sweep_html(sweep)


def with_jobs():
    sweep = make_sweep((8, 32))
    jobs = (
        JobRun("first", "resnet50", 8, 0.0, 0.5, 512.0, 0.25, 2.0),
        JobRun("<img src=x>", "vgg16", 8, 3.0, 0.8, 320.0, 0.5, 1.6),
    )
    return replace(sweep, runs=tuple(replace(run, jobs=jobs) for run in sweep.runs))


def test_jobs_that_share_a_cluster_have_a_table_with_their_slowdown():
    html = with_jobs().runs[0]._repr_html_()
    assert html.count("<table>") == 2
    for text in ("first", "resnet50", "500 ms", "250 ms", "2.00×", "512.0"):
        assert f">{text}<" in html
    assert "<img" not in html
    assert ">GPUs</th>" not in html


def test_the_jobs_of_a_sweep_stand_beside_the_size_of_their_run():
    html = sweep_html(with_jobs())
    assert html.count("<table>") == 2
    jobs = html.split("<table>")[2]
    assert jobs.count("<tr>") == 1 + 4
    assert jobs.count(">32<") == 2
    assert sweep_html(make_sweep((8, 32))).count("<table>") == 1
