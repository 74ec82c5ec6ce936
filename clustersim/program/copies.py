"""How often gradients are read and written once more, to travel together or by themselves."""

from __future__ import annotations

from typing import NamedTuple


class Copies(NamedTuple):
    """How often a gradient is read and written on its way.

    `into` and `back` are by the GPU that computes: as backward goes on, and before the update. `beside` is by those who
    exchange gradients, on their own stream, and only where several travel together; `each` is by them too, on the GPU,
    whatever travels.
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
"""By whose rule. DistributedDataParallel divides each gradient as it copies it into its bucket (`mul_out` in PyTorch's
reducer.cpp) and copies it back at the end (`copy_bucket_to_grad`); with `gradient_as_bucket_view` it divides it where
it is and copies nothing. Horovod copies what it sends together into its fusion buffer and out of it, before and after
the all-reduce and on the stream of that (`MemcpyInFusionBuffer`, horovod/common/ops/nccl_operations.cc). Theano-MPI
divides each parameter by itself before it is exchanged (`avg_func`, theanompi/lib/exchanger_strategy.py).
DataParallel flattens what it adds together, and what it hands out (`_flatten_dense_tensors`), but not what is alone."""
