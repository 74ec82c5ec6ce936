"""A limit of power lowers the peaks of tensor cores by the cube law, within what was measured."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from clustersim.errors import InputError
from clustersim.hardware import GPUS, load_gpu
from clustersim.hardware.boards import other_boards
from clustersim.hardware.power_limit import STILL_SHARE, clock_share

TENSOR = ("tf32", "amp-fp16", "amp-bf16", "amp-fp8")
A5000 = {
    1: [405.9, 425.3, 443.8, 455.8, 465.8, 476.0, 477.6],
    2: [772.4, 815.5, 855.4, 877.1, 896.0, 904.2, 912.6],
    3: [1147.0, 1207.6, 1241.5, 1268.9, 1293.7, 1313.4, 1319.7],
    4: [1523.1, 1603.1, 1638.5, 1689.8, 1712.6, 1726.7, 1751.2],
}
"""Images/s of ResNet-50 with limits of 170, 180, ..., 230 W (dbkinghorn/Notes, commit 9814addc), by number of GPUs."""


def test_the_constant_is_what_products_on_two_h100_give() -> None:
    """Power that follows the clock goes with its cube; the rest does not follow it."""
    sxm_w, sxm_num, pcie_w, pcie_num = 700.0, 132, 350.0, 114
    each = [(797.51 * 719.72) ** 0.5 / sxm_num, (492.84 * 471.79) ** 0.5 / pcie_num]
    moving = pcie_num / sxm_num * (each[1] / each[0]) ** 3
    still_w = (pcie_w - moving * sxm_w) / (1 - moving)
    assert still_w == pytest.approx(STILL_SHARE * sxm_w, abs=0.5)


def test_the_sheet_of_an_h100_of_500_w_has_the_rates_of_an_h100_limited_to_500_w() -> None:
    sheet, limited = load_gpu("h100-96gb"), load_gpu("h100 at 500 W")
    assert sheet.power_w == limited.power_w == 500
    assert dict(limited.flop_per_s) == pytest.approx(dict(sheet.flop_per_s), rel=2e-4)


@pytest.mark.parametrize("name", ["h100-pcie", "h100-nvl"])
def test_other_boards_of_an_h100_have_the_rates_that_their_power_leaves(name: str) -> None:
    """Fewer multiprocessors share the watts that follow the clock: the PCIe's products have 0.64 of the SXM's rate."""
    sheet, sxm = load_gpu(name), load_gpu("h100")
    num = sheet.num_multiprocessors / sxm.num_multiprocessors
    assert sheet.power_w is not None
    share = num * ((sheet.power_w - 165) / num / (700 - 165)) ** (1 / 3)
    for precision in TENSOR:
        assert sheet.flop_per_s[precision] == pytest.approx(share * sxm.flop_per_s[precision], rel=2e-4)


def test_other_boards_than_those_of_the_fit_follow_the_law() -> None:
    limits_w = range(170, 230, 10)
    measured = {watts: [rates[n] / rates[-1] for rates in A5000.values()] for n, watts in enumerate(limits_w)}
    errors = [abs(clock_share(watts, 230) / share - 1) for watts, shares in measured.items() for share in shares]
    assert statistics.median(errors) < 0.02
    assert max(errors) < 0.03


def test_a_limit_changes_nothing_but_peaks_power_and_name() -> None:
    whole, limited = load_gpu("h100"), load_gpu("h100 at 350 W")
    assert (limited.board, limited.name) == ("h100", "h100 at 350 W")
    assert limited.memory_bytes_per_s == whole.memory_bytes_per_s
    assert {key: limited.flop_per_s[key] / whole.flop_per_s[key] for key in TENSOR} == pytest.approx(
        dict.fromkeys(TENSOR, clock_share(350, 700))
    )
    assert limited.flop_per_s["fp32"] == whole.flop_per_s["fp32"]
    assert set(limited.assumed()) >= {f"flop_per_s.{key}" for key in TENSOR}
    assert limited is load_gpu("h100 at 350 W")


def test_ordinary_units_slow_down_where_tensor_cores_are_not_far_above_them() -> None:
    whole, limited = load_gpu("rtx-3090"), load_gpu("rtx-3090 at 280 W")
    assert limited.flop_per_s["fp32"] / whole.flop_per_s["fp32"] == pytest.approx(clock_share(280, 350))


@pytest.mark.parametrize("name", [name for name in GPUS if load_gpu(name).power_w is not None])
def test_the_board_s_own_limit_changes_no_rate(name: str) -> None:
    gpu = load_gpu(name)
    assert dict(load_gpu(f"{name} at {gpu.power_w:.10g} W").flop_per_s) == pytest.approx(dict(gpu.flop_per_s))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h100 at 701 W", "for its limit of 700 W, which 701 W exceed"),
        ("h100 at 349 W", "no clock under load is known below 350 W"),
        ("a100 at 279 W", "no clock under load is known below 280 W"),
        ("h10 at 500 W", "did you mean 'h100'"),
    ],
)
def test_a_limit_that_nothing_is_known_of_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_gpu(name)


def test_a_sheet_without_power_has_no_limit(tmp_path: Path) -> None:
    text = GPUS.find("k20").read_text().split("power_w:")[0]
    sheet = tmp_path / "own.yaml"
    sheet.write_text(text.replace("name: k20", "name: own"))
    with pytest.raises(InputError, match="has no power_w"):
        load_gpu(f"{sheet} at 100 W")


def test_a_name_that_means_several_boards_says_which_was_taken() -> None:
    told = other_boards(load_gpu("h100"))
    assert told is not None
    assert "`h100` is taken as NVIDIA H100 SXM5 (GH100, 80 GB), 700 W" in told
    assert "`h100-96gb`" in told
    assert "0.86 of the rate of its tensor cores and 0.72 of the rate of its memory" in told
    assert other_boards(load_gpu("h100 at 500 W")) is None


@pytest.mark.parametrize("name", [name for name in GPUS if load_gpu(name).boards])
def test_other_boards_have_sheets(name: str) -> None:
    assert set(load_gpu(name).boards) <= set(GPUS) - {name}
