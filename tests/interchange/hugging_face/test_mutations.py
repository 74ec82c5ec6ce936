"""Mutated configs are refused clearly and quickly, or read: 500 over all families, and 500 of each with `make fuzz`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clustersim.interchange.hf_config import FAMILIES, import_hf
from clustersim.interchange.hf_config.classes import config_class
from clustersim.model.write_workload import workload_text
from tests.interchange.hugging_face.test_layouts import SIZES
from tests.mutations import check_mutations

COUNT = 500 if os.environ.get("CLUSTERSIM_FUZZ") else -(-500 // len(FAMILIES))


def read(path: Path) -> str:
    """Import a config as the command does, to the text of a workload file."""
    return workload_text(import_hf(path).model)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mutated_config_is_read_or_refused(tmp_path: Path, family: str) -> None:
    """With every key of the class, so that each of them is tried with other types and sizes."""
    known = config_class(family).defaults
    document = {**known, **{key: SIZES[key] for key in SIZES if key in known}, "model_type": family}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    read(path)
    number = sorted(FAMILIES).index(family)
    was_read, refused = check_mutations(read, json.dumps(document, indent=1).encode(), path, COUNT, seed=number)
    assert was_read + refused == COUNT
