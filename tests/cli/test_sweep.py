"""`clustersim sweep` prints the document of `run --json`, and the other commands read its ledger."""

from __future__ import annotations

import json
import sqlite3
import sys
from importlib import import_module
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.cli.sweeping import MOST_IN_REPORT, count_words
from clustersim.errors import SimulationError
from clustersim.sweep.ledger import PointCounts, SweepLedger
from tests.cli.tiny import files


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """Return what a command prints."""
    assert main([*arguments]) == status
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["asynchronous", "failures", "gossip", "llama-h100", "offload", "two-jobs"])
def test_the_document_is_that_of_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = printed(capsys, "run", name, "--json", "-q")
    assert printed(capsys, "sweep", name, "--json", "--on", "in-process", "-q") == expected
    assert files(tmp_path) == set()
    for shard in ("2/2", "1/2"):
        printed(capsys, "sweep", name, "--ledger", "a.db", "--shard", shard, "--on", "in-process", "-q")
    assert printed(capsys, "export", "a.db", "--json") == expected


def test_processes_and_an_end_in_the_middle_change_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = printed(capsys, "run", "tiny.yaml", "--json", "-q")
    printed(capsys, "sweep", "tiny.yaml", "--ledger", "a.db", "--shard", "0/2", "-q")
    assert printed(capsys, "sweep", "tiny.yaml", "--ledger", "a.db", "--workers", "2", "--json", "-q") == expected
    assert files(folder) == {"tiny.yaml", "star.yaml", "a.db"}


def test_the_csv_is_that_of_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "run", "tiny.yaml", "--csv", "run.csv", "--no-report", "-q")
    printed(capsys, "sweep", "tiny.yaml", "--csv", "sweep.csv", "--on", "in-process", "-q")
    printed(capsys, "sweep", "tiny.yaml", "--csv", "sweep.csv.gz", "--on", "in-process", "-q")
    assert (folder / "sweep.csv").read_text() == (folder / "run.csv").read_text()
    import gzip

    assert gzip.decompress((folder / "sweep.csv.gz").read_bytes()) == (folder / "run.csv").read_bytes()


def test_shards_are_merged_and_their_status_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = printed(capsys, "run", "tiny.yaml", "--json", "-q")
    for job in (1, 2):
        sweep = ["sweep", "tiny.yaml", "--ledger", f"{job}.db", "--shard", f"{job}/2", "--on", "in-process", "-q"]
        expected_lines = f"tiny: 2 points: 1 done, 1 left\nshard {job % 2}/2: 1 points: 1 done, 0 left\n"
        assert printed(capsys, *sweep) == expected_lines
    status = json.loads(printed(capsys, "status", "1.db", "--json"))
    assert status["schema"] == "clustersim.status/1"
    (each,) = status["sweeps"]
    assert {key: each[key] for key in ("name", "num_points", "done", "failed", "left", "shards_left")} == {
        "name": "tiny",
        "num_points": 2,
        "done": 1,
        "failed": {},
        "left": 1,
        "shards_left": {"2": ["0/2"]},
    }
    assert each["left_worker_s"] == each["seconds_per_point"] > 0
    assert "shards with points left: 0/2" in printed(capsys, "status", "1.db")
    assert "tiny: 2 points: 2 done, 0 left" in printed(capsys, "merge", "all.db", "2.db", "1.db")
    assert printed(capsys, "export", "all.db", "--json") == expected


def test_a_ledger_has_a_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "sweep", "tiny.yaml", "--ledger", "a.db", "--on", "in-process", "-q")
    assert "report: a.html" in printed(capsys, "report", "a.db")
    assert "tiny" in (folder / "a.html").read_text()
    store = sqlite3.connect("a.db")
    store.execute("UPDATE sweeps SET num_points = ?", (MOST_IN_REPORT + 1,))
    store.commit()
    store.close()
    assert main(["report", "a.db"]) == 3
    assert "write a table: clustersim export a.db --csv FILE" in capsys.readouterr().err


def test_an_empty_ledger_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SweepLedger.open("a.db").close()
    assert "a.db" in printed(capsys, "status", "a.db")
    assert main(["export", "a.db", "--json"]) == 3
    assert "the ledger has no sweep (it has: none)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["sweep", "tiny.yaml", "--shard", "0/2"], 2, "--shard needs --ledger FILE"),
        (["sweep", "tiny.yaml", "--ledger", "a.db", "--shard", "3/2"], 2, "expected I/N, such as 0/8"),
        (["sweep", "tiny.yaml", "--on", "nothing"], 3, "'nothing'"),
        (["sweep", "tiny.yaml", "--ledger", "tiny.yaml"], 3, "tiny.yaml: is not a ledger: not a SQLite file"),
        (["status", "none.db"], 3, "there is no such ledger"),
        (["merge", "all.db", "none.db"], 3, "there is no such ledger"),
        (["export", "star.yaml"], 3, "star.yaml: is not a ledger"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: list[str], status: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *(["-q"] if arguments[0] == "sweep" else [])]) == status
    assert message in capsys.readouterr().err
    assert not (folder / "all.db").exists()


def test_parquet_without_its_library_is_told_before_any_point(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert main(["sweep", "tiny.yaml", "--ledger", "a.db", "--parquet", "a.parquet", "-q"]) == 3
    assert "pip install 'clustersim[parquet]'" in capsys.readouterr().err
    assert not (folder / "a.db").exists()


def test_counts_are_words() -> None:
    assert count_words(PointCounts(1, {"does-not-fit": 2, "too-long": 1}, 1000)) == (
        "1,004 points: 1 done, 3 failed (does-not-fit 2, too-long 1), 1,000 left"
    )


NONE_FITS = ("--set", "batch.per_gpu=[100000, 200000]", "--on", "in-process", "-q")


def test_the_reasons_are_told_where_no_point_ran(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.yaml", *NONE_FITS[:2], "-q"]) == 3
    expected = capsys.readouterr().err
    assert main(["sweep", "tiny.yaml", *NONE_FITS]) == 3
    out, err = capsys.readouterr()
    assert out == "tiny: 4 points: 0 done, 4 failed (does-not-fit 4), 0 left\n"
    assert err == expected
    assert "one k80 holds 12.9 GB, and this needs" in err
    document = json.loads(printed(capsys, "sweep", "tiny.yaml", *NONE_FITS, "--json", status=3))
    assert {run["error"]["kind"] for run in document["runs"]} == {"does-not-fit"}


def test_a_shard_of_which_no_point_fits_is_no_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [
        "--set",
        "num_gpus=1",
        "--set",
        "batch.per_gpu=[16, 200000]",
        "--ledger",
        "a.db",
        "--on",
        "in-process",
        "-q",
    ]
    printed_lines = printed(capsys, "sweep", "tiny.yaml", "--shard", "1/2", *sizes)
    assert "shard 1/2: 1 points: 0 done, 1 failed (does-not-fit 1), 0 left" in printed_lines
    assert "1 done, 1 failed (does-not-fit 1), 0 left" in printed(capsys, "sweep", "tiny.yaml", *sizes)


def test_strict_also_ends_at_a_failure_that_is_in_the_ledger(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "tiny.yaml", "--ledger", "a.db", "--on", "in-process", "-q"]

    def stuck(*arguments: object, **options: object) -> None:
        raise SimulationError("it cannot end")

    with monkeypatch.context() as patch:
        patch.setattr(import_module("clustersim.sweep.task"), "forecast_anchored", stuck)
        printed(capsys, *command, status=1)
    assert main([*command, "--strict"]) == 1
    assert "it cannot end" in capsys.readouterr().err
    assert "2 done, 0 left" in printed(capsys, *command, "--strict", "--retry")


@pytest.mark.parametrize("name", ["tiny.yaml/x.csv", "."])
def test_a_table_that_cannot_be_written_is_told_before_any_point(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "tiny.yaml", "--ledger", "a.db", "--csv", name, "-q"]) == 3
    assert f"cannot write {name}" in capsys.readouterr().err
    assert files(folder) == {"tiny.yaml", "star.yaml"}


@pytest.mark.parametrize("arguments", [["tinny.yaml"], ["tiny.yaml", "--where", "num_gps > 1"]])
def test_a_wrong_scenario_leaves_no_ledger(arguments: list[str], folder: Path) -> None:
    assert main(["sweep", *arguments, "--ledger", "a.db", "-q"]) == 3
    assert files(folder) == {"tiny.yaml", "star.yaml"}
