"""A sweep as a flat table."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace

import pytest

from clustersim.errors import InputError
from clustersim.interchange import write_csv
from clustersim.results import BREAKDOWN
from tests.report.synthetic import make_comparison, make_sweep


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_table_has_a_row_for_each_run_and_the_numbers_come_back_exactly(tmp_path):
    sweep = make_sweep()
    rows = read(write_csv(sweep, tmp_path / "runs.csv"))
    assert [int(row["num_gpus"]) for row in rows] == [1, 32, 128]
    assert [float(row["iteration_s"]) for row in rows] == [run.iteration_s for run in sweep.runs]


def test_the_parts_of_the_iteration_are_columns_that_sum_to_it():
    for row in make_sweep().to_rows():
        assert sum(row[f"breakdown_{part}_s"] for part in BREAKDOWN) == pytest.approx(row["iteration_s"], rel=1e-9)


def test_axes_are_columns_by_their_dotted_keys():
    assert [row["strategy.kind"] for row in make_comparison().to_rows()] == ["all-reduce"] * 3 + ["server"] * 3


def test_what_is_absent_is_empty(tmp_path):
    sweep = make_sweep((8,), interval=0.0)
    bare = replace(sweep, runs=(replace(sweep.runs[0], speedup=None, time_to_train_s=None),))
    (row,) = read(write_csv(bare, tmp_path / "runs.csv"))
    assert {name for name, cell in row.items() if cell == ""} == {
        "speedup",
        "time_to_train_s",
        "interval_level",
        *(f"baseline_{name}" for name in ("num_gpus", "batch", "micro_batches", "samples_per_s")),
        *("software", "transport", "precision", "mfu", "hfu"),  # of a run that was made up
        *("tokens_per_s", "tokens_per_s_per_gpu", "gpu_memory_bytes", "dollars_per_hour"),
        *("error", "error_message", "needed_bytes", "available_bytes", "remedy"),
        *("dollars_per_million_samples", "dollars_per_million_tokens", "train_dollars"),
        *(name for name in row if name.startswith("band_")),
        *(f"{name}_{end}" for name in ("iteration_s", "samples_per_s", "speedup") for end in ("low", "high")),
    }


def test_published_figures_are_columns_of_their_metric():
    row = make_sweep().to_rows()[-1]
    assert (row["published_hours"], row["published_speedup"]) == (10.5, 47.0)
    run = make_sweep().runs[-1]
    twice = replace(make_sweep(), runs=(replace(run, published=run.published * 2),))
    assert twice.to_rows()[0]["published_hours_2"] == 10.5


def test_an_axis_that_is_a_mapping_is_its_json_text():
    run = replace(make_sweep((8,)).runs[0], axes={"num_gpus": 8, "placement": {"kind": "fragmented", "free": 0.1}})
    (row,) = replace(make_sweep((8,)), runs=(run,)).to_rows()
    assert row["placement"] == '{"kind": "fragmented", "free": 0.1}'


def test_software_transport_and_precision_are_columns():
    import clustersim

    sweep = clustersim.sweep({"model": "squeezenet-1.0", "num_gpus": 2, "batch": {"per_gpu": 4}, "num_iterations": 2,
                              "topology": {"kind": "star", "link": "1 GB/s", "host": "dgx-a100"}})  # fmt: skip
    (row,) = sweep.to_rows()
    assert (row["software"], row["transport"], row["precision"]) == ("pytorch-ddp", "nccl", "fp32")


@pytest.mark.parametrize("sweep", [make_sweep(), make_comparison(), make_sweep((8,))], ids=["sizes", "axes", "one"])
def test_a_csv_file_has_the_columns_of_the_rows_in_their_order(sweep, tmp_path):
    with write_csv(sweep, tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        columns = next(csv.reader(file))
    assert columns == list(dict.fromkeys(name for row in sweep.to_rows() for name in row))


def test_without_pandas_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        make_sweep().to_pandas()
