"""A model by name or from a file."""

from __future__ import annotations

from pathlib import Path

from clustersim.model.catalogue import load_model
from clustersim.model.layer import Model
from clustersim.model.workload_file import GivenTimes, read_workload_file


def load_workload(name: str | Path) -> tuple[Model, GivenTimes | None]:
    """Return a model, and the times of its layers where a workload file gives them.

    A name is one of the catalogue's; what ends in `.yaml` or has a slash in it is a path.

    >>> load_workload("googlenet")[0].title
    'GoogLeNet, no auxiliary heads'
    """
    text = str(name)
    if text.endswith((".yaml", ".yml")) or "/" in text:
        return read_workload_file(Path(text))
    return load_model(text), None
