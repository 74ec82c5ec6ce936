"""Measurements survive an interruption, and those of another device are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from clustersim.profiling.errors import ProfilingError
from clustersim.profiling.ledger import Ledger

HERE = {"device": {"name": "NVIDIA H200"}, "flags": {"cudnn_benchmark": True}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "m.ledger.jsonl"


def test_what_is_recorded_is_there_the_next_time(path: Path) -> None:
    Ledger(path, HERE).record("conv1", {"forward_s": 1.5e-5})
    again = Ledger(path, HERE)
    assert "conv1" in again
    assert again["conv1"] == {"forward_s": 1.5e-5}
    assert "conv2" not in again


def test_a_last_line_that_is_truncated_is_measured_again(path: Path) -> None:
    ledger = Ledger(path, HERE)
    ledger.record("conv1", 1.0)
    ledger.record("conv2", 2.0)
    path.write_bytes(path.read_bytes()[:-5])
    again = Ledger(path, HERE)
    assert again.values == {"conv1": 1.0}
    again.record("conv2", 3.0)
    assert Ledger(path, HERE).values == {"conv1": 1.0, "conv2": 3.0}


def test_a_header_that_is_truncated_starts_anew(path: Path) -> None:
    Ledger(path, HERE)
    path.write_bytes(path.read_bytes()[:10])
    assert Ledger(path, HERE).values == {}
    assert Ledger(path, HERE).values == {}


def test_another_device_is_refused_and_nothing_is_written(path: Path) -> None:
    Ledger(path, HERE)
    before = path.read_bytes()
    with pytest.raises(ProfilingError, match=r"measured with device = .*H200.* and this is .*H100.*never mixed"):
        Ledger(path, HERE | {"device": {"name": "NVIDIA H100"}})
    assert path.read_bytes() == before


def test_other_flags_are_refused(path: Path) -> None:
    Ledger(path, HERE)
    with pytest.raises(ProfilingError, match="measured with flags"):
        Ledger(path, HERE | {"flags": {"cudnn_benchmark": False}})


def test_a_damaged_line_is_reported_with_its_number(path: Path) -> None:
    Ledger(path, HERE).record("conv1", 1.0)
    path.write_text(path.read_text() + "{broken\n")
    with pytest.raises(ProfilingError, match=r"m\.ledger\.jsonl:3: this line is damaged; remove it"):
        Ledger(path, HERE)


def test_another_kind_of_file_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("time,loss\n1,2\n")
    with pytest.raises(ProfilingError, match="is not a ledger of a profile"):
        Ledger(path, HERE)


def test_numbers_that_are_none_are_not_recorded(path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        Ledger(path, HERE).record("conv1", float("nan"))
    assert Ledger(path, HERE).values == {}
