"""A GPU under a limit of power below its board's own, as `nvidia-smi -pl` sets it.

A name such as `h100 at 500 W` is the sheet `h100` with the rates that 500 W leave. Power has two parts: one does not
follow the clock f (memory, links, leakage), and the other switches, at V^2 f, where a chip near its limit has a voltage
V proportional to f. So the clock that a limit P leaves, over that at the board's own P1, is

    ((P - P0) / (P1 - P0)) ** (1/3)

P0 is 165 W of the 700 W of an H100. It follows from products of 8,192 and 10,240 rows and columns in bfloat16 on an
H100 SXM (700 W, 132 multiprocessors: 797.5 and 719.7 TFLOP/s) and an H100 PCIe (350 W, 114: 492.8 and 471.8; in
zzc0721/torch-performance-test-data, issues 79 and 95, 2025). Other boards are assumed to have the same share. The rates
of a sheet are those at its board's own limit. A kernel that does not reach that limit is forecast too slow.
"""

from __future__ import annotations

from dataclasses import replace

from clustersim.errors import InputError
from clustersim.hardware.gpu_name import limited_name
from clustersim.hardware.sheet import Gpu

STILL_SHARE = 165 / 700
"""Share of a board's power that does not follow the clock."""

LOWEST_SHARE = 0.7
"""Least limit over the board's own for which the law was checked: an RTX A5000 follows it to 70 %, and is slower below
(dbkinghorn/Notes, commit 9814addc, 2022/A5000-powerscaling)."""

LOWEST_SHARES = {"hopper": 0.5}
"""The same for architectures with a measurement of their own: the H100 PCIe has half of the power of the H100 SXM."""

ORDINARY = ("fp64", "fp32", "fp16", "bf16")
"""Precisions of the ordinary arithmetic units."""

FAR_ABOVE = 4.0
"""Rate of tensor cores over ordinary units above which the ordinary ones are assumed to keep their clock.

A GA102 has 2, and its products in fp32 are slower too: 80, 90 and 95 % of the rate at 480 W with 280, 330 and 380 W
(blog.qwertyforce.dev, "Optimal power limit for deep learning tasks on RTX 3090"). An H100 has 15.
"""


def clock_share(power_w: float, board_w: float) -> float:
    """Return the clock that a limit of power leaves tensor cores, over that at the board's own limit.

    >>> round(clock_share(500.0, 700.0), 4)
    0.8555
    """
    still_w = STILL_SHARE * board_w
    return float(((power_w - still_w) / (board_w - still_w)) ** (1 / 3))


def with_power_limit(gpu: Gpu, power_w: float) -> Gpu:
    """Return a GPU whose peak rates are those that a limit of power leaves; other values are unchanged."""
    _check(gpu, power_w)
    assert gpu.power_w is not None  # see `_check`
    share = clock_share(power_w, gpu.power_w)
    slowed = [precision for precision in gpu.flop_per_s if precision not in ORDINARY or _limits_ordinary(gpu)]
    of_board = f"of its rate at {gpu.power_w:g} W, the clock that {power_w:g} W leave by the cube law of power"
    why = f"assumed: {share:.4f} {of_board} (docs/physics/compute.md)"
    return replace(
        gpu,
        name=limited_name(gpu.name, power_w),
        title=f"{gpu.title}, limited to {power_w:g} W",
        flop_per_s={key: rate * (share if key in slowed else 1.0) for key, rate in gpu.flop_per_s.items()},
        power_w=power_w,
        boards=(),
        sources={**gpu.sources, **{f"flop_per_s.{key}": why for key in slowed}, "power_w": "limit set by the scenario"},
    )


def _limits_ordinary(gpu: Gpu) -> bool:
    """Say whether a limit of power slows the ordinary units too."""
    tensor = gpu.flop_per_s.get("amp-fp16", 0.0)
    return tensor < FAR_ABOVE * gpu.flop_per_s["fp32"]


def _check(gpu: Gpu, power_w: float) -> None:
    """Raise InputError for a limit that the board cannot have, or that the law is not known for."""
    got, key = f"{power_w:g} W", "power_limit"
    if gpu.power_w is None:
        message = f"the sheet of {gpu.name} has no power_w, so a limit of power cannot be forecast; add it"
        raise InputError(message, got=got, allowed="a sheet with power_w", key=key)
    if power_w > gpu.power_w:
        message = f"the rates of {gpu.title} are for its limit of {gpu.power_w:g} W, which {power_w:g} W exceed"
        raise InputError(message, got=got, allowed=f"at most {gpu.power_w:g} W", key=key)
    lowest_w = LOWEST_SHARES.get(gpu.architecture, LOWEST_SHARE) * gpu.power_w
    if power_w < lowest_w:
        message = (
            f"no clock under load is known below {lowest_w:.4g} W for {gpu.title} (got {got}); "
            "copy its sheet and give the rates that you measured"
        )
        raise InputError(message, got=got, allowed=f"{lowest_w:.4g} W to {gpu.power_w:g} W", key=key)
