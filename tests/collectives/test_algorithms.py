"""Bytes and messages of each rank: laws for every algorithm, and the statements of each docstring."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import ALL_REDUCE, COLLECTIVES, Schedule, options_of
from clustersim.errors import InputError

ALGORITHMS = [(op, name) for op, table in COLLECTIVES.items() for name in table]
WHOLE_BUFFER = [(op, name) for op, name in ALGORITHMS if op not in ("all-to-all", "send-recv", "barrier")]
BYTES = 960.0


def sent(schedule: Schedule) -> np.ndarray:
    """Return the bytes that each rank sends."""
    total = np.zeros(schedule.num_ranks)
    for number in range(schedule.num_steps):
        step = schedule.step(number)
        np.add.at(total, step.src, step.num_bytes)
    return total


def received(schedule: Schedule) -> np.ndarray:
    """Return the bytes that each rank receives."""
    total = np.zeros(schedule.num_ranks)
    for number in range(schedule.num_steps):
        step = schedule.step(number)
        np.add.at(total, step.dst, step.num_bytes)
    return total


def busiest(schedule: Schedule) -> tuple[int, int]:
    """Return the most messages that a rank sends, and receives, within one step."""
    steps = [schedule.step(number) for number in range(schedule.num_steps)]
    return max(np.bincount(s.src).max() for s in steps), max(np.bincount(s.dst).max() for s in steps)


@settings(max_examples=60, deadline=None)
@given(algorithm=st.sampled_from(ALGORITHMS), num_ranks=st.integers(1, 40), num_bytes=st.floats(0, 1e9))
def test_ranks_send_only_to_others_that_exist(algorithm: tuple[str, str], num_ranks: int, num_bytes: float) -> None:
    op, name = algorithm
    schedule = COLLECTIVES[op][name](num_ranks, num_bytes)
    assert schedule.num_ranks == num_ranks
    for transfer in schedule.transfers():
        assert 0 <= transfer.src < num_ranks
        assert 0 <= transfer.dst < num_ranks
        assert transfer.src != transfer.dst
        assert 0 <= transfer.chunk < schedule.granularity
        assert 1 <= transfer.num_chunks <= schedule.granularity


@settings(max_examples=60, deadline=None)
@given(algorithm=st.sampled_from(WHOLE_BUFFER), num_ranks=st.integers(1, 40), num_bytes=st.floats(0, 1e9))
def test_a_message_is_as_large_as_its_chunks(algorithm: tuple[str, str], num_ranks: int, num_bytes: float) -> None:
    op, name = algorithm
    schedule = COLLECTIVES[op][name](num_ranks, num_bytes)
    for number in range(schedule.num_steps):
        step = schedule.step(number)
        np.testing.assert_allclose(step.num_bytes, num_bytes * step.num_chunks / schedule.granularity, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(list(ALL_REDUCE)), num_ranks=st.integers(1, 60), num_bytes=st.floats(1, 1e9))
def test_in_an_all_reduce_each_rank_receives_as_much_as_it_sends(name: str, num_ranks: int, num_bytes: float) -> None:
    schedule = ALL_REDUCE[name](num_ranks, num_bytes)
    assert received(schedule) == pytest.approx(sent(schedule), rel=1e-9)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7, 16, 33])
@pytest.mark.parametrize("name", ALL_REDUCE)
def test_an_all_reduce_moves_at_least_two_buffers_a_rank_but_one(name: str, num_ranks: int) -> None:
    """No algorithm that adds at the ends can send fewer than 2 (n - 1) buffers in all."""
    assert sent(ALL_REDUCE[name](num_ranks, BYTES)).sum() >= 2 * (num_ranks - 1) * BYTES * (1 - 1e-12)


@pytest.mark.parametrize("num_ranks", [2, 3, 8, 12, 13])
@pytest.mark.parametrize("name", ["ring", "segmented-ring", "sharded-server", "torus-ring", "hierarchical"])
def test_even_all_reduces_send_the_least_from_every_rank(name: str, num_ranks: int) -> None:
    assert sent(ALL_REDUCE[name](num_ranks, BYTES)) == pytest.approx(2 * (num_ranks - 1) / num_ranks * BYTES)


@pytest.mark.parametrize("dims", [(4, 3, 2), (2, 12), (24, 1)])
def test_rings_of_a_torus_send_the_least_from_every_rank(dims: tuple[int, ...]) -> None:
    assert sent(ALL_REDUCE["torus-ring"](24, BYTES, dims=dims)) == pytest.approx(2 * 23 / 24 * BYTES)


def test_rings_of_a_torus_only_send_to_the_next_router() -> None:
    place = np.stack(np.unravel_index(np.arange(24), (4, 3, 2)))
    schedule = ALL_REDUCE["torus-ring"](24, BYTES, dims=(4, 3, 2))
    for number in range(schedule.num_steps):
        step = schedule.step(number)
        moves = (place[:, step.dst] - place[:, step.src]) % np.array([[4], [3], [2]])
        assert (moves.sum(axis=0) == 1).all()
        assert len(set(step.src.tolist())) == 24


def test_a_hierarchy_sends_only_shards_between_hosts() -> None:
    """Of 4 hosts of 6, each rank sends 2 x 3/4 of a sixth of the buffer to the next host, and the rest inside."""
    schedule = ALL_REDUCE["hierarchical"](24, BYTES, ranks_per_host=6)
    outside = [t for t in schedule.transfers() if t.src // 6 != t.dst // 6]
    assert {(t.src + 6) % 24 - t.dst for t in outside} == {0}
    assert sum(t.num_bytes for t in outside) == pytest.approx(24 * 2 * 3 / 4 * BYTES / 6)
    assert schedule.num_steps == 2 * 5 + 2 * 3


@pytest.mark.parametrize("num_ranks", [8, 12])
def test_doubling_sends_the_whole_buffer_every_time(num_ranks: int) -> None:
    per_rank = sent(ALL_REDUCE["doubling"](num_ranks, BYTES))
    folded = num_ranks - 8
    assert per_rank[0] == (BYTES if folded else 3 * BYTES)
    assert per_rank[1] == 3 * BYTES + (BYTES if folded else 0)
    assert per_rank[-1] == 3 * BYTES


def test_halving_and_doubling_sends_as_little_as_a_ring_over_a_power_of_two() -> None:
    assert sent(ALL_REDUCE["halving-doubling"](16, BYTES)) == pytest.approx(2 * 15 / 16 * BYTES)


def test_halving_and_doubling_folds_extra_ranks_with_whole_buffers() -> None:
    per_rank = sent(ALL_REDUCE["halving-doubling"](5, BYTES))
    assert per_rank == pytest.approx([BYTES, 2.5 * BYTES, 1.5 * BYTES, 1.5 * BYTES, 1.5 * BYTES])


@pytest.mark.parametrize("num_ranks", [4, 16, 64])
def test_a_double_tree_sends_at_most_twice_the_buffer_from_a_rank(num_ranks: int) -> None:
    per_rank = sent(ALL_REDUCE["double-tree"](num_ranks, BYTES))
    assert per_rank.max() <= 2 * BYTES
    assert per_rank.mean() == pytest.approx(2 * (num_ranks - 1) / num_ranks * BYTES)


def test_the_server_sends_everything_to_every_rank() -> None:
    assert sent(ALL_REDUCE["server"](5, BYTES)).tolist() == [4 * BYTES] + [BYTES] * 4


def test_rank_0_of_a_tree_sends_in_every_step_down() -> None:
    assert sent(ALL_REDUCE["tree"](9, BYTES))[[0, 8, 4]].tolist() == [4 * BYTES, BYTES, 3 * BYTES]


STEPS: dict[tuple[str, str], Callable[[int], int]] = {
    ("all-gather", "bruck"): lambda n: math.ceil(math.log2(n)),
    ("all-gather", "ring"): lambda n: n - 1,
    ("all-reduce", "ring"): lambda n: 2 * (n - 1),
    ("all-reduce", "server"): lambda n: 2,
    ("all-reduce", "sharded-server"): lambda n: 2,
    ("all-reduce", "tree"): lambda n: 2 * math.ceil(math.log2(n)),
    ("all-reduce", "doubling"): lambda n: math.floor(math.log2(n)) + 2 * (math.log2(n) % 1 > 0),
    ("all-reduce", "halving-doubling"): lambda n: 2 * math.floor(math.log2(n)) + 2 * (math.log2(n) % 1 > 0),
    ("all-to-all", "linear"): lambda n: 1,
    ("all-to-all", "pairwise"): lambda n: n - 1,
    ("barrier", "dissemination"): lambda n: math.ceil(math.log2(n)),
    ("broadcast", "scatter-all-gather"): lambda n: math.ceil(math.log2(n)) + n - 1,
    ("broadcast", "tree"): lambda n: math.ceil(math.log2(n)),
    ("send-recv", "ring"): lambda n: 1,
}


@pytest.mark.parametrize("num_ranks", [2, 3, 8, 21])
@pytest.mark.parametrize(("op", "name"), STEPS)
def test_an_algorithm_takes_the_steps_that_it_promises(op: str, name: str, num_ranks: int) -> None:
    assert COLLECTIVES[op][name](num_ranks, BYTES).num_steps == STEPS[op, name](num_ranks)


ALL_AT_ONCE = {"server", "sharded-server", "linear", "double-tree", "gloo-tree"}


@pytest.mark.parametrize("num_ranks", [2, 5, 8, 21])
@pytest.mark.parametrize(
    ("op", "name"), [a for a in ALGORITHMS if a[1] not in ALL_AT_ONCE and a != ("reduce", "gloo-ring")]
)
def test_a_rank_sends_to_one_and_receives_from_one_at_a_time(op: str, name: str, num_ranks: int) -> None:
    assert busiest(COLLECTIVES[op][name](num_ranks, BYTES)) == (1, 1)


@pytest.mark.parametrize("num_ranks", [2, 8, 21])
def test_algorithms_with_all_messages_at_once(num_ranks: int) -> None:
    others = num_ranks - 1
    assert busiest(ALL_REDUCE["server"](num_ranks, BYTES)) == (others, others)
    assert busiest(ALL_REDUCE["sharded-server"](num_ranks, BYTES)) == (others, others)
    assert busiest(COLLECTIVES["broadcast"]["linear"](num_ranks, BYTES)) == (others, 1)
    assert busiest(COLLECTIVES["reduce"]["linear"](num_ranks, BYTES)) == (1, others)
    assert busiest(COLLECTIVES["all-to-all"]["linear"](num_ranks, BYTES)) == (others, others)


@pytest.mark.parametrize("num_ranks", [4, 16, 50])
def test_in_a_double_tree_at_most_two_children_share_a_link(num_ranks: int) -> None:
    assert busiest(ALL_REDUCE["double-tree"](num_ranks, 1e8)) == (2, 2)


@pytest.mark.parametrize(("op", "name"), ALGORITHMS)
def test_a_single_rank_sends_nothing(op: str, name: str) -> None:
    assert COLLECTIVES[op][name](1, BYTES).num_steps == 0


@pytest.mark.parametrize(
    ("op", "name"),
    [a for a in ALGORITHMS if a[1] not in ("sharded-server",) and a != ("all-to-all", "linear")],
)
def test_a_schedule_of_4096_ranks_fits_in_a_few_megabytes(op: str, name: str) -> None:
    options = {"dims": (16, 16, 16)} if name == "torus-ring" else {}
    tracemalloc.start()
    schedule = COLLECTIVES[op][name](4096, 1e9, **options)
    for number in (0, schedule.num_steps // 2, schedule.num_steps - 1):
        schedule.step(number)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8e6


SCALABLE = ["double-tree", "doubling", "halving-doubling", "hierarchical", "ring", "torus-ring", "tree"]


def peak_bytes_of_distinct_steps(name: str, num_ranks: int, dims: tuple[int, ...]) -> int:
    """Return the most memory that a schedule needs to be made and to make one step of every pattern."""
    known = {"dims": dims, "ranks_per_host": 8}
    options = {key: known[key] for key in options_of(ALL_REDUCE[name]) & set(known)}
    tracemalloc.start()
    schedule = ALL_REDUCE[name](num_ranks, 1e8, **options)
    seen = set()
    for number in range(schedule.num_steps):
        if schedule.pattern(number) not in seen:
            seen.add(schedule.pattern(number))
            schedule.step(number)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("name", SCALABLE)
def test_memory_grows_as_the_ranks_up_to_16384(name: str) -> None:
    peak_bytes_of_distinct_steps(name, 64, (4, 4, 4))
    small = peak_bytes_of_distinct_steps(name, 1024, (16, 8, 8))
    large = peak_bytes_of_distinct_steps(name, 16384, (32, 32, 16))
    assert large < 1.25 * 16 * small


@pytest.mark.parametrize(("op", "name"), ALGORITHMS)
def test_impossible_ranks_and_bytes_are_refused(op: str, name: str) -> None:
    with pytest.raises(InputError, match=r"num_ranks must be a whole number of at least 1 \(got 0\)"):
        COLLECTIVES[op][name](0, 8.0)
    for num_bytes in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="num_bytes must be a finite number of at least 0"):
            COLLECTIVES[op][name](4, num_bytes)


def test_a_torus_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match="a torus of 4 x 3 has 12 and there are 8 ranks"):
        ALL_REDUCE["torus-ring"](8, 8.0, dims=(4, 3))
    with pytest.raises(InputError, match=r"every dimension of a torus must be a whole number of at least 1 \(got 0\)"):
        ALL_REDUCE["torus-ring"](8, 8.0, dims=(8, 0))


@pytest.mark.parametrize("groups", [[[0, 1], [1, 2]], [[0, 1]], [[0, 1, 2], []], [[0, 1, 3]]])
def test_groups_without_every_rank_once_are_refused(groups: list[list[int]]) -> None:
    with pytest.raises(InputError, match="groups must hold each rank from 0 to 2 once, and none may be empty"):
        ALL_REDUCE["hierarchical"](3, 8.0, groups=groups)


def test_hosts_given_twice_or_of_no_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="ranks_per_host or groups, not both"):
        ALL_REDUCE["hierarchical"](2, 8.0, ranks_per_host=1, groups=[[0, 1]])
    for none in (0, [2, 0]):
        with pytest.raises(InputError, match=r"ranks_per_host must be a whole number of at least 1 \(got 0\)"):
            ALL_REDUCE["hierarchical"](2, 8.0, ranks_per_host=none)


def test_hosts_without_all_ranks_are_refused() -> None:
    with pytest.raises(InputError, match=r"ranks_per_host must add up to the 6 ranks \(got 7\)"):
        ALL_REDUCE["hierarchical"](6, 8.0, ranks_per_host=[4, 3])


def test_equal_hosts_may_be_one_number_or_one_for_each() -> None:
    one, each = (ALL_REDUCE["hierarchical"](7, 8.0, ranks_per_host=given) for given in (3, [3, 3, 1]))
    assert list(one.transfers()) == list(each.transfers())


@pytest.mark.parametrize(("op", "name"), [("all-reduce", "double-tree"), ("broadcast", "ring"), ("reduce", "ring")])
def test_zero_pieces_are_refused(op: str, name: str) -> None:
    with pytest.raises(InputError, match=r"num_chunks must be a whole number of at least 1 \(got 0\)"):
        COLLECTIVES[op][name](4, 8.0, num_chunks=0)


def test_an_algorithm_says_which_options_it_takes() -> None:
    assert options_of(ALL_REDUCE["ring"]) == {"rings"}
    assert options_of(ALL_REDUCE["torus-ring"]) == {"dims"}
    assert options_of(ALL_REDUCE["double-tree"]) == {"chains", "num_chunks", "piece_bytes"}
