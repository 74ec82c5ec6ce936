"""The examples in the lab's docstrings."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import validate.lab

MODULES = sorted(path.stem for path in Path(validate.lab.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_come_out_as_they_are_written(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(f"validate.lab.{name}"))
    assert failed == 0


def test_there_are_examples() -> None:
    modules = [importlib.import_module(f"validate.lab.{name}") for name in MODULES]
    assert sum(doctest.testmod(module).attempted for module in modules) >= 5
