"""The timeline of a layout over several GPUs: stages, micro-batches, and merged short spans."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.interchange.slices import slices_of
from clustersim.report.lanes import select_marks
from clustersim.report.marks import Mark, group_short_marks
from clustersim.report.timeline import draw_timeline, timeline_data
from clustersim.report.words import THIN
from clustersim.results import Run, Spans
from tests.report.worker_runs import alone, run_of, sweep_of

KINDS = ("forward", "recompute", "backward", "weights", "exposed", "waiting")


def stages(num_micro: int = 4, piece_s: float = 0.1, exposed_s: float = 0.0) -> Run:
    """Return a run of two stages: each micro-batch forward and backward in ten pieces, one micro-batch at a time."""
    spans, time_s = Spans(), 0.0
    for number in range(num_micro):
        for kind in ("forward", "recompute", "backward"):
            for piece in range(10):
                name = f"layer {piece}, micro-batch {number}"
                spans.add(kind, 0, 0, time_s, time_s + piece_s, name)
                spans.add("exposed", 0, 0, time_s + piece_s, time_s + piece_s + exposed_s, f"sum, micro-batch {number}")
                time_s += piece_s + exposed_s
    spans.add("weights", 0, 0, time_s, time_s + 1.0, "all, micro-batch 0")
    spans.add("bubble", 4, 0, 0.0, 0.75 * time_s, "activations, micro-batch 0", "waited for the rank that sends it")
    spans.add("forward", 4, 0, 0.75 * time_s, time_s, "rest, micro-batch 0")
    return replace(run_of(alone([1.0, 1.0], 4)), spans=spans, iteration_s=time_s + 1.0)


def test_stages_are_in_lockstep_and_the_title_has_their_waiting() -> None:
    run = stages()
    sweep = sweep_of(run)
    data = timeline_data(sweep, run)
    assert data.title.replace(THIN, " ") == (
        "Stages wait for one another up to 9.00 s, 69 % of the iteration; communication is hidden"
    )
    assert not any(lane.last for lane in data.lanes)
    figure = draw_timeline(data)
    assert figure.subtitle.startswith("One iteration over time ")
    assert figure.layout["xaxis"]["title"]["text"] == "time (s)"
    more = timeline_data(sweep, stages(exposed_s=0.01))
    assert more.title.endswith(" for communication")


def test_every_kind_of_a_layout_is_drawn_and_its_time_adds_up() -> None:
    run = stages(exposed_s=0.001)
    data = timeline_data(sweep_of(run), run)
    seconds: dict[str, float] = {}
    for kind, _, _, begin_s, end_s, _, _ in run.spans.rows():
        seconds[kind] = seconds.get(kind, 0.0) + end_s - begin_s
    traces = {trace["name"]: trace for trace in draw_timeline(data).traces}
    assert len(traces) == len(seconds) == 6
    drawn = sum(sum(trace["x"]) for trace in traces.values())
    assert drawn == pytest.approx(sum(seconds.values()), rel=1e-4)
    recompute = traces["recomputed forward"]
    assert recompute["marker"]["pattern"]["shape"] == "/"
    assert "pattern" not in traces["forward"]["marker"]


def test_a_wide_bar_has_the_number_of_its_micro_batch() -> None:
    run = stages()
    figure = draw_timeline(timeline_data(sweep_of(run), run))
    traces = {trace["name"]: trace for trace in figure.traces}
    assert traces["weight gradients, deferred"]["text"] == ["0"]
    assert "text" not in traces["pipeline bubble"]
    assert "Numbers: micro-batches." in figure.subtitle
    assert "micro-batch 0" in traces["weight gradients, deferred"]["hovertext"][0]


def test_on_a_narrow_screen_only_wide_bars_have_numbers_and_the_legend_fits() -> None:
    run = stages(num_micro=8)
    figure = draw_timeline(timeline_data(sweep_of(run), run))
    wide, narrow = (
        [text for trace in traces for text in trace.get("text", []) if text]
        for traces in (figure.traces, figure.narrow_traces)
    )
    assert len(wide) > 2 * len(narrow)
    assert figure.narrow["height"] >= figure.layout["height"] + 20 * len(figure.traces)


def test_lanes_that_begin_at_different_times_say_why() -> None:
    subtitle = "Each lane begins where the previous iteration of its rank ended."
    run = stages()
    assert subtitle not in draw_timeline(timeline_data(sweep_of(run), run)).subtitle
    later = Spans()
    for kind, rank, iteration, begin_s, end_s, name, cause in run.spans.rows():
        later.add(kind, rank, iteration, begin_s + (rank == 0), end_s + (rank == 0), name, cause)
    run = replace(run, spans=later)
    assert subtitle in draw_timeline(timeline_data(sweep_of(run), run)).subtitle


def test_a_micro_batch_that_is_the_only_one_has_no_number() -> None:
    run = stages(num_micro=1)
    figure = draw_timeline(timeline_data(sweep_of(run), run))
    assert not any("text" in trace for trace in figure.traces)
    assert "Numbers:" not in figure.subtitle


def test_slivers_of_waiting_between_pieces_are_drawn_together() -> None:
    """Ten pieces of a pass with a wait of a thousandth behind each: one bar, and one for the waiting."""
    chosen = select_marks(stages(exposed_s=1e-4))
    own = [mark for mark in chosen.marks if mark.rank == 0 and mark.name.endswith("micro-batch 1")]
    assert [(mark.kind, mark.num_spans) for mark in sorted(own, key=lambda mark: mark.start_s)] == [
        ("forward", 10), ("exposed", 10), ("recompute", 10), ("exposed", 20), ("backward", 10),
    ]  # fmt: skip
    assert chosen.note.startswith("Spans too short to see in a pass of a micro-batch are merged")


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1.0), st.sampled_from(KINDS), st.sampled_from(["", "0", "1"])),
        min_size=1,
        max_size=40,
    ),
    st.floats(1e-6, 2.0),
)
def test_gathering_keeps_every_kinds_time_the_order_and_both_ends(rows, least_s) -> None:
    marks, time_s = [], 0.0
    for seconds, kind, number in rows:
        name = f"x, micro-batch {number}" if number else "x"
        marks.append(Mark(kind, 0, time_s, time_s + seconds, name, ""))
        time_s += seconds
    gathered = group_short_marks(marks, least_s)
    for kind in KINDS:
        total = sum(mark.end_s - mark.start_s for mark in marks if mark.kind == kind)
        assert sum(mark.end_s - mark.start_s for mark in gathered if mark.kind == kind) == pytest.approx(total)
    assert sum(mark.num_spans for mark in gathered) == len(marks)
    assert (gathered[0].start_s, gathered[-1].end_s) == (0.0, pytest.approx(time_s))
    for before, after in pairwise(gathered):
        assert after.start_s == pytest.approx(before.end_s)
    assert all(mark.num_spans == 1 for mark in gathered if "micro-batch" not in mark.name)


def test_communication_within_bars_is_not_called_hidden() -> None:
    """Collectives with a known time are simulated inside the compute spans."""
    run = stages()
    run = replace(run, breakdown_s={**run.breakdown_s, "communication_exposed": 2.0})
    data = timeline_data(sweep_of(run), run)
    assert data.title.replace(THIN, " ").endswith(", and up to 2.00 s for communication")
    assert data.note.startswith("Compute bars include the collectives of GPUs that split a layer")


def test_too_many_marks_of_many_stages_leave_lanes_out() -> None:
    run = stages()
    spans = Spans()
    for rank in range(8):
        for kind, _, _, begin_s, end_s, name, cause in run.spans.rows():
            spans.add(kind, rank, 0, begin_s, end_s, name, cause)
    chosen = select_marks(replace(run, spans=spans), max_marks=100)
    assert len(chosen.marks) <= 100
    assert 2 <= len(chosen.ranks) < 8
    assert chosen.note.startswith(f"{len(chosen.ranks)} of 8 ranks are shown")


def test_a_trace_for_perfetto_has_what_a_layout_computes_on_the_compute_thread() -> None:
    slices = slices_of(stages(exposed_s=0.01))
    for kind in ("forward", "recompute", "backward", "weights"):
        one = next(one for one in slices if one.kind == kind)
        assert one.thread == "compute"
        assert one.label.startswith(f"{kind} ")
        assert one.args["micro-batch"] == 0
        assert "micro-batch" not in one.args["layer"]
    bubble = next(one for one in slices if one.kind == "bubble")
    assert (bubble.thread, bubble.args["message"]) == ("waiting", "activations")


def test_a_merged_recomputed_forward_stands_before_the_backward_of_its_pass() -> None:
    """The bar of weights that arrive is a backward span and begins the pass."""
    kinds = ("backward", "recompute", "backward", "recompute", "backward")
    marks = [Mark(kind, 0, at, at + 1.0, "x, micro-batch 0", "") for at, kind in enumerate(kinds)]
    assert [(mark.kind, mark.start_s, mark.end_s) for mark in group_short_marks(marks, 2.0)] == [
        ("recompute", 0.0, 2.0),
        ("backward", 2.0, 5.0),
    ]
