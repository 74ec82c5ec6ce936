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
from clustersim.cli.progress import with_limit
from clustersim.planner import plan, search
from clustersim.planner.space import ALSO, EVERYTHING
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
    assert "stopped after 4 of 4 layouts" in printed.err
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
    assert found.left_out == ("sharding_copies", "gathers")
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


def test_the_page_goes_to_runs_unless_another_is_asked_for(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan", file, "--gpus", "2", "--workers", "1", "--top", "2"]
    assert main(command) == 0
    assert f"report: {Path('runs/small/plan.html')}" in capsys.readouterr().out
    assert "the fastest layout is" in Path("runs/small/plan.html").read_text(encoding="utf-8")
    assert main([*command, "--report", "mine.html", "--json"]) == 0
    assert "answer" in json.loads(capsys.readouterr().out)
    assert Path("mine.html").exists()
    Path("runs/small/plan.html").unlink()
    assert main([*command, "--no-report"]) == main([*command, "--json"]) == 0
    assert not Path("runs/small/plan.html").exists()


@pytest.mark.parametrize(
    "options",
    [["--report", "a.html", "--no-report"], ["--open", "--no-report"], ["--open", "--json"], ["--time-limit", "soon"],
     ["--time-limit", "0"], ["--time-limit", "-5"], ["--time-limit", "3 GB"]],
)  # fmt: skip
def test_options_that_cannot_be_used_are_usage_errors(file: str, options: list[str]) -> None:
    assert main(["plan", file, "--gpus", "2", *options]) == 2


def test_the_help_names_all_that_is_compared_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"Also compare these: {', '.join(ALSO)}; '{EVERYTHING}'" in printed


def test_gpus_or_clusters_are_needed(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file]) == 2
    assert "--gpus" in capsys.readouterr().err


def test_the_best_is_saved_as_a_scenario_that_runs(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--gpus", "2", "--workers", "1", "--save", "best.yaml", "--json", "--top", "2"]) == 0
    best = json.loads(capsys.readouterr().out)["best"][0]
    assert main(["run", "best.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["iteration_s"] == best["run_iteration_s"]


def test_a_time_limit_ends_the_search_with_status_0(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan", file, "--gpus", "4", "--workers", "1", "--set", "parallelism={}", "--batch", "64"]
    assert main([*command, "--time-limit", "0.001s", "--no-report"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "the fastest layout found is" in printed
    assert "The time limit ended the search: " in printed


def test_clusters_are_one_table_one_document_and_one_page(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    clusters = ["--cluster", "scenario:4@2", "--cluster", "a100:4@1", "--cluster", "ethernet-1g:64"]
    command = ["plan", file, *clusters, "--workers", "1", "--top", "2"]
    assert main([*command, "--csv", "plan.csv", "--save", "best.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "4 a100 are cheapest and fastest: $" in printed
    assert "64 ethernet-1g has no plan: the cluster 'ethernet-1g' has 32 GPUs" in printed
    assert "Clusters side by side" in Path("runs/small/plan.html").read_text(encoding="utf-8")
    with Path("plan.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert list(dict.fromkeys(row["cluster"] for row in rows)) == ["4 v100", "4 a100", "64 ethernet-1g"]
    assert [row["cluster"] for row in rows if row["rule_of_thumb"] == "True"] == ["4 v100", "4 a100"]
    assert "has 32 GPUs" in rows[-1]["reason"]
    assert float(rows[0]["dollars_per_hour"]) == 8.0
    assert sorted(path.name for path in Path().glob("best*.yaml")) == ["best-4-a100.yaml", "best-4-scenario.yaml"]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.plan-comparison/1"
    assert len(document["clusters"]) == 3
    assert document["answer"][0].startswith("4 a100 are cheapest and fastest")


def test_an_interruption_between_clusters_leaves_a_table_and_says_how_to_go_on(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def second_is_stopped(*args: Any, **keys: Any) -> Any:
        asked.append(args)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return plan(*args, **keys)

    monkeypatch.setattr("clustersim.planner.comparing.plan", second_is_stopped)
    clusters = ["--cluster", "scenario:4", "--cluster", "a100:4"]
    assert main(["plan", file, *clusters, "--workers", "1", "--resume", "plan.jsonl", "--no-report"]) == 130
    printed = capsys.readouterr()
    assert "4 a100 has no plan: the search was stopped before this cluster." in printed.out
    assert "stopped after 1 of 2 clusters" in printed.err
    assert "the same command continues from plan.jsonl" in printed.err


def test_the_number_of_gpus_may_be_that_of_all_clusters(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--gpus", "2,4", "--cluster", "scenario", "--workers", "1", "--json", "--top", "1"]) == 0
    found = json.loads(capsys.readouterr().out)["clusters"]
    assert [each["cluster"] for each in found] == ["2 v100", "4 v100"]


def test_a_cluster_that_has_no_name_here_ends_with_status_3(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file, "--cluster", "b2000:8"]) == 3
    assert "did you mean 'b200'" in capsys.readouterr().err


def test_progress_has_the_time_to_the_limit() -> None:
    now, told = [0.0], []
    tell = with_limit(lambda share, what: told.append((share, what)), 60.0, lambda: now[0])
    now[0] = 25.0
    tell(0.5, "bounds")
    now[0] = 70.0
    tell(0.9, "")
    assert told == [(0.5, "bounds, 35.0 s to the time limit"), (0.9, "0 s to the time limit")]


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
