"""`clustersim run --measured`, and `plan` and `program` of scenarios with measured runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main
from tests.cli.tiny import SCENARIO


def test_the_option_anchors_as_the_key_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.yaml", "--json", "--measured", "2=110/s"]) == 0
    by_option = json.loads(capsys.readouterr().out)
    (folder / "keyed.yaml").write_text(SCENARIO + "measured: {num_gpus: 2, samples_per_s: 110}\n")
    assert main(["run", "keyed.yaml", "--json"]) == 0
    by_key = json.loads(capsys.readouterr().out)
    assert by_option["runs"] == by_key["runs"]
    anchor = by_key["runs"][1]["anchor"]
    assert by_key["runs"][1]["samples_per_s"] == pytest.approx(110, rel=1e-9)
    assert anchor["samples_per_s_without"] == pytest.approx(anchor["points"][0]["forecast_without"])
    assert set(anchor) == {"factor", "fixed_s", "samples_per_s_without", "iteration_s_without", "points", "network"}
    assert main(["run", "tiny.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][1]["anchor"] is None


def test_the_table_says_what_it_would_be_without(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.yaml", "--no-report", "-q", "--measured", "2=110/s"]) == 0
    out = capsys.readouterr().out
    assert out.count("no anchor") == 2
    assert "Anchored on 1 measured run: kernels take" in out


@pytest.mark.parametrize(
    ("text", "words"), [("2=1/s", "5 times slower"), ("2=1e6/s", "5 times quicker"), ("2=1", "expected")]
)
def test_a_figure_that_cannot_be_is_exit_3(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    assert main(["run", "tiny.yaml", "--json", "--measured", text]) == 3
    out, err = capsys.readouterr()
    assert words in err
    (error,) = json.loads(out)["errors"]
    assert error["file"] == "--measured"


def test_a_figure_of_the_file_that_cannot_be_has_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "far.yaml").write_text(SCENARIO + "measured:\n  - {num_gpus: 2, samples_per_s: 1}\n")
    assert main(["run", "far.yaml", "--json"]) == 3
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["file"], error["line"], error["key"]) == ("far.yaml", 9, "measured.0")


def test_a_plan_takes_the_anchor_of_its_scenario(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for name, more in (("plain", ""), ("slow", "measured: {num_gpus: 2, samples_per_s: 110}\n")):
        (folder / f"{name}.yaml").write_text(SCENARIO.replace("[1, 2]", "2") + more)
        arguments = ["plan", f"{name}.yaml", "--gpus", "2", "--json", "--workers", "1", "--top", "1", "-q"]
        assert main(arguments) == 0
        found[name] = json.loads(capsys.readouterr().out)
    assert found["plain"]["anchor"] is None
    assert found["slow"]["anchor"]["factor"] > 1
    assert found["slow"]["best"][0]["iteration_s"] > found["plain"]["best"][0]["iteration_s"]


def test_the_program_of_a_rank_has_anchored_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = {}
    for more in ("", "measured: {num_gpus: 2, samples_per_s: 110}\n"):
        (folder / "one.yaml").write_text(SCENARIO.replace("[1, 2]", "2") + more)
        assert main(["program", "one.yaml", "--json"]) == 0
        seconds[more] = sum(op.get("seconds") or 0 for op in json.loads(capsys.readouterr().out)["ops"])
    plain, anchored = seconds.values()
    assert anchored > plain > 0
