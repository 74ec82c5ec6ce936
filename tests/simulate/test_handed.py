"""`software.handed`: GPUs that split the layers of a stage each send a share of its output, or all of it."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.program.ops import Call, Receive, Send
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.setup import Setup

TENSOR = 4


def scenario(handed: str, **other: Any) -> dict[str, Any]:
    return {
        "model": "gpt-4x512x8-seq256",
        "num_gpus": 2 * TENSOR,
        "batch": {"global": 16},
        "topology": {"kind": "star", "num_hosts": 2, "host": {"gpu": "v100", "num_gpus": TENSOR}, "link": "1 GB/s"},
        "software": {"name": "plain", "handed": handed},
        "strategy": {"kind": "all-reduce"},
        "parallelism": {"tensor": TENSOR, "pipeline": 2, "micro_batches": 1, **other},
        "compute": {"variability": 0},
        "num_iterations": 1,
    }


def ops(handed: str) -> list[Any]:
    laid_out = Setup(load_scenario(scenario(handed)).points()[0].point).laid_out
    assert laid_out is not None
    return [op for plan in laid_out.plans for op in plan.program.ops()]


def test_whole_messages_are_as_many_times_as_large_and_nothing_is_gathered() -> None:
    shares, whole = (ops(handed) for handed in ("in-shares", "whole"))
    for kind in (Send, Receive):
        sizes = [[op.num_bytes for op in each if isinstance(op, kind)] for each in (shares, whole)]
        assert sizes[1] == [TENSOR * size for size in sizes[0]] != []
    gathers = [[op for op in each if isinstance(op, Call) and "joined" in str(op.key)] for each in (shares, whole)]
    assert (len(gathers[0]), len(gathers[1])) == (2, 0)


def test_the_adapter_between_two_stages_carries_so_many_times_the_bytes() -> None:
    """One micro-batch, whose messages nothing hides: 256 tokens of 512 features of 16 samples, there and back."""
    shares_s, whole_s = (clustersim.simulate(scenario(handed)).iteration_s for handed in ("in-shares", "whole"))
    in_fp32 = 16 * 256 * 512 * 4
    gathered_s = 2 * in_fp32 / 1e9
    assert whole_s - shares_s == pytest.approx(2 * (TENSOR - 1) * in_fp32 / 1e9, abs=gathered_s)
    assert whole_s - shares_s > 2 * (TENSOR - 2) * in_fp32 / 1e9


@pytest.mark.parametrize("other", [{"sequence_parallel": True}])
def test_a_rank_with_a_share_cannot_send_the_whole(other: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="handed: whole needs stages whose GPUs all hold the whole activations"):
        load_scenario(scenario("whole", **other))


def test_a_warning_says_that_no_stage_sends_anything() -> None:
    asked = scenario("whole", pipeline=1, data=2)
    found = forecast(load_scenario(asked).points()[0].point).warnings
    assert any(line.startswith("software.handed changes nothing") for line in found)
