"""A training in a result: written, read, pickled, as columns, and refused where no training gave it."""

from __future__ import annotations

import csv
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange import write_curves
from clustersim.report import report_text, write_report
from clustersim.report.answer import rows
from clustersim.report.words import THIN
from clustersim.results import CurvePoint, LearningRun, Run, Sweep, read_sweep, write_sweep
from clustersim.simulate import Forecast
from clustersim.sweep.ledger.entry import pack, unpack
from tests.mutations import check_mutations
from tests.report.synthetic import make_comparison, make_sweep
from tests.results.learning_runs import learning_run


def trained(**changes: Any) -> Sweep:
    """Return a sweep of one run that trained."""
    sweep = make_sweep((8,))
    return replace(sweep, runs=(replace(sweep.runs[0], learning=learning_run(**changes)),))


@pytest.mark.parametrize("detail", [True, False])
def test_the_document_has_the_names_that_the_page_of_json_lists(detail: bool) -> None:
    (run,) = trained().to_dict(detail)["runs"]
    found = run["learning"]
    assert found["curve"][1] == [1.25, 10, 1.0, pytest.approx(0.3)]
    assert (found["time_to_target_s"], found["seeds"], found["updates"]) == (5.0, 2, 40)
    page = (Path(__file__).parents[2] / "docs/reference/json.md").read_text()
    table = page.partition("`learning` of a run")[2].partition("\n## ")[0]
    assert all(f"`{name}`" in table for name in found)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"final_accuracy": None, "target_metric": "loss", "target": 0.1, "num_reached": 0},
        {"target_metric": None, "target": None, "num_reached": 0, "time_to_target_s": None},
        {"time_to_target_interval": None, "consensus": ()},
    ],
)
def test_it_comes_back_as_it_was(changes: dict[str, Any], tmp_path: Path) -> None:
    sweep = trained(**changes)
    (run,) = sweep.runs
    write_sweep(sweep, tmp_path / "result.json")
    (read,) = read_sweep(tmp_path / "result.json").runs
    assert read.learning == run.learning
    assert isinstance(read.learning, LearningRun)
    assert isinstance(read.learning.curve[0], CurvePoint)
    assert Run.from_dict(json.loads(json.dumps(run.to_dict(detail=False)))).learning == run.learning
    assert pickle.loads(pickle.dumps(run)).learning == run.learning
    assert unpack(pack(Forecast(run, (), (), ())), dict(run.axes)).run.learning == run.learning


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"updates": "40"}, "runs.0.learning is"),
        ({"curve": []}, "a curve has no points"),
        ({"curve": [[0.0, 0, 2.0, "high"], [1.0, 40, 1.0, 0.5]]}, "runs.0.learning is"),
        ({"curve": [[0.0, 0, 2.0]]}, "not a complete saved run"),
        ({"curve": [[0.0, 0, 2.0, 0.1], [1.0, 41, 1.0, 0.5]]}, "updates is 40, and the curve ends after 41"),
        ({"curve": [[0.0, 40, 2.0, 0.1], [1.0, 40, 1.0, 0.5]]}, "curve has updates that do not rise"),
        ({"curve": [[0.0, 0, 2.0, 0.1], [-1.0, 40, 1.0, 0.5]]}, "which is no time, updates, loss and accuracy"),
        ({"curve": [[0.0, 0, 2.0, 0.1], [1.0, 40, 1.0, 1.5]]}, "which is no time, updates, loss and accuracy"),
        ({"seeds": 3}, "seeds is 3, and seed_curves has 2"),
        ({"num_reached": 3}, "num_reached is 3 of 2 seeds"),
        ({"target_metric": "speed"}, "target_metric is 'speed'"),
        ({"target": None}, "target_metric is 'accuracy', of a target of None"),
        ({"final_loss": None}, "runs.0.learning is"),
        ({"consensus": [[1.0]]}, "not a complete saved run"),
        ({"time_to_target_interval": [1.0]}, "not a complete saved run"),
    ],
)
def test_what_no_training_gave_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_sweep(trained(), path)
    document = json.loads(path.read_text())
    document["runs"][0]["learning"] |= changes
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"result\.json") as caught:
        read_sweep(path)
    assert says in str(caught.value)


def test_a_changed_training_is_refused_or_drawn(tmp_path: Path) -> None:
    write_sweep(trained(), tmp_path / "result.json")
    document = (tmp_path / "result.json").read_bytes()

    def draw(path: Path) -> None:
        write_report(read_sweep(path), tmp_path / "report.html")

    was_read, refused = check_mutations(draw, document, tmp_path / "result.json", count=60, seed=11)
    assert was_read > 0
    assert refused > 10


def test_the_table_and_the_csv_have_it_where_a_run_trained() -> None:
    sweep = make_comparison()
    runs = [replace(run, learning=learning_run()) for run in sweep.runs[:3]]
    headings, body = rows(replace(sweep, runs=(*runs, *sweep.runs[3:])))
    place = headings.index("to target")
    assert headings[place : place + 4] == ["to target", "loss", "accuracy", "updates"]
    assert {tuple(cells[place : place + 4]) for cells in body} == {
        (f"5.00{THIN}s", "0.4", f"90{THIN}%", "40"),
        ("–", "–", "–", "–"),
    }
    assert "to target" in report_text(trained())
    assert not {"to target", "loss", "accuracy", "updates"} & set(rows(sweep)[0])
    (row,) = trained().to_rows()
    found = {name: cell for name, cell in row.items() if name.startswith("learning_")}
    assert found["learning_time_to_target_s"] == 5.0
    assert (found["learning_time_to_target_s_low"], found["learning_time_to_target_s_high"]) == (3.0, 8.0)
    assert (found["learning_final_loss"], found["learning_final_accuracy"], found["learning_updates"]) == (0.4, 0.9, 40)
    assert not [name for name in make_sweep().to_rows()[0] if name.startswith("learning_")]


def test_columns_of_figures_that_no_run_has_are_left_out() -> None:
    headings, _ = rows(trained(final_accuracy=None, target=None, target_metric=None, time_to_target_s=None))
    assert not {"to target", "accuracy"} & set(headings)
    assert {"loss", "updates"} <= set(headings)


def test_curves_are_a_table_of_every_evaluation_of_every_seed(tmp_path: Path) -> None:
    path = write_curves(trained(), tmp_path / "curves.csv")
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["run", "seed", "seconds", "updates", "loss", "accuracy"]
    assert [row["seed"] for row in found] == ["1"] * 5 + ["2"] * 5
    assert [float(row["seconds"]) for row in found[5:]] == [0.0, 1.5, 3.0, 4.5, 6.0]
    with pytest.raises(InputError, match="trained anything"):
        write_curves(make_sweep(), path)


def test_a_saved_run_gives_its_curves_and_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_sweep(trained(), "result.json")
    assert main(["report", "result.json", "--curves", "a.csv"]) == 0
    assert capsys.readouterr().out == "curves: a.csv\n"
    assert not Path("report.html").exists()
    assert main(["report", "result.json", "--curves", "a.csv", "-o", "a.html"]) == 0
    assert Path("a.html").exists()
    write_sweep(make_sweep(), "plain.json")
    assert main(["report", "plain.json", "--curves", "b.csv"]) == 3
    assert "trained anything" in capsys.readouterr().err
    assert main(["run", "x.yaml", "--curves", "a.csv", "--no-learn"]) == 2
