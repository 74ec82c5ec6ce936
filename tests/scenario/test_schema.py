"""The schema and the reference page are current, and accept what the loader accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clustersim.data import data_folder, shipped_files
from clustersim.reading.yaml_reader import read_yaml
from clustersim.scenario import json_schema, reference_page

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


def accepts(schema: dict[str, Any], text: str) -> bool:
    from jsonschema import Draft202012Validator

    return bool(Draft202012Validator(schema).is_valid(read_yaml(text, None)[0].plain()))


def test_the_shipped_schema_is_current(schema: dict[str, Any]) -> None:
    shipped = json.loads((data_folder("scenarios") / "scenario.schema.json").read_text(encoding="utf-8"))
    assert shipped == json.loads(json.dumps(schema)), "run: clustersim schema > scenarios/scenario.schema.json"


def test_the_reference_page_is_current() -> None:
    page = (ROOT / "docs" / "reference" / "scenario.md").read_text(encoding="utf-8")
    assert page == reference_page(), "run: make reference"


def test_old_editors_can_read_the_schema(schema: dict[str, Any]) -> None:
    assert "prefixItems" not in json.dumps(schema)


def test_every_reference_has_a_target(schema: dict[str, Any]) -> None:
    text = json.dumps(schema)
    names = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert names <= set(schema["$defs"])


@pytest.mark.parametrize("name", shipped_files("scenarios"))
def test_shipped_scenarios_fit_the_schema_and_name_it(schema: dict[str, Any], name: str) -> None:
    text = shipped_files("scenarios")[name].read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=scenario.schema.json\n")
    assert accepts(schema, text)


def test_check_jsonschema_agrees_on_shipped_scenarios(tmp_path: Path, schema: dict[str, Any]) -> None:
    from check_jsonschema import main

    path = tmp_path / "scenario.schema.json"
    path.write_text(json.dumps(schema), encoding="utf-8")
    scenarios = [str(file) for file in shipped_files("scenarios").values()]
    with pytest.raises(SystemExit) as ended:
        main(["--schemafile", str(path), *scenarios])
    assert ended.value.code in (0, None)


@pytest.mark.parametrize(
    "added",
    [
        "",
        "num_gpus: [1, 2]",
        "strategy: {kind: [all-reduce, server]}",
        "strategy: [{kind: all-reduce, algorithm: [ring, tree]}, {kind: server}]",
        "topology: titan",
        "topology: [titan, {kind: torus, dims: [[2, 2], [4, 4]], link: 1 Gbit/s}]",
        "placement: [0, 1, 2, 3]",
        "placement: {kind: fragmented, free: [0.1, 0.2]}",
        "optimizer: adam",
        "dataset_size: 1.28e6",
        "stragglers: [{kind: gamma, cv: [0.1, 0.2], of: [0]}, {kind: constant, factor: 2, of: {hosts: [1]}}]",
    ],
)
def test_what_loads_is_valid_in_the_schema(varied: Callable[[str], str], schema: dict[str, Any], added: str) -> None:
    assert accepts(schema, varied(added))


@pytest.mark.parametrize(
    "added",
    [
        "modle: alexnet",
        "num_gpus: 0",
        "num_gpus: [1, x]",
        "batch: {per_gpu: -1}",
        "topology: {kind: star, num_hosts: 4, link: 1 Gbit/s, hop: 3}",
        "topology: {kind: star, num_hosts: 4, link: 1 Gbit/s, hop: 3 Gbit}",
        "topology: {kind: star, lnik: 1 Gbit/s}",
        "precision: fp33",
        "strategy: {kind: rung}",
        "stragglers: [{kind: gamma, sigma: 1}]",
        "memory_check: maybe",
    ],
)
def test_what_is_refused_is_invalid_in_the_schema(
    varied: Callable[[str], str], schema: dict[str, Any], added: str
) -> None:
    assert not accepts(schema, varied(added))


def test_a_file_that_extends_may_leave_keys_out(schema: dict[str, Any]) -> None:
    assert accepts(schema, "extends: base.yaml\ntopology: {gpu: k80}\n")
    assert not accepts(schema, "model: alexnet\n")


def test_the_page_has_every_key_of_every_model() -> None:
    from clustersim.reading.shape import known_keys
    from clustersim.scenario import Point

    page = reference_page()
    for key in known_keys([Point]):
        assert f"| `{key}` |" in page
    for title in ("`topology: {kind: ...}`", "`stragglers: [{kind: ...}]`", "`strategy.servers: {...}`"):
        assert f"## {title}" in page


def test_the_schema_has_at_most_389_keys(schema: dict[str, Any]) -> None:
    def count(part: Any) -> int:
        if isinstance(part, list):
            return sum(map(count, part))
        if not isinstance(part, dict):
            return 0
        own = len(part["properties"]) if isinstance(part.get("properties"), dict) else 0
        return own + sum(map(count, part.values()))

    assert count(schema) <= 389


@pytest.mark.parametrize(
    ("added", "is_valid"),
    [
        ("strategy: {kind: all-reduce, algorithm: ring}", True),
        ("strategy: {kind: all-reduce, backups: 2}", False),
        ("strategy: {kind: [all-reduce, backup]}", True),
        ("stragglers: [{kind: gamma, cv: 0.1}]", True),
        ("stragglers: [{kind: gamma, factor: 2}]", False),
        ("software: torchtitan", True),
        ("software: {name: torchtitan, host: compiled}", True),
        ("software: {copies: pytorch}", False),
        ("jobs: [{}, {model: vgg16, start: 1 s}]", True),
        ("jobs: [{modell: vgg16}]", False),
        ("compute: {library: eager}", False),
    ],
)
def test_a_joined_union_still_tells_its_members_apart(
    varied: Callable[[str], str], schema: dict[str, Any], added: str, is_valid: bool
) -> None:
    assert accepts(schema, varied(added)) is is_valid
