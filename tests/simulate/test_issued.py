"""Collectives that split layers, which a process that waits for every kernel issues while nothing computes."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.kernels.programs.blocking_launches import COLLECTIVE_S
from tests.simulate.test_sharding_copies import setup_of

GPT: dict[str, Any] = {
    "model": "gpt-2x256x4-seq128-vocab512",
    "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False, "copies": "none"},
}


def phases_of(layout: dict[str, Any], launch: str, monkeypatch: pytest.MonkeyPatch, seconds: float) -> dict[str, float]:
    monkeypatch.setattr("clustersim.parallelism.layout.COLLECTIVE_S", seconds)
    laid_out = setup_of(layout, **GPT, compute={"launch": launch}).laid_out
    assert laid_out is not None
    return laid_out.plans[0].program.phase_s()


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_each_of_a_layer_takes_as_long(monkeypatch: pytest.MonkeyPatch, micro_batches: int) -> None:
    """Two a block and pass; forward one more of the words and one of the loss, backward one before these."""
    layout = {"sharding": None, "tensor": 2, "micro_batches": micro_batches}
    more = [phases_of(layout, "blocking", monkeypatch, seconds) for seconds in (COLLECTIVE_S, 0.0)]
    num = {phase: round((more[0][phase] - more[1][phase]) / COLLECTIVE_S, 6) for phase in ("forward", "backward")}
    assert num == {"forward": micro_batches * (2 * 2 + 2), "backward": micro_batches * (2 * 2 + 1)}


def test_whole_layers_and_kernels_in_a_queue_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for axis, launch in (("pipeline", "blocking"), ("tensor", "queued")):
        layout = {"sharding": None, axis: 2, "messages": "awaited"}
        with_s, without_s = (phases_of(layout, launch, monkeypatch, seconds) for seconds in (COLLECTIVE_S, 0.0))
        assert with_s == without_s
