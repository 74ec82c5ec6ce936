"""The wheel as a user gets it: installed from the package index's other wheels into a new environment, elsewhere."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

from tests.packages.commands import ROOT, done

pytestmark = pytest.mark.packages


@pytest.fixture(scope="session")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return clustersim in a new environment, whose path has a space and a letter beyond ASCII in it."""
    environment = tmp_path_factory.mktemp("new") / "an environment é"
    done(sys.executable, "-m", "venv", environment)
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    done(*pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    done(*pip, "check")
    return environment / "bin" / "clustersim"


def test_an_index_accepts_the_wheel_and_the_source_distribution(dist: Path) -> None:
    assert done(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir())).count("PASSED") == 2


def test_first_command_of_the_readme_writes_its_page(program: Path, tmp_path: Path) -> None:
    shown = done(program, "run", "firecaffe-googlenet", cwd=tmp_path)
    assert "firecaffe-googlenet" in shown
    (page,) = tmp_path.rglob("*.html")
    assert "plotly" in page.read_text(encoding="utf-8").lower()


def test_forecast_has_the_bytes_of_the_checkout(program: Path, tmp_path: Path) -> None:
    command = ("run", "firecaffe-googlenet", "--json", "--no-report")
    installed = done(program, *command, cwd=tmp_path)
    assert installed == done(sys.executable, "-m", "clustersim", *command, cwd=tmp_path, PYTHONPATH=str(ROOT))


@pytest.mark.parametrize("section", ["scenarios", "clusters", "cases", "models", "gpus", "hosts", "links", "software"])
def test_sections_of_list_have_members(program: Path, tmp_path: Path, section: str) -> None:
    assert len(done(program, "list", section, cwd=tmp_path).splitlines()) > 3


def test_a_shipped_case_is_found_and_judged(program: Path, tmp_path: Path) -> None:
    assert "--max-error" in done(program, "validate", "--help", cwd=tmp_path)
    document = json.loads(done(program, "validate", "firecaffe", "--json", cwd=tmp_path))
    assert document["summary"]["num_points"] > 0


def test_readme_of_the_source_distribution_is_that_of_the_checkout(dist: Path, tmp_path: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert (source / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()
    done(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "agree or pin_every or recipe",
         source / "tests" / "test_packaging.py", cwd=source, PYTHONPATH=str(source))  # fmt: skip
