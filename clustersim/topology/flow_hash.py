"""One number for a pair of nodes, the same in every process: what equal-cost routes are chosen by."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def flow_hash(src: int, dst: int) -> int:
    """Return 64 well mixed bits of (src, dst), by the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).

    >>> flow_hash(1, 2) == flow_hash(1, 2), flow_hash(1, 2) == flow_hash(2, 1)
    (True, False)
    """
    return _mix(_mix(src + 0x9E3779B97F4A7C15) ^ (dst + 0x632BE59BD9B4E019))


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
