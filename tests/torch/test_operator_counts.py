"""The committed table of operators against a new count, and the launches of calls on lists of tensors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.script import load_script

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++: a CUDA device that does nothing is compiled"),
]
ROOT = Path(__file__).parents[2]
TABLE = YAML(typ="safe").load(ROOT / "clustersim" / "software" / "operator_counts.yaml")


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    """Count in a process of its own: the device must be there before torch is imported."""
    command = [sys.executable, ROOT / "tools" / "count_operators.py", "--json"]
    result: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return result


def of_same_version() -> bool:
    import torch

    return torch.__version__.startswith("2.13.")


def test_the_table_is_what_is_counted(counted: dict[str, Any]) -> None:
    if not of_same_version():
        pytest.skip("the table is that of torch 2.13")
    for part, content in counted.items():
        if part == "composition":
            continue
        assert TABLE[part] == content, part


@pytest.mark.parametrize("mode", ["fp32", "bf16", "autocast"])
def test_models_are_the_sums_of_their_layers(counted: dict[str, Any], mode: str) -> None:
    for name, layers in counted["composition"].items():
        for side in ("forward", "backward"):
            rows = [(number, counted[mode]["operators"][kind][side]) for kind, number in layers.items()]
            difference = [
                counted[mode]["models"][name][side][key] - sum(number * row[key] for number, row in rows)
                for key in ("kernels", "launches", "host_only")
            ]
            copies = difference[0] if name == "bert-block" and side == "backward" else 0  # the key's gradient
            flattened = int(name in ("vgg16", "alexnet"))  # the view between convolutions and classifier
            assert difference == [copies, copies, flattened], (name, side)
            assert copies <= 1


def test_a_call_on_many_tensors_launches_a_kernel_whenever_one_is_full() -> None:
    """CUDA 12: 36 tensors of four lists, 320 chunks of 65,536 elements; CUDA 13: 252 and 2,240."""
    launches_of = load_script(ROOT / "tools" / "count_operators.py").launches_of
    assert launches_of([1] * 36, 4, False, "cuda-12") == 1
    assert launches_of([1] * 300, 4, False, "cuda-12") == 9
    assert launches_of([1] * 300, 4, False, "cuda-13") == 2
    assert launches_of([320 * 65536], 1, False, "cuda-12") == 1
    assert launches_of([320 * 65536 + 1], 1, False, "cuda-12") == 2
    assert launches_of([1] * 97, 1, True, "cuda-12") == 2  # 96 with a number each, 110 without
    assert launches_of([1] * 97, 1, False, "cuda-12") == 1
    cut = [319 * 65536, 2 * 65536, *[1] * 109]  # the second tensor is cut, and is the next kernel's first
    assert launches_of(cut, 1, False, "cuda-12") == 2
    assert launches_of([*cut, 1], 1, False, "cuda-12") == 3
