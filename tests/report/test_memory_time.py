"""Memory over time: the peak is in the title, steps hold until the next one, and many stages are thinned out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.memory_time import MAX_STAGES, draw_memory_time, memory_time_data
from clustersim.report.timeline import timeline_data
from clustersim.report.words import THIN
from clustersim.results import MemoryLine, Run, Spans
from clustersim.results.run import WEIGHT_VERSIONS
from tests.report.worker_runs import alone, run_of, sweep_of


def holding(num_stages: int) -> Run:
    """Return a run whose stages hold 2 GB, and 1 GB more from a second to the next; the first one 2 GB more."""
    lines = tuple(
        MemoryLine(stage, 2 * stage, (1.0 + stage, 2.0 + stage), (3e9 if stage else 4e9, 2e9))
        for stage in range(num_stages)
    )
    return replace(run_of(alone([1.0, 1.0], 4)), memory_lines=lines, gpu_memory_bytes=8e9)


def test_the_fullest_stage_is_in_the_title_with_what_comes_and_goes() -> None:
    run = holding(2)
    data = memory_time_data(sweep_of(run), run)
    assert data is not None
    assert data.title.replace(THIN, " ") == (
        "Stage 0 holds most: 4.00 GB (50 % of the GPU's memory) at its peak; 2.00 GB of it vary with the micro-batches"
    )
    assert data.names == ["stage 0", "stage 1"]


def test_a_stage_holds_before_its_first_pass_and_after_its_last_what_it_holds_throughout() -> None:
    run = holding(2)
    data = memory_time_data(sweep_of(run), run)
    assert data is not None
    assert data.times_s[1] == [0.0, 1.0, 2.0, 2.0]
    assert data.held_bytes[1] == [2e9, 3e9, 2e9, 2e9]
    figure = draw_memory_time(data)
    assert [trace["name"] for trace in figure.traces] == ["stage 0", "stage 1", "the GPU's memory"]
    assert figure.traces[-1]["y"] == [8.0, 8.0]
    assert figure.layout["yaxis"]["title"]["text"] == "memory (GB)"
    assert figure.note == ""


def test_it_begins_and_ends_with_the_timeline() -> None:
    spans = Spans()
    spans.add("bubble", 0, 0, 0.5, 1.0, "activations, micro-batch 0")
    spans.add("forward", 2, 0, 1.0, 4.5, "layer, micro-batch 0")
    run = replace(holding(2), spans=spans)
    data, timeline = memory_time_data(sweep_of(run), run), timeline_data(sweep_of(run), run)
    assert data is not None
    assert timeline is not None
    assert [(times_s[0], times_s[-1]) for times_s in data.times_s] == [(0.0, timeline.length_s)] * 2
    assert data.times_s[0][1] == 0.5


def test_overlapping_iterations_are_wrapped_into_one() -> None:
    run = replace(holding(3), iteration_s=2.5, facts={WEIGHT_VERSIONS: 3})
    data = memory_time_data(sweep_of(run), run)
    assert data is not None
    assert data.times_s[2] == [0.0, 0.5, 2.0, 2.5]
    assert data.held_bytes[2] == [3e9, 2e9, 3e9, 3e9]


@pytest.mark.parametrize("num_stages", [MAX_STAGES, MAX_STAGES + 1, 16, 64])
def test_of_many_stages_the_first_the_last_and_some_between_are_drawn(num_stages: int) -> None:
    run = holding(num_stages)
    data = memory_time_data(sweep_of(run), run)
    assert data is not None
    assert len(data.names) == MAX_STAGES
    assert (data.names[0], data.names[-1]) == ("stage 0", f"stage {num_stages - 1}")
    note = f"{MAX_STAGES} of {num_stages} stages are drawn."
    assert draw_memory_time(data).note == ("" if num_stages == MAX_STAGES else note)


def test_a_run_of_which_nothing_is_known_has_no_such_figure() -> None:
    run = run_of(alone([1.0, 1.0], 4))
    assert memory_time_data(sweep_of(run), run) is None
