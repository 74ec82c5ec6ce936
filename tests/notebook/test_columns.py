"""Rows of a sweep as columns of other libraries: Parquet files and data frames of polars."""

from __future__ import annotations

from pathlib import Path

import pytest

from clustersim.interchange import write_parquet
from clustersim.scenario import load_scenario
from clustersim.sweep.executor import InProcess
from clustersim.sweep.ledger import SweepLedger, fill
from tests.cli.tiny import SCENARIO
from tests.report.synthetic import make_comparison, make_sweep

pytestmark = pytest.mark.notebook


def test_a_polars_frame_has_the_rows_with_their_types() -> None:
    import polars

    for sweep in (make_sweep(), make_comparison()):
        frame, rows = sweep.to_polars(), sweep.to_rows()
        assert frame.to_dicts() == [{name: row.get(name) for name in frame.columns} for row in rows]
        assert {name for row in rows for name in row} == set(frame.columns)
        assert frame.schema["num_gpus"] == polars.Int64
        assert frame.schema["samples_per_s"] == polars.Float64


def test_a_parquet_file_has_the_rows_of_a_ledger_with_their_types(tmp_path: Path) -> None:
    import pyarrow.parquet

    (file := tmp_path / "tiny.yaml").write_text(SCENARIO, encoding="utf-8")
    with SweepLedger.open(tmp_path / "a.db") as ledger:
        found = fill(ledger, load_scenario(file, ["num_gpus=[1, 2, 4]"], strict=False), InProcess())
        write_parquet(found, tmp_path / "a.parquet")
        rows = found.to_rows()
        frame = found.to_polars()
    assert frame.to_dicts() == [{name: row.get(name) for name in frame.columns} for row in rows]
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert len(rows) == 3
    assert table.to_pylist() == [{name: row.get(name) for name in table.column_names} for row in rows]
    assert table.schema.field("num_gpus").type == pyarrow.int64()
    assert table.schema.field("samples_per_s").type == pyarrow.float64()
