"""What is wrong with a ledger's file is said, with the right exit status, and nothing that is in it is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.sweep.executor import InProcess
from clustersim.sweep.ledger import LedgerError, SweepLedger, fill
from clustersim.sweep.ledger.store import SCHEMA, file_system, open_store
from tests.sweep.ledger.scenarios import SMALL, module

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger with half the points."""
    path = tmp_path / "a.db"
    with SweepLedger.open(path) as opened:
        fill(opened, load_scenario({**SMALL, "num_gpus": [1]}, strict=False), InProcess())
    return path


def num_forecasts(path: Path) -> int:
    with SweepLedger.read(path) as opened:
        return int(opened.store.execute("SELECT count(*) FROM forecasts").fetchone()[0])


def test_a_closed_ledger_is_one_file(ledger: Path) -> None:
    assert [path.name for path in ledger.parent.iterdir()] == ["a.db"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"model: alexnet\n", "is not a ledger: not a SQLite file"),
        (b"SQLite format 3\0 and no more", "is damaged"),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_and_kept(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    for opened in (SweepLedger.open, SweepLedger.read):
        with pytest.raises(InputError, match=message):
            opened(path)
    assert path.read_bytes() == content


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        SweepLedger.open(tmp_path)
    with pytest.raises(InputError, match="there is no such ledger"):
        SweepLedger.read(tmp_path / "none.db")


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = sqlite3.connect(path)
    store.execute("CREATE TABLE songs (title)")
    store.commit()
    store.close()
    with pytest.raises(InputError, match="of another program"):
        SweepLedger.open(path)


def test_a_newer_schema_is_refused(ledger: Path) -> None:
    store = sqlite3.connect(ledger)
    store.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    store.close()
    for opened in (SweepLedger.open, SweepLedger.read):
        with pytest.raises(InputError, match=f"schema {SCHEMA + 1}; .* use a newer clustersim"):
            opened(ledger)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_a_damaged_ledger_is_refused(share: float, ledger: Path) -> None:
    data = bytearray(ledger.read_bytes())
    start = int(share * len(data)) // 4096 * 4096
    data[start : start + 64] = b"\xff" * 64
    ledger.write_bytes(data)
    with pytest.raises(InputError, match="damaged"), SweepLedger.open(ledger) as opened:
        list(opened.last().forecasts())


def test_a_truncated_ledger_is_refused(ledger: Path) -> None:
    ledger.write_bytes(ledger.read_bytes()[:-5000])
    with pytest.raises(InputError, match="damaged"):
        SweepLedger.open(ledger)


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    with pytest.raises(InputError, match="has nothing in it yet"):
        SweepLedger.read(tmp_path / "a.db")
    with SweepLedger.open(tmp_path / "a.db") as opened:
        assert opened.sweeps() == []


def test_a_full_disk_is_told_and_all_before_is_kept(ledger: Path) -> None:
    loaded = load_scenario(SMALL, strict=False)
    before = num_forecasts(ledger)
    with SweepLedger.open(ledger) as opened:
        opened.begin(loaded)
        pages = opened.store.execute("PRAGMA page_count").fetchone()[0]
        opened.store.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(LedgerError, match="full; free some space"):
            fill(opened, loaded, InProcess())
        assert opened.last().counts().done >= before
    assert num_forecasts(ledger) >= before
    with SweepLedger.open(ledger) as opened:
        assert fill(opened, loaded, InProcess()).counts().done == 16


def test_a_limit_on_the_size_of_files_is_told(ledger: Path, tmp_path: Path) -> None:
    """As a quota does: the system refuses the write, and the message has what to do."""
    (tmp_path / "small.yaml").write_text(str(SMALL))
    code = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({ledger.stat().st_size + 8192},) * 2)\n"
        "from clustersim.cli import main\n"
        f"sys.exit(main(['sweep', 'small.yaml', '--ledger', 'a.db', '--on', 'in-process', '-q']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "free some space on its disk" in done.stderr
    assert "the same command goes on from a.db" in done.stderr
    assert num_forecasts(ledger) >= 8


def test_a_ledger_that_cannot_be_written_is_told(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root every file can be written, so the file is opened read only."""
    monkeypatch.setattr(module("store"), "_uri", lambda path, mode: f"file:{path}?mode=ro")
    with pytest.raises(InputError, match="cannot be opened or written: attempt to write a readonly database"):
        SweepLedger.open(ledger)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_told(ledger: Path) -> None:
    ledger.parent.chmod(0o500)
    try:
        assert num_forecasts(ledger) == 8
        with pytest.raises(InputError, match="cannot"):
            SweepLedger.open(ledger.parent / "new.db")
    finally:
        ledger.parent.chmod(0o700)


def test_a_locked_ledger_is_told(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("store"), "_WAIT_S", 0.1)
    other = sqlite3.connect(ledger, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError, match="another program has locked it"):
        open_store(ledger)
    other.close()
    assert num_forecasts(ledger) == 8


def test_two_writers_at_once_both_go_on(tmp_path: Path) -> None:
    path, loaded = tmp_path / "a.db", load_scenario(SMALL, strict=False)
    done: list[int] = []

    def write() -> None:
        with SweepLedger.open(path) as opened:
            done.append(fill(opened, loaded, InProcess()).counts().done)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(done) == 2
    assert max(done) == 16
    assert num_forecasts(path) == 16
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]


def test_the_file_system_of_a_path_is_found(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n")
    assert file_system(tmp_path / "runs" / "a.db", mounts) == "nfs4"
    assert file_system(Path("/"), mounts) == "ext4"
    assert file_system(Path("/"), tmp_path / "none") is None


def test_files_of_several_machines_have_no_write_ahead_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("store"), "file_system", lambda path: "nfs4")
    with SweepLedger.open(tmp_path / "a.db") as opened:
        assert opened.store.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert opened.store.execute("PRAGMA synchronous").fetchone()[0] == 2, "FULL: it survives a loss of power"
        assert fill(opened, load_scenario(SMALL, strict=False), InProcess()).counts().done == 16


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_disk_that_is_full_keeps_what_was_done(tmp_path: Path) -> None:
    disk, path, loaded = tmp_path / "disk", tmp_path / "disk" / "a.db", load_scenario(SMALL, strict=False)
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=140k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(LedgerError, match="full; free some space"), SweepLedger.open(path) as opened:
            fill(opened, loaded, InProcess())
        before = num_forecasts(path)
        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        assert num_forecasts(path) == before
        with SweepLedger.open(path) as opened:
            assert fill(opened, loaded, InProcess()).counts().done == 16
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert num_forecasts(path) == 16
        with pytest.raises(InputError, match="cannot be opened or written: attempt to write a readonly database"):
            SweepLedger.open(path)
    finally:
        subprocess.run(["umount", disk], check=True)
