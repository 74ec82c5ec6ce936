"""Memory of stages over time: it follows the micro-batches, and its peak is the size that plans are checked with."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.results import Run
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup

SCENARIO: dict[str, Any] = {
    "model": "gpt2-small",
    "num_gpus": 4,
    "batch": {"global": 8},
    "topology": {"kind": "star", "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "100 Gbit/s"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "precision": "amp-fp16",
    "memory_check": False,
    "num_iterations": 2,
}


@pytest.mark.parametrize(
    "layout",
    [
        {"pipeline": 2, "micro_batches": 4},
        {"pipeline": 2, "micro_batches": 4, "schedule": "gpipe", "recompute": "full"},
        {"pipeline": 2, "micro_batches": 4, "schedule": "interleaved", "chunks": 2, "recompute": "full"},
        {"pipeline": 2, "micro_batches": 4, "schedule": "zero-bubble"},
        {"pipeline": 2, "micro_batches": 4, "schedule": "pipedream"},
        {"tensor": 2, "pipeline": 1, "micro_batches": 2, "sharding": "zero-3"},
        {"pipeline": 2, "micro_batches": 4, "schedule": "interleaved", "chunks": 2, "offload": "optimizer+activations"},
        {"micro_batches": 2, "recompute": "full", "offload": "optimizer+activations"},
    ],
)
def test_the_peak_of_each_stage_is_the_sum_that_refuses_plans(layout: dict[str, Any]) -> None:
    scenario = {**SCENARIO, "parallelism": layout}
    run = clustersim.simulate(scenario)
    laid_out = Setup(load_scenario(scenario).points()[0].point).laid_out
    assert laid_out is not None
    sums = [sum(held.values()) for held in laid_out.memory]
    assert [max(line.num_bytes) for line in run.memory_lines] == pytest.approx(sums, rel=1e-12)
    assert max(sums) == pytest.approx(run.memory_bytes, rel=1e-12)
    for line in run.memory_lines:
        assert list(line.time_s) == sorted(line.time_s)
        assert line.time_s[-1] - line.time_s[0] <= run.iteration_s * (1 + 1e-9)


def test_1f1b_holds_as_many_micro_batches_as_there_are_stages_after_it_and_gpipe_all() -> None:
    def swing(schedule: str) -> list[float]:
        layout = {"pipeline": 4, "micro_batches": 8, "schedule": schedule}
        run = clustersim.simulate({**SCENARIO, "parallelism": layout})
        return [max(line.num_bytes) - min(line.num_bytes) for line in run.memory_lines]

    for stage, (alternating, all_first) in enumerate(zip(swing("1f1b"), swing("gpipe"), strict=True)):
        assert alternating == pytest.approx(all_first * (4 - stage) / 8)


def test_lines_survive_a_file() -> None:
    run = clustersim.simulate({**SCENARIO, "parallelism": {"pipeline": 2, "micro_batches": 2}})
    assert Run.from_dict(run.to_dict()).memory_lines == run.memory_lines
    assert "memory_lines" not in run.to_dict(detail=False)
    assert run.to_dict(detail=False)["gpu_memory_bytes"] == run.gpu_memory_bytes


def test_what_is_offloaded_does_not_grow_with_the_micro_batches_under_way() -> None:
    def lines(offload: str) -> list[tuple[float, float]]:
        layout = {"pipeline": 4, "micro_batches": 8, "schedule": "gpipe", "offload": offload}
        run = clustersim.simulate({**SCENARIO, "parallelism": layout})
        return [(min(line.num_bytes), max(line.num_bytes)) for line in run.memory_lines]

    for (least, most), (flat, flat_too) in zip(lines("none"), lines("activations"), strict=True):
        assert flat == pytest.approx(flat_too)
        assert flat < least + (most - least) / 2
