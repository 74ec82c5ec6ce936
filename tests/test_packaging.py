"""The project installs: as a wheel with the files it ships, and editable."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("scenarios", "topologies", "validate")


def python(*arguments: str, cwd: Path, **environment: str) -> str:
    """Run a fresh interpreter and return its stdout."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it."""
    folder = tmp_path_factory.mktemp("dist")
    python("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone into a folder that goes before everything else on the path."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = built.glob("*.whl")
    python("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(wheel), cwd=folder)
    return folder


def test_wheel_carries_every_shipped_file(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in SHIPPED:
        expected = {
            f"clustersim/_data/{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and path.suffix in {".yaml", ".json", ".csv", ".md"}
        }
        assert expected <= names
    assert "clustersim/_data/scenarios/firecaffe-googlenet.yaml" in names
    assert "clustersim/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    for name in ("plotly.min.js.gz", "plotly.LICENSE.txt", "page.css", "page.js", "start.js"):
        assert f"clustersim/report/{name}" in names


def test_wheel_carries_every_file_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    files = (path for path in (ROOT / "clustersim").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert {path.relative_to(ROOT).as_posix() for path in files} <= set(zipfile.ZipFile(wheel).namelist())


def test_wheel_of_the_checkout_is_that_of_the_source_distribution(built: Path, tmp_path: Path) -> None:
    python("-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(ROOT), cwd=tmp_path)
    (mine,), (theirs,) = tmp_path.glob("*.whl"), built.glob("*.whl")
    assert mine.read_bytes() == theirs.read_bytes()


def test_wheel_carries_the_sheets_and_no_tests(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "clustersim/hardware/gpus/k20x.yaml" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "scenarios/"))]


def test_source_distribution_can_be_tested(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"Makefile", "conftest.py", "constraints.txt", "LICENSE", "README.md", "tests/test_packaging.py"} <= names


def test_wheel_works_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = (
        "import clustersim, clustersim.data\n"
        "assert clustersim.data.data_folder('scenarios').parent.name == '_data'\n"
        "print(clustersim.load_scenario('firecaffe-googlenet').name, clustersim.__file__)"
    )
    name, file = python("-c", code, cwd=tmp_path, PYTHONPATH=str(installed)).split()
    assert name == "firecaffe-googlenet"
    assert Path(file).is_relative_to(installed)


def test_console_script_of_the_wheel_lists_what_it_ships(installed: Path, tmp_path: Path) -> None:
    script = installed / "bin" / "clustersim"
    listing = python(str(script), "list", cwd=tmp_path, PYTHONPATH=str(installed))
    assert "firecaffe-googlenet" in listing
    assert "titan" in listing


def test_editable_install_finds_the_files_of_the_checkout(tmp_path: Path) -> None:
    code = f"from hatchling.build import build_editable\nbuild_editable({str(tmp_path)!r})"
    python("-c", code, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        f"import site; site.addsitedir({str(site)!r})\n"
        "from clustersim.data import shipped_files\n"
        "print(shipped_files('scenarios')['firecaffe-googlenet'])"
    )
    found = Path(python("-I", "-S", "-c", code, cwd=tmp_path).strip())
    assert found == ROOT / "scenarios" / "firecaffe-googlenet.yaml"


def test_constraints_pin_every_distribution_exactly() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert all(len(line.split("==")) == 2 for line in lines)


def project() -> dict[str, Any]:
    """Return what pyproject.toml says of the project."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def test_versions_agree() -> None:
    import clustersim

    version = project()["version"]
    assert clustersim.__version__ == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_recipe_of_conda_requires_what_the_wheel_does() -> None:
    from ruamel.yaml import YAML

    recipe = YAML(typ="safe").load(ROOT / "recipe" / "recipe.yaml")
    mine = project()
    assert recipe["context"]["version"] == mine["version"]
    required = [re.sub(r"^([a-z.]+)", r"\1 ", each) for each in mine["dependencies"]]
    python_version = f"python {mine['requires-python']}"
    assert recipe["requirements"]["run"] == [python_version, *required]
    assert recipe["requirements"]["host"][0] == python_version
    scripts = [f"{name} = {entry}" for name, entry in mine["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["summary"] == mine["description"]
    assert recipe["about"]["license"] == mine["license"]


def test_image_is_built_from_what_the_wheel_is_built_from() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    needed = {*build["targets"]["wheel"]["packages"], *build["targets"]["wheel"]["force-include"]}
    licences = {name for name in project()["license-files"] if name.partition("/")[0] not in needed}
    assert allowed == needed | {"pyproject.toml", "constraints.txt", project()["readme"], *licences}
