"""The ranks' buffers at the end: every algorithm is executed on real numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clustersim.collectives
from clustersim.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    COLLECTIVES,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    SEND_RECV,
    Schedule,
    Transfer,
    play,
)
from clustersim.errors import InputError

NUM_RANKS = [*range(1, 18), 24, 32, 48]


def numbers(num_ranks: int, width: int) -> np.ndarray:
    return np.random.default_rng(num_ranks).random((num_ranks, width))


def cut(width: int, num_chunks: int) -> list[slice]:
    """Return the columns of each chunk, as np.array_split cuts."""
    parts = np.array_split(np.arange(width), num_chunks)
    ends = np.cumsum([len(part) for part in parts])
    return [slice(end - len(part), end) for end, part in zip(ends, parts, strict=True)]


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("name", ALL_REDUCE)
def test_every_rank_ends_with_the_sum(name: str, num_ranks: int) -> None:
    for width in (num_ranks, 2 * num_ranks + 3):
        buffers = numbers(num_ranks, width)
        result = play(ALL_REDUCE[name](num_ranks, 8.0), buffers)
        assert result == pytest.approx(np.tile(buffers.sum(axis=0), (num_ranks, 1)))


@pytest.mark.parametrize(
    ("name", "num_ranks", "options"),
    [
        ("double-tree", 13, {"num_chunks": 4}),
        ("double-tree", 16, {"num_chunks": 7}),
        ("hierarchical", 12, {"ranks_per_host": 4}),
        ("hierarchical", 13, {"ranks_per_host": 4}),
        ("hierarchical", 13, {"ranks_per_host": [4, 1, 6, 2]}),
        ("hierarchical", 6, {"ranks_per_host": 1}),
        ("hierarchical", 6, {"ranks_per_host": 100}),
        ("hierarchical", 9, {"groups": [[8, 0, 3], [1], [2, 4, 5, 6, 7]]}),
        ("torus-ring", 24, {"dims": (4, 3, 2)}),
        ("torus-ring", 24, {"dims": (1, 24)}),
        ("torus-ring", 16, {"dims": [2, 2, 2, 2]}),
    ],
)
def test_options_do_not_change_the_sum(name: str, num_ranks: int, options: dict[str, object]) -> None:
    buffers = numbers(num_ranks, 29)
    result = play(ALL_REDUCE[name](num_ranks, 8.0, **options), buffers)
    assert result == pytest.approx(np.tile(buffers.sum(axis=0), (num_ranks, 1)))


@pytest.mark.parametrize("num_bytes", [1e3, 1e5, 1e6])
@pytest.mark.parametrize("num_ranks", [2, 3, 24, 70])
def test_lines_are_passed_on_within_a_step(num_ranks: int, num_bytes: float) -> None:
    rings = [range(num_ranks), [*range(1, num_ranks), 0]]
    down, up = (table["ring"](num_ranks, num_bytes, None, rings, 1024, lines=True) for table in (BROADCAST, REDUCE))
    buffers = numbers(num_ranks, 2 * 64 + 5)
    assert play(down, buffers) == pytest.approx(np.tile(buffers[0], (num_ranks, 1)))
    assert play(up, buffers)[0] == pytest.approx(buffers.sum(axis=0))


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(list(ALL_REDUCE)),
    num_ranks=st.integers(1, 30),
    width=st.integers(0, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_all_reduce_is_the_sum_for_any_numbers(name: str, num_ranks: int, width: int, seed: int) -> None:
    buffers = np.random.default_rng(seed).integers(-1000, 1000, (num_ranks, width))
    result = play(ALL_REDUCE[name](num_ranks, 8.0), buffers)
    assert np.array_equal(result, np.tile(buffers.sum(axis=0), (num_ranks, 1)))


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("name", BROADCAST)
def test_a_broadcast_gives_every_rank_the_buffer_of_rank_0(name: str, num_ranks: int) -> None:
    buffers = numbers(num_ranks, 2 * num_ranks + 1)
    assert np.array_equal(play(BROADCAST[name](num_ranks, 8.0), buffers), np.tile(buffers[0], (num_ranks, 1)))


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("name", REDUCE)
def test_a_reduce_gives_rank_0_the_sum(name: str, num_ranks: int) -> None:
    buffers = numbers(num_ranks, 2 * num_ranks + 1)
    assert play(REDUCE[name](num_ranks, 8.0), buffers)[0] == pytest.approx(buffers.sum(axis=0))


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
def test_a_chain_passes_any_number_of_pieces(name: str) -> None:
    buffers = numbers(5, 23)
    for num_chunks in (1, 2, 7, 30):
        result = play(COLLECTIVES[name]["ring"](5, 8.0, num_chunks=num_chunks), buffers)
        assert result[0] == pytest.approx(buffers[0] if name == "broadcast" else buffers.sum(axis=0))
        if name == "broadcast":
            assert np.array_equal(result[4], buffers[0])


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("name", SCATTER)
def test_a_scatter_gives_each_rank_its_chunk_of_rank_0(name: str, num_ranks: int) -> None:
    buffers = numbers(num_ranks, 2 * num_ranks + 1)
    result = play(SCATTER[name](num_ranks, 8.0), buffers)
    for rank, columns in enumerate(cut(buffers.shape[1], num_ranks)):
        assert np.array_equal(result[rank, columns], buffers[0, columns])


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize(("op", "receivers"), [("gather", slice(0, 1)), ("all-gather", slice(None))])
def test_a_gather_collects_the_chunk_of_each_rank(op: str, receivers: slice, num_ranks: int) -> None:
    buffers = numbers(num_ranks, 2 * num_ranks + 1)
    chunks = cut(buffers.shape[1], num_ranks)
    gathered = np.concatenate([buffers[rank, columns] for rank, columns in enumerate(chunks)])
    own = np.zeros_like(buffers)
    for rank, columns in enumerate(chunks):
        own[rank, columns] = buffers[rank, columns]
    for algorithm in COLLECTIVES[op].values():
        result = play(algorithm(num_ranks, 8.0), own)[receivers]
        assert np.array_equal(result, np.tile(gathered, (len(result), 1)))


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("name", REDUCE_SCATTER)
def test_a_reduce_scatter_gives_each_rank_its_chunk_of_the_sum(name: str, num_ranks: int) -> None:
    buffers = numbers(num_ranks, 2 * num_ranks + 1)
    result = play(REDUCE_SCATTER[name](num_ranks, 8.0), buffers)
    for rank, columns in enumerate(cut(buffers.shape[1], num_ranks)):
        assert result[rank, columns] == pytest.approx(buffers[:, columns].sum(axis=0))


@pytest.mark.parametrize("op", ["all-gather", "reduce-scatter"])
def test_rings_of_a_torus_keep_the_numbers_of_ranks(op: str) -> None:
    buffers = numbers(24, 24)
    result = play(COLLECTIVES[op]["torus-ring"](24, 8.0, dims=(2, 4, 3)), buffers)
    expected = np.tile(np.diag(buffers), (24, 1)) if op == "all-gather" else buffers.sum(axis=0)
    assert (result if op == "all-gather" else np.diag(result)) == pytest.approx(expected)


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("name", ALL_TO_ALL)
def test_an_all_to_all_gives_each_rank_its_chunk_of_every_rank(name: str, num_ranks: int) -> None:
    data = numbers(num_ranks, num_ranks)
    buffers = np.zeros((num_ranks, num_ranks, num_ranks))
    buffers[np.arange(num_ranks), np.arange(num_ranks)] = data
    result = play(ALL_TO_ALL[name](num_ranks, 8.0), buffers.reshape(num_ranks, -1)).reshape(buffers.shape)
    for rank in range(num_ranks):
        assert np.array_equal(result[rank, :, rank], data[:, rank])


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
def test_a_send_recv_gives_each_rank_the_buffer_of_the_rank_before(num_ranks: int) -> None:
    buffers = numbers(num_ranks, num_ranks)
    result = play(SEND_RECV["ring"](num_ranks, 8.0), buffers)
    for rank in range(num_ranks):
        assert result[rank, rank - 1] == buffers[rank - 1, rank - 1]


@pytest.mark.parametrize("num_ranks", NUM_RANKS)
@pytest.mark.parametrize("name", BARRIER)
def test_after_a_barrier_each_rank_has_a_signal_of_every_other(name: str, num_ranks: int) -> None:
    assert (play(BARRIER[name](num_ranks), np.eye(num_ranks)) > 0).all()


def test_messages_of_a_step_carry_the_values_before_it() -> None:
    swap = Schedule.from_transfers([Transfer(0, 0, 1, 8.0), Transfer(0, 1, 0, 8.0)])
    assert play(swap, np.array([[1.0], [2.0]])).tolist() == [[2.0], [1.0]]


def test_play_does_not_change_its_buffers() -> None:
    buffers = np.ones((4, 4))
    clustersim.collectives.play(ALL_REDUCE["ring"](4, 8.0), buffers)
    assert (buffers == 1).all()


def test_chunks_are_counted_modulo_the_granularity() -> None:
    wrapped = Schedule.from_transfers([Transfer(0, 0, 1, 8.0, 2, 2)], granularity=3)
    assert play(wrapped, np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]))[1].tolist() == [1.0, 0.0, 3.0]


def test_buffers_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"a schedule of 4 ranks needs buffers \[num_ranks, width\] \(got the shape \(3, 4\)\)"
    ):
        play(ALL_REDUCE["ring"](4, 8.0), np.ones((3, 4)))


def test_every_gather_table_is_covered_here() -> None:
    assert {"ring", "bruck", "doubling", "torus-ring"} <= set(ALL_GATHER)
    assert {"linear", "tree"} <= set(GATHER)
