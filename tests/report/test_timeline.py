"""The timeline: its marks, its ranks, and the awaited rank."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clustersim
from clustersim.report.lanes import MAX_RANKS, last_rank, select_marks
from clustersim.report.marks import Mark, merge_short_marks, merge_touching_marks
from clustersim.report.timeline import draw_timeline, timeline_data
from clustersim.report.words import THIN
from clustersim.results import Spans
from tests.report.synthetic import make_run, make_sweep
from tests.report.worker_runs import alone, run_of, sweep_of


def test_marks_of_a_small_run_are_its_spans_of_one_iteration():
    run = make_run(8)
    chosen = select_marks(run)
    assert chosen.ranks == list(range(8))
    spans = [row for row in run.spans.rows() if row[2] == chosen.iteration]
    assert sum(mark.num_spans for mark in chosen.marks) == len(spans)
    shown = {(mark.kind, mark.rank, mark.name) for mark in chosen.marks if mark.num_spans == 1}
    long = {(kind, rank, name) for kind, rank, _, begin_s, end_s, name, _ in spans if end_s - begin_s > 0.01}
    assert long
    assert long <= shown
    assert chosen.note.startswith("Spans too short to see are merged with their neighbours into one bar.")


@given(
    st.lists(st.tuples(st.floats(1e-6, 1.0), st.sampled_from(["forward", "backward"])), min_size=1, max_size=40),
    st.floats(1e-6, 2.0),
)
def test_joining_short_marks_loses_no_time_and_makes_none_longer_than_can_be_seen(rows, least_s):
    marks, time_s = [], 0.0
    for seconds, kind in rows:
        marks.append(Mark(kind, 0, time_s, time_s + seconds, kind, ""))
        time_s += seconds
    joined = merge_short_marks(marks, least_s)
    assert _seconds(joined) == pytest.approx(_seconds(marks))
    assert sum(mark.num_spans for mark in joined) == len(marks)
    assert all(mark.end_s - mark.start_s < least_s for mark in joined if mark.num_spans > 1)


def test_asynchronous_workers_show_several_iterations():
    cycles = alone([1.0, 1.5], 4)
    spans = Spans()
    for row in cycles.rows():
        spans.add("forward", row.rank, 0, row.begin_s, row.begin_s + 0.3)
        spans.add("backward", row.rank, 0, row.begin_s + 0.3, row.begin_s + 0.6)
        spans.add("exposed", row.rank, 0, row.begin_s + 0.6, row.end_s)
    run = replace(run_of(cycles), spans=spans, iteration_s=1.2)
    chosen = select_marks(run)
    assert not chosen.in_lockstep
    assert chosen.last is None
    assert chosen.exposed_s == pytest.approx(0.9)
    data = timeline_data(sweep_of(run), run)
    assert (
        data.title.replace(THIN, " ")
        == "Asynchronous ranks wait up to 900 ms for communication in an iteration of 1.20 s"
    )
    figure = draw_timeline(data)
    assert figure.subtitle.startswith("A few iterations of each worker")
    assert figure.layout["xaxis"]["title"]["text"] == "time (s)"


def test_time_starts_with_the_iteration():
    chosen = select_marks(make_run(8))
    assert min(mark.start_s for mark in chosen.marks) == 0.0
    assert max(mark.end_s for mark in chosen.marks) == chosen.length_s


def test_the_last_rank_is_the_one_with_the_slowest_kernels():
    chosen = select_marks(make_run(32))
    assert chosen.last == 17
    assert 17 in chosen.ranks
    assert chosen.late_s > 0


def test_ranks_that_are_not_recorded_are_said():
    """Of 32 ranks 16 are recorded, and nothing said so."""
    assert select_marks(replace(make_run(8), num_gpus=32)).note.startswith("8 of 32 ranks are shown: only these are")


def test_of_many_ranks_a_few_are_shown_and_the_note_says_so():
    chosen = select_marks(make_run(64))
    assert len(chosen.ranks) == MAX_RANKS
    assert {0, 17, 63} <= set(chosen.ranks)
    assert chosen.note.startswith("16 of 64 ranks are shown")


def test_too_many_marks_are_merged_without_losing_time():
    run = make_run(8)
    whole, merged = select_marks(run), select_marks(run, max_marks=200)
    assert len(merged.marks) <= 200
    assert "drawn as one bar" in merged.note
    assert _seconds(merged.marks) == pytest.approx(_seconds(whole.marks))


def _seconds(marks):
    total = defaultdict(float)
    for mark in marks:
        total[mark.kind, mark.rank] += mark.end_s - mark.start_s
    return dict(total)


@given(st.lists(st.tuples(st.sampled_from(["forward", "backward"]), st.floats(1e-6, 1.0)), min_size=1, max_size=30))
def test_merging_spans_that_touch_keeps_their_seconds_and_their_number(pieces):
    marks, time = [], 0.0
    for kind, seconds in pieces:
        marks.append(Mark(kind, 0, time, time + seconds, "layer", ""))
        time += seconds
    merged = merge_touching_marks(marks)
    assert _seconds(merged) == pytest.approx(_seconds(marks))
    assert sum(mark.num_spans for mark in merged) == len(marks)


def test_a_gap_is_not_merged_away():
    marks = [Mark("forward", 0, 0.0, 1.0, "a", ""), Mark("forward", 0, 2.0, 3.0, "b", "")]
    assert merge_touching_marks(marks) == marks


def test_ranks_that_are_ready_together_have_no_last_one():
    assert last_rank({0: 1.0, 1: 1.0 + 1e-9}) is None
    assert last_rank({0: 1.0, 1: 1.1}) == 1


def test_negligible_waiting_marks_no_rank_as_late():
    spans = Spans()
    for rank, ready in enumerate((1.0, 1.001)):
        spans.add("backward", rank, 0, 0.0, ready)
        spans.add("waiting", rank, 0, ready, 1.001)
    assert select_marks(replace(make_run(2), spans=spans)).last is None


def test_a_run_without_spans_has_no_timeline():
    sweep = make_sweep((8,))
    assert timeline_data(sweep, replace(sweep.runs[0], spans=Spans())) is None


def test_the_iteration_shown_is_one_that_all_ranks_have():
    run = make_run(4)
    run.spans.add("forward", 0, 2, 100.0, 101.0, "beginning of the next iteration")
    assert select_marks(run).iteration == 1


@pytest.mark.parametrize(
    ("num_gpus", "words"),
    [
        (1, "One GPU, without communication"),
        (8, "others wait up to"),
        (128, "of the iteration, for communication; rank 17 is ready"),
    ],
)
def test_the_title_is_the_finding(num_gpus, words):
    sweep = make_sweep((num_gpus,))
    assert words in timeline_data(sweep, sweep.runs[0]).title


def test_hidden_communication_is_called_hidden():
    spans = Spans()
    for rank in range(2):
        spans.add("forward", rank, 0, 0.0, 1.0)
        spans.add("communication", rank, 0, 0.2, 0.9, "bucket 0")
    sweep = make_sweep((8,))
    assert "communication is hidden" in timeline_data(sweep, replace(sweep.runs[0], spans=spans)).title


def test_hover_texts_have_rank_time_and_cause_of_waiting():
    sweep = make_sweep((32,))
    traces = {trace["name"]: trace for trace in draw_timeline(timeline_data(sweep, sweep.runs[0])).traces}
    text = traces["waiting for other ranks"]["hovertext"][0]
    assert "rank 0 (host0/gpu0)" in text
    assert "ms" in text
    assert "for rank 17: slow kernels" in text


def test_communication_is_a_thinner_bar_below_the_rank():
    sweep = make_sweep((8,))
    traces = {trace["name"]: trace for trace in draw_timeline(timeline_data(sweep, sweep.runs[0])).traces}
    flight, forward = traces["communication in flight"], traces["forward"]
    assert flight["width"] < forward["width"]
    assert min(flight["y"]) > min(forward["y"])


def test_the_title_says_how_long_a_gpu_waits_for_its_host():
    scenario = {
        "model": "alexnet",
        "num_gpus": 1,
        "batch": {"per_gpu": 1},
        "topology": {
            "kind": "star",
            "num_hosts": 1,
            "host": {"template": "dual-socket", "gpu": "k80"},
            "link": "1 GB/s",
        },
        "software": "plain",
        "strategy": {"kind": "all-reduce"},
        "parallelism": {"offload": "optimizer"},
        "num_iterations": 1,
    }
    sweep = clustersim.sweep(clustersim.load_scenario(scenario))
    run = sweep.runs[0]
    data = timeline_data(sweep, run)
    share = run.breakdown_s["offload"] / run.iteration_s
    assert data.title.startswith("One GPU waits ")
    share_text = f"{share:.0%}".replace("%", f"{THIN}%")
    assert data.title.endswith(f" {share_text} of the iteration, for copies to and from the host and its updates")
    assert {"copy", "host-update", "offload"} <= {mark.kind for mark in data.marks}


def test_ranks_that_are_drawn_as_one_lane_still_wait_for_one_another():
    overrides = ["model=llama-3.1-8b", "software.context_method=ring"]
    sweep = clustersim.sweep(clustersim.load_scenario("long-context", overrides))
    data = timeline_data(sweep, sweep.runs[0])
    assert (sweep.runs[0].num_gpus, len(data.lanes)) == (32, 1)
    assert data.title.startswith("Ranks idle up to ")
    assert data.title.endswith(" of the iteration, for communication")


def test_the_title_of_one_gpu_says_that_it_has_no_communication():
    run = make_run(1)
    title = timeline_data(make_sweep((1,)), run).title
    assert title.startswith("One GPU, without communication: ")
