"""A sweep that is killed at any moment loses what its workers have, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.results.files import to_json
from clustersim.scenario import load_scenario
from clustersim.sweep.ledger import SweepLedger
from tests.sweep.ledger.scenarios import MANY

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
NUM_POINTS = 96


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "many.json").write_text(json.dumps(MANY))
    return tmp_path


def check_whole(ledger: Path) -> None:
    """Compare a ledger with an uninterrupted sweep, byte for byte."""
    with SweepLedger.read(ledger) as opened:
        assert opened.store.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        found = to_json(opened.last().sweep().to_dict(detail=False))
    assert found == to_json(clustersim.sweep(load_scenario(MANY, strict=False)).to_dict(detail=False))


@pytest.mark.parametrize(
    ("on", "num_kills", "most_lost"),
    [("in-process", 30, 1), ("processes", 4, 2 * 5)],  # of two processes, a batch of half a second each
)
def test_a_sweep_that_is_killed_loses_what_its_workers_have(
    on: str, num_kills: int, most_lost: int, folder: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sweep.ledger.killed", folder, str(num_kills), "5", on],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    num_begun, num_killed = map(int, done.stdout.split()[-2:])
    assert num_killed > num_kills / 3
    assert NUM_POINTS <= num_begun <= NUM_POINTS + most_lost * num_killed
    check_whole(folder / "a.db")


def command(folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start `clustersim sweep` of 96 points on two processes."""
    arguments = ["sweep", "many.json", "--ledger", "a.db", "--workers", "2", "-q", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "clustersim", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until_some_are_done(ledger: Path, num: int) -> None:
    end_s = time.monotonic() + 60
    while True:
        assert time.monotonic() < end_s
        time.sleep(0.02)
        with suppress(InputError), SweepLedger.read(ledger) as opened:  # there is none yet, or nothing in it
            if opened.last().counts().done >= num:
                return


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_sweep_on_processes_that_is_stopped_goes_on(number: signal.Signals, status: int, folder: Path) -> None:
    stopped = command(folder)
    until_some_are_done(folder / "a.db", 5)
    os.killpg(stopped.pid, number)
    _, error = stopped.communicate(timeout=60)
    with SweepLedger.read(folder / "a.db") as opened:
        num_done = opened.last().counts().done
    assert num_done >= 5
    if num_done < NUM_POINTS:
        assert stopped.returncode == status, error
        if status > 0:
            assert f"the same command goes on from a.db (96 points: {num_done} done" in error
    again = command(folder, "--json")
    output, error = again.communicate(timeout=120)
    assert again.returncode == 0, error
    assert len(json.loads(output)["runs"]) == NUM_POINTS
    check_whole(folder / "a.db")
