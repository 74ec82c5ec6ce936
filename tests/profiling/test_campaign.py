"""Campaigns from the options of a command line."""

from __future__ import annotations

import pytest

from clustersim.profiling.campaign import LAYOUTS, CampaignPoint, parse_batches, parse_names
from clustersim.profiling.errors import ProfilingError, is_out_of_memory
from clustersim.profiling.main import make_campaign


@pytest.mark.parametrize(
    ("text", "batches"),
    [
        ("8", (8,)),
        ("4, 1,4", (1, 4)),
        ("1..256", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        ("3..20", (3, 6, 12)),
        ("1,2,4,...,64", (1, 2, 4, 8, 16, 32, 64)),
        ("8,16,24,...,48", (8, 16, 24, 32, 40, 48)),
        ("4,6,...,9", (4, 6, 9)),
        ("1,2,...,8,100", (1, 2, 4, 8, 100)),
    ],
)
def test_batches_are_read_as_people_write_them(text: str, batches: tuple[int, ...]) -> None:
    assert parse_batches(text) == batches


@pytest.mark.parametrize("text", ["", "0", "-1", "a", "1,,2", "1.5", "999999999", "2..", "1e3"])
def test_what_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises(ProfilingError, match="is not a batch; write numbers from 1"):
        parse_batches(text)


@pytest.mark.parametrize("text", ["...,8", "1,...,8", "4,2,...,8", "2,4,...,15", "2,4,...,3"])
def test_dots_that_lead_nowhere_are_refused(text: str) -> None:
    with pytest.raises(ProfilingError, match=r"continues two numbers by their factor or their difference"):
        parse_batches(text)


def test_dots_at_the_end_miss_their_number() -> None:
    with pytest.raises(ProfilingError, match="continues two numbers"):
        parse_batches("1,2,...")


def test_an_unknown_layout_is_refused_with_those_there_are() -> None:
    with pytest.raises(ProfilingError, match=r"no layout is called 'nhcw' \(known: nchw, nhwc\)"):
        parse_names("layout", "nchw,nhcw", LAYOUTS)


def test_points_are_every_precision_and_layout_with_small_batches_first() -> None:
    points = list(make_campaign("x", "cpu", "8,2", "fp32,amp-bf16", "nchw,nhwc").points())
    assert points[:3] == [
        CampaignPoint("fp32", "nchw", 2),
        CampaignPoint("fp32", "nchw", 8),
        CampaignPoint("fp32", "nhwc", 2),
    ]
    assert len(points) == len(set(points)) == 8


@pytest.mark.parametrize(("option", "value"), [("kernel_ms", 0.0), ("max_seconds", float("nan"))])
def test_times_are_above_zero(option: str, value: float) -> None:
    limits = {"kernel_ms": 50.0, "max_seconds": 1.0} | {option: value}
    with pytest.raises(ProfilingError, match="is a time above 0"):
        make_campaign("x", "cpu", "1", "fp32", "nchw", True, limits["kernel_ms"], limits["max_seconds"])


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_only_missing_memory_counts_as_out_of_memory(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory
