"""Number of channels of an NCCL collective; each channel is a thread block that occupies a multiprocessor.

Formulas and constants: NCCL 2.30, `src/graph/search.cc` (`ncclTopoCompute`, `ncclTopoDupChannels`) and
`src/graph/connect.cc` (`ncclTopoPostset`). NCCL's own output agrees: 24 in a host of A100 with NVSwitch
(NVIDIA/nccl-tests, issue 100), 16 in one of H800 (NVIDIA/nccl, issue 892), 8 on two hosts of two H20 each (issue 1189),
2 on hosts with one adapter (NVIDIA/nccl-tests, issue 128). Left out: fewer channels below some hundred kB; NCCL before
2.5, which searched for rings in another way.
"""

from __future__ import annotations

import math

_MOST = 32
_INSIDE_GB_PER_S = {
    0: (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0),
    90: (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0),
    100: (90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0),
}  # speeds tried for a channel in one host, by the least compute capability (times 10)
_BETWEEN_GB_PER_S = {
    0: (48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12),
    90: (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12),
    100: (96.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12),
}
_LEAST_OF_BEST = 0.49  # of the best speed so far: slower ones are not tried
_QUICK_GB_PER_S = 25.0  # channels at least as quick are doubled in the search

_CAPABILITY = {"pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "ada": 89, "hopper": 90, "blackwell": 100}


def nccl_channels(num_ways: int, bytes_per_s: float, num_hosts: int, *architectures: str) -> int:
    """Return the channels of a collective along `num_ways` routes through its hosts, each with this rate.

    `architectures` are those of its GPUs, of which the oldest counts. A route has the number of channels that uses most
    of its rate at one of NCCL's speeds. Channels of 25 GB/s or more are doubled, except more than four of less than 50
    GB/s on Hopper and later; then all are doubled; and again those of more than 45 GB/s between hosts of Hopper and
    later if there are fewer than 16.

    >>> nccl_channels(1, 240e9, 1, "ampere"), nccl_channels(8, 48e9, 2, "hopper"), nccl_channels(1, 3.1e9, 8, "volta")
    (24, 16, 2)
    """
    num, speed = found_channels(num_ways, bytes_per_s, num_hosts, *architectures)
    num = min(_MOST, 2 * num)
    if compute_capability(*architectures) >= 90 and num_hosts > 1 and speed > 45 and num < 16:
        num *= 2
    return num


def found_channels(num_ways: int, bytes_per_s: float, num_hosts: int, *architectures: str) -> tuple[int, float]:
    """Return the channels that NCCL's search finds, before all are doubled, and their speed in GB/s.

    Its estimate of rings and trees uses these (`clustersim.collectives.nccl`).

    >>> found_channels(8, 24e9, 2, "ampere")
    (8, 24.0)
    """
    capability = compute_capability(*architectures)
    speeds = _INSIDE_GB_PER_S if num_hosts == 1 else _BETWEEN_GB_PER_S
    num_each, speed = _search(speeds[max(least for least in speeds if least <= capability)], bytes_per_s / 1e9)
    num = num_ways * num_each
    if speed >= _QUICK_GB_PER_S and not (capability > 80 and speed < 50 and num > 4):
        return 2 * num, speed / 2
    return num, speed


def quickest_speed(capability: int, gb_per_s: float) -> tuple[float, float]:
    """Return the highest speed of a channel in one host up to a rate, and the highest of all, in GB/s.

    >>> quickest_speed(90, 41.2)
    (40.0, 60.0)
    """
    speeds = _INSIDE_GB_PER_S[max(least for least in _INSIDE_GB_PER_S if least <= capability)]
    return next((speed for speed in speeds if speed <= gb_per_s), speeds[-1]), speeds[0]


def compute_capability(*architectures: str) -> int:
    """Return the compute capability (times 10) of the oldest GPU; 0 for one of another maker."""
    return min(_CAPABILITY.get(architecture, 0) for architecture in architectures)


def _search(speeds: tuple[float, ...], rate: float) -> tuple[int, float]:
    """Return the number of channels of one speed that use most of a rate, both in GB/s: the highest such speed.

    One of the slowest speed if the rate is below all, one of the highest if the rate is infinite.
    """
    if math.isinf(rate):
        return 1, speeds[0]
    best_num, best_speed = 0, 0.0
    for speed in speeds:
        if speed <= _LEAST_OF_BEST * best_speed:
            break
        num = int(rate / speed * (1 + 1e-9))
        if num * speed > best_num * best_speed * (1 + 1e-9):
            best_num, best_speed = num, speed
    return (best_num, best_speed) if best_num else (1, speeds[-1])
