"""`clustersim run` with cases and conditions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main

SCENARIO = """\
name: two
model: alexnet
batch: {per_gpu: 8}
strategy: {kind: all-reduce}
num_iterations: 2
cases:
  slow: {num_gpus: 2, topology: {kind: star, num_hosts: 4, link: 1 Gbit/s, gpu: k80}}
  fast: {num_gpus: 4, topology: {kind: star, num_hosts: 4, link: 10 Gbit/s, gpu: p100}}
seed: [1, 2]
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.yaml").write_text(SCENARIO, encoding="utf-8")
    return "two.yaml"


def test_the_answer_compares_cases_of_different_sizes(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", scenario, "--json", "-q", "--set", "seed=1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(run["axes"], run["num_gpus"]) for run in result["runs"]] == [({"case": "slow"}, 2), ({"case": "fast"}, 4)]
    assert result["answer"][0].startswith("Fastest is fast: ")
    assert "the rate of slow" in result["answer"][0]


def test_where_leaves_points_out(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    conditions = ["--where", "num_gpus * batch >= 32", "--where", "seed == 2"]
    assert main(["run", scenario, "--json", "-q", *conditions]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [run["axes"] for run in result["runs"]] == [{"case": "fast", "seed": 2}]
    assert result["scenario"]["sweep"] == {"where": ["num_gpus * batch >= 32", "seed == 2"]}
    assert main(["run", scenario, "-q", "--where", "num_gpus > 8"]) == 3
    assert "no point is left" in capsys.readouterr().err


def test_sliders_have_no_cases(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", scenario, "-q", "--no-report", "--what-if", "--what-if-points", "2"]) == 3
    assert "choose one of them by --set case=NAME" in capsys.readouterr().err
