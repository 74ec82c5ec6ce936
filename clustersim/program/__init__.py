"""Programs: what one rank does in an iteration, as data. It computes, communicates, and its gradients become ready.

This package has no clock, no network and no other ranks; `clustersim.execution` runs the programs.
"""

from clustersim.program.buckets import HOROVOD_BUFFER, PYTORCH_CAPS, Caps, assign_buckets, bucket_caps
from clustersim.program.codec import Codec, Wire, with_codec, with_codec_ops
from clustersim.program.exchange_buffers import COPIES, Copies
from clustersim.program.iteration import Bucket, Iteration, plan_iteration

__all__ = [
    "COPIES",
    "HOROVOD_BUFFER",
    "PYTORCH_CAPS",
    "Bucket",
    "Caps",
    "Codec",
    "Copies",
    "Iteration",
    "Wire",
    "assign_buckets",
    "bucket_caps",
    "plan_iteration",
    "with_codec",
    "with_codec_ops",
]
