"""`diff`: what is printed and written, and its exit statuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from clustersim.cli import main
from tests.cli.tiny import files

FAST = ["--a", "num_gpus=2", "--b", "num_gpus=4"]


def test_prints_the_answer_and_the_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "tiny.yaml", *FAST]) == 0
    out = capsys.readouterr().out
    assert "A: tiny.yaml num_gpus=2 (2 GPUs, batch 16 on each, clustersim " in out
    assert "An iteration takes " in out
    assert "where the time goes" in out
    assert "The scenarios differ in num_gpus (2 in A, 4 in B)." in out
    assert "\u202f" not in out
    assert files(folder) == {"tiny.yaml", "star.yaml"}


def test_json_is_one_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "tiny.yaml", *FAST, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.diff/1"
    (found,) = document["differences"]
    assert (found["a"]["num_gpus"], found["b"]["num_gpus"]) == (2, 4)
    assert sum(part["change_s"] for part in found["parts"]) == pytest.approx(found["change_s"])
    assert found["change_s"] == found["b_s"] - found["a_s"]
    assert found["settings"] == [{"key": "num_gpus", "a": 2, "b": 4}]
    assert "\u202f" not in "".join(document["answer"])


def test_an_edit_of_a_file_is_found_against_the_saved_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.yaml", "--no-report"]) == 0
    assert main(["diff", "runs/tiny", "tiny.yaml"]) == 0
    assert "There is no difference" in capsys.readouterr().out
    text = (folder / "tiny.yaml").read_text().replace("10 Gbit/s", "5 Gbit/s")
    (folder / "tiny.yaml").write_text(text)
    assert main(["diff", "runs/tiny", "tiny.yaml", "--b", "num_gpus=2"]) == 0
    out = capsys.readouterr().out
    assert "topology.link (10 Gbit/s in A, 5 Gbit/s in B)" in " ".join(out.split())


def test_writes_what_was_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "tiny.yaml", *FAST, "--csv", "d.csv", "--report", "d.html"]) == 0
    out = capsys.readouterr().out
    assert "report: d.html" in out
    assert "csv: d.csv" in out
    rows = list(csv.DictReader((folder / "d.csv").open(encoding="utf-8")))
    assert list(rows[0]) == ["a", "b", "basis", "part", "cause", "a_s", "b_s", "change_s"]
    assert files(folder) == {"tiny.yaml", "star.yaml", "d.csv", "d.html"}


def test_the_same_bytes_every_time(folder: Path) -> None:
    for name in ("one.html", "two.html"):
        assert main(["diff", "tiny.yaml", *FAST, "--report", name, "--json"]) == 0
    assert (folder / "one.html").read_bytes() == (folder / "two.html").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["tiny.yaml"], 2, "name a second one, or say what differs by --a KEY=VALUE and --b KEY=VALUE"),
        (["tiny.yaml", *FAST, "--open"], 2, "--open needs a page: add --report FILE"),
        (["tiny.yaml", "--a", "num_gpus=4"], 3, "it cannot be decided which points to compare"),
        (["tiny.yaml", "none"], 3, "there is no file 'none' and no scenario of that name"),
        (["tiny.yaml", "--a", "num_gpus"], 3, "expected KEY=VALUE"),
        (["tiny.yaml", *FAST, "--b", "model=alexnt"], 3, "did you mean 'alexnet'?"),
        (["tiny.yaml", *FAST, "--per", "hour"], 3, "no basis is called 'hour'"),
        (["empty", "tiny.yaml"], 3, "no saved run found"),
        (["broken.json", "tiny.yaml"], 3, "broken.json"),
    ],
)
def test_mistakes_have_their_exit_status(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    (folder / "empty").mkdir()
    (folder / "broken.json").write_text('{"schema": "clustersim.result/1", ')
    assert main(["diff", *arguments]) == status
    assert message in capsys.readouterr().err
