"""NCCL's channels: the numbers that it prints, and those of its sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.collectives.nccl_channels import nccl_channels


@pytest.mark.parametrize(
    ("num_ways", "gb_per_s", "num_hosts", "architecture", "channels"),
    [
        (1, 240, 1, "ampere", 24),  # NVIDIA/nccl-tests, issue 100: HGX A100
        (1, 8 * 20.6, 1, "hopper", 16),  # NVIDIA/nccl, issue 892: H800, which has 8 NVLinks
        (2, 48, 2, "hopper", 8),  # NVIDIA/nccl, issue 1189: two H20 a host
        (1, 24, 2, "ampere", 2),  # NVIDIA/nccl-tests, issue 128: one adapter a host
        (8, 24.6, 4, "ampere", 16),  # NVIDIA/nccl, issue 689: 16 multiprocessors on a DGX with 8 adapters
        (8, 48, 4, "hopper", 16),  # NVIDIA/nccl, issue 1453
        (1, 12, 1, "pascal", 2),  # NVIDIA/nccl, issue 689: 2 multiprocessors over PCIe
        (1, 18 * 20.6, 1, "hopper", 24),
        (6, 20, 1, "volta", 12),
        (4, 18, 1, "pascal", 8),
        (1, 0.05, 9, "kepler", 2),  # slower than all of NCCL's speeds
        (1, 55, 1, "hopper", 4),
        (4, 48, 2, "hopper", 16),
    ],
)
def test_a_collective_has_the_channels_that_nccl_prints(num_ways, gb_per_s, num_hosts, architecture, channels):
    assert nccl_channels(num_ways, gb_per_s * 1e9, num_hosts, architecture) == channels


@given(
    num_ways=st.integers(1, 40),
    gb_per_s=st.floats(0.01, 2000),
    num_hosts=st.integers(1, 9),
    architecture=st.sampled_from(["other", "kepler", "volta", "ampere", "hopper", "blackwell"]),
)
def test_channels_are_2_to_32_and_even(num_ways, gb_per_s, num_hosts, architecture):
    num = nccl_channels(num_ways, gb_per_s * 1e9, num_hosts, architecture)
    assert 2 <= num <= 32
    assert num % 2 == 0
