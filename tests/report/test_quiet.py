"""Figures that say nothing give the reason, from their data; those that say something give none."""

from __future__ import annotations

from dataclasses import replace

from clustersim.report.choosing import choosing_data, draw_choosing
from clustersim.report.jobs import draw_jobs, jobs_data
from clustersim.report.memory_time import draw_memory_time, memory_time_data
from clustersim.report.staleness import draw_staleness, staleness_data
from clustersim.report.staleness_time import draw_staleness_time, staleness_time_data
from clustersim.report.straggler_causes import draw_straggler_causes, straggler_causes_data
from clustersim.report.stragglers import draw_stragglers, stragglers_data
from clustersim.report.words import THIN
from clustersim.results import JobRun, MemoryLine, staleness_summary
from tests.report.synthetic import make_run
from tests.report.worker_runs import in_lockstep, round_robin, run_of, sweep_of


def plain(text: str) -> str:
    return text.replace(THIN, " ")


def test_ranks_that_hardly_wait() -> None:
    """Rank 2 computes longer than the other three, which wait three quarters of that each on average."""
    for slower, reason in ((1.02, "Ranks wait for one another for 1.3 % of the time."), (1.5, "")):
        run = run_of(in_lockstep([[1.0, 1.0, slower, 1.0]] * 6))
        lanes, causes = stragglers_data(sweep_of(run), run), straggler_causes_data(sweep_of(run), run)
        assert lanes is not None
        assert causes is not None
        assert plain(draw_stragglers(lanes).quiet) == plain(draw_straggler_causes(causes).quiet) == reason


def test_memory_that_is_far_from_full() -> None:
    line = MemoryLine(0, 0, (0.0, 1.0), (2e9, 1e9))
    for gpu_bytes, reason in ((16e9, "No more than 12 % of a GPU's memory is in use."), (4e9, ""), (None, "")):
        run = replace(run_of(in_lockstep([[1.0, 1.0]] * 4)), memory_lines=(line,), gpu_memory_bytes=gpu_bytes)
        data = memory_time_data(sweep_of(run), run)
        assert data is not None
        assert plain(draw_memory_time(data).quiet) == reason


def test_jobs_of_which_none_is_slowed_down() -> None:
    for slowdown, reason in ((1.001, "No job is slowed down by another by 1 % or more."), (1.3, "")):
        jobs = tuple(JobRun(name, "resnet50", 8, 0.0, 0.1, 320.0, 0.1, slowdown) for name in ("first", "second"))
        data = jobs_data(sweep_of(replace(make_run(8), jobs=jobs)))
        assert data is not None
        assert plain(draw_jobs(data).quiet) == reason


def test_strategies_that_differ_in_speed_alone() -> None:
    fresh = [replace(make_run(8), axes={"num_gpus": 8, "strategy": kind}) for kind in ("ring", "tree")]
    stale = replace(make_run(8), axes={"num_gpus": 8, "strategy": "async"}, staleness={"mean": 7.0})
    for runs, reason in (
        (fresh, "All gradients are fresh and none is dropped: settings differ in speed alone."),
        ([*fresh, stale], ""),
    ):
        data = choosing_data(sweep_of(*runs))
        assert data is not None
        assert draw_choosing(data).quiet == reason


def test_staleness_that_is_the_same_for_all_gradients() -> None:
    for ages, reason in (([7] * 4, "Every gradient is 7 versions old when applied."), ([6, 7, 7, 8], "")):
        run = replace(make_run(8), staleness=staleness_summary(ages))
        data = staleness_data(sweep_of(run), run)
        assert data is not None
        assert plain(draw_staleness(data).quiet) == reason


def test_staleness_that_is_steady() -> None:
    run = run_of(*round_robin(4, 40))
    data = staleness_time_data(sweep_of(run), run)
    assert data is not None
    assert plain(draw_staleness_time(data).quiet).startswith("Staleness is steady: 2.9 versions in the first half")
    cycles, updates = round_robin(2, 50)
    older = [(*row[:2], max(0, row[2] - number // 10), *row[3:]) for number, row in enumerate(updates)]
    growing = staleness_time_data(sweep_of(run), run_of(cycles, older))
    assert growing is not None
    assert draw_staleness_time(growing).quiet == ""
