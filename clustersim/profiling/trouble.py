"""What the profiler refuses, and how it tells that memory has run out."""

from __future__ import annotations


class ProfilingError(Exception):
    """Something that the user can mend: an option, the device, a file; the message says how."""


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that the device, or the host, has no memory left.

    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")), is_out_of_memory(KeyError())
    (True, False)
    """
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
