"""Recomputation of some blocks of each stage: Megatron-LM's `--recompute-method block`."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.parallelism.plan import Part
from clustersim.planner import plan
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact

BLOCKS = 8
MODEL = f"gpt-{BLOCKS}x256x4-seq128-vocab512"
INTERLEAVED = {"schedule": "interleaved", "micro_batches": 4}


def scenario(**layout: Any) -> dict[str, Any]:
    return placed(
        {
            "model": MODEL,
            "num_gpus": 4,
            "batch": {"per_gpu": 16},
            "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "a100"}, "link": "1 TB/s", "hop": "1 us"},
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "parallelism": layout,
            "precision": "amp-bf16",
            "num_iterations": 2,
        }
    )


def setup_of(**layout: Any) -> Setup:
    return Setup(load_scenario(scenario(**layout)).points()[0].point)


def blocks_again(part: Part) -> list[str]:
    """Return the blocks of a part of which a product of scores is repeated."""
    names = (piece.layer.name for piece, repeats in zip(part.pieces, part.recomputes, strict=True) if repeats)
    return [name.partition(".attention")[0] for name in names if name.endswith("scores")]


@pytest.mark.parametrize("recompute", ["full", "attention", "pointwise"])
@pytest.mark.parametrize("num_blocks", [1, 3, BLOCKS])
def test_the_first_blocks_take_what_they_take_where_all_are_repeated(recompute: str, num_blocks: int) -> None:
    firsts = tuple(f"h.{number}." for number in range(num_blocks))
    [every], [some] = (
        setup_of(recompute=recompute, recompute_blocks=number).laid_out.parts for number in (None, num_blocks)
    )
    for name, time, before, repeats in zip(
        (piece.layer.name for piece in every.pieces), every.times, every.recomputes, some.recomputes, strict=True
    ):
        assert repeats == (before and (name == "drop" or name.startswith(firsts))), time
    seconds = sum(time.forward_s for time, repeats in zip(some.times, some.recomputes, strict=True) if repeats)
    phases = setup_of(recompute=recompute, recompute_blocks=num_blocks).laid_out.plans[0].program.phase_s()
    assert phases["recompute"] == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ({"pipeline": 2, "micro_batches": 4}, [[0, 1, 2], [4, 5, 6]]),
        ({"pipeline": 2, **INTERLEAVED}, [[0], [2], [4], [6]]),
        ({"pipeline": 4, "micro_batches": 4}, [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ],
)
def test_they_are_counted_in_each_chunk_of_each_stage(layout: dict[str, Any], expected: list[list[int]]) -> None:
    """So does Megatron-LM, where a chunk is a model of its own."""
    each = len(expected[0])
    parts = setup_of(**layout, balance="blocks", recompute="full", recompute_blocks=each).laid_out.parts
    assert [blocks_again(part) for part in parts] == [[f"h.{number}" for number in part] for part in expected]


def test_each_block_that_is_not_repeated_keeps_as_much_more() -> None:
    """The peak is during the last layer, before anything of the blocks has been recomputed."""
    held = [setup_of(recompute="full", recompute_blocks=num).laid_out.fullest["activations"] for num in (2, 3, 5)]
    assert held[0] - held[1] == pytest.approx((held[1] - held[2]) / 2, rel=1e-9)
    assert held[0] > held[1]
    assert setup_of(recompute="full", recompute_blocks=BLOCKS).laid_out.fullest == (
        setup_of(recompute="full").laid_out.fullest
    )


def test_ranks_are_folded_all_the_same() -> None:
    check_folded_is_exact(scenario(pipeline=2, **INTERLEAVED, balance="blocks", recompute="full", recompute_blocks=1))


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"recompute_blocks": 2}, "give recompute, such as recompute: full"),
        ({"recompute": "none", "recompute_blocks": 2}, "allowed: with recompute"),
        ({"kind": "local-fields", "recompute_blocks": 1}, "allowed: with recompute"),
        ({"recompute": "full", "recompute_blocks": BLOCKS + 1}, f"has more than {BLOCKS} blocks to recompute"),
        ({"recompute": "full", "recompute_blocks": 3, "pipeline": 4, "balance": "blocks"}, "has more than 2 blocks"),
        ({"recompute": "full", "recompute_blocks": 0}, "parallelism.recompute_blocks: expected"),
    ],
)
def test_blocks_that_there_are_not_are_refused(layout: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        setup_of(**layout)
    mistakes = " ".join(f"{mistake.message} allowed: {mistake.allowed}" for mistake in caught.value.mistakes)
    assert words in f"{caught.value} {mistakes}"


def test_a_plan_compares_layouts_without_them() -> None:
    with pytest.raises(InputError, match="a plan recomputes all blocks, or none; leave recompute_blocks out"):
        plan(scenario(recompute="full", recompute_blocks=2), [4])
