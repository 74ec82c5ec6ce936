"""The GPU memory that frameworks hold to exchange gradients."""

from __future__ import annotations

import pytest

from clustersim.program import COPIES, Caps
from clustersim.program.buckets import FusionBuffer
from clustersim.program.exchange_buffers import NCCL_CHANNEL_BYTES, NO_EXCHANGE_BUFFERS, exchange_buffers

MIB = 1024.0**2


@pytest.mark.parametrize(
    ("copies", "caps", "by_tensors", "held"),
    [
        ("pytorch", (25 * MIB,), False, 1e9),  # a second copy of every gradient, in its bucket
        ("pytorch-view", (25 * MIB,), False, 0),
        ("none", (25 * MIB,), False, 0),
        ("theano-mpi", (0.0,), False, 0),
        ("horovod", FusionBuffer(64 * MIB), False, 64 * MIB),
        ("horovod", FusionBuffer(128 * MIB), False, 128 * MIB),
        ("none", (1024 * MIB,), True, 1e9),
        ("none", (256 * MIB,), True, 256 * MIB),
        ("none", None, True, 1e9),
    ],
)
def test_buckets_are_what_a_framework_copies_gradients_into(
    copies: str, caps: Caps, by_tensors: bool, held: float
) -> None:
    """PyTorch: docs of `gradient_as_bucket_view`; Horovod: docs/tensor-fusion.md, 64 MiB; InternLM: the flattened one.

    A buffer never holds more than all gradients.
    """
    beside = exchange_buffers(COPIES[copies], caps, by_tensors, 0, 0).held(1e9)
    assert beside == ({"buckets": held} if held else {})


def test_a_communicator_of_four_a100_holds_what_was_read_and_others_scale_with_their_channels() -> None:
    """NVIDIA/nccl, issue 964: 688 MB where there are 24 channels (nccl-tests, issue 100)."""
    one, three = (exchange_buffers(COPIES["none"], None, False, num, 24).held(0.0) for num in (1, 3))
    assert one == {"communicators": pytest.approx(688e6)}
    assert three == {"communicators": pytest.approx(3 * 688e6)}
    assert exchange_buffers(COPIES["none"], None, False, 1, 2).library_bytes == 2 * NCCL_CHANNEL_BYTES
    assert NO_EXCHANGE_BUFFERS.held(1e9) == {}


def test_a_neighbour_takes_what_nccl_was_seen_to_allocate() -> None:
    """NVIDIA/nccl, issue 1685: pieces of 10 and 2 MiB. Two neighbours take 24 MiB of the 28.7 MB of a channel."""
    assert pytest.approx(NCCL_CHANNEL_BYTES, rel=0.15) == 2 * (10 + 2) * MIB
