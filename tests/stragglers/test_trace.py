"""Factors from a CSV file of measured times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.stragglers import TraceStraggler, factors

HOSTS = np.array([0, 0, 1])
TIMES = [0.1, 0.3, 0.2, 0.2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "measured.csv"
    path.write_text("# a lab's notes\nstep,seconds\n\n" + "".join(f"{i},{t}\n" for i, t in enumerate(TIMES)))
    return path


def trace(file: Path, **knobs: Any) -> TraceStraggler:
    return TraceStraggler.model_validate({"kind": "trace", "file": str(file), "column": "seconds"} | knobs)


def test_in_order_takes_the_rows_and_starts_again(file: Path) -> None:
    drawn = factors([trace(file, order="in-order")], 1, HOSTS, 6)
    assert drawn == pytest.approx(np.tile([0.5, 1.5, 1.0, 1.0, 0.5, 1.5], (3, 1)))


def test_shifted_starts_at_another_row_for_each_rank(file: Path) -> None:
    drawn = factors([trace(file, order="shifted")], 1, np.zeros(30), 4)
    rows = {tuple(row) for row in np.round(drawn, 9).tolist()}
    assert rows == {tuple(np.roll([0.5, 1.5, 1.0, 1.0], -first)) for first in range(4)}


@pytest.mark.parametrize("knobs", [{}, {"rho": 0.5}, {"host_correlation": 0.5}])
def test_resampled_has_the_shares_of_the_file(file: Path, knobs: dict[str, float]) -> None:
    drawn = factors([trace(file, **knobs)], 1, HOSTS, 20_000)
    values, counts = np.unique(np.round(drawn, 9), return_counts=True)
    assert values.tolist() == [0.5, 1.0, 1.5]
    assert counts / drawn.size == pytest.approx(np.array([0.25, 0.5, 0.25]), abs=0.02)


def test_a_factor_is_relative_to_a_given_duration(file: Path) -> None:
    drawn = factors([trace(file, order="in-order", relative_to="100 ms")], 1, HOSTS, 4)
    assert drawn[0] == pytest.approx([1.0, 3.0, 2.0, 2.0])


def test_a_lone_column_needs_no_name(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("iteration_s\n2\n6\n")
    assert trace(path, column=None, order="in-order").measured() == pytest.approx([0.5, 1.5])


def test_a_file_that_changes_is_read_again(file: Path) -> None:
    assert len(trace(file).measured()) == 4
    file.write_text("seconds\n1\n1\n")
    import os

    os.utime(file, ns=(1, 1))
    assert trace(file).measured().tolist() == [1.0, 1.0]


def test_every_row_without_a_time_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("step,seconds\n1,0.5\n2,slow\n3,-1\n4\n5,inf\n")
    with pytest.raises(InputError) as error:
        trace(path).measured()
    found = [(mistake.line, mistake.message) for mistake in error.value.mistakes]
    assert found == [
        (3, "expected a time, a number above 0 (got 'slow')"),
        (4, "a time must be above 0 and finite (got -1)"),
        (5, "expected a time, a number above 0 (got 'nothing')"),
        (6, "a time must be above 0 and finite (got inf)"),
    ]
    assert {mistake.file for mistake in error.value.mistakes} == {str(path)}


@pytest.mark.parametrize(
    ("content", "knobs", "line", "words"),
    [
        (b"a,b\n1,2\n", {"column": None}, 1, "the trace has several columns; give 'column', one of a, b"),
        (b"\na,b\n1,2\n", {}, 2, "the trace has no column 'seconds' (known: a, b)"),
        (b"seconds\n", {}, None, "the trace has no rows"),
        (b"", {}, None, "the trace has no rows"),
        (b"seconds\n1\n\xff\xfe\n", {}, 3, "not text in UTF-8"),
    ],
)
def test_a_file_that_is_not_a_trace_is_refused(
    tmp_path: Path, content: bytes, knobs: dict[str, Any], line: int | None, words: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        trace(path, **knobs).measured()
    (mistake,) = error.value.mistakes
    assert words in mistake.message
    assert mistake.line == line


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.csv' cannot be read: No such file"):
        trace(tmp_path / "gone.csv").measured()


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"order": "in-order", "rho": 0.5}, "keep their measured correlation"),
        ({"order": "shifted", "host_correlation": 0.5}, "keep their measured correlation"),
        ({"relative_to": 0}, "longer than 0 s"),
        ({"relative_to": "median"}, "expected a duration"),
        ({"order": "backwards"}, "'resampled', 'in-order' or 'shifted'"),
        ({"colum": "seconds"}, "Extra inputs are not permitted"),
    ],
)
def test_impossible_traces_are_refused(file: Path, knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        trace(file, **knobs)
