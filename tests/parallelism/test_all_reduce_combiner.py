"""Which shards are all-reduced together between groups, and where in a program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.parallelism.all_reduce_combiner import AllReduceCombiner, Share, combine_shares
from clustersim.parallelism.grid import REPLICATE_GROUP
from clustersim.program.ops import BACKWARD, Call, Compute, Key

MIB = 1024.0**2


def of_llama_2_7b() -> list[Share]:
    """Return the eighth of the head, of 32 blocks and of the embedding in 16 bits, in backward's order."""
    blocks = [Share(0, None, 202.4e6 * 2 / 8, 1 + 13 * number, f"h.{number}.norm1") for number in reversed(range(32))]
    head, embedding = (Share(0, None, 131e6 * 2 / 8, place, name) for place, name in ((417, "norm"), (0, "embedding")))
    return [head, *blocks, embedding]


def names(members: dict[int, float]) -> list[str]:
    shares = of_llama_2_7b()
    return [shares[each].name.removeprefix("h.").removesuffix(".norm1") for each in members]


def test_blocks_are_combined_in_reverse_order_of_their_names_as_text() -> None:
    """jaxlib 0.4.38 combines so at 1 GiB: blocks 2 to 9 and 20 to 31 with the embedding's, and the rest."""
    first, second = (names(members) for members in combine_shares(of_llama_2_7b(), 1024 * MIB))
    assert first[:12] == ["embedding", "norm", *"987654", "31", "30", "3", "29"]
    assert first[-2:] == ["20", "2"]
    assert second == [str(number) for number in (2, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 1, 0)]


@pytest.mark.parametrize(("most", "num"), [(64, 26), (512, 4), (1024, 2), (4096, 1)])
def test_as_many_blocks_as_fit_are_combined(most: float, num: int) -> None:
    """1.68 GB in so many of a size."""
    sums = combine_shares(of_llama_2_7b(), most * MIB)
    assert len(sums) == num
    assert all(sum(members.values()) == pytest.approx(most * MIB) for members in sums[:-1])


@given(sizes=st.lists(st.floats(1, 100), min_size=1, max_size=20), most=st.floats(10, 300))
def test_every_shard_is_reduced_once_and_after_it_is_complete(sizes: list[float], most: float) -> None:
    shares = [Share(number, None, size, 7 * number, f"h.{number}.x") for number, size in enumerate(sizes)]
    ops = [Compute(str(number), 1.0, BACKWARD, 0) for number in range(len(sizes))]
    keys = AllReduceCombiner(most, shares).insert_into(ops)
    calls = [(at, op) for at, op in enumerate(ops) if isinstance(op, Call)]
    assert sorted(keys) == sorted(call.key for _, call in calls)
    assert len(set(keys)) == len(keys)
    assert sum(call.num_bytes for _, call in calls) == pytest.approx(sum(sizes))
    behind = sorted((max(members), sum(members.values())) for members in combine_shares(shares, most))
    found = [(sum(isinstance(op, Compute) for op in ops[:at]), call.num_bytes) for at, call in calls]
    assert [number for number, _ in found] == [number for number, _ in behind]
    assert sorted(size for _, size in found) == pytest.approx(sorted(size for _, size in behind))
    assert all(call.axis == REPLICATE_GROUP for _, call in calls)


def test_an_all_reduce_begins_after_the_reduce_scatter_of_its_last_shard() -> None:
    keys = [Key("shares of gradients", 0, place) for place in (8, 1)]
    shares = [Share(1, keys[0], 4.0, 8, "h.1.x"), Share(2, keys[1], 4.0, 1, "h.0.x")]
    ops = [Compute("h.1.x", 1.0, BACKWARD, 0), Compute("h.0.x", 1.0, BACKWARD, 0)]
    assert len(AllReduceCombiner(8.0, shares).insert_into(ops)) == 1
    assert ops[2].after == keys[1]
    assert ops[2].num_bytes == 8.0


def test_nothing_is_combined_by_default() -> None:
    ops = [Compute("x", 1.0, BACKWARD, 0)]
    assert AllReduceCombiner(None, []).insert_into(ops) == []
    assert len(ops) == 1
