"""How frameworks copy gradients to exchange them, and the GPU memory that they hold for that.

The memory is that of buckets, a fusion buffer, and the library's own buffers. DistributedDataParallel has every
gradient twice, where autograd puts it and in its bucket, unless gradients are views of buckets (PyTorch, docs of
`gradient_as_bucket_view`: "the saved memory size will be equal to the total gradients size"). Horovod has one buffer
for all gradients that travel together (docs/tensor-fusion.md), InternLM the flattened bucket that it sums up
(hybrid_zero_optim.py). NCCL's buffers are outside what PyTorch counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from clustersim.program.buckets import HOROVOD_BUFFER, Caps, FusionBuffer


class Copies(NamedTuple):
    """How often a gradient is read and written on its way.

    `into` and `back` are copies by the GPU's compute stream: during backward, and before the update. `beside` are
    copies by the code that exchanges gradients, on a stream of its own, and only where several gradients travel
    together. `each` are copies by that code too, on the GPU, of every gradient.
    """

    into: int = 0
    back: int = 0
    beside: int = 0
    each: int = 0


COPIES = {
    "data-parallel": Copies(beside=2),
    "none": Copies(),
    "pytorch": Copies(into=1, back=1),
    "pytorch-view": Copies(into=1),
    "horovod": Copies(beside=2),
    "theano-mpi": Copies(each=1),
}
"""The copies of each framework. DistributedDataParallel divides each gradient as it copies it into its bucket
(`mul_out` in PyTorch's reducer.cpp) and copies it back at the end (`copy_bucket_to_grad`); with
`gradient_as_bucket_view` it divides it in place and copies nothing. Horovod copies gradients that travel together into
its fusion buffer and out of it, before and after the all-reduce and on its stream (`MemcpyInFusionBuffer`,
horovod/common/ops/nccl_operations.cc). Theano-MPI divides each parameter by itself before it is exchanged (`avg_func`,
theanompi/lib/exchanger_strategy.py). DataParallel flattens the gradients that it adds together, and the weights that it
sends out (`_flatten_dense_tensors`), but not a single one."""

NCCL_CHANNEL_BYTES = 688e6 / 24
"""Bytes that a channel of a communicator holds on each GPU. Read: 688 MB for a group of three or four A100 on NVLink,
544 MB for one of two (NVIDIA/nccl, issue 964), on the 24 channels that NCCL has there. NCCL's author says that it grows
with channels, and from two hosts on no more with GPUs (issues 864 and 986). By the default sizes of its buffers (4 MiB
and those of two protocols, allocated as 10 and 2 MiB: issue 1685) two neighbours take 24 MiB."""


@dataclass(frozen=True)
class ExchangeBuffers:
    """GPU memory for exchanges, in bytes: buckets with a copy of all gradients, one buffer, and the library's."""

    has_buckets: bool = False
    buffer_bytes: float = 0.0
    library_bytes: float = 0.0

    def held(self, gradient_bytes: float) -> dict[str, float]:
        """Return the bytes in addition to `gradient_bytes` of a rank, by purpose; purposes of 0 bytes are left out.

        >>> ExchangeBuffers(has_buckets=True, library_bytes=688e6).held(4e9)
        {'buckets': 4000000000.0, 'communicators': 688000000.0}
        """
        buckets = gradient_bytes if self.has_buckets else min(self.buffer_bytes, gradient_bytes)
        by_purpose = {"buckets": buckets, "communicators": self.library_bytes}
        return {name: size for name, size in by_purpose.items() if size}


NO_EXCHANGE_BUFFERS = ExchangeBuffers()


def exchange_buffers(
    copies: Copies, caps: Caps, by_tensors: bool, num_communicators: int, num_channels: int
) -> ExchangeBuffers:
    """Return the memory for exchanges, given the copies of gradients and what closes a bucket.

    `by_tensors` says that copies of the model share out whole tensors, and sum up flattened buckets. A rank is in
    `num_communicators` groups, with `num_channels` channels of NCCL each; 0 with another library.
    """
    buffer_bytes = 0.0
    if copies.beside:
        buffer_bytes = (caps if isinstance(caps, FusionBuffer) else HOROVOD_BUFFER).num_bytes
    elif by_tensors:
        buffer_bytes = caps[-1] if isinstance(caps, tuple) else float("inf") if caps is None else caps.num_bytes
    library_bytes = num_communicators * num_channels * NCCL_CHANNEL_BYTES
    return ExchangeBuffers(bool(copies.into and copies.back), buffer_bytes, library_bytes)
