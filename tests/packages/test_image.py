"""The image of the Dockerfile, built by buildah and used as `docker run` would.

No registry of images can be reached where this runs. So the base is made of Debian's packages (Debian 12, Python
3.11), and not `python:3.11-slim`. Packages of Python come from a folder, and the build has no need of a network.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.packages.commands import ROOT, done

_TOOLS = ("buildah", "mmdebstrap")
_missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
_reason = f"THE IMAGE WAS NOT BUILT: {' and '.join(_missing)} missing (apt install {' '.join(_TOOLS)})"
pytestmark = [
    pytest.mark.packages,
    pytest.mark.skipif(bool(_missing), reason=_reason),
    pytest.mark.skipif(os.geteuid() != 0, reason="THE IMAGE WAS NOT BUILT: that needs root"),
]

_DEBIAN = (
    *("python3-venv", "libstdc++6", "bash", "coreutils", "dash", "libc-bin", "base-files", "base-passwd", "netbase"),
    *("ca-certificates", "media-types", "tzdata"),
)
"""What the base of python:3.11-slim has, as far as the Dockerfile and clustersim use it."""

_IMAGES_BYTES = 4e9
"""Room for all images; the disk is much slower than memory for their many small files."""

Buildah = Callable[..., str]


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Return a function that runs buildah on images and containers that are deleted afterwards."""
    memory = Path("/dev/shm")
    is_enough = memory.is_dir() and shutil.disk_usage(memory).free > _IMAGES_BYTES
    store = Path(mkdtemp(dir=memory)) if is_enough else tmp_path_factory.mktemp("images")

    def run(*arguments: str | Path) -> str:
        return done("buildah", "--root", store / "root", "--runroot", store / "run", *arguments).strip()

    yield run
    run("rm", "--all")
    shutil.rmtree(store)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of the user of the image, for what it writes."""
    folder = tmp_path_factory.mktemp("mine")
    os.chown(folder, 1000, 1000)
    return folder


@pytest.fixture(scope="module")
def inside(buildah: Buildah, image: str, mine: Path) -> Buildah:
    """Return a function that runs a command in a container, in a folder of this machine.

    The folder is below /work, since buildah mounts the image's own volume over one at /work.
    """
    container = buildah("from", "--pull=never", image)
    options = ("--isolation=chroot", f"--volume={mine}:/work/mine", container, "sh", "-c", 'cd mine && exec "$@"', "sh")
    return lambda *command: buildah("run", *options, *command)


@pytest.fixture(scope="module")
def base(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make an image of Debian's packages with Python as `python`."""
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    hooks = ("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--extract-hook=ln -s python3 $1/usr/bin/python")
    done("mmdebstrap", "--quiet", "--variant=extract", *hooks, f"--include={','.join(_DEBIAN)}", "bookworm", archive)
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, archive, "/")
    buildah("commit", "--quiet", container, "localhost/base")
    archive.unlink()
    return "localhost/base"


@pytest.fixture(scope="module")
def image(buildah: Buildah, base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the image, with the packages of Python from a folder."""
    folder = tmp_path_factory.mktemp("pip")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    wanted = (ROOT, "hatchling>=1.25")
    done(*pip, "download", "--quiet", "--dest", folder, "--constraint", ROOT / "constraints.txt", *wanted)
    (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n", encoding="utf-8")
    mounts = (f"--volume={folder}:/wheels:ro", f"--volume={folder}/pip.conf:/etc/pip.conf:ro")
    options = ("--isolation=chroot", "--pull=never", f"--build-arg=BASE={base}")
    buildah("bud", "--quiet", *options, *mounts, "--tag=localhost/clustersim", ROOT)
    return "localhost/clustersim"


def test_image_runs_clustersim_as_no_one_special_in_its_volume(buildah: Buildah, image: str) -> None:
    config = json.loads(buildah("inspect", image))["OCIv1"]["config"]
    assert config["Entrypoint"] == ["clustersim"]
    assert config["Cmd"] == ["--help"]
    assert config["User"] == "1000:1000"
    assert config["WorkingDir"] == "/work"
    assert list(config["Volumes"]) == ["/work"]


def test_image_forecasts_what_the_checkout_does_and_writes_its_page(inside: Buildah, mine: Path) -> None:
    assert "firecaffe-googlenet" in inside("clustersim", "run", "firecaffe-googlenet")
    (page,) = mine.rglob("*.html")
    assert page.stat().st_uid == 1000
    command = ("run", "firecaffe-googlenet", "--json", "--no-report")
    here = done(sys.executable, "-m", "clustersim", *command, cwd=mine, PYTHONPATH=str(ROOT))
    rates = [
        [run["samples_per_s"] for run in json.loads(text)["runs"]] for text in (inside("clustersim", *command), here)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=1e-12)  # another libm and BLAS may round otherwise


def test_image_holds_no_source_and_is_not_writable(inside: Buildah) -> None:
    check = "test ! -e /source/pyproject.toml && test ! -w /opt/clustersim && test ! -w / && test -w /work && id -u"
    assert inside("sh", "-c", check) == "1000"


def test_dockerfile_keeps_the_rules_of_hadolint() -> None:
    done(Path(sys.executable).with_name("hadolint"), ROOT / "Dockerfile")
