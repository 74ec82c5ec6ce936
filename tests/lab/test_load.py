"""Detection of other load on the machine; no real run here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from validate.lab import __main__ as program
from validate.lab.load import NUM_ROUNDS, Load, loaded, share

IDLE = Load(0.5, [0.01] * NUM_ROUNDS, worked=100.0, there=1000.0, stolen=0.0)
LATER = replace(IDLE, num_waiting=7.0, worked=300.0, there=2000.0, stolen=20.0)


def test_an_idle_machine_has_no_load_and_the_lab_does_not_count() -> None:
    assert loaded(IDLE, LATER, 2) is None
    assert share(IDLE, LATER) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (replace(IDLE, num_waiting=5.25), LATER, "5.2 processes waited for its 2 cores at the start"),
        (
            replace(IDLE, spin_s=[0.01, 0.03] * (NUM_ROUNDS // 2)),
            LATER,
            "a fixed loop took 2.00 times its shortest time before, 1.00 times after",
        ),
        (
            IDLE,
            replace(LATER, spin_s=[0.02] * NUM_ROUNDS),
            "a fixed loop took 1.00 times its shortest time before, 2.00 times after",
        ),
        (IDLE, replace(LATER, stolen=300.0), "30% of its processor time went to other virtual machines"),
    ],
)
def test_a_loaded_machine_is_reported(before: Load, after: Load, message: str) -> None:
    assert loaded(before, after, 2) == message


def test_the_processors_cannot_have_worked_more_than_they_were_there() -> None:
    before, after = Load.now(), Load.now()
    assert 0 <= share(before, after, "stolen") <= share(before, after) <= 1
    assert len(before.spin_s) == NUM_ROUNDS
    assert min(before.spin_s) > 0


def test_a_campaign_on_a_loaded_machine_prints_it_and_writes_it_to_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "loaded", lambda before, after, num_cores: "9.0 processes wanted its cores")
    program.run_and_show("quick", [], tmp_path / "lab.json")
    assert "THE MACHINE WAS LOADED" in capsys.readouterr().err
    assert '"loaded": "9.0 processes wanted its cores"' in (tmp_path / "lab.json").read_text()
