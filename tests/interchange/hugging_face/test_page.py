"""The page of model families has today's numbers, also where transformers is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clustersim.interchange.hf_config import FAMILIES
from tests.interchange.hugging_face.cases import CASES, Case
from tests.interchange.hugging_face.library import imported
from tests.interchange.hugging_face.page import PAGE, ours

LINES = PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_line_has_the_parameters_and_flop_of_the_import(tmp_path: Path, case: Case) -> None:
    model = imported(tmp_path, case.keys, case.tokens, case.image_size)
    first, second = ours(case, model.num_parameters, model.flop)
    line = next(line for line in LINES if f"| {case.name} |" in line)
    assert line.startswith(first)
    assert second in line
    assert line.count(" 0.0% |") == 2


TEXT_ALONE = {"gemma3", "llama4"}
"""Families of which the text model is built, and has a case under its own name."""


def test_every_family_has_a_case() -> None:
    assert {case.keys["model_type"] for case in CASES} | TEXT_ALONE == set(FAMILIES)
