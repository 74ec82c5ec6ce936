"""What those who exchange gradients keep on a GPU beside them: buckets, a fusion buffer, and the library's own buffers.

DistributedDataParallel has every gradient twice, where autograd puts it and in its bucket, unless gradients are views
of buckets (PyTorch, docs of `gradient_as_bucket_view`: "the saved memory size will be equal to the total gradients
size"). Horovod has one buffer for all that travels together (docs/tensor-fusion.md), InternLM the flattened bucket
that it sums up (hybrid_zero_optim.py). NCCL's buffers are outside what PyTorch counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.program.buckets import HOROVOD_BUFFER, Caps, FusionBuffer
from clustersim.program.copies import Copies

NCCL_CHANNEL_BYTES = 688e6 / 24
"""What a channel of a communicator holds on each GPU. Read: 688 MB for a group of three or four A100 on NVLink, 544 MB
for one of two (NVIDIA/nccl, issue 964), on the 24 channels that NCCL has there; that it grows with channels, and from
two hosts on no more with GPUs, is what NCCL's author says (issues 864 and 986). By the default sizes of its buffers
(4 MiB and those of two protocols, allocated as 10 and 2 MiB: issue 1685) two neighbours take 24 MiB."""


@dataclass(frozen=True)
class ExchangeBuffers:
    """Bytes that are held for exchanges: buckets with all gradients once more, one buffer, and the library's own."""

    has_buckets: bool = False
    buffer_bytes: float = 0.0
    library_bytes: float = 0.0

    def held(self, gradient_bytes: float) -> dict[str, float]:
        """Return the bytes beside `gradient_bytes` of a rank, by what they are for; nothing of what there is none of.

        >>> ExchangeBuffers(has_buckets=True, library_bytes=688e6).held(4e9)
        {'buckets': 4000000000.0, 'communicators': 688000000.0}
        """
        buckets = gradient_bytes if self.has_buckets else min(self.buffer_bytes, gradient_bytes)
        held = {"buckets": buckets, "communicators": self.library_bytes}
        return {name: size for name, size in held.items() if size}


NOTHING_BESIDE = ExchangeBuffers()


def exchange_buffers(
    copies: Copies, caps: Caps, by_tensors: bool, num_communicators: int, num_channels: int
) -> ExchangeBuffers:
    """Return what is held for exchanges by how often gradients are copied, and what closes a bucket.

    `by_tensors` says that copies share out whole tensors, and sum up flattened buckets; `num_communicators` are the
    groups that a rank is in, with NCCL's `num_channels` each, 0 of another library.
    """
    buffer_bytes = 0.0
    if copies.beside:
        buffer_bytes = (caps if isinstance(caps, FusionBuffer) else HOROVOD_BUFFER).num_bytes
    elif by_tensors:
        buffer_bytes = caps[-1] if isinstance(caps, tuple) else float("inf") if caps is None else caps.num_bytes
    library_bytes = num_communicators * num_channels * NCCL_CHANNEL_BYTES
    return ExchangeBuffers(bool(copies.into and copies.back), buffer_bytes, library_bytes)
