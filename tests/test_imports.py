"""What is loaded when: importing clustersim and asking for help stay light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ["torch", "scipy", "plotly", "numba", "networkx", "pandas"]
NOT_FOR_HELP = [*HEAVY, "numpy", "pydantic", "ruamel", "rich", "simpy"]


def loaded_by(statement: str) -> set[str]:
    """Return the top-level names of the modules that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport json, sys\njson.dump(sorted({{m.split('.')[0] for m in sys.modules}}), sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stderr))


def test_importing_clustersim_loads_no_heavy_library() -> None:
    assert loaded_by("import clustersim").isdisjoint(NOT_FOR_HELP)


def test_help_loads_no_library_but_typer() -> None:
    loaded = loaded_by("from clustersim.cli import main\nassert main(['--help']) == 0")
    assert "typer" in loaded
    assert loaded.isdisjoint(NOT_FOR_HELP)


def test_every_name_of_the_front_door_opens_without_plotting_or_torch() -> None:
    statement = "import clustersim\nfor name in clustersim.__all__: getattr(clustersim, name)"
    assert loaded_by(statement).isdisjoint(HEAVY)


def test_the_front_door_lists_what_is_behind_it_before_it_is_opened() -> None:
    loaded_by(
        "import clustersim\nassert set(clustersim.__all__) <= set(dir(clustersim))\nassert 'sys' not in dir(clustersim)"
    )


def test_rooms_do_not_shadow_the_functions_called_like_them() -> None:
    statement = (
        "import clustersim, clustersim.sweep, clustersim.simulate\n"
        "assert callable(clustersim.sweep) and callable(clustersim.simulate)"
    )
    assert "clustersim" in loaded_by(statement)


def test_unknown_names_are_attribute_errors() -> None:
    statement = (
        "import clustersim\n"
        "try: clustersim.simulator\n"
        "except AttributeError as error: assert 'simulator' in str(error)\n"
        "else: raise SystemExit('no error')"
    )
    assert "clustersim" in loaded_by(statement)


# a module's doctests are left out for want of an extra only

MISSING = """
import importlib.util, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in NAMES else find_spec(name, package)
sys.meta_path.insert(0, Missing())
"""


def collected_without(names: list[str], folder: Path, *rooms: str) -> subprocess.CompletedProcess[str]:
    """Return pytest's collection of rooms as it is where some libraries are not installed."""
    (folder / "missing.py").write_text(f"NAMES = {names}\n{MISSING}")
    command = [sys.executable, "-m", "pytest", "-p", "missing", "-p", "no:cacheprovider", "-q", "--collect-only"]
    return subprocess.run(
        [*command, *(f"clustersim/{room}" for room in rooms)],
        capture_output=True, text=True, timeout=120, check=False,
        cwd=Path(__file__).parents[1], env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip


def test_without_an_extra_the_doctests_that_need_none_are_collected(tmp_path: Path) -> None:
    done = collected_without(["torch", "onnx"], tmp_path, "interchange", "profiling")
    assert done.returncode == 0, done.stdout
    assert "clustersim/profiling/campaign.py" in done.stdout
    assert "clustersim/interchange/onnx_model/sizes.py" in done.stdout
    assert "clustersim/profiling/net.py" not in done.stdout


def test_a_module_that_does_not_import_fails_the_run(tmp_path: Path) -> None:
    done = collected_without(["numpy"], tmp_path, "kernels")
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "No module named 'numpy'" in done.stdout
