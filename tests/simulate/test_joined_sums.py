"""Sums of shares that groups join: a closed form, what they send, and what does not go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.collectives import closed_form
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_traces_are_exact

MODEL, COPIES, GROUP, HOP_S, RATE = "gpt-4x256x4-seq128-vocab512-fused", 8, 4, 1e-6, 1e7


def scenario(**layout: Any) -> dict[str, Any]:
    """Return two groups of copies whose network is so slow that exchanges take most of the time."""
    return placed(
        {
            "model": MODEL,
            "num_gpus": COPIES,
            "batch": {"per_gpu": 4},
            "topology": {
                **{"kind": "star", "num_hosts": COPIES, "host": {"gpu": "a100"}, "link": f"{RATE:g} B/s"},
                "hop": f"{HOP_S} s",
            },
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "parallelism": {"sharding": "zero-2", "sharding_over": GROUP, **layout},
            "memory_check": False,
            "num_iterations": 2,
        }
    )


def calls_across(**layout: Any) -> list[float]:
    """Return the bytes of each all-reduce between groups."""
    plan = Setup(load_scenario(scenario(**layout)).points()[0].point).laid_out.plans[0]
    return [op.num_bytes for op in plan.program.ops() if getattr(op, "axis", "") == "peers"]


def test_joined_shares_are_added_up_when_backward_is_over() -> None:
    """All in one: it begins behind the last reduce-scatter, so that no more than all of it is added."""
    apart, together = (clustersim.simulate(scenario(**layout)) for layout in ({}, {"joined_sums": "1 GiB"}))
    num_bytes = sum(calls_across())
    whole_s = closed_form("all-reduce", "ring", COPIES // GROUP, num_bytes, 2 * HOP_S, RATE)
    assert together.iteration_s > apart.iteration_s
    assert together.iteration_s - apart.iteration_s <= whole_s


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_as_much_is_added_up_in_fewer_all_reduces(micro_batches: int) -> None:
    batch = {"micro_batches": micro_batches, "sharding": "zero-3"}
    sizes = {}, {"joined_sums": "1 MB"}, {"joined_sums": "1 GiB"}
    apart, some, one = (calls_across(**batch, **each) for each in sizes)
    assert sum(some) == pytest.approx(sum(apart))
    assert sum(one) == pytest.approx(sum(apart))
    assert 1 == len(one) < len(some) < len(apart) == 6
    assert max(some) == pytest.approx(1e6)


SPLIT = {"tensor": 2, "sharding_over": 2}, {"pipeline": 2, "micro_batches": 2, "sharding_over": 2}


@pytest.mark.parametrize("layout", [{}, *SPLIT])
def test_shortcuts_are_exact_with_them(layout: dict[str, Any], tmp_path: Path) -> None:
    file = scenario(**layout, joined_sums="1 MB")
    check_folded_is_exact(file)
    check_traces_are_exact(file, tmp_path)


def test_an_all_reduce_holds_something() -> None:
    with pytest.raises(InputError, match="joined_sums: expected a number above 0"):
        load_scenario(scenario(joined_sums="0 MB"))


@pytest.mark.parametrize("layout", [{"sharding": "zero-1"}, {"sharding_over": None}])
def test_there_must_be_shares_of_blocks_and_groups(layout: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="joined_sums sets the all-reduces between groups"):
        Setup(load_scenario(scenario(**layout, joined_sums="1 MB")).points()[0].point)
