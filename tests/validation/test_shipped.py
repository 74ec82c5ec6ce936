"""The shipped cases: every figure has a source, every case a description, and the page has no other figures."""

from __future__ import annotations

import json
import re

import pytest

from clustersim.data import data_folder
from clustersim.validation import load_case, load_cases, shipped_cases, validate
from clustersim.validation.case import CHOSEN_AFTER, CHOSEN_BEFORE
from clustersim.validation.text import number_text

CASES = sorted(shipped_cases())
PAGE = data_folder("docs") / "validation.md"
QUICK = ["cots-ethernet", "hkbu-b-caffe", "theano-mpi"]


@pytest.mark.parametrize("name", CASES)
def test_a_case_says_hardware_calibration_prediction_and_what_is_left_out(name: str) -> None:
    text = (shipped_cases()[name] / "source.md").read_text(encoding="utf-8")
    assert "**Hardware.**" in text
    assert "**What calibrates.**" in text
    assert "left out" in text or "leaves out" in text
    predicted = [row for row in load_case(shipped_cases()[name]).rows if row.role == "prediction"]
    assert "What is predicted" in text or not any(row.provenance == "read" for row in predicted)


@pytest.mark.parametrize("name", CASES)
def test_a_case_says_whether_something_was_chosen_after_its_errors_had_been_seen(name: str) -> None:
    text = (shipped_cases()[name] / "source.md").read_text(encoding="utf-8")
    said = [line for line in text.splitlines() if line.startswith((CHOSEN_AFTER, CHOSEN_BEFORE))]
    assert len(said) == text.count("errors had been seen.**") == 1, (
        f"begin a paragraph with {CHOSEN_BEFORE} or {CHOSEN_AFTER}"
    )
    assert len(said[0].partition("** ")[2]) > 10, "and what"


@pytest.mark.parametrize("name", CASES)
def test_every_figure_names_where_it_stands(name: str) -> None:
    for row in load_case(shipped_cases()[name]).rows:
        assert len(row.where) > 10, row


@pytest.mark.parametrize("name", CASES)
def test_one_gpu_and_collectives_calibrate_and_nothing_else_does(name: str) -> None:
    for row in load_case(shipped_cases()[name]).rows:
        is_collective = row.metric in ("time_s", "algbw_bytes_per_s", "busbw_bytes_per_s")
        settings = dict(row.settings)
        serves_itself = "kind: async" in settings.get(
            "strategy", ""
        )  # an exchange with a server, and no GPU's own rate
        is_one_gpu = (settings.get("num_gpus") == "1" and not serves_itself) or settings.get("jobs") == "1"
        assert (row.role == "calibration") == ((is_collective and row.provenance == "read") or is_one_gpu), row


@pytest.mark.parametrize("name", CASES)
def test_every_file_of_a_case_is_asked_for_or_extended(name: str) -> None:
    case = load_case(shipped_cases()[name])
    used = {row.scenario for row in case.rows}
    texts = [path.read_text(encoding="utf-8") for path in case.folder.glob("*.yaml")]
    named = {stem for text in texts for stem in re.findall(r"(?:extends|model): (\S+)\.yaml", text)}
    assert {path.stem for path in case.folder.glob("*.yaml")} <= used | named


def section(name: str) -> list[list[str]]:
    """Return the rows of a case's table on the page, as texts."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


@pytest.mark.parametrize("name", CASES)
def test_the_page_has_every_figure_of_a_case_and_no_other(name: str) -> None:
    rows = load_case(shipped_cases()[name]).rows
    shown = [(row[2], row[4], row[5]) for row in section(name)]
    assert shown == [(row.metric, number_text(row.value), row.unit) for row in rows]


def test_the_page_has_what_the_simulator_says_today() -> None:
    """Of a few quick cases, to 2 %: `make validation` writes the page anew."""
    for case in validate(QUICK, workers=1).cases:
        for point, row in zip(case.points, section(case.name), strict=True):
            assert float(row[3]) == pytest.approx(point.simulated, rel=0.02), (case.name, row)


def test_the_page_marks_the_cases_of_which_something_was_chosen_after_errors() -> None:
    marked = set(re.findall(r"^\| \[(\S+)\]\(\S+\) \N{DAGGER} \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert marked == {name for name in CASES if load_case(shipped_cases()[name]).is_chosen_after}


def test_the_readme_says_what_the_page_says() -> None:
    summary = re.search(
        r"Predicted: (\d+) points, median error ([\d.]+)%.*?percentile ([\d.]+)%", PAGE.read_text("utf-8")
    )
    ordered = re.search(r"orderings right ([\d.]+)% of", PAGE.read_text("utf-8"))
    assert summary is not None
    assert ordered is not None
    readme = " ".join((data_folder("docs").parent / "README.md").read_text("utf-8").split())
    assert f"{summary[1]} figures" in readme
    assert f"the median error is {summary[2]} %, and nine in ten are within {float(summary[3]):.0f} %**" in readme
    assert f"more than 5 %, {float(ordered[1]):.0f} % are ranked as measured" in readme


@pytest.mark.parametrize("num_gpus", [32, 128])
def test_the_readme_has_the_firecaffe_figures_of_the_page(num_gpus: int) -> None:
    """Hours and speedups, each forecast with its error."""
    page = PAGE.read_text("utf-8")
    readme = (data_folder("docs").parent / "README.md").read_text("utf-8")
    row = next(line for line in readme.splitlines() if line.startswith(f"| {num_gpus} | "))
    for metric, unit, digits in (("time_to_train_s", " h", 1), ("speedup", "x", 1)):
        found = re.search(rf"\| {num_gpus} \|  \| {metric} \| ([\d.]+) \| [\d.]+ \| \w \| ([+-][\d.]+)% ", page)
        assert found is not None
        assert f"| {float(found[1]):.{digits}f}{unit} | {float(found[2]):+.0f} % |" in row


def test_the_list_of_sources_has_every_case_and_no_other() -> None:
    listed = re.findall(
        r"\[([^\]]+)\]\(([^)]+)/source\.md\)", (data_folder("validate") / "README.md").read_text("utf-8")
    )
    assert all(name == folder for name, folder in listed)
    assert {folder for _, folder in listed} == set(CASES)


def test_all_cases_load_together() -> None:
    assert [case.name for case in load_cases()] == CASES
    assert json.dumps([row.where for case in load_cases() for row in case.rows])
