"""Compiled kernels are kept where that may be written, used only for the sources they are of, and done without else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import clustersim

KERNELS = Path("clustersim/network/numba_engine")
# `_folder` and `_keeping_in` are used on a tiny kernel of the test's own: the real ones take long to compile.
TINY = """
import json, numba
from clustersim.network.numba_engine import jit
def double(number):
    return 2 * number
double = jit.kernel(double)
print(json.dumps([double(4), str(jit._folder()), sum(double.stats.cache_hits.values()), numba.config.CACHE_DIR]))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package, without what has been compiled."""
    source = Path(clustersim.__file__).parent
    shutil.copytree(source, tmp_path / "clustersim", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(folder: Path, code: str, **environment: str) -> str:
    """Run code in a fresh interpreter with the package of a folder; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
    (folder / "code.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "code.py"],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tiny(folder: Path, **environment: str) -> tuple[int, str, int, str]:
    """Compile and call a tiny kernel; return its result, where it is kept, cache hits and numba's own setting."""
    return tuple(json.loads(run(folder, TINY, **environment)))


def test_kernels_are_kept_beside_their_sources_and_found_again(copy):
    result, where, hits, setting = tiny(copy)
    assert (result, hits, setting) == (8, 0, "")
    assert Path(where).parent == copy / KERNELS / "__pycache__"
    assert list(Path(where).rglob("*.nbc"))
    assert tiny(copy) == (8, where, 1, "")


def test_where_the_package_is_read_only_kernels_are_kept_in_the_users_cache(copy):
    """A file in the place of a folder stops everybody, root included."""
    (copy / KERNELS / "__pycache__").write_text("")
    cache = copy / "cache"
    result, where, hits, _ = tiny(copy, XDG_CACHE_HOME=str(cache))
    assert (result, hits) == (8, 0)
    assert Path(where).parent == cache / "clustersim"
    assert tiny(copy, XDG_CACHE_HOME=str(cache))[1:3] == (where, 1)


def test_where_nothing_can_be_written_kernels_are_compiled_and_not_kept(copy):
    (copy / KERNELS / "__pycache__").write_text("")
    (copy / "cache").write_text("")
    assert tiny(copy, XDG_CACHE_HOME=str(copy / "cache")) == (8, "None", 0, "")
    assert not list(copy.rglob("*.nbc"))


def test_numbas_own_setting_of_a_folder_is_respected(copy):
    result, where, _, setting = tiny(copy, NUMBA_CACHE_DIR=str(copy / "own"))
    assert (result, setting) == (8, str(copy / "own"))
    assert Path(where).parent == copy / "own"


def test_a_changed_kernel_is_compiled_anew_even_if_its_own_file_is_as_old_as_before(copy):
    where = tiny(copy)[1]
    source = copy / KERNELS / "flows.py"
    before = source.stat()
    source.write_text(source.read_text() + "\n# changed\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    result, elsewhere, hits, _ = tiny(copy)
    assert (result, hits) == (8, 0)
    assert elsewhere != where


PLAYS = """
import sys
import simpy
from clustersim.collectives import ALL_REDUCE
from clustersim.network import Network
from clustersim.topology import load_topology
from tests.network.clusters import line
network = Network(simpy.Environment(), load_topology(line({num_ranks})), exact=True)
print("numba" in sys.modules)
network.env.run(network.play(ALL_REDUCE["ring"]({num_ranks}, 1e6), range({num_ranks})))
print("numba" in sys.modules)
"""


@pytest.mark.parametrize(("num_ranks", "is_loaded"), [(8, False), (230, True)])
def test_only_work_of_many_messages_loads_a_compiler(num_ranks, is_loaded):
    """A ring of n has 2 n (n - 1) messages: 112 of 8 ranks, 105,340 of 230."""
    done = subprocess.run(
        [sys.executable, "-c", PLAYS.format(num_ranks=num_ranks)],
        cwd=Path(clustersim.__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["False", str(is_loaded)]
