"""The profile as written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clustersim.profiling import document as document_module
from clustersim.profiling.document import assemble, merged, rounded, to_text, write_document

IDENTITY = {"model": "tiny", "device": {"name": "A GPU"}, "software": {}, "flags": {}}


SUM = {"forward_s": 4.0, "backward_s": 20.0, "host_forward_s": None, "host_backward_s": None}


def times(seconds: float) -> dict[str, Any]:
    phases = {"forward_s": seconds, "backward_data_s": 2 * seconds, "backward_weights_s": 3 * seconds}
    return {"shape": {"input": [8, 3]}, **phases, "spread_s": 0.0}


def layer(name: str, key: str, *fused: str) -> dict[str, Any]:
    return {"name": name, "op": "relu", "key": key, "fused": list(fused)}


def measured(layers: list[dict[str, Any]]) -> dict[str, Any]:
    point = {"precision": "fp32", "layout": "nchw", "batch": 8}
    whole = {"forward_s": 4.0, "backward_s": 19.0, "iteration_s": 24.0}
    return {"k1": times(1.0), "k2": times(2.0), "p: whole": {"point": point, "layers": layers, "whole": whole}}


def test_a_point_has_a_row_for_every_layer_and_its_sum_beside_the_whole() -> None:
    profile = assemble(IDENTITY, measured([layer("a", "k1"), layer("b", "k2"), layer("c", "k1")]), [], compact=False)
    assert profile["schema"] == "clustersim.profile/1"
    assert [(row["name"], row["forward_s"], row["batch"]) for row in profile["layers"]] == [
        ("a", 1.0, 8), ("b", 2.0, 8), ("c", 1.0, 8)
    ]  # fmt: skip
    assert profile["whole"][0]["sum_of_layers"] == SUM


def test_compact_rows_name_every_layer_once() -> None:
    profile = assemble(IDENTITY, measured([layer("a", "k1"), layer("b", "k2"), layer("c", "k1")]), [], compact=True)
    assert [(row["name"], row.get("also")) for row in profile["layers"]] == [("a", ["c"]), ("b", None)]
    assert profile["whole"][0]["sum_of_layers"] == SUM


def test_launching_adds_up_where_it_was_measured() -> None:
    entries = measured([layer("a", "k1"), layer("b", "k1")])
    entries["k1"]["host_s"] = {"forward": 0.25, "backward": 0.5}
    found = assemble(IDENTITY, entries, [], compact=False)["whole"][0]["sum_of_layers"]
    assert (found["host_forward_s"], found["host_backward_s"]) == (0.5, 1.0)


def test_layers_that_do_others_work_are_not_merged() -> None:
    rows = [{"name": "a", "x": 1, "fused": ["b"]}, {"name": "c", "x": 1, "fused": ["d"]}]
    assert merged(rows) == rows
    same = [{"name": "a", "x": 1, "fused": ["b"]}, {"name": "c", "x": 1, "fused": ["b"]}]
    assert merged(same) == same


def test_half_a_point_is_not_in_the_profile() -> None:
    half = {key: value for key, value in measured([layer("a", "k1")]).items() if key != "p: whole"}
    assert assemble(IDENTITY, half, [], compact=False)["layers"] == []


def test_text_is_json_with_a_layer_a_line() -> None:
    profile = assemble(IDENTITY, measured([layer("a", "k1"), layer("b", "k2")]), [{"reason": "out of memory"}], False)
    text = to_text(profile)
    assert json.loads(text) == profile
    assert sum(line.startswith('{"name"') for line in text.splitlines()) == 2


def test_numbers_keep_four_digits() -> None:
    assert rounded({"a": [1.23456e-7, 7], "b": None, "c": True}) == {"a": [1.235e-7, 7], "b": None, "c": True}


def test_a_profile_that_cannot_be_written_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.json"
    write_document({"layers": [1]}, path)
    before = path.read_text()

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(document_module.os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_document({"layers": [1, 2]}, path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
