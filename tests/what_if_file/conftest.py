"""A working folder for commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.tiny import SCENARIO, STAR


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one scenario and one topology file in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "star.yaml").write_text(STAR)
    return tmp_path
