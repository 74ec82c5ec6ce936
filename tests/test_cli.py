"""The command line: what goes to which stream, what is written, and what the exit status says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

import clustersim
from clustersim.cli import main
from clustersim.cli.collectives import nccl_tests_table, parse_sizes
from clustersim.cli.forecast import folder_name
from clustersim.cli.listing import SECTIONS, first_comment
from clustersim.cli.progress import _lines
from clustersim.data import shipped_files
from clustersim.errors import InputError, Mistake, SimulationError, ToleranceError

SCENARIO = """\
name: tiny
model: alexnet
num_gpus: [1, 2]
batch: {per_gpu: 16}
topology: {kind: star, num_hosts: 4, link: 10 Gbit/s, hop: 1 us, host: {gpu: k80}}
strategy: {kind: all-reduce, algorithm: ring}
"""
STAR = "kind: star\nnum_hosts: 4\nlink: 8 Gbit/s\nhop: 1 us\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one scenario and one topology file in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "star.yaml").write_text(STAR)
    return tmp_path


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def app(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr("clustersim.cli.app", app)


class TestExitStatus:
    def test_done_is_0(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"clustersim {clustersim.__version__}\n"

    @pytest.mark.parametrize(
        "arguments",
        [
            ["no-such-command"],
            ["run"],
            ["run", "x", "--seed", "-1"],
            ["run", "x", "--report", "a.html", "--no-report"],
            ["collective", "all-reduce", "--topology", "titan", "--gpus", "0", "--bytes", "1B"],
        ],
    )
    def test_usage_is_2_and_explained(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Usage: clustersim" in err
        assert "Error: " in err

    @pytest.mark.parametrize("arguments", [["list", "nonsense"], ["copy", "nonsense"], ["collective", "nonsense"]])
    def test_a_name_that_nobody_knows_is_3_wherever_it_stands(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        more = ["--topology", "titan", "--gpus", "4", "--bytes", "1 B"] if arguments[0] == "collective" else []
        assert main([*arguments, *more]) == 3
        assert "is called 'nonsense'" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("error", "status"), [(SimulationError("stuck"), 1), (InputError("wrong"), 3), (ToleranceError("off"), 4)]
    )
    def test_ours_are_told_without_a_traceback(
        self, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail_with(monkeypatch, error)
        assert main(["run", "x"]) == status
        assert capsys.readouterr() == ("", f"{error}\n")

    def test_a_bug_is_1_with_its_traceback(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail_with(monkeypatch, ZeroDivisionError("oh"))
        assert main(["run", "x"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("Traceback")
        assert "ZeroDivisionError: oh" in err

    def test_interrupted_is_130(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        def interrupt(*arguments: Any, **options: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("clustersim.data.shipped_files", interrupt)
        assert main(["copy", "x"]) == 130
        assert capsys.readouterr() == ("", "interrupted: a file that was not finished has not been written\n")

    def test_no_arguments_show_the_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 2
        assert "Commands:" in "".join(capsys.readouterr())


class TestErrorsAsJson:
    def test_every_mistake_is_there_with_all_its_keys(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        mistakes = [Mistake("bad", key="a.b", file="f.yaml", line=3, column=4, got="1", allowed="2"), Mistake("worse")]
        fail_with(monkeypatch, InputError(mistakes))
        assert main(["run", "x", "--json"]) == 3
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.error/1"
        assert document["errors"][0] == {
            "file": "f.yaml",
            "line": 3,
            "column": 4,
            "key": "a.b",
            "got": "1",
            "allowed": "2",
            "message": "bad",
        }
        assert document["errors"][1]["message"] == "worse"
        assert document["errors"][1]["line"] is None

    @pytest.mark.parametrize(("error", "status"), [(SimulationError("stuck"), 1), (RuntimeError("oh"), 1)])
    def test_other_failures_are_documents_too(
        self, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail_with(monkeypatch, error)
        assert main(["run", "x", "--json"]) == status
        (mistake,) = json.loads(capsys.readouterr().out)["errors"]
        assert str(error) in mistake["message"]

    def test_usage_errors_are_documents_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "--json"]) == 2
        (mistake,) = json.loads(capsys.readouterr().out)["errors"]
        assert "SCENARIO" in mistake["message"]


class TestRun:
    def test_prints_a_table_and_says_where_the_files_are(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["run", "tiny.yaml"]) == 0
        out, err = capsys.readouterr()
        assert "report: runs/tiny/report.html" in out
        assert "result: runs/tiny/result.json" in out
        assert all(
            line.startswith(("warning: ", "simulated ")) for line in err.splitlines()
        )  # progress where it is slow
        assert files(folder) == {"tiny.yaml", "star.yaml", "runs/tiny/report.html", "runs/tiny/result.json"}

    def test_json_is_one_document_and_no_file(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.result/1"
        assert [run["num_gpus"] for run in document["runs"]] == [1, 2]
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
        assert {(error["file"], error["line"]) for error in errors} == {("bad.yaml", 5), ("bad.yaml", 6)}

    @pytest.mark.parametrize(
        ("changes", "key", "line"),
        [
            (["strategy: {kind: server, servers: {on: own-hosts, num: 3}}"], "strategy.servers.num", 6),
            (["jobs: [{num_gpus: 9}]"], "jobs.0.num_gpus", 7),
            (["batch: {per_gpu: 90000}"], "batch.per_gpu", 6),
            (["model: gpt2-xl"], "model", 6),
            (["num_gpus: 2", "failures: {gpu: {mtbf: 1 s}, checkpoint: {write: 1 s}}"], "failures.gpu", 7),
            (["stragglers: [{kind: gamma, cv: 1, of: []}]"], "stragglers.0.of", 7),
        ],
    )
    def test_what_cannot_be_played_is_told_at_its_line_before_anything_runs(
        self, changes: list[str], key: str, line: int, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        again = {change.partition(":")[0] for change in changes}
        kept = [each for each in SCENARIO.splitlines() if each.partition(":")[0] not in again]
        (folder / "bad.yaml").write_text("\n".join([*kept, *changes]) + "\n")
        assert main(["run", "bad.yaml", "--json"]) == 3
        out, err = capsys.readouterr()
        (told,) = json.loads(out)["errors"]
        assert (told["file"], told["line"], told["key"]) == ("bad.yaml", line, key)
        assert None not in (told["column"], told["got"], told["allowed"])
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
        assert capsys.readouterr().out.splitlines()[-1] == "report: runs/tiny/report.html"
        assert (folder / "runs/tiny/report.html").read_text() == first

    def test_a_report_of_an_earlier_run_does_not_stay_beside_the_result(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        report = folder / "runs/tiny/report.html"
        assert main(["run", "tiny.yaml"]) == 0
        assert main(["run", "tiny.yaml", "--no-report"]) == 0
        assert not report.exists()
        assert "removed: runs/tiny/report.html, of an earlier run" in capsys.readouterr().out
        report.write_text("<p>somebody's own</p>")
        assert main(["run", "tiny.yaml", "--report", "other.html"]) == 0
        assert report.read_text() == "<p>somebody's own</p>"

    def test_report_of_no_run_exits_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["report", "runs/none"]) == 3
        assert "there is no saved run" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("name", "folder"), [("plain", "plain"), ("../../up", "up"), ("a b/c", "a-b-c"), ("..", "scenario")]
    )
    def test_names_stay_inside_the_runs_folder(self, name: str, folder: str) -> None:
        assert folder_name(name) == folder


class TestCollective:
    def test_ring_on_an_idle_star_takes_its_closed_form(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--topology", "star.yaml", "--algorithm", "ring", "--gpus", "4", "--bytes", "1MB..4MB", "--json"]
        assert main(["collective", "all-reduce", *arguments]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.collective/1"
        assert [row["num_bytes"] for row in document["rows"]] == [1e6, 2e6, 4e6]
        for row in document["rows"]:
            expected = 6 * (2e-6 + row["num_bytes"] / 4 / 1e9)
            assert row["time_s"] == pytest.approx(expected, rel=1e-9)
            assert row["algbw_bytes_per_s"] == pytest.approx(row["num_bytes"] / expected)
            assert row["busbw_bytes_per_s"] == pytest.approx(row["num_bytes"] / expected * 1.5)

    def test_table_is_in_microseconds_and_gigabytes_a_second(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["--topology", "star.yaml", "--algorithm", "ring", "--gpus", "2", "--bytes", "1MB"]
        assert main(["collective", "all-reduce", *arguments]) == 0
        assert capsys.readouterr().out.splitlines()[-1].split() == ["1000000", "1004.00", "0.996", "0.996"]

    def test_more_gpus_than_there_are_exits_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["collective", "all-reduce", "--topology", "star.yaml", "--gpus", "5", "--bytes", "1B"]) == 3
        assert "4" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("text", "sizes"),
        [("8B", [8.0]), ("0 B", [0.0]), ("8B..64B", [8.0, 16.0, 32.0, 64.0]), ("3B .. 13B", [3.0, 6.0, 12.0])],
    )
    def test_sizes_double_to_at_most_the_last(self, text: str, sizes: list[float]) -> None:
        assert parse_sizes(text) == sizes

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("8 Gb", "write Gbit or GB"),
            ("0B..8B", "above zero"),
            ("9B..8B", "not smaller"),
            ("8B..", "expected a size"),
        ],
    )
    def test_sizes_that_are_none_are_refused(self, text: str, reason: str) -> None:
        with pytest.raises(typer.BadParameter, match=reason):
            parse_sizes(text)

    def test_a_barrier_has_no_bandwidth(self) -> None:
        row = {"num_bytes": 0.0, "time_s": 1e-6, "algbw_bytes_per_s": None, "busbw_bytes_per_s": None}
        assert nccl_tests_table([row]).splitlines()[-1].split() == ["0", "1.00", "-", "-"]


class TestTopology:
    def test_show_prints_counts_and_route(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "star.yaml", "--route", "0", "3"]) == 0
        out = capsys.readouterr().out
        assert "GPUs       4" in out
        assert "latency    2.00 us" in out
        assert "bottleneck 1.00 GB/s, gpu0->switch" in out

    def test_show_json(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "star.yaml", "--route", "0", "3", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.topology/1"
        assert (document["num_hosts"], document["num_gpus"], document["num_links"]) == (4, 4, 8)
        assert document["route"]["latency_s"] == pytest.approx(2e-6)

    def test_show_draws_beside_the_runs_unless_told_not_to(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["topology", "show", "star.yaml", "--no-report"]) == 0
        assert main(["topology", "show", "star.yaml", "--json"]) == 0
        assert not (folder / "runs").exists()
        assert main(["topology", "show", "star.yaml"]) == 0
        assert "<html" in (folder / "runs" / "star" / "topology.html").read_text()[:200]

    def test_show_draws_where_asked(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "star.yaml", "-o", "star.html"]) == 0
        assert "drawing: star.html" in capsys.readouterr().out
        assert "<html" in (folder / "star.html").read_text()[:200]

    def test_export_reads_back_as_a_graph(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        import networkx as nx

        assert main(["topology", "export", "star.yaml"]) == 0
        graph = nx.node_link_graph(json.loads(capsys.readouterr().out), edges="edges")
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (5, 8)
        assert main(["topology", "export", "star.yaml", "-o", "graph.json"]) == 0
        assert clustersim.load_topology(graph).num_gpus == 4
        assert json.loads((folder / "graph.json").read_text())["directed"] is True

    @pytest.mark.parametrize(
        "command",
        [
            ["topology", "show", "bad.yaml", "--json"],
            ["topology", "export", "bad.yaml", "--json"],
            ["collective", "all-reduce", "--topology", "bad.yaml", "--gpus", "2", "--bytes", "1MB", "--json"],
        ],
        ids=["show", "export", "collective"],
    )
    def test_every_mistake_in_a_topology_file_has_its_line_and_key(
        self, command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "bad.yaml").write_text("kind: torus\ndims: [2, 2]\nlink: 10 Gb/s\nhost: {gpus: k80}\nbogus: 3\n")
        assert main(command) == 3
        out, err = capsys.readouterr()
        errors = json.loads(out)["errors"]
        told = [(each["file"], each["line"], each["column"], each["key"], each["got"]) for each in errors]
        assert told == [
            ("bad.yaml", 3, 7, "link", "10 Gb/s"),
            ("bad.yaml", 4, 8, "host.gpus", "gpus"),
            ("bad.yaml", 5, 1, "bogus", "bogus"),
        ]
        assert all(each["allowed"] for each in errors)
        assert "bad.yaml:3:7: link: expected a rate" in err

    def test_unknown_clusters_exit_3(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "titanic"]) == 3
        assert "did you mean 'titan'" in capsys.readouterr().err


class TestListCopySchema:
    @pytest.mark.parametrize("name", SECTIONS)
    def test_every_member_has_one_line(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["list", name]) == 0
        heading, *lines = capsys.readouterr().out.splitlines()
        assert heading == f"{name}:"
        assert lines
        assert all(len(line.split(maxsplit=1)) == 2 for line in lines), lines

    def test_list_has_every_section(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["list"]) == 0
        out = capsys.readouterr().out
        assert [line[:-1] for line in out.splitlines() if line and not line.startswith(" ")] == list(SECTIONS)

    def test_comments_for_editors_are_not_titles(self, tmp_path: Path) -> None:
        path = tmp_path / "a.yaml"
        path.write_text("# yaml-language-server: $schema=x\n#\n# What it shows.\nname: a\n")
        assert first_comment(path) == "What it shows."

    def test_copy_gives_a_file_that_runs(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["copy", "firecaffe-googlenet", "mine.yaml"]) == 0
        assert (folder / "mine.yaml").read_bytes() == shipped_files("scenarios")["firecaffe-googlenet"].read_bytes()
        assert main(["run", "mine.yaml", "--json", "--set", "num_gpus=16", "--set", "replicates=1"]) == 0

    def test_copy_overwrites_nothing(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["copy", "firecaffe-googlenet"]) == 0
        assert main(["copy", "firecaffe-googlenet"]) == 3
        assert "exists already" in capsys.readouterr().err
        assert main(["copy", "firecaffe-googlenet", "no/such/folder.yaml"]) == 3
        assert "cannot write" in capsys.readouterr().err

    def test_copy_of_an_unknown_scenario_suggests_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["copy", "firecafe-googlenet"]) == 3
        assert "did you mean 'firecaffe-googlenet'" in capsys.readouterr().err

    def test_schema_is_a_json_schema(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["schema"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert "2020-12" in document["$schema"]
        assert "num_gpus" in document["properties"]


class TestProcess:
    def test_module_and_command_are_the_same(self) -> None:
        done = subprocess.run([sys.executable, "-m", "clustersim", "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"clustersim {clustersim.__version__}\n")

    def test_a_reader_that_goes_away_is_no_error(self) -> None:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([sys.executable, "-m", "clustersim", "list"], stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert done.stderr == b""

    def test_control_c_ends_with_130(self, folder: Path) -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", _WAIT_FOR_INTERRUPT],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "Traceback" not in err


_WHILE_LOADING = """
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["clustersim", "list", "--json"]
from clustersim.__main__ import main
sys.exit(main())
"""


def test_control_c_before_the_command_line_is_read_ends_with_130_too() -> None:
    done = subprocess.run([sys.executable, "-c", _WHILE_LOADING], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["schema"] == "clustersim.error/1"


_WAIT_FOR_INTERRUPT = """
import sys, time
import clustersim.data
from clustersim.cli import main

def wait(folder):
    print("ready", flush=True)
    time.sleep(30)

clustersim.data.shipped_files = wait
sys.exit(main(["copy", "x"]))
"""


class TestProgress:
    def test_a_log_is_told_once_a_second_and_tenth_at_most(self, capsys: pytest.CaptureFixture[str]) -> None:
        times = iter([0.0, 0.4, 1.1, 1.5, 2.2, 3.3, 4.4])
        tell = _lines(clock=lambda: next(times))
        for share in (0.25, 0.5, 0.75, 0.875, 0.9, 1.0):
            tell(share, "num_gpus 2")
        said = [f"simulated {share} (num_gpus 2)" for share in ("50%", "88%", "100%")]
        assert capsys.readouterr().err.splitlines() == said

    def test_quiet_says_nothing(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(time, "monotonic", iter(range(1000)).__next__)
        assert main(["run", "tiny.yaml", "--json", "--quiet"]) == 0
        assert capsys.readouterr().err == ""
