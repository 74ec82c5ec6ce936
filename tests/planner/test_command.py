"""`clustersim plan` prints a table, JSON or CSV, and has the usual error statuses."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.cli.plan_output import lines
from clustersim.planner import plan, search
from clustersim.scenario import load_scenario
from clustersim.sweep import sweep

SCENARIO = """
name: small
model: vgg11
num_gpus: 4
batch: {global: 8}
topology: {kind: star, num_hosts: 2, host: {template: dgx-1, gpu: v100}, link: 10 Gbit/s}
software: plain
transport: nccl
strategy: {kind: all-reduce}
parallelism: {tensor: 1, pipeline: 1, micro_batches: 1, recompute: none}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


def test_json_is_one_document_of_the_schema(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--gpus", "4", "--top", "2", "--workers", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.plan/1"
    assert len(document["best"]) == 2
    assert document["best"][0]["parallelism"]["data"] == 4
    assert document["num_simulated"] + sum(document["discarded"].values()) == document["num_layouts"]


def test_a_model_that_fits_nowhere_ends_with_status_3_and_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["parallelism.offload=none", "batch.per_gpu=1", "model=megatron-8.3b"]
    given = [part for setting in settings for part in ("--set", setting)]
    assert main(["plan", "offload", "--gpus", "1", "--workers", "1", "--quiet", *given]) == 3
    error = capsys.readouterr().err
    assert "no layout fits" in error
    assert "on 8 GPUs it would fit with pipeline 8" in error


def test_the_table_has_the_number_of_layouts_and_reasons(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--gpus", "2,4", "--objective", "cost", "--workers", "1", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "(best)" in printed
    assert "layouts, " in printed
    assert "$/M samples" in printed


def test_a_plan_that_is_stopped_is_printed_and_ends_with_status_130(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clustersim.planner.tune.overlapped", stopped)
    assert main(["plan", file, "--gpus", "2", "--top", "1", "--workers", "1", "--json"]) == 130
    printed = capsys.readouterr()
    assert json.loads(printed.out)["stopped"] is True
    assert "stopped after 3 of 3 layouts" in printed.err
    assert "--resume FILE" in printed.err


class Stopping:
    """The real simulation of layouts, but the command is stopped after some."""

    def __init__(self, after: int, number: signal.Signals):
        self.left, self.number, self.real = after, number, search._simulate

    def __call__(self, *args: Any) -> Any:
        if self.left == 0:
            signal.raise_signal(self.number)
        self.left -= 1
        return self.real(*args)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("after", [0, 2])
def test_what_a_round_has_simulated_is_shown_when_the_command_is_stopped(
    number: signal.Signals,
    status: int,
    after: int,
    file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "_simulate", Stopping(after, number))
    before = signal.getsignal(signal.SIGTERM)
    on_interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by commands in the background
    try:
        assert main(["plan", file, "--gpus", "2", "--workers", "1"]) == status
    finally:
        signal.signal(signal.SIGINT, on_interrupt)
    assert signal.getsignal(signal.SIGTERM) == before
    printed = capsys.readouterr()
    if after:
        assert "(best)" in printed.out
        assert f"stopped after {after} of 4 layouts" in printed.err
    else:
        assert "interrupted" in printed.err


def test_the_keys_that_the_scenario_fixes_are_named(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--gpus", "2", "--workers", "1", "--set", "strategy.buckets=whole"]) == 0
    assert "tensor 1, pipeline 1, micro_batches 1, recompute none, buckets whole (" in capsys.readouterr().out
    assert main(["plan", file, "--gpus", "2", "--workers", "1", "--set", "parallelism={}", "--top", "1"]) == 0
    assert "fixed by" not in capsys.readouterr().out


def test_the_first_rows_have_the_time_of_run(file: str) -> None:
    """With a setting of the software that a plan is without, and with other variants of the exchange."""
    changes = ["software=torchtitan", "model=gpt2-small", "precision=amp-bf16", "parallelism={sharding: zero-3}"]
    cluster = "topology={kind: star, num_hosts: 1, host: dgx-a100, link: 1 Gbit/s}"
    found = plan(file, [4], overrides=[*changes, cluster], workers=1)
    assert found.left_out == ("sharding_copies",)
    assert [entry.run_s is not None for entry in found.best[:4]] == [True, True, True, False]
    for entry in found.best[:3]:
        keys = entry.choice.settings()
        overlap = keys.pop("tensor_overlap", None)
        more = [] if overlap is None else ["software.tensor_overlap=true"]
        layout = ["num_gpus=4", "batch={global: 8}", f"parallelism={json.dumps(keys)}", *more]
        given = load_scenario(file, [*changes, cluster, *layout])
        assert sweep(given).runs[0].iteration_s == entry.run_s


def test_a_narrow_terminal_has_lines_of_whole_words(file: str) -> None:
    found = plan(file, [2, 4], top=2, objective="cost", workers=1)
    printed = lines(found, 60)
    assert max(map(len, printed)) <= 60
    text = " ".join(" ".join(printed).split())
    assert all(entry.choice.text() in text and entry.reason in text for entry in found.best)
    assert printed[0] == "small on 4 v100"
    assert "$/M samples" in text


def test_csv_has_a_row_for_each_layout(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.csv"
    assert main(["plan", file, "--gpus", "4", "--workers", "1", "--csv", str(path), "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(row["iteration_s"]) for row in rows] == [entry["iteration_s"] for entry in best]


@pytest.mark.parametrize("text", ["", "0", "8,", "many", "-1"])
def test_an_invalid_number_of_gpus_is_a_usage_error(file: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--gpus", text]) == 2
    assert "is not a number such as 64" in " ".join(capsys.readouterr().err.split())


def test_what_cannot_be_planned_ends_with_status_3(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--gpus", "64", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)
    assert error["schema"] == "clustersim.error/1"
    assert error["errors"][0]["key"] == "num_gpus"


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("optimizer.skipped", ["optimizer={kind: adam, skipped: true}"]),
        ("software.update_issue", ["optimizer=adam", "software.update_issue={operators: 9, each: 1 us}"]),
        ("software.handed", ["software.handed=whole"]),
        (
            "software.copy_stream",
            [
                "strategy={kind: all-reduce, algorithm: tree, overlap: false, buckets: whole}",
                "software.copy_stream=default",
            ],
        ),
        ("software.shared_weights", ["software.shared_weights=twice"]),
    ],
)
def test_what_layouts_cannot_have_is_not_planned(
    key: str, changes: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan would otherwise compare layouts that do it with others that `run` refuses it with."""
    given = [each for change in ("precision=amp-fp16", *changes) for each in ("--set", change)]
    command = ["plan", file, "--gpus", "4", *given, "--json"]
    assert main(command) == 3
    assert json.loads(capsys.readouterr().out)["errors"][0]["key"] == key
