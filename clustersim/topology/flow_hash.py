"""A hash of a pair of nodes, the same in every process, which selects among equal-cost routes."""

from __future__ import annotations

import numpy as np

_MASK = (1 << 64) - 1


def flow_hash(src: int, dst: int) -> int:
    """Return 64 well mixed bits of (src, dst), by the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).

    >>> flow_hash(1, 2) == flow_hash(1, 2), flow_hash(1, 2) == flow_hash(2, 1)
    (True, False)
    """
    return _mix(_mix(src + 0x9E3779B97F4A7C15) ^ (dst + 0x632BE59BD9B4E019))


def flow_hashes(src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Return `flow_hash` of many pairs at once, as uint64 [num_pairs], with wrap-around of 64-bit integers."""
    first = _mix_all(src.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return _mix_all(first ^ (dst.astype(np.uint64) + np.uint64(0x632BE59BD9B4E019)))


def _mix_all(value: np.ndarray) -> np.ndarray:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = value ^ (value >> np.uint64(31))
    return mixed


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
