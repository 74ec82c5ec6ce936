"""Open MPI's choice until 4.0, and its ring in segments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.collectives import closed_form, play
from clustersim.collectives.open_mpi import open_mpi_4_1_choice, open_mpi_choice
from clustersim.collectives.ring import ring_all_reduce
from clustersim.collectives.segmented_ring import SEGMENT_BYTES, phases_of, segmented_ring_all_reduce
from clustersim.errors import InputError

MIB = 2**20


@pytest.mark.parametrize(
    ("num_bytes", "num_ranks", "name"),
    [
        (9_999, 16, "doubling"),
        (10_000, 16, "ring"),
        (16 * MIB, 16, "ring"),
        (16 * MIB + 1, 16, "segmented-ring"),
        (64 * MIB, 64, "ring"),
        (12_000, 3_000, "tree"),
    ],
)
def test_the_choice_follows_coll_tuned_decision_fixed(num_bytes, num_ranks, name):
    assert open_mpi_choice(num_bytes, num_ranks) == name


@pytest.mark.parametrize(
    ("num_bytes", "num_ranks", "name"),
    [
        (4_096, 3, "ring"),
        (8_192, 3, "doubling"),
        (262_143, 3, "ring"),
        (262_144, 3, "halving-doubling"),
        (8_191, 8, "doubling"),
        (8_192, 8, "halving-doubling"),
        (60, 24, "doubling"),
        (131_072, 200, "doubling"),
        (131_071, 200, "tree"),
        (64 * MIB, 256, "halving-doubling"),
        (1e9, 4_096, "ring"),
        (128, 60, "halving-doubling"),
        (128, 63, "halving-doubling"),
        (512, 300, "tree"),
        (5_000, 450, "halving-doubling"),
    ],
)
def test_the_choice_of_4_1_follows_its_table(num_bytes, num_ranks, name):
    assert open_mpi_4_1_choice(num_bytes, num_ranks) == name


@given(num_ranks=st.integers(1, 5_000), num_bytes=st.floats(0, 1e9))
def test_large_buffers_are_halved_and_doubled_up_to_four_thousand_ranks(num_ranks, num_bytes):
    name = open_mpi_4_1_choice(num_bytes, num_ranks)
    assert name != "halving-doubling" or num_bytes / 4 >= 1 << num_ranks.bit_length() - 1 or num_ranks < 4
    if num_bytes >= 262_144:
        assert name == ("halving-doubling" if num_ranks < 4_096 else "ring")


@given(num_ranks=st.integers(2, 9), num_phases=st.integers(1, 5))
def test_every_rank_ends_with_the_sum_however_many_phases(num_ranks, num_phases):
    schedule = segmented_ring_all_reduce(num_ranks, 8.0 * num_ranks * num_phases, num_phases)
    buffers = np.random.default_rng(0).random((num_ranks, schedule.granularity))
    assert play(schedule, buffers) == pytest.approx(np.tile(buffers.sum(axis=0), (num_ranks, 1)))


@given(num_ranks=st.integers(2, 40), mebibytes=st.floats(0.01, 500))
def test_phases_are_of_half_to_three_halves_of_a_segment_beyond_the_first(num_ranks, mebibytes):
    piece = mebibytes * MIB / num_ranks / phases_of(num_ranks, mebibytes * MIB)
    assert piece <= 1.5 * SEGMENT_BYTES
    assert piece > 0.5 * SEGMENT_BYTES or phases_of(num_ranks, mebibytes * MIB) == 1


@pytest.mark.parametrize(("num_ranks", "phases"), [(4, 16), (16, 4), (64, 1)])
def test_segments_cost_their_delays_and_nothing_else(num_ranks, phases):
    """Buffers of 64 MiB, as Horovod's: (p + 1) (n - 1) delays, and the bytes of a ring."""
    seconds = [
        closed_form("all-reduce", name, num_ranks, 64.0 * MIB, latency_s=1e-3, bytes_per_s=1e9)
        for name in ("segmented-ring", "ring")
    ]
    assert seconds[0] - seconds[1] == pytest.approx((phases - 1) * (num_ranks - 1) * 1e-3)


def test_up_to_a_segment_a_rank_it_is_a_ring():
    ours, ring = segmented_ring_all_reduce(5, 5.0 * MIB), ring_all_reduce(5, 5.0 * MIB)
    assert list(ours.transfers()) == list(ring.transfers())


def test_zero_phases_are_refused():
    with pytest.raises(InputError, match="num_phases must be a whole number of at least 1"):
        segmented_ring_all_reduce(4, 8.0, num_phases=0)
