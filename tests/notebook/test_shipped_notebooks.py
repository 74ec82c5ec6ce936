"""The notebooks in docs/notebooks run from top to bottom, each in less than a minute, and are kept without outputs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.ipynb"))
LIMIT_S = 60.0


@pytest.mark.notebook
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_less_than_a_minute(path: Path, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    begin = time.process_time()
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert time.process_time() - begin < LIMIT_S
    assert all(cell.outputs for cell in notebook.cells if cell.cell_type == "code" and not _only_defines(cell.source))


def _only_defines(source: str) -> bool:
    """Return whether a cell ends with a definition, after which a notebook shows nothing."""
    last = source.rstrip().splitlines()[-1]
    return last.startswith(" ") or " = " in last


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert text == json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    assert len(text) < 20_000


def test_there_are_three_notebooks_and_the_page_names_each() -> None:
    page = (NOTEBOOKS[0].parent / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 3
    assert all(f"({path.name})" in page for path in NOTEBOOKS)
