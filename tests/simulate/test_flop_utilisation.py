"""MFU and HFU are FLOP over seconds and peak, and stand in table, JSON and CSV with tokens per second."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.hardware import load_gpu
from clustersim.model import load_model
from clustersim.report.answer import rows, tiles
from clustersim.results import Run, Sweep
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup

SCENARIO: dict[str, Any] = {
    "model": "gpt2-small",
    "num_gpus": 4,
    "batch": {"per_gpu": 2},
    "topology": {"kind": "star", "num_hosts": 1, "link": "infiniband-ndr", "host": "dgx-h100"},
    "software": "pytorch-ddp",
    "precision": "amp-bf16",
}
PEAK = load_gpu("h100").flop_per_s["amp-bf16"]


def run_of(**changes: Any) -> tuple[Sweep, Run]:
    sweep = clustersim.sweep({**SCENARIO, **changes})
    return sweep, sweep.runs[0]


def test_it_is_flop_over_seconds_and_peak() -> None:
    model = load_model("gpt2-small")
    _, run = run_of()
    expected = (model.flop + model.flop_backward) * run.samples_per_s / (4 * PEAK)
    assert run.mfu == pytest.approx(expected, rel=1e-12)
    assert run.hfu == run.mfu


@pytest.mark.parametrize(
    "layout",
    [
        {"tensor": 2, "recompute": "full"},
        {"pipeline": 2, "micro_batches": 4, "schedule": "interleaved", "recompute": "full"},
        {"sharding": "zero-3", "recompute": "full"},
    ],
)
def test_hfu_counts_recomputed_blocks_once_more(layout: dict[str, Any]) -> None:
    model = load_model("gpt2-small")
    changes = {"parallelism": layout, "batch": {"global": 16}, "software": "torchtitan"}
    _, run = run_of(**changes)
    blocks = sum(layer.flop for layer in model.layers if layer.name != "head")  # an embedding has no FLOP
    assert run.mfu is not None
    assert run.hfu is not None
    assert run.hfu / run.mfu == pytest.approx(1 + blocks / (model.flop + model.flop_backward), rel=1e-9)
    laid_out = Setup(load_scenario({**SCENARIO, **changes}).points()[0].point).laid_out
    assert laid_out is not None
    assert sum(len(part.pieces) for part in laid_out.parts) == len(model.layers)


def test_tokens_per_second_stand_where_people_look() -> None:
    sweep, run = run_of()
    assert run.tokens_per_s == pytest.approx(1024 * run.samples_per_s)
    document = run.to_dict(detail=False)
    assert (document["tokens_per_s"], document["mfu"]) == (run.tokens_per_s, run.mfu)
    assert Run.from_dict(run.to_dict()).to_dict() == run.to_dict()
    (row,) = sweep.to_rows()
    assert (row["tokens_per_s"], row["mfu"], row["hfu"]) == (run.tokens_per_s, run.mfu, run.hfu)
    headings, _ = rows(sweep)
    assert {"tokens/s", "MFU"} <= set(headings)
    assert "Tokens per second" in {tile.label for tile in tiles(sweep)}


def test_images_have_no_tokens() -> None:
    sweep, run = run_of(model="resnet50")
    assert run.tokens_per_s is None
    assert run.mfu is not None
    assert "tokens/s" not in rows(sweep)[0]
