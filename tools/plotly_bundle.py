"""Write plotly.js for the pages, clustersim/report/plotly.min.js.gz and its licence, from the npm package of PACKAGE.

    python tools/plotly_bundle.py

needs npm. Another version is another VERSION and INTEGRITY (`npm view PACKAGE@VERSION dist.integrity`); the file
changes only then. The package has the kinds of traces with two axes: bar, scatter, heatmap, box, histogram, others.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "plotly.js-cartesian-dist-min"
VERSION = "4.1.1"
INTEGRITY = "sha512-o8GrFeusncwBIxbBynRJpY4pkgVB6caM+JLpwrLYbbsO7dZ8FJ+SVN2Fr+L7kiG/Z6w4P5O0Jus/Qr5EefHVeg=="

REPORT = Path(__file__).parents[1] / "clustersim" / "report"
FILES = {"package/plotly-cartesian.min.js": "plotly.min.js.gz", "package/LICENSE": "plotly.LICENSE.txt"}


def main() -> None:
    """Download the package, check it, and write its files."""
    with tempfile.TemporaryDirectory() as folder:
        packed = download(Path(folder))
        check(packed.read_bytes())
        with tarfile.open(packed) as archive:
            for member, name in FILES.items():
                found = archive.extractfile(member)
                if found is None:
                    raise SystemExit(f"{PACKAGE} {VERSION} has no file {member}")
                write(REPORT / name, found.read())


def download(folder: Path) -> Path:
    """Return the package as npm gives it."""
    command = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / f"{PACKAGE}-{VERSION}.tgz"


def check(content: bytes) -> None:
    """Refuse content that is not the pinned one."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != INTEGRITY:
        raise SystemExit(f"{PACKAGE} {VERSION} is not the pinned one: {found} instead of {INTEGRITY}")


def write(path: Path, content: bytes) -> None:
    """Write a file, compressed if its name says so; the same content gives the same bytes."""
    path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
