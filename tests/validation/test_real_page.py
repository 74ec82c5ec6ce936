"""Timelines of a run on real nodes, in numbers; its page; and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.validation.real import RealVerdict, validate_real
from clustersim.validation.real_file import SpanColumns
from clustersim.validation.real_page import draw_sweep, headline, real_html, sweep_data
from clustersim.validation.real_timeline import draw_pair, measured_spans, pair_data, pair_title
from tests.validation import real_runs as made


@pytest.fixture(scope="module")
def stored() -> RealVerdict:
    return validate_real(made.STORED)


def columns(*rows: tuple[str, int, int, float, float]) -> SpanColumns:
    return SpanColumns.model_validate(made.spans(*rows))


def test_a_rank_that_has_computed_waits_for_the_last_one_and_then_for_the_network() -> None:
    rows = columns(
        ("backward", 0, 0, 5.0, 6.0), ("exposed", 0, 0, 6.0, 9.0),
        ("backward", 1, 0, 5.0, 8.0), ("exposed", 1, 0, 8.0, 9.5),
    )  # fmt: skip
    spans = measured_spans(rows, None, None, alone=False)
    assert [row[:2] + row[3:5] for row in spans.rows()] == [
        ("backward", 0, 0.0, 1.0),
        ("waiting", 0, 1.0, 3.0),
        ("exposed", 0, 3.0, 4.0),
        ("backward", 1, 0.0, 3.0),
        ("exposed", 1, 3.0, 4.5),
    ]


def test_the_iteration_that_is_shown_is_the_one_of_median_length() -> None:
    rows = columns(("forward", 0, 0, 0.0, 9.0), ("forward", 0, 1, 9.0, 10.0), ("forward", 0, 2, 10.0, 12.0))
    (row,) = measured_spans(rows, None, None, alone=False).rows()
    assert row[3:5] == (0.0, 2.0)


def test_workers_are_counted_from_0_and_the_server_is_none() -> None:
    rows = columns(("update", 0, 0, 0.0, 1.0), ("forward", 1, 0, 0.0, 1.0), ("forward", 2, 0, 0.0, 2.0))
    assert measured_spans(rows, [1, 2], None, alone=False).rank == [0, 1]
    assert measured_spans(rows, None, None, alone=True).rank == [0]


def test_every_training_has_both_timelines(stored: RealVerdict) -> None:
    pairs = {pair.phase: pair for answered in stored.answered if (pair := pair_data(answered)) is not None}
    assert [name.partition(": ")[2] for name in pairs] == [
        "compute only", "all-reduce, overlapped", "all-reduce after backward", "all-reduce with a straggler",
        "asynchronous with a straggler", "parameter server", "asynchronous",
    ]  # fmt: skip
    overlapped = pairs["squeezenet-1.0: all-reduce, overlapped"]
    assert [str(lane) for lane in overlapped.lanes] == [
        *(f"measured · rank {rank}" for rank in range(3)),
        *(f"simulated · rank {rank}" for rank in range(3)),
    ]
    assert str(pairs["squeezenet-1.0: asynchronous"].lanes[0]) == "measured · worker 0"
    for pair in pairs.values():
        assert {place for place, _ in pair.marks} == set(range(len(pair.lanes)))
        assert all(0.0 <= mark.start_s < mark.end_s <= pair.length_s * (1 + 1e-9) for _, mark in pair.marks)


def test_differences_of_parts_sum_to_the_difference_of_the_iteration(stored: RealVerdict) -> None:
    for answered in stored.answered:
        pair = pair_data(answered)
        if pair is not None and "overlapped" in pair.phase:
            ends = {what: 0.0 for what in ("measured", "simulated")}
            for place, mark in pair.marks:
                if mark.kind != "communication":
                    ends[pair.lanes[place].what] += (mark.end_s - mark.start_s) / 3
            difference_s = ends["simulated"] - ends["measured"]
            assert sum(pair.differences_s.values()) == pytest.approx(difference_s, abs=1e-6)


def test_the_title_has_the_error_and_its_main_part(stored: RealVerdict) -> None:
    pair = next(pair for answered in stored.answered if (pair := pair_data(answered)) and "overlapped" in pair.phase)
    title = pair_title(pair)
    assert title.startswith("squeezenet-1.0: all-reduce, overlapped: an iteration takes")
    assert title.endswith("in the simulation")
    figure = draw_pair(pair)
    assert figure.title == title
    assert {trace["name"] for trace in figure.traces} >= {"forward", "backward", "update", "communication in flight"}


def test_all_reduces_are_drawn_simulated_and_measured(stored: RealVerdict) -> None:
    curve = sweep_data(stored)
    assert curve is not None
    line, marks = draw_sweep(curve).traces
    assert marks["y"] == [point.measured for point in curve.points]
    assert line["y"] == [point.simulated for point in curve.points]
    assert "the link was fitted to them" in draw_sweep(curve).title


def test_the_page_has_it_all_and_loads_nothing(stored: RealVerdict) -> None:
    page = real_html(stored)
    assert "9\u202fpredicted figures of this run" in page
    for text in ('id="timelines"', 'id="all-reduce"', "Every figure", "kind star, num_hosts 3"):
        assert text in page
    assert 'src="http' not in page
    assert "/tmp" not in page.partition("Inputs of the simulation")[2].partition("<script")[0]


def test_the_page_of_a_run_without_anything_predicted_says_so(tmp_path: Path) -> None:
    found = validate_real(made.write(tmp_path, made.document(made.compute(), failure={"phase": "x", "reason": "<b>"})))
    assert headline(found).startswith("No figure of this run could be predicted")
    page = real_html(found)
    assert "1\u202fcould" in page or "1 could not be compared" in page
    assert "&lt;b&gt;" in page


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["validate", *map(str, arguments), "--quiet"])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def exact(tmp_path: Path) -> Path:
    """Return a run of one rank whose layers add up to its iteration but for a tenth."""
    rows = [row | {"backward_weights_s": 0.0} for row in made.compute()["layers"]]
    rows = [row | {"forward_s": 0.1 * row["forward_s"], "backward_s": 0.0} for row in rows]
    layers = made.training("layers", layers=rows, update_s=0.01)
    return made.write(tmp_path, made.document(layers, made.compute(forward_s=0.1, backward_s=0.23444444)))


def test_the_command_prints_one_validation_document(exact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "--real", exact, "--json", "--report", exact.with_suffix(".html"))
    document = json.loads(out)
    assert (status, document["schema"]) == (0, "clustersim.validation/1")
    (case,) = document["cases"]
    assert {"metric", "num_gpus", "role", "simulated", "measured", "unit", "error"} <= case["points"][0].keys()
    assert document["summary"]["num_points"] == 1
    assert document["summary"]["skipped"] == []
    assert "report: " in err
    assert exact.with_suffix(".html").stat().st_size > 1e5


@pytest.mark.parametrize(("most", "status"), [("9%", 4), ("11%", 0)])
def test_a_tolerance_is_checked(exact: Path, capsys: pytest.CaptureFixture[str], most: str, status: int) -> None:
    found, out, err = run(capsys, "--real", exact, "--max-error", most)
    assert found == status
    assert "predicted: 1 point, median error 10.0%" in out
    assert ("the tolerance is 9.0%" in err) == (status == 4)


def test_what_could_not_be_compared_makes_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made.write(tmp_path, made.document(made.compute(), schema="clustersim.real-run/2"))
    status, out, err = run(capsys, "--real", path)
    assert status == 1
    assert "skipped: run: the file is clustersim.real-run/2, of a newer worker" in out
    assert "1 skipped" in err


def test_a_missing_file_is_an_input_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--real", made.write(tmp_path, "{}"), "--json")
    assert status == 3
    (error,) = json.loads(out)["errors"]
    assert (error["key"], error["allowed"]) == ("schema", "clustersim.real-run/1")
    status, _, err = run(capsys, "--real", tmp_path / "missing.json")
    assert status == 3
    assert "No such file" in err


@pytest.mark.parametrize(
    "more", [["firecaffe"], ["--markdown", "page.md"], ["--bands", "bands.json"], ["--coverage", "page.md"]]
)
def test_a_run_is_compared_alone(exact: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    status, _, err = run(capsys, "--real", exact, *more)
    assert status == 2
    assert "--real excludes cases" in err
