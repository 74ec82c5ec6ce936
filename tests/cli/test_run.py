"""`run` and `report`: what is printed, and which files are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.cli.forecast import folder_name
from tests.cli.tiny import SCENARIO, files


class TestRun:
    def test_prints_a_table_and_says_where_the_files_are(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["run", "tiny.yaml"]) == 0
        out, err = capsys.readouterr()
        assert "report: runs/tiny/report.html" in out
        assert "result: runs/tiny/result.json" in out
        assert "\nOn an ideal network, 2 GPUs train " in out
        assert all(
            line.startswith(("warning: ", "simulated ")) for line in err.splitlines()
        )  # progress where it is slow
        assert files(folder) == {"tiny.yaml", "star.yaml", "runs/tiny/report.html", "runs/tiny/result.json"}

    def test_json_is_one_document_and_no_file(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.result/1"
        assert [run["num_gpus"] for run in document["runs"]] == [1, 2]
        assert document["answer"][0].startswith("On an ideal network, 2 GPUs train ")
        assert "\u202f" not in "".join(document["answer"])
        assert files(folder) == {"tiny.yaml", "star.yaml"}

    def test_json_writes_what_was_asked_for(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--json", "--report", "r.html", "--csv", "r.csv", "--trace", "t.json.gz"]
        assert main(["run", "tiny.yaml", *arguments]) == 0
        json.loads(capsys.readouterr().out)
        assert files(folder) == {"tiny.yaml", "star.yaml", "r.html", "r.csv", "t.json.gz"}

    def test_no_report_draws_none(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--no-report"]) == 0
        assert "report" not in capsys.readouterr().out
        assert files(folder) == {"tiny.yaml", "star.yaml", "runs/tiny/result.json"}

    def test_set_and_seed_override_the_file(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--json", "--set", "num_gpus=4", "--seed", "7"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [run["num_gpus"] for run in document["runs"]] == [4]
        assert document["seed"] == 7

    def test_exact_agrees_and_takes_no_shortcut(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--json"]) == 0
        quick = json.loads(capsys.readouterr().out)
        assert main(["run", "tiny.yaml", "--json", "--exact"]) == 0
        exact = json.loads(capsys.readouterr().out)
        assert exact["shortcuts"] == []
        times = [[run["iteration_s"] for run in document["runs"]] for document in (quick, exact)]
        assert times[0] == pytest.approx(times[1], rel=1e-9)

    def test_mistakes_name_the_file_and_exit_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "bad.yaml").write_text(SCENARIO.replace("10 Gbit/s", "10 Gb/s").replace("ring", "rng"))
        assert main(["run", "bad.yaml", "--json"]) == 3
        out, err = capsys.readouterr()
        assert "write Gbit/s or GB/s" in err
        assert "did you mean 'ring'" in err
        errors = json.loads(out)["errors"]
        assert {(error["file"], error["line"]) for error in errors} == {("bad.yaml", 5), ("bad.yaml", 7)}

    @pytest.mark.parametrize(
        ("changes", "key", "line"),
        [
            (["strategy: {kind: server, servers: {on: own-hosts, num: 4}}"], "strategy.servers.num", 7),
            (["jobs: [{num_gpus: 9}]"], "jobs.0.num_gpus", 8),
            (["batch: {per_gpu: 90000}"], "batch.per_gpu", 7),
            (["model: gpt2-xl"], "model", 7),
            (["num_gpus: 2", "failures: {gpu: {mtbf: 1 s}, checkpoint: {write: 1 s}}"], "failures.gpu", 8),
            (["stragglers: [{kind: gamma, cv: 1, of: []}]"], "stragglers.0.of", 8),
        ],
    )
    def test_invalid_values_are_reported_with_their_line_before_a_run(
        self, changes: list[str], key: str, line: int, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        again = {change.partition(":")[0] for change in changes}
        kept = [each for each in SCENARIO.splitlines() if each.partition(":")[0] not in again]
        (folder / "bad.yaml").write_text("\n".join([*kept, *changes]) + "\n")
        assert main(["run", "bad.yaml", "--json"]) == 3
        out, err = capsys.readouterr()
        (error,) = json.loads(out)["errors"]
        assert (error["file"], error["line"], error["key"]) == ("bad.yaml", line, key)
        assert None not in (error["column"], error["got"], error["allowed"])
        assert f"bad.yaml:{line}:" in err
        assert "Traceback" not in err
        assert "%" not in err  # no progress was shown

    def test_a_file_that_is_not_there_exits_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "nothing.yaml"]) == 3
        assert "nothing.yaml" in capsys.readouterr().err

    def test_a_report_that_cannot_be_written_exits_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--report", "tiny.yaml/report.html"]) == 3
        assert "cannot write tiny.yaml/report.html" in capsys.readouterr().err

    def test_report_is_drawn_again_from_the_saved_run(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml"]) == 0
        first = (folder / "runs/tiny/report.html").read_text()
        assert main(["report", "runs/tiny", "-o", "again.html"]) == 0
        assert (folder / "again.html").read_text() == first
        (folder / "runs/tiny/report.html").unlink()
        assert main(["report", "runs/tiny/result.json"]) == 0
        *_, answer, report = capsys.readouterr().out.splitlines()
        assert report == "report: runs/tiny/report.html"
        assert answer.startswith("The fastest, 1 GPU, is the cheapest too")
        assert (folder / "runs/tiny/report.html").read_text() == first

    def test_no_report_deletes_nothing(self, folder: Path) -> None:
        assert main(["run", "tiny.yaml"]) == 0
        before = {path: path.read_bytes() for path in (folder / "runs/tiny").iterdir()}
        assert main(["run", "tiny.yaml", "--no-report"]) == 0
        assert {path: path.read_bytes() for path in (folder / "runs/tiny").iterdir()} == before

    def test_another_run_of_the_same_name_is_kept(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml"]) == 0
        first = {path.name: path.read_bytes() for path in (folder / "runs/tiny").iterdir()}
        assert main(["run", "tiny.yaml", "--set", "batch.per_gpu=8", "--no-report"]) == 0
        assert "kept the earlier run and its report: runs/tiny/earlier-1" in capsys.readouterr().out
        assert {path.name: path.read_bytes() for path in (folder / "runs/tiny/earlier-1").iterdir()} == first
        assert {path.name for path in (folder / "runs/tiny").iterdir()} == {"earlier-1", "result.json"}
        assert main(["run", "tiny.yaml", "--set", "batch.per_gpu=8"]) == 0
        assert main(["run", "tiny.yaml"]) == 0
        assert {path.name for path in (folder / "runs/tiny/earlier-2").iterdir()} == {"report.html", "result.json"}

    def test_a_page_that_a_user_wrote_is_not_moved(self, folder: Path) -> None:
        assert main(["run", "tiny.yaml", "--no-report"]) == 0
        (folder / "runs/tiny/report.html").write_text("<p>written by a user</p>")
        assert main(["run", "tiny.yaml", "--set", "batch.per_gpu=8", "--report", "other.html"]) == 0
        assert (folder / "runs/tiny/report.html").read_text() == "<p>written by a user</p>"

    def test_report_of_no_run_exits_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["report", "runs/none"]) == 3
        assert "no saved run found" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("name", "folder"), [("plain", "plain"), ("../../up", "up"), ("a b/c", "a-b-c"), ("..", "scenario")]
    )
    def test_names_stay_inside_the_runs_folder(self, name: str, folder: str) -> None:
        assert folder_name(name) == folder
