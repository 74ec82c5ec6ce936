"""`clustersim software show`, `list software` and `migrate` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main


def test_show_prints_every_setting_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["software", "show", "megatron-core"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("megatron-core: Megatron-LM and Megatron-Core")
    assert "  messages: paired\n      megatron/core/pipeline_parallel" in text
    assert "  precision: amp-bf16, then amp-fp16, then fp32\n" in text
    assert main(["software", "show", "megatron-core", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.software/1"
    assert document["settings"]["gather_overlap"]["value"] is True


def test_list_names_all_programs_and_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "software"]) == 0
    assert "  torchtitan " in capsys.readouterr().out
    assert main(["list", "software-hosts"]) == 0
    assert "  pytorch-eager " in capsys.readouterr().out


def test_an_unknown_program_has_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["software", "show", "torchtitn"]) == 3
    assert "did you mean 'torchtitan'?" in capsys.readouterr().err


def test_migrate_rewrites_in_place_or_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "old.yaml"
    path.write_text("extends: base.yaml\ncompute: {launch: blocking}\n", encoding="utf-8")
    assert main(["migrate", str(path), "--stdout"]) == 0
    assert capsys.readouterr().out == "extends: base.yaml\nsoftware: {launch: blocking}\n"
    assert "compute:" in path.read_text(encoding="utf-8")
    assert main(["migrate", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == "extends: base.yaml\nsoftware: {launch: blocking}\n"
    assert [each.name for each in tmp_path.iterdir()] == ["old.yaml"]


def test_the_table_says_software_transport_and_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = Path("mine.yaml")
    scenario.write_text(
        "model: squeezenet-1.0\nnum_gpus: 16\nbatch: {per_gpu: 4}\nnum_iterations: 2\n"
        "topology: {kind: star, link: 100 Gbit/s, host: {template: dgx-a100, nics: 1}}\n",
        encoding="utf-8",
    )
    assert main(["run", "mine.yaml", "--no-report"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "software pytorch-ddp; transport nccl; precision fp32; each host has 1 network card of 100 Gbit/s" in text
    assert "ideal network" not in text
    assert main(["run", "mine.yaml", "--no-report", "--set", "transport=ideal", "--quiet"]) == 0
    assert "mine (ideal network)" in capsys.readouterr().out


def test_a_setting_without_effect_is_warned_of_in_the_table_the_document_and_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        "model: squeezenet-1.0\nnum_gpus: 2\nbatch: {per_gpu: 4}\nnum_iterations: 2\n"
        "topology: {kind: star, link: 100 Gbit/s, host: dgx-a100}\nsoftware: {gradient_kernels: autograd}\n",
        encoding="utf-8",
    )
    said = "software.gradient_kernels changes nothing"
    assert main(["run", "mine.yaml", "--quiet", "--report", "page.html"]) == 0
    assert said in capsys.readouterr().err
    assert said in Path("page.html").read_text(encoding="utf-8")
    assert main(["run", "mine.yaml", "--quiet", "--json"]) == 0
    assert any(each.startswith(said) for each in json.loads(capsys.readouterr().out)["warnings"])


def test_the_table_says_what_limits_each_way_and_its_busiest_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        "model: alexnet\nnum_gpus: 16\nbatch: {per_gpu: 64}\nnum_iterations: 2\n"
        "topology: {kind: star, link: [1 Gbit/s, 400 Gbit/s], host: {template: dgx-a100, nics: 1}}\n",
        encoding="utf-8",
    )
    assert main(["run", "mine.yaml", "--quiet", "--no-report"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "limits of 16 GPUs (400 Gbit/s): compute" in text
    slow = text.partition("limits of 16 GPUs (1 Gbit/s): ")[2]
    assert slow.startswith("exposed communication 9")
    assert "busiest link access, at" in slow
