"""Errors of the profiler, and detection of out-of-memory errors."""

from __future__ import annotations


class ProfilingError(Exception):
    """An error that the user can correct: an option, the device, a file; the message says how."""


_SIGNS = ("out of memory", "can't allocate memory", "status_alloc_failed")
"""Error texts of torch, the host's allocator, and cuBLAS, cuDNN and cuSPARSE."""


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that the device, or the host, has no memory left.

    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")), is_out_of_memory(KeyError())
    (True, False)
    >>> is_out_of_memory(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"))
    True
    """
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in text for sign in _SIGNS)
