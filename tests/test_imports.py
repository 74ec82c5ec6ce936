"""What is loaded when: importing clustersim and asking for help stay light."""

from __future__ import annotations

import json
import subprocess
import sys

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
