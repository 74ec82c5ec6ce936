"""Mutated configs are refused clearly and quickly, or read: 500 over all families, and 500 of each with `make fuzz`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clustersim.interchange.hf_config import FAMILIES, import_hf
from clustersim.interchange.hf_config.classes import config_class
from clustersim.model.write_workload import workload_text
from tests.mutations import check_mutations

COUNT = 500 if os.environ.get("CLUSTERSIM_FUZZ") else -(-500 // len(FAMILIES))
NEEDED = {
    "deepseek_v2": {"num_experts_per_tok": 2},
    "qwen2_5_vl": {"vision_config": {"out_hidden_size": 8192}},
}
"""Keys without which the defaults of a class make no model."""


def read(path: Path) -> str:
    """Import a config as the command does, to the text of a workload file."""
    return workload_text(import_hf(path).model)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mutated_config_is_read_or_refused(tmp_path: Path, family: str) -> None:
    """With every key of the class, so that each of them is tried with other types and sizes."""
    known = config_class(family).defaults
    document = {**known, "model_type": family} | NEEDED.get(family, {})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    read(path)
    number = sorted(FAMILIES).index(family)
    was_read, refused = check_mutations(read, json.dumps(document, indent=1).encode(), path, COUNT, seed=number)
    assert was_read + refused == COUNT
