"""The recipe for conda, built by rattler-build.

No channel of conda can be reached where this runs. So the channel is one that the test makes: its `python` is this
machine's, with pip and hatchling. Whether conda-forge has the packages that the recipe requires is not tested here.
"""

from __future__ import annotations

import json
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.packages.commands import ROOT, done

pytestmark = pytest.mark.packages


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a channel that has what the recipe needs to be built."""
    import rattler_build

    work = tmp_path_factory.mktemp("conda")
    prefix, channel = work / "prefix", work / "channel"
    done(sys.executable, "-m", "venv", prefix)
    done(prefix / "bin" / "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", "hatchling")
    for folder in ("linux-64", "noarch"):
        (channel / folder).mkdir(parents=True)
    version = ".".join(str(part) for part in sys.version_info[:3])
    packages: dict[str, Any] = {"compression_level": 1, "build_string": "0"}
    rattler_build.assemble_package(
        "python", version, "linux-64", output_dir=channel / "linux-64", files_dir=prefix, **packages
    )
    for name in ("pip", "hatchling"):
        rattler_build.assemble_package(
            name, "99", "noarch", output_dir=channel / "noarch", files=[], noarch="generic", **packages
        )
    for folder in ("linux-64", "noarch"):
        _index(channel / folder)
    return channel


def _index(folder: Path) -> None:
    """Write the list of packages that a solver reads."""
    import rattler_build

    packages = {}
    for path in folder.glob("*.conda"):
        package = rattler_build.Package.from_file(path)
        packages[path.name] = {
            "name": package.name,
            "version": package.version,
            "build": package.build_string,
            "build_number": package.build_number,
            "depends": package.depends,
            "subdir": folder.name,
            "sha256": sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
            **({"noarch": package.noarch} if package.noarch else {}),
        }
    document = {"info": {"subdir": folder.name}, "packages": {}, "packages.conda": packages}
    (folder / "repodata.json").write_text(json.dumps(document), encoding="utf-8")


def test_package_of_conda_has_the_files_of_the_wheel(channel: Path, wheel: Path, tmp_path: Path) -> None:
    import rattler_build

    recipe = rattler_build.Stage0Recipe.from_file(ROOT / "recipe" / "recipe.yaml")
    tools = rattler_build.ToolConfiguration(test_strategy="skip")
    (built,) = recipe.run_build(tool_config=tools, output_dir=tmp_path, channels=[channel.as_uri()])
    package = rattler_build.Package.from_file(built.packages[0])
    inside = "site-packages/clustersim/"
    files = {name.removeprefix("site-packages/") for name in package.files if name.startswith(inside)}
    assert files == {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("clustersim/")}
    assert package.noarch == "python"
