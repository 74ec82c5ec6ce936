"""clustersim forecasts how a deep-learning model will train on a GPU cluster, and why not faster."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clustersim.collectives import ALL_REDUCE as ALL_REDUCE
    from clustersim.collectives import Schedule as Schedule
    from clustersim.difference import diff as diff
    from clustersim.network import Network as Network
    from clustersim.report import report_html as report_html
    from clustersim.report import report_text as report_text
    from clustersim.report import write_report as write_report
    from clustersim.results import Run as Run
    from clustersim.results import Sweep as Sweep
    from clustersim.scenario import Scenario as Scenario
    from clustersim.scenario import load_scenario as load_scenario
    from clustersim.sensitivity import why as why
    from clustersim.simulate import simulate as simulate
    from clustersim.sweep import sweep as sweep
    from clustersim.topology import load_topology as load_topology

__version__ = "0.1.0"

_FRONT_DOOR = {
    "ALL_REDUCE": "clustersim.collectives",
    "Network": "clustersim.network",
    "Run": "clustersim.results",
    "Scenario": "clustersim.scenario",
    "Schedule": "clustersim.collectives",
    "Sweep": "clustersim.results",
    "diff": "clustersim.difference",
    "load_scenario": "clustersim.scenario",
    "load_topology": "clustersim.topology",
    "report_html": "clustersim.report",
    "report_text": "clustersim.report",
    "simulate": "clustersim.simulate",
    "sweep": "clustersim.sweep",
    "why": "clustersim.sensitivity",
    "write_report": "clustersim.report",
}
__all__ = ["__version__", *_FRONT_DOOR]


def __getattr__(name: str) -> Any:
    """Import the module of a name when the name is first used, so that `import clustersim` stays light."""
    if name not in _FRONT_DOOR:
        raise AttributeError(f"module 'clustersim' has no attribute '{name}'")
    return getattr(import_module(_FRONT_DOOR[name]), name)


def __dir__() -> list[str]:
    """Return the public names, loaded or not, and the rooms that are loaded."""
    return sorted({*__all__, *(name for name in globals() if f"{__name__}.{name}" in sys.modules)})


class _Package(ModuleType):
    """Keeps `clustersim.simulate` and `clustersim.sweep` functions although rooms are called the same."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _FRONT_DOOR and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
