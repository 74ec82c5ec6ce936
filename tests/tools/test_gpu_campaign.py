"""The campaign on one GPU: what it plans, what it says where it cannot run, and a rehearsal on the processor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "gpu_campaign.py"
SECTIONS = ["host", "models", "products", "convolutions", "attention", "compiled"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that hides torch, where it is installed."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "torch.py").write_text("raise ImportError('no torch')\n")
    return str(folder)


@pytest.fixture(scope="module")
def plan(without_torch: str) -> list[dict[str, Any]]:
    done = run("--plan", PYTHONPATH=without_torch)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_without_torch_it_says_so_in_one_line_and_ends_with_3(without_torch: str, tmp_path: Path) -> None:
    output = tmp_path / "campaign.json"
    done = run("-o", str(output), PYTHONPATH=without_torch)
    assert done.returncode == 3
    assert done.stderr == "gpu_campaign: torch is not installed for this Python\n"
    assert not output.exists()


def test_the_command_without_suffix_is_the_same(without_torch: str) -> None:
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": without_torch}
    done = subprocess.run([SCRIPT.with_suffix("")], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 3
    assert "torch is not installed" in done.stderr


def test_the_plan_has_two_hundred_products_and_sixty_convolutions(plan: list[dict[str, Any]]) -> None:
    assert list(dict.fromkeys(row["section"] for row in plan)) == SECTIONS
    of = defaultdict(list)
    for row in plan:
        of[row["section"]].append(row)
    products = Counter((row["rows"], row["outputs"], row["inputs"]) for row in of["products"])
    assert len(products) == 200
    assert sum(outputs <= 1024 for _, outputs, _ in products) >= 60
    assert {row["layout"] for row in of["products"]} == {"TN", "NN", "NT", "NT-accumulate"}
    assert len({(row["model"], row["name"]) for row in of["convolutions"]}) == 60
    assert {row["batch"] for row in of["convolutions"]} == {1, 2, 4, 8, 16, 32, 64, 128, 256}
    assert {row["precision"] for row in of["convolutions"]} == {"fp32", "tf32", "amp-bf16"}
    assert len([row for row in of["host"] if "operator" in row]) >= 30
    steps = [row for row in of["host"] if "optimizer" in row]
    assert {row["implementation"] for row in steps} == {"for-loop", "foreach", "fused"}
    assert {row["model"] for row in of["models"]} == {"resnet50", "bert-large", "gpt2-small"}


def test_a_use_is_that_of_the_whole_group_and_a_third_or_more_is_for_scores(plan: list[dict[str, Any]]) -> None:
    uses = defaultdict(set)
    for row in plan:
        of = "models" if row["section"] == "compiled" else row["section"]
        uses[of, row["group"]].add(row["use"])
    assert all(len(each) == 1 for each in uses.values())
    for section in SECTIONS[:5]:
        groups = [use for (of, _), use in uses.items() if of == section]
        assert 0.3 <= groups.count({"score"}) / len(groups) <= 0.5, section


def rows_of(document: dict[str, Any], section: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = document["sections"][section]["rows"]
    return rows


@pytest.mark.torch
def test_a_rehearsal_measures_every_section_without_an_error(tmp_path: Path) -> None:
    output = tmp_path / "campaign.json"
    done = run("--device", "cpu", "--most", "50", "--minutes", "5", "-o", str(output))
    assert done.returncode == 0, done.stderr
    document = json.loads(output.read_text())
    assert document["schema"] == "clustersim.gpu-campaign/1"
    assert document["status"] == "done"
    assert list(document["sections"]) == SECTIONS
    for name, section in document["sections"].items():
        assert not [row for row in section["rows"] if "error" in row], name
        assert section["rows"]
        assert all(row["use"] in ("fit", "score") for row in section["rows"])
    operator = next(row for row in rows_of(document, "host") if row.get("operator") == "linear")
    assert 0 < operator["issue_forward_s"] < 1
    assert 0 < operator["issue_backward_s"] < 1
    convolution = rows_of(document, "convolutions")[0]
    assert {"name", "op", "batch", "precision", "layout", "forward_s", "backward_data_s", "backward_weights_s"} <= set(
        convolution
    )
    whole = rows_of(document, "models")[0]
    assert {"precision", "layout", "batch", "iteration_s", "spread_s", "optimizer", "mode"} <= set(whole)
    assert document["clocks"] is None or document["clocks"]


@pytest.mark.torch
def test_rows_of_convolutions_are_layers_of_a_profile(tmp_path: Path) -> None:
    from clustersim.kernels.profile import ProfileFile

    output = tmp_path / "campaign.json"
    assert run("--device", "cpu", "--most", "2", "--minutes", "2", "-o", str(output)).returncode == 0
    document = json.loads(output.read_text())
    layers = rows_of(document, "convolutions")
    profile = ProfileFile.model_validate(
        {"schema": "clustersim.profile/1", "device": document["device"], "layers": layers}
    )
    assert [layer.name for layer in profile.layers] == [row["name"] for row in layers]


@pytest.mark.torch
def test_it_ends_in_time_and_keeps_what_it_has(tmp_path: Path) -> None:
    output = tmp_path / "campaign.json"
    start_s = time.monotonic()
    done = run("--device", "cpu", "--most", "100000", "--minutes", "0.25", "-o", str(output))
    assert time.monotonic() - start_s < 30
    assert done.returncode == 0
    document = json.loads(output.read_text())
    assert document["status"] == "out of time"
    assert document["sections"]["host"]["rows"]


@pytest.mark.torch
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_complete_file(tmp_path: Path, number: signal.Signals) -> None:
    output = tmp_path / "campaign.json"
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--most", "100000", "--minutes", "3", "-o", str(output)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    limit_s = time.monotonic() + 60
    while not output.exists() and time.monotonic() < limit_s:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(number)
    assert process.wait(timeout=60) == 128 + number
    document = json.loads(output.read_text())
    assert document["status"] == f"stopped by {number.name}"
    assert document["sections"]["host"]["rows"]
    assert document["sections"]["host"]["status"] == document["status"]
    assert not output.with_name(output.name + ".part").exists()


@pytest.mark.torch
def test_without_a_gpu_it_says_so_in_one_line_and_ends_with_3(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run("-o", str(tmp_path / "campaign.json"))
    assert done.returncode == 3
    assert done.stderr.startswith("gpu_campaign: no CUDA device: ")
    assert done.stderr.count("\n") == 1
