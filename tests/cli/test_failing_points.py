"""`clustersim run` of a sweep with points that fail: rows, exit statuses, `--strict` and `--point-timeout`."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.cli.failing_points import seconds_of
from clustersim.simulate import simulate  # noqa: F401  # whose module is patched
from tests.cli.tiny import files

SOME_FIT = ["--set", "batch.per_gpu=[16, 100000]", "--set", "num_iterations=1"]
NONE_FITS = ["--set", "batch.per_gpu=[100000, 200000]"]
NEVER_ENDS = "failures={gpu: {mtbf: 1 h}, checkpoint: {every: 12 h, rate: 1 GB/s}, restart: 10 min, length: 30 d}"


def run(*arguments: str) -> int:
    return main(["run", "tiny.yaml", "-q", *arguments])


def errors_of(out: str) -> list[dict[str, Any]]:
    document = json.loads(out)
    assert document["schema"] == "clustersim.error/1"
    errors: list[dict[str, Any]] = document["errors"]
    return errors


def test_points_that_do_not_fit_are_rows_of_every_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SOME_FIT, "--csv", "runs.csv") == 0
    out = capsys.readouterr().out
    assert "2 of 4 points do not fit, all those with batch.per_gpu 100 000." in out
    assert out.count("does not fit: ") == 2
    assert {"runs/tiny/result.json", "runs/tiny/report.html", "runs.csv"} <= files(folder)
    with (folder / "runs.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["error"] for row in table] == ["", "does-not-fit", "", "does-not-fit"]
    assert [bool(row["samples_per_s"]) for row in table] == [True, False, True, False]
    assert "does not fit: " in (folder / "runs/tiny/report.html").read_text(encoding="utf-8")


def test_the_report_of_a_saved_run_has_them_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SOME_FIT, "--no-report") == 0
    capsys.readouterr()
    assert main(["report", "runs/tiny"]) == 0
    assert "2 of 4 points do not fit" in capsys.readouterr().out
    assert (folder / "runs/tiny/report.html").read_text(encoding="utf-8").count("does not fit: ") == 2


def test_json_has_null_figures_and_the_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SOME_FIT, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    good, lacking = document["runs"][:2]
    assert good["error"] is None
    assert lacking["axes"] == {"num_gpus": 1, "batch.per_gpu": 100_000}
    assert (lacking["iteration_s"], lacking["samples_per_s"], lacking["memory_bytes"]) == (None, None, None)
    assert lacking["error"]["kind"] == "does-not-fit"
    assert lacking["error"]["needed_bytes"] > lacking["error"]["available_bytes"]
    assert lacking["error"]["remedy"].startswith("parallelism {micro_batches: ")
    assert document["answer"][-1].startswith("2 of 4 points do not fit")


def test_if_no_point_fits_the_exit_status_is_3(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*NONE_FITS) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("one k80 holds 12.9 GB, and this needs ") == len(err.splitlines())
    assert not [name for name in files(folder) if name.startswith("runs")]
    assert run(*NONE_FITS, "--json") == 3
    assert errors_of(capsys.readouterr().out)[0]["key"] == "batch.per_gpu"


def test_if_no_point_ends_the_exit_status_is_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several = ["--set", NEVER_ENDS, "--set", "batch.per_gpu=[16, 100000]"]
    assert run(*several) == 1
    err = capsys.readouterr().err
    assert err.startswith("the training does not end: ")
    assert "one k80 holds 12.9 GB" in err
    assert run(*several, "--json") == 1
    assert "the training does not end: " in errors_of(capsys.readouterr().out)[0]["message"]


def test_a_scenario_of_one_point_fails_as_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--set", "batch.per_gpu=100000", "--set", "num_gpus=1") == 3
    assert capsys.readouterr().err.startswith("--set: batch.per_gpu: one k80 holds 12.9 GB")
    assert run("--set", NEVER_ENDS, "--set", "num_gpus=1") == 1
    assert capsys.readouterr().err.startswith("the training does not end: ")
    assert run("--set", "num_gpus=1", "--point-timeout", "1e-9 s") == 1
    assert capsys.readouterr().err == "it takes more than 1.00 ns to simulate\n"


def test_strict_checks_all_points_before_any_is_run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--strict", "--set", "num_iterations=1", "--no-report") == 0
    capsys.readouterr()
    assert run("--strict", "--set", NEVER_ENDS, "--set", "failures.checkpoint.every=[10 min, 12 h]") == 1
    assert capsys.readouterr().err.startswith("the training does not end: ")
    monkeypatch.setattr(sys.modules["clustersim.simulate.forecast"], "simulate_replicate", None)  # nothing is simulated
    assert run("--strict", *SOME_FIT) == 3
    assert "with batch.per_gpu 100000" in capsys.readouterr().err


def test_a_mistake_in_the_file_is_told_before_any_point(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["clustersim.simulate.forecast"], "simulate_replicate", None)
    for setting in ("bach.per_gpu=16", "batch.per_gpu=many", "num_iterations=-1", "topology=nowhere.yaml"):
        assert run("--set", setting) == 3
        assert "Traceback" not in capsys.readouterr().err


class TestPointTimeout:
    @pytest.mark.parametrize(
        ("text", "seconds"), [("60", 60), ("2m", 120), ("1.5 min", 90), ("90 s", 90), ("1h", 3600)]
    )
    def test_it_is_seconds_or_a_duration(self, text: str, seconds: float) -> None:
        assert seconds_of(text) == seconds

    @pytest.mark.parametrize("text", ["0", "-3", "soon", "5 GB", "1.2.3"])
    def test_anything_else_is_a_usage_error(self, text: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "x", "--point-timeout", text]) == 2
        assert "such as 2m" in capsys.readouterr().err

    @pytest.mark.parametrize("workers", ["1", "2"])
    def test_a_longer_point_is_a_row(self, workers: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        many = ["--set", "topology.num_hosts=1024", "--set", "num_gpus=[2, 1024]", "--set", "num_iterations=50"]
        slow = ["--set", "stragglers=[{kind: lognormal, sigma: 0.2}]", "--exact", "--no-report"]
        assert run(*many, *slow, "--point-timeout", "3", "--workers", workers, "--json") == 0
        good, long = json.loads(capsys.readouterr().out)["runs"]
        assert (good["error"], long["error"]["kind"]) == (None, "too-long")
        assert long["error"]["message"] == "it takes more than 3.00 s to simulate"
