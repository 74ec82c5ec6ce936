"""Saved results are read back unchanged, and errors name the broken file."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from clustersim.errors import InputError
from clustersim.results import Baseline, Run, Spans, Sweep, read_sweep, save_run, write_atomically, write_sweep


def small_sweep() -> Sweep:
    spans = Spans()
    spans.add("forward", 0, 0, 0.0, 1.0)
    run = Run(
        axes={"num_gpus": 2},
        num_gpus=2,
        batch_per_gpu=4,
        iteration_s=1.0,
        update_s=1.0,
        samples_per_s=8.0,
        efficiency=0.5,
        speedup=1.0,
        speedup_basis="one GPU",
        time_to_train_s=None,
        breakdown_s={"compute": 1.0},
        interval=None,
        staleness={"mean": 0.0},
        memory_bytes=1.0,
        memory_parts={"weights": 1.0},
        provenance={"estimated": 1.0},
        buckets=(("all", 8.0, "ring"),),
        spans=spans,
    )
    return Sweep("0", {"name": "small"}, 1, (run,), assumptions=("a guess",))


@pytest.mark.parametrize("name", ["result.json", "result.json.gz"])
def test_a_sweep_comes_back_as_it_was(tmp_path, name):
    path = write_sweep(small_sweep(), tmp_path / name)
    assert read_sweep(path) == small_sweep()


def test_a_folder_stands_for_the_result_in_it(tmp_path):
    write_sweep(small_sweep(), tmp_path / "result.json")
    assert read_sweep(tmp_path).name == "small"


def test_a_baseline_comes_back_and_a_run_of_an_earlier_version_has_none(tmp_path):
    sweep = small_sweep()
    over = Baseline(2, 8, 1, 8.0, "2 GPUs at a batch of 8", "not one GPU")
    path = write_sweep(replace(sweep, runs=(replace(sweep.runs[0], baseline=over),)), tmp_path / "result.json")
    assert read_sweep(path).runs[0].baseline == over
    document = json.loads(path.read_text())
    del document["runs"][0]["baseline"]
    path.write_text(json.dumps(document))
    assert read_sweep(path) == sweep


def test_the_short_form_leaves_the_spans_out():
    document = small_sweep().to_dict(detail=False)
    assert "spans" not in document["runs"][0]
    assert Sweep.from_dict(document).runs[0].num_gpus == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is truncated after 1 characters"),
        ("no JSON", "expected a saved run .`clustersim run` writes result.json."),
        ("[]", "schema is None"),
        ('{"schema": "other/1"}', "schema is 'other/1'"),
        ('{"schema": "clustersim.result/1"}', "not a complete saved run"),
        (
            '{"schema": "clustersim.result/1", "version": "0", "scenario": {}, "seed": 0, "runs": "abc", '
            '"assumptions": [], "warnings": [], "shortcuts": []}',
            "not a complete saved run",
        ),
    ],
)
def test_what_is_no_saved_run_is_refused(tmp_path, content, message):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_sweep(tmp_path)


def test_a_missing_run_says_how_to_make_one(tmp_path):
    with pytest.raises(InputError, match="clustersim run") as raised:
        read_sweep(tmp_path / "nowhere.json")
    assert raised.value.mistakes[0].file == str(tmp_path / "nowhere.json")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(TypeError):
        write_atomically(target, None)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(tmp_path / "file" / "result.json", "{}")


def test_json_has_no_nan():
    document = small_sweep().to_dict()
    assert "NaN" not in json.dumps(document)


def test_runs_that_are_saved_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    sweeps = [replace(small_sweep(), seed=seed) for seed in range(12)]
    path = tmp_path / "run" / "result.json"
    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(lambda sweep: save_run(sweep, path), sweeps))
    found = [read_sweep(each).seed for each in path.parent.rglob("result.json")]
    assert sorted(found) == list(range(12))
    moved = {each for each in kept if each is not None}
    assert moved <= {each for each in path.parent.iterdir() if each.name.startswith("earlier-")}
    assert moved
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".")]


def test_the_same_run_saved_twice_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert save_run(small_sweep(), path) is None
    assert save_run(small_sweep(), path) is None
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]


def test_a_run_is_saved_where_a_file_system_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", no_link)
    path = tmp_path / "result.json"
    save_run(small_sweep(), path)
    assert save_run(replace(small_sweep(), seed=2), path) == tmp_path / "earlier-1"
    assert read_sweep(path).seed == 2
