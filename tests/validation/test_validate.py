"""An artificial case from its folder to the verdict, and every message about a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.validation import load_cases, validate
from clustersim.validation.case import CHOSEN_AFTER
from clustersim.validation.measured import read_measured
from clustersim.validation.pool import order_of, size_of
from clustersim.validation.question import Question

HEADER = "scenario,num_gpus,metric,value,unit,role,provenance,where\n"


def mistakes_of(text: str, make_case, **kinds: object) -> list[tuple[int | None, int | None, str]]:
    with pytest.raises(InputError) as caught:
        validate([str(make_case(text))], workers=1)
    return [(mistake.line, mistake.column, mistake.message) for mistake in caught.value.mistakes]


def test_a_ring_of_four_moves_one_and_a_half_buffers(make_case) -> None:
    found = validate([str(make_case())], workers=1)
    calibrated, ring = found.cases[0].points
    assert ring.simulated == pytest.approx(2 * 3 / 4 * 1.0)
    assert ring.error == pytest.approx(1.5 / 1.25 - 1)
    assert calibrated.simulated == pytest.approx(320.0)
    assert calibrated.error == pytest.approx(0.0, abs=1e-9)


def test_what_calibrates_is_not_scored(make_case) -> None:
    found = validate([str(make_case())], workers=1)
    assert found.summary().num_points == 1
    assert found.summary().median_abs_error == pytest.approx(0.2)
    assert found.calibration().median_abs_error == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("provenance", ["recalled", "stated"])
def test_what_was_not_read_or_not_measured_is_shown_and_not_scored(make_case, provenance: str) -> None:
    found = validate([str(make_case(HEADER + f"ring,4,time_s,99,s,prediction,{provenance},a talk\n"))], workers=1)
    assert len(found.cases[0].points) == 1
    assert found.summary().num_points == 0
    assert found.summary().median_abs_error is None


def test_synchronization_methods_are_ranked_and_sizes_are_not(make_case) -> None:
    rows = [
        "scenario,2,ring,samples_per_s,600,images/s,prediction,read,a,",
        "scenario,4,ring,samples_per_s,1200,images/s,prediction,read,a,",
        "scenario,4,server,samples_per_s,900,images/s,prediction,read,a,",
        "scenario,4,tree,samples_per_s,2000,images/s,prediction,read,a,",
    ]
    header = "scenario,num_gpus,strategy.algorithm,metric,value,unit,role,provenance,where,note\n"
    summary = validate([str(make_case(header + "\n".join(rows)))], workers=1).summary()
    assert summary.num_orderings == 3  # ring-server, ring-tree, server-tree; at 4 GPUs only
    assert summary.ordering_correct == pytest.approx(2 / 3)  # a tree is no faster than a ring


def test_synchronization_methods_are_ranked_across_files(make_case) -> None:
    header = "scenario,num_gpus,metric,value,unit,role,provenance,where\n"
    rows = [f"{name},4,samples_per_s,{value},images/s,prediction,read,a" for name, value in (("scenario", 9), ("q", 5))]
    folder = make_case(header + "\n".join(rows))
    strategy = "strategy: {kind: all-reduce, algorithm: server, overlap: false}"
    (folder / "q.yaml").write_text(f"name: by-a-server\nextends: scenario.yaml\n{strategy}\n", encoding="utf-8")
    assert validate([str(folder)], workers=1).summary().num_orderings == 1


def test_figures_of_the_document_are_si_and_those_of_the_table_as_they_were_published(make_case, capsys) -> None:
    rows = [
        "scenario,1,samples_per_s,320,images/s,calibration,read,made up",
        "ring,4,time_s,1.25,ms,prediction,read,made up",
        "ring,4,busbw_bytes_per_s,1.5,GB/s,prediction,read,made up",
    ]
    folder = str(make_case(HEADER + "\n".join(rows)))
    assert main(["validate", folder, "--json", "--workers", "1"]) == 0
    points = json.loads(capsys.readouterr().out)["cases"][0]["points"]
    shown = {point["metric"]: (point["simulated"], point["measured"], point["unit"]) for point in points}
    assert shown["time_s"] == (pytest.approx(1.5e-3), 1.25e-3, "s")
    assert shown["busbw_bytes_per_s"] == (pytest.approx(1e9), 1.5e9, "bytes/s")
    assert shown["samples_per_s"] == (pytest.approx(320), 320, "images/s")
    assert main(["validate", folder, "--workers", "1"]) == 0
    table = " ".join(capsys.readouterr().out.split())
    assert "time_s 1.5 1.25 ms +20.0%" in table


def test_the_number_of_processes_changes_nothing(make_case) -> None:
    folder = str(make_case())
    assert validate([folder], workers=1).to_dict() == validate([folder], workers=2).to_dict()


def test_failures_are_reported_and_the_rest_compared(make_case, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def broken(*arguments: object, **others: object) -> None:
        raise ArithmeticError("the clock ran backwards")

    monkeypatch.setattr("clustersim.validation.question.forecast", broken)
    status = main(["validate", str(make_case()), "--json", "--workers", "1"])
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert status == 1
    assert document["summary"]["skipped"] == [
        {"case": "tiny", "reason": "scenario.yaml num_gpus=1: ArithmeticError: the clock ran backwards"}
    ]
    assert [point["metric"] for point in document["cases"][0]["points"]] == ["time_s"]
    assert "skipped; see" in err


def test_the_document_has_what_the_contract_names(make_case, capsys) -> None:
    assert main(["validate", str(make_case()), "--json", "--workers", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.validation/1"
    names = {"metric", "num_gpus", "role", "simulated", "measured", "unit", "error"}
    assert names <= set(document["cases"][0]["points"][0])
    names = {"median_abs_error", "p90_abs_error", "bias", "ordering_correct", "num_points", "skipped"}
    assert names <= set(document["summary"])


@pytest.mark.parametrize(("asked", "status"), [("25%", 0), ("0.25", 0), ("19%", 4)])
def test_an_error_above_what_was_asked_for_is_status_4(make_case, capsys, asked: str, status: int) -> None:
    assert main(["validate", str(make_case()), "--max-error", asked, "--workers", "1"]) == status
    assert ("the tolerance is" in capsys.readouterr().err) == (status == 4)


def test_nothing_scored_meets_no_tolerance(make_case, capsys) -> None:
    folder = str(make_case(HEADER + "ring,4,time_s,1.5,ms,calibration,read,a\n"))
    assert main(["validate", folder, "--max-error", "50%", "--workers", "1"]) == 4
    assert "no figure is scored" in capsys.readouterr().err


@pytest.mark.parametrize("asked", ["ten", "-1%", "10%%", "inf"])
def test_a_tolerance_that_is_no_share_is_a_usage_error(asked: str, capsys) -> None:
    assert main(["validate", "firecaffe", "--max-error", asked]) == 2
    assert "is not a share" in capsys.readouterr().err


def test_the_table_says_simulated_measured_and_error(make_case, capsys) -> None:
    assert main(["validate", str(make_case()), "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "tiny: A made-up cluster" in out
    assert "calibrates, not scored" in out
    row = next(line for line in out.splitlines() if "time_s" in line)
    assert row.split()[:6] == ["4", "time_s", "1.5", "1.25", "ms", "+20.0%"]


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        (HEADER + "ring,4,time_s,fast,ms,prediction,read,a\n", 2, 15, "expected a number above 0 (got 'fast')"),
        (HEADER + "ring,4,time_s,0,ms,prediction,read,a\n", 2, 15, "expected a number above 0"),
        (HEADER + "ring,4,time_s,nan,ms,prediction,read,a\n", 2, 15, "expected a number above 0"),
        (HEADER + "ring,4,time_s,1,ms,guess,read,a\n", 2, 20, "expected one of calibration, prediction (got 'guess')"),
        (HEADER + "ring,4,time_s,1,ms,prediction,heard,a\n", 2, 31, "expected one of read, recalled, stated"),
        (HEADER + "ring,4,times,1,ms,prediction,read,a\n", 2, 8, "no metric is called 'times'; did you mean 'time_s'?"),
        (HEADER + "ring,4,time_s,1,GB/s,prediction,read,a\n", 2, 17, "'time_s' is not measured in 'GB/s'"),
        (HEADER + "ring,4,time_s,1,ms,prediction,read,\n", 2, 35, "the figure has no source"),
        (HEADER + "ring,4,time_s,1,ms,prediction\n", 2, 20, "6 values in a table of 8 columns"),
        (HEADER + "\nring,4,time_s,1,ms,prediction,read,a,b\n", 3, 36, "9 values in a table of 8 columns"),
        (HEADER + "rang,4,time_s,1,ms,prediction,read,a\n", 2, 1, "there is no file 'rang.yaml' beside the table"),
        (HEADER + 2 * "ring,4,time_s,1,ms,prediction,read,a\n", 3, 8, "line 2 has this figure already"),
        (HEADER + "ring,many,time_s,1,ms,prediction,read,a\n", 2, 6, "expected a whole number (got 'many')"),
        (HEADER + "ring,4,speedup,1,x,prediction,read,a\n", 2, 8, "the simulation has no 'speedup' here"),
        (HEADER + "scenario,4,time_to_train_s,1,h,prediction,read,a\n", 2, 12, "has no 'time_to_train_s' here"),
        (
            HEADER.replace("num_gpus", "number") + "ring,4,time_s,1,ms,prediction,read,a\n",
            2,
            6,
            "there is no such key here",
        ),
        (HEADER.replace("num_gpus", "num_gpus,num_gpus"), 1, 10, "there are two columns with this name"),
        (HEADER.replace("metric", "metrik"), 1, 53, "there is no column 'metric' (is 'metrik' meant?)"),
        (HEADER, 1, None, "the table has no rows below the column names"),
        ("", None, None, "the file is empty"),
    ],
)
def test_a_mistake_in_the_table_has_its_line_and_column(make_case, text, line, column, words) -> None:
    found = mistakes_of(text, make_case)
    assert any((line, column) == (place, where) and words in message for place, where, message in found), found


def test_all_mistakes_are_reported_together(make_case) -> None:
    found = mistakes_of(
        HEADER + "ring,4,time_s,x,ms,prediction,read,a\nring,4,time_s,1,km,prediction,read,a\n", make_case
    )
    assert [line for line, _, _ in found] == [2, 3]


def test_a_comma_in_quotes_does_not_move_the_columns(make_case) -> None:
    folder = make_case(HEADER.replace("where", "where,note") + 'ring,4,time_s,1,ms,prediction,read,"a, b",c\n')
    row = read_measured(folder / "measured.csv")[0]
    assert (row.where, row.note, dict(row.columns)["note"]) == ("a, b", "c", 43)


def test_a_wrong_scenario_is_reported_with_its_own_line(make_case) -> None:
    folder = make_case()
    (folder / "scenario.yaml").write_text("model: alexnet\nnum_gpus: 0\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        validate([str(folder)], workers=1)
    files = {Path(str(mistake.file)).name for mistake in caught.value.mistakes}
    assert "scenario.yaml" in files


def test_a_row_of_a_sweep_must_name_its_point(make_case) -> None:
    folder = make_case(HEADER + "scenario,,samples_per_s,320,images/s,prediction,read,a\n")
    text = (folder / "scenario.yaml").read_text(encoding="utf-8").replace("num_gpus: 1", "num_gpus: [1, 2]")
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"a sweep over num_gpus\); add columns for these keys"):
        validate([str(folder)], workers=1)


@pytest.mark.parametrize(
    ("name", "words"),
    [("firecafe", "no case is called 'firecafe'; did you mean 'firecaffe'?"), ("./nowhere", "it has no measured.csv")],
)
def test_a_missing_case_is_status_3(name: str, words: str, capsys) -> None:
    assert main(["validate", name]) == 3
    assert words in capsys.readouterr().err


def test_a_case_says_whether_something_was_chosen_after_its_errors(make_case, capsys) -> None:
    blind, seen = make_case(name="blind"), make_case(name="seen")
    seen.joinpath("source.md").write_text(f"# Seen\n\n{CHOSEN_AFTER} The link.\n", encoding="utf-8")
    table = blind.joinpath("measured.csv").read_text(encoding="utf-8")
    seen.joinpath("measured.csv").write_text(table.replace("1.25", "3"), encoding="utf-8")
    assert main(["validate", str(blind), str(seen), "--workers", "1"]) == 0
    text = capsys.readouterr().out
    assert "seen \N{DAGGER}  " in text
    assert "without \N{DAGGER}: 1 point, median error 20.0%" in text
    alone = "only \N{DAGGER}, 1 case with a choice after errors had been seen: 1 point, median error 50.0%"
    assert alone in text
    assert main(["validate", str(blind), str(seen), "--json", "--workers", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [case["chosen_after_errors"] for case in document["cases"]] == [True, False]
    assert document["summary"]["median_abs_error"] == pytest.approx(0.35)
    assert document["summary_chosen_before"]["median_abs_error"] == pytest.approx(0.2)
    assert document["summary_chosen_after"]["median_abs_error"] == pytest.approx(0.5)


def test_marked_cases_alone_say_that_no_other_is_among_them(make_case, capsys) -> None:
    seen = make_case(name="seen")
    seen.joinpath("source.md").write_text(f"# Seen\n\n{CHOSEN_AFTER} The link.\n", encoding="utf-8")
    assert main(["validate", str(seen), "--workers", "1"]) == 0
    assert "without \N{DAGGER}: none of these cases\n" in capsys.readouterr().out


def test_without_a_marked_case_there_is_one_score(make_case, capsys) -> None:
    assert main(["validate", str(make_case()), "--workers", "1"]) == 0
    assert "\N{DAGGER}" not in capsys.readouterr().out


def test_a_case_without_its_source_is_refused(make_case) -> None:
    folder = make_case()
    (folder / "source.md").write_text("no heading\n", encoding="utf-8")
    with pytest.raises(InputError, match="expected a first heading"):
        load_cases([str(folder)])
    (folder / "source.md").unlink()
    with pytest.raises(InputError, match="a case needs the source of its figures"):
        load_cases([str(folder)])


def test_the_number_of_gpus_of_a_question_is_that_of_its_row_or_else_its_file(make_case) -> None:
    """It determines which questions start first."""
    folder = make_case()
    (folder / "large.yaml").write_text("extends: scenario.yaml\nnum_gpus: 64\n", encoding="utf-8")
    (folder / "broken.yaml").write_text("num_gpus: [", encoding="utf-8")
    asked = [("scenario", ()), ("scenario", ("num_gpus=8",)), ("large", ("batch.per_gpu=2",)), ("broken", ())]
    assert [size_of(Question(folder / f"{name}.yaml", overrides)) for name, overrides in asked] == [1, 8, 64, 0]


def test_questions_of_one_file_follow_each_other_and_the_file_with_most_gpus_is_first(tmp_path) -> None:
    small, large = tmp_path / "a.yaml", tmp_path / "b.yaml"
    asked = [(small, 2), (large, 1), (small, 4), (large, 8)]
    questions = [Question(file, (f"num_gpus={num}",)) for file, num in asked]
    assert order_of(questions) == [3, 1, 2, 0]
