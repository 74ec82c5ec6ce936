"""NCCL 2.4's threshold between trees and rings."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.collectives.nccl_2_4 import nccl_2_4_choice, tree_threshold_bytes


@pytest.mark.parametrize(
    ("num_ranks", "num_hosts", "num_channels", "nvlink", "threshold"),
    [
        (8, 2, 1, False, 2 * 5e9 * (42e-6 - 27e-6)),
        (32, 8, 1, False, 2 * 5e9 * (186e-6 - 57e-6)),
        (8, 2, 4, True, math.inf),
        (32, 4, 4, True, 3 * 20e9 * (186e-6 - 58e-6)),
        (2, 2, 1, False, 0.0),
        (8, 1, 4, True, 0.0),
    ],
    ids=["two hosts", "eight hosts", "two hosts with NVLink", "four hosts with NVLink", "one GPU a host", "one host"],
)
def test_the_threshold_is_where_ring_and_tree_are_equal(num_ranks, num_hosts, num_channels, nvlink, threshold):
    """b / B_tree + t_tree = b / B_ring + t_ring, at 5 GB/s and 2/3 of that, or 5 GB/s a channel and 3/4 of that."""
    assert tree_threshold_bytes(num_ranks, num_hosts, num_channels, nvlink) == pytest.approx(threshold)


@given(
    per_host=st.integers(1, 16),
    num_hosts=st.integers(1, 64),
    num_bytes=st.floats(0, 1e10),
    nvlink=st.booleans(),
    num_channels=st.integers(1, 12),
)
def test_larger_messages_never_return_to_trees(per_host, num_hosts, num_bytes, nvlink, num_channels):
    choice = [
        nccl_2_4_choice(size, per_host * num_hosts, num_hosts, num_channels, nvlink)
        for size in (num_bytes, 2 * num_bytes)
    ]
    assert choice != ["ring", "double-tree"]
