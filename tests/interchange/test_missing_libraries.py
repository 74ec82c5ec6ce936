"""Imports that need an extra report how to install it."""

from __future__ import annotations

import pytest

from clustersim.cli import main
from clustersim.interchange import onnx_model, torch_model


def no_library(name: str) -> None:
    return None


def test_without_torch_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch_model, "find_spec", no_library)
    assert main(["import", "torch", "mine:build", "--input", "4"]) == 3
    assert capsys.readouterr().err == "torch is not installed; pip install 'clustersim[torch]'\n"


def test_without_onnx_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onnx_model, "find_spec", no_library)
    assert main(["import", "onnx", "net.onnx"]) == 3
    assert capsys.readouterr().err == "onnx is not installed; pip install 'clustersim[onnx]'\n"


def test_a_command_without_its_input_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "torch", "mine:build"]) == 2
    assert "--input" in capsys.readouterr().err
