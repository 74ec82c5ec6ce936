"""`train_tokens`: the length of a training in tokens, with its time and its dollars."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.report.answer import answer, rows, tiles
from clustersim.report.words import THIN

SCENARIO: dict[str, Any] = {
    "name": "tokens",
    "model": "gpt2-small",
    "num_gpus": 8,
    "batch": {"per_gpu": 4},
    "topology": {"kind": "star", "host": "dgx-a100", "link": "infiniband-hdr"},
    "num_iterations": 2,
    "prices": {"a100": 2.0},
}


def test_the_time_is_that_of_so_many_tokens_and_the_dollars_are_those_of_the_time() -> None:
    sweep = clustersim.sweep({**SCENARIO, "train_tokens": 1e12})
    (run,) = sweep.runs
    assert run.tokens_per_s is not None
    assert run.time_to_train_s == pytest.approx(1e12 / run.tokens_per_s, rel=1e-12)
    assert run.train_dollars == pytest.approx(8 * 2.0 * 1e12 / run.tokens_per_s / 3600, rel=1e-9)
    samples = {"dataset_size": 10_000, "epochs": 2}
    same = {"train_tokens": 20_000 * (run.tokens_per_sample or 0)}
    times = [clustersim.sweep({**SCENARIO, **length}).runs[0].time_to_train_s for length in (samples, same)]
    assert times[0] == pytest.approx(times[1], rel=1e-12)


def test_without_a_length_or_a_price_there_are_no_dollars() -> None:
    assert clustersim.sweep(SCENARIO).runs[0].train_dollars is None
    unpriced = {**SCENARIO, "topology": {**SCENARIO["topology"], "gpu": "p100"}, "prices": {}, "train_tokens": 1e9}
    assert clustersim.sweep(unpriced).runs[0].train_dollars is None


def test_the_answer_the_table_and_the_tiles_have_days_and_dollars() -> None:
    sweep = clustersim.sweep({**SCENARIO, "train_tokens": 1e12})
    (run,) = sweep.runs
    days, dollars = (run.time_to_train_s or 0) / 86400, run.train_dollars or 0
    assert 20 < days < 1000
    sentence = answer(sweep).replace(THIN, " ")
    assert f"1T tokens take {days:.3g} days and cost $" in sentence
    headings, ((*cells,),) = rows(sweep)
    row = dict(zip(headings, cells, strict=True))
    assert row["training"].replace(THIN, " ") == f"{days:.3g} days"
    assert row["$ total"].replace(THIN, "") == f"{dollars:.0f}"
    tile = {tile.label: tile for tile in tiles(sweep)}["Time to train"]
    assert tile.note == "1T tokens"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 2, "dataset_size": 10}, "train_tokens, or dataset_size and epochs"),
        ({"dataset_size": 10}, "train_tokens and dataset_size"),
        ({"model": "resnet50"}, "resnet50 has no tokens"),
        ({"train_tokens": 0}, "above 0"),
    ],
)
def test_a_length_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        clustersim.sweep({**SCENARIO, "train_tokens": 1e9, **changes})
    assert [mistake.key for mistake in caught.value.mistakes] == ["train_tokens"]


def test_failures_last_as_long_as_the_tokens() -> None:
    failing = {
        **SCENARIO,
        "train_tokens": 1e10,
        "failures": {"host": {"mtbf": "300 h"}, "checkpoint": {"every": "1 h", "write": "10 s"}},
    }
    plain = clustersim.sweep({**SCENARIO, "train_tokens": 1e10}).runs[0]
    run = clustersim.sweep(failing).runs[0]
    assert run.failures is not None
    assert run.failures.useful_s == pytest.approx(plain.time_to_train_s, abs=plain.update_s)


def test_the_option_is_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, table = tmp_path / "tokens.json", tmp_path / "runs.csv"
    path.write_text(json.dumps(SCENARIO))
    assert main(["run", str(path), "--tokens", "1e12", "--json", "--quiet", "--csv", str(table)]) == 0
    document = json.loads(capsys.readouterr().out)
    expected = clustersim.sweep({**SCENARIO, "train_tokens": 1e12}).runs[0]
    assert document["runs"][0]["train_dollars"] == pytest.approx(expected.train_dollars, rel=1e-12)
    with table.open(encoding="utf-8") as file:
        assert float(next(csv.DictReader(file))["train_dollars"]) == pytest.approx(expected.train_dollars, rel=1e-6)
