"""The lab reports why it cannot run; no real run here."""

from __future__ import annotations

from pathlib import Path

import pytest

from validate.lab.__main__ import NOT_HERE, main
from validate.lab.sandbox import INSIDE, unavailable_reason


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only one on the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(INSIDE, raising=False)
    return tmp_path


def test_missing_programs_are_named(bare_path: Path) -> None:
    program(bare_path, "ip", "true")
    expected = "the lab needs tc, unshare, mount (packages iproute2, util-linux and mount on Debian)"
    assert unavailable_reason() == expected


def test_a_kernel_that_refuses_is_reported_with_its_message(
    bare_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ip", "tc", "mount"):
        program(bare_path, name, "true")
    program(bare_path, "unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
    assert main(["--quick"]) == NOT_HERE
    said = capsys.readouterr().err
    assert "THE LAB CANNOT RUN HERE: the kernel does not allow" in said
    assert "Operation not permitted" in said


def test_another_system_than_linux_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert unavailable_reason() == "the lab needs Linux network namespaces (got darwin)"
