"""Packages of the project: the wheel, the image and the conda package, built and used as a user would."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packages.commands import ROOT, done


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it."""
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """Return the wheel that was built from the source distribution."""
    (found,) = dist.glob("*.whl")
    return found
