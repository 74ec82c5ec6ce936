"""`clustersim program` and `clustersim play`: what they print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main

SCENARIO = """\
name: my layout
model: gpt2-small
num_gpus: 8
batch: {per_gpu: 2}
topology: {kind: star, num_hosts: 2, host: dgx-a100, link: infiniband-hdr, hop: 1 us}
software: plain
transport: nccl
strategy: {kind: all-reduce}
parallelism: {tensor: 2, pipeline: 2, micro_batches: 2}
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layout.yaml").write_text(SCENARIO)
    return "layout.yaml"


def test_a_program_is_printed_with_who_the_rank_is(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["program", scenario, "--rank", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["# rank 5 of 8 (host0/gpu5): stage 1 of 2", "# tensor: ranks 4, 5", "# replicas: ranks 5, 7"]
    assert lines[3].startswith("# bucket 0: ")
    assert "receive activations 0.1 from stage 0: 6.29146e+06 B" in lines
    assert "gradients ready: bucket 0" in lines
    assert lines[-1].startswith("compute update 0 update: ")


def test_a_program_as_a_document_has_the_same_operations(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["program", scenario]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert main(["program", scenario, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.program/1"
    assert (document["rank"], document["stage"], document["grid"]["tensor"]) == (0, 0, 2)
    assert document["groups"] == {"tensor": [0, 1], "replicas": [0, 2]}
    assert len(document["ops"]) == len(lines)
    words = {"compute": "compute", "send": "send", "receive": "receive", "call": "begin", "wait": "wait for"}
    for op, line in zip(document["ops"], lines, strict=True):
        assert line.startswith(words.get(op["kind"], "gradients ready"))


def test_a_document_says_when_the_host_has_issued_what_the_gpu_computes(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel a pass of 8 us, and each starts no later than its layer's kernels before it have ended."""
    assert main(["program", scenario, "--json"]) == 0
    computed = [op for op in json.loads(capsys.readouterr().out)["ops"] if op["kind"] == "compute"]
    issued = [op["issue"] for op in computed if op["issue"]]
    assert len(issued) > len(computed) / 2
    for issue in issued:
        assert len(issue["work_s"]) == len(issue["issued_s"])
        assert issue["issued_s"] == sorted(issue["issued_s"])
        assert 8e-6 * (1 - 1e-9) <= issue["issued_s"][-1] <= issue["host_s"] * (1 + 1e-9)
    assert main(["program", scenario, "--json", "--set", "software.launch=graphs"]) == 0
    assert not any(op.get("issue") for op in json.loads(capsys.readouterr().out)["ops"])


def test_an_export_is_played_back_to_the_end_of_an_exact_iteration(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["program", scenario, "--export-chakra", "traces", "--quiet"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("8 traces, ")
    assert told[1:] == ["--workload-configuration=traces/my-layout", "--comm-group-configuration=traces/groups.json"]
    Path("cluster.yaml").write_text("{kind: star, num_hosts: 2, host: dgx-a100, link: infiniband-hdr, hop: 1 us}")
    command = ["play", "traces", "--topology", "cluster.yaml", "--transport", "nccl"]
    assert main([*command, "--json", "--exact"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["num_ranks"]) == ("clustersim.play/1", 8)
    for row in document["ranks"]:
        parts = row["compute_s"] + row["exposed_s"] + row["waiting_s"]
        assert parts == pytest.approx(row["end_s"], rel=1e-9)
    assert main(command) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith(f"# 8 ranks, {document['num_nodes']} nodes on ")
    assert float(table[3].split()[1]) == pytest.approx(document["ranks"][0]["end_s"] * 1e3, rel=1e-5)


def test_an_export_as_a_document_says_where_it_is(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["program", scenario, "--export-chakra", "traces", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["workload"], document["groups"]) == ("traces/my-layout", "traces/groups.json")
    assert len(list(Path("traces").glob("my-layout.*.et"))) == document["num_ranks"] == 8


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["program", "layout.yaml", "--rank", "8"], "rank 8 does not exist; there are 8 ranks"),
        (["program", "overlap-10gbe"], "set num_gpus, strategy.overlap (--set)"),
        (["program", "layout.yaml", "--export-chakra", "."], "already exists and is not empty"),
        (["play", "nowhere", "--topology", "dgx-1"], "nowhere: there is no folder of this name"),
    ],
)
def test_a_mistake_is_told_with_status_3(
    scenario: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 3
    assert told in capsys.readouterr().err


def test_what_a_host_does_is_in_the_program_and_is_no_trace(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    away = ["--set", "parallelism.offload=optimizer"]
    assert main(["program", scenario, "--json", *away]) == 0
    ops = json.loads(capsys.readouterr().out)["ops"]
    (first, second, *_) = [op for op in ops if op["kind"] == "host-update"]
    assert first["after"] is None
    assert second["after"] == first["key"]
    back = next(op for op in ops if op["kind"] == "copy" and not op["to_host"])
    assert back["after"] == first["key"]
    assert main(["program", scenario, "--export-chakra", "traces", *away]) == 3
    assert "a trace has no node for the work of a host" in capsys.readouterr().err
