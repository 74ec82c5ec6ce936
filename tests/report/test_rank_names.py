"""Ranks of a layout are named by their positions in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.rank_names import place_name
from clustersim.report.timeline import draw_timeline, timeline_data
from tests.report.synthetic import make_run
from tests.report.test_stages import stages
from tests.report.worker_runs import sweep_of

GRID = {"kind": "grid", "tensor": 2, "context": 1, "expert": 1, "data": 2, "pipeline": 2, "tiled": False}


@pytest.mark.parametrize(
    ("layout", "rank", "name"),
    [
        ({}, 5, ""),
        (GRID, 5, "stage 1, copy 0, tensor 1"),
        (GRID, 2, "stage 0, copy 1, tensor 0"),
        ({**GRID, "kind": "paths", "tensor": 1, "tiled": True}, 1, "part 1, copy 0"),
        ({**GRID, "kind": "local-fields", "tensor": 1, "data": 1, "tiled": True}, 1, "tile 1"),
    ],
)
def test_a_rank_is_named_by_its_position_on_axes_above_one(layout: dict, rank: int, name: str) -> None:
    assert place_name(replace(make_run(8), layout=layout), rank) == name


def test_lanes_of_a_timeline_name_the_places_and_hover_the_gpu_too() -> None:
    layout = {**GRID, "tensor": 1, "data": 4}
    run = replace(stages(), layout=layout, num_gpus=8, rank_names=tuple(f"host{rank}/gpu0" for rank in range(8)))
    figure = draw_timeline(timeline_data(sweep_of(run), run))
    assert figure.layout["yaxis"]["ticktext"] == ["0 · stage 0, copy 0", "4 · stage 1, copy 0"]
    assert "rank 4 (stage 1, copy 0, host4/gpu0)" in figure.traces[-1]["hovertext"][0]


def test_parts_that_wait_for_one_another_are_no_stages() -> None:
    run = stages()
    spans = replace(run.spans, kind=["waiting" if kind == "bubble" else kind for kind in run.spans.kind])
    run = replace(run, spans=spans, layout={**GRID, "kind": "paths", "tensor": 1, "data": 4, "tiled": True})
    assert timeline_data(sweep_of(run), run).title.startswith("Parts wait for one another up to")
