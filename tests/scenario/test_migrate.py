"""`clustersim migrate`: a scenario from before `software` gives the same training afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.scenario.migrate import library_host, migrated
from clustersim.software import SOFTWARE

OLD = """\
# my scenario
name: old   # a name
model: gpt2-small
num_gpus: 8
batch: {per_gpu: 2}
topology:
  kind: star     # one switch
  num_hosts: 1
  link: 25 Gbit/s
  host: dgx-a100
# what a message costs
transport: nccl
strategy: {kind: all-reduce, copies: horovod, overlap: false}
parallelism: {sharding: zero-1, gather_overlap: true}
compute: {library: eager, variability: 0.01}
optimizer: {kind: adam, passes: 20}
"""

SETTINGS = {
    "library": "eager",
    "host": "pytorch-eager",
    "gather_overlap": True,
    "update_passes": 20,
    "bucket_copies": "horovod",
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.yaml"
    path.write_text(OLD, encoding="utf-8")
    return path


def training(text: str, path: Path) -> dict[str, Any]:
    """Return what is trained, without the words on the program."""
    path.write_text(text, encoding="utf-8")
    (found,) = load_scenario(path).points()
    document: dict[str, Any] = json.loads(found.point.model_dump_json())
    del document["software"]
    return document


def test_the_old_file_is_refused_and_the_new_one_has_every_setting(old: Path) -> None:
    with pytest.raises(InputError) as error:
        load_scenario(old)
    assert len(error.value.mistakes) == 4
    found = training(migrated(old), old)
    assert found["compute"]["library"] == "eager"
    assert found["compute"]["host"] == library_host("eager") == "pytorch-eager"
    assert found["optimizer"]["passes"] == 20
    assert found["parallelism"]["gather_overlap"] is True
    assert (found["strategy"]["copies"], found["strategy"]["overlap"]) == ("horovod", False)
    assert found["strategy"]["buckets"] == "auto"  # the default of that time, not that of a program


@pytest.mark.parametrize("software", ["megatron-core", "deepspeed-zero", "internlm"])
def test_another_program_gives_the_same_training(old: Path, tmp_path: Path, software: str) -> None:
    new = tmp_path / "new.yaml"
    plain, named = migrated(old), migrated(old, software)
    assert f"name: {software}" in named
    assert training(plain, new) == training(named, new)


def test_comments_and_the_lines_of_other_keys_stay(old: Path) -> None:
    text = migrated(old)
    assert text.startswith("# my scenario\nname: old   # a name\n")
    assert "  kind: star     # one switch\n" in text
    assert "# what a message costs\ntransport: nccl\n" in text
    assert "compute: {variability: 0.01}" in text


def test_a_file_that_extends_names_no_program(tmp_path: Path) -> None:
    path = tmp_path / "child.yaml"
    path.write_text("extends: base.yaml\ncompute: {library: megatron}\n", encoding="utf-8")
    assert migrated(path) == "extends: base.yaml\nsoftware: {library: megatron, host: megatron}\n"


def test_a_scenario_without_a_transport_keeps_its_ideal_one(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("model: alexnet\nnum_gpus: 2\nstrategy: {kind: all-reduce}\n", encoding="utf-8")
    assert "software: plain\ntransport: ideal\nstrategy:" in migrated(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n- 2\n", "a scenario is a map of keys"),
        ("a: [1", "is not YAML"),
        ("compute: {library: [eager, xla]}", "a list"),
    ],
)
def test_what_cannot_be_rewritten_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        migrated(path)
    assert path.read_text(encoding="utf-8") == text


def test_an_unknown_program_is_refused(old: Path) -> None:
    with pytest.raises(InputError, match="no software is called"):
        migrated(old, "megatron-kore")
    assert "megatron-core" in SOFTWARE
