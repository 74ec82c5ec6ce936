"""Which shares groups of copies add up together, and where in a program they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.parallelism.grid import PEERS
from clustersim.parallelism.joined_sums import JoinedSums, Share, joined
from clustersim.program.ops import BACKWARD, Call, Compute, Key

MIB = 1024.0**2


def of_llama_2_7b() -> list[Share]:
    """Return the eighth of the head, of 32 blocks and of the embedding in 16 bits, in backward's order."""
    blocks = [Share(0, None, 202.4e6 * 2 / 8, 1 + 13 * number, f"h.{number}.norm1") for number in reversed(range(32))]
    head, embedding = (Share(0, None, 131e6 * 2 / 8, place, name) for place, name in ((417, "norm"), (0, "embedding")))
    return [head, *blocks, embedding]


def numbers(members: list[int]) -> list[str]:
    shares = of_llama_2_7b()
    return [shares[each].name.removeprefix("h.").removesuffix(".norm1") for each in members]


def test_blocks_are_joined_in_the_order_of_a_text_and_the_embedding_last() -> None:
    """So did XLA 0.4.38 with a threshold of 1 GiB: one all-reduce of 1,071 MB and one of the rest."""
    first, second = (numbers(members) for members in joined(of_llama_2_7b(), 1024 * MIB))
    assert first[:4] == ["0", "1", "10", "11"] and first[-2:] == ["26", "27"] and len(first) == 21
    assert second == ["28", "29", "3", "30", "31", *"456789", "norm", "embedding"]


@pytest.mark.parametrize(("most", "num"), [(64, 33), (512, 4), (1024, 2), (4096, 1)])
def test_all_that_fit_go_together(most: float, num: int) -> None:
    assert len(joined(of_llama_2_7b(), most * MIB)) == num


@given(sizes=st.lists(st.floats(1, 100), min_size=1, max_size=20), most=st.floats(1, 300))
def test_every_share_is_added_up_once_and_none_before_it_is_there(sizes: list[float], most: float) -> None:
    shares = [Share(number, None, size, 7 * number, f"h.{number}.x") for number, size in enumerate(sizes)]
    ops = [Compute(str(number), 1.0, BACKWARD, 0) for number in range(len(sizes))]
    keys = JoinedSums(most, shares).put_into(ops)
    calls = [(at, op) for at, op in enumerate(ops) if isinstance(op, Call)]
    assert sorted(keys) == sorted(call.key for _, call in calls) and len(set(keys)) == len(keys)
    assert sum(call.num_bytes for _, call in calls) == pytest.approx(sum(sizes))
    members = {max(each): sum(sizes[one] for one in each) for each in joined(shares, most)}
    for at, call in calls:
        computed = sum(isinstance(op, Compute) for op in ops[:at])
        assert call.axis == PEERS and call.num_bytes == pytest.approx(members[computed])


def test_an_all_reduce_begins_behind_the_reduce_scatter_of_its_last_share() -> None:
    keys = [Key("shares of gradients", 0, place) for place in (8, 1)]
    shares = [Share(1, keys[0], 4.0, 8, "h.1.x"), Share(2, keys[1], 4.0, 1, "h.0.x")]
    ops = [Compute("h.1.x", 1.0, BACKWARD, 0), Compute("h.0.x", 1.0, BACKWARD, 0)]
    assert len(JoinedSums(8.0, shares).put_into(ops)) == 1
    assert ops[2].after == keys[1] and ops[2].num_bytes == 8.0


def test_nothing_is_joined_unless_told() -> None:
    ops = [Compute("x", 1.0, BACKWARD, 0)]
    assert JoinedSums(None, []).put_into(ops) == [] and len(ops) == 1
