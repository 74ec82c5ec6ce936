"""A sweep in a notebook, and as a data frame of pandas."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from clustersim.interchange import write_csv
from tests.report.synthetic import make_comparison, make_sweep

pytestmark = pytest.mark.notebook

CELLS = (
    "import clustersim\nsweep = clustersim.sweep('firecaffe-googlenet')\nprint('pandas' in __import__('sys').modules)",
    "sweep",
    "sweep.runs[0]",
    "sweep.to_pandas()",
)


def test_a_data_frame_has_the_rows_with_nothing_lost() -> None:
    for sweep in (make_sweep(), make_comparison()):
        frame = sweep.to_pandas()
        assert len(frame) == len(sweep.runs)
        for row, (_, found) in zip(sweep.to_rows(), frame.iterrows(), strict=True):
            assert {name for name, cell in row.items() if cell is None} <= set(found[found.isna()].index)
            assert all(found[name] == cell for name, cell in row.items() if cell is not None)


def test_a_data_frame_has_the_columns_of_the_csv_file(tmp_path: Path) -> None:
    import pandas

    frame = make_comparison().to_pandas()
    read = pandas.read_csv(write_csv(make_comparison(), tmp_path / "runs.csv"))
    assert list(frame.columns) == list(read.columns)
    numbers = frame.select_dtypes("number")
    assert len(numbers.columns) > 20
    pandas.testing.assert_frame_equal(numbers, read[numbers.columns], check_exact=True, check_dtype=False)


def test_numbers_that_are_missing_are_numbers_still() -> None:
    frame = make_comparison().to_pandas()
    assert frame["mfu"].dtype == float
    assert math.isnan(frame["mfu"].iloc[0])


@pytest.fixture(scope="module")
def outputs() -> list[list[dict[str, Any]]]:
    """Run the cells in a kernel and return the outputs of each."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=300).execute()
    return [cell.outputs for cell in notebook.cells]


def test_a_notebook_shows_the_report_of_a_sweep(outputs: list[list[dict[str, Any]]]) -> None:
    (shown,) = outputs[1]
    assert "<iframe" in shown["data"]["text/html"]
    assert "41.8×" in shown["data"]["text/plain"]


def test_a_notebook_shows_a_run_as_a_table(outputs: list[list[dict[str, Any]]]) -> None:
    (shown,) = outputs[2]
    assert shown["data"]["text/html"].startswith("<table>")


def test_pandas_is_loaded_when_it_is_asked_for(outputs: list[list[dict[str, Any]]]) -> None:
    assert outputs[0][-1]["text"].splitlines()[-1] == "False"
    assert "firecaffe-googlenet" in outputs[3][0]["data"]["text/html"]
