"""The stored real trainings and their first forecasts; no real run and no torch here."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from clustersim.errors import InputError
from validate.lab.case import Case
from validate.lab.document import read_campaign
from validate.lab.learned import (
    FIRST,
    MEASURED,
    Scored,
    digest,
    logged,
    main,
    missed,
    ranked,
    read_first,
    scored,
    table,
)
from validate.lab.learning import GROUP, TIME_TO_TARGET

DOCUMENT, CASES = read_campaign(MEASURED)
ROOT = Path(__file__).resolve().parents[2]
LEAST_RUNS = 12


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def first_commit(path: Path) -> str | None:
    """Return the commit that added a file; None if it is in no commit, or if history is not here."""
    try:
        if git("rev-parse", "--is-shallow-repository") == "true":
            return None
        found = git("log", "--diff-filter=A", "--format=%H", "--", path.relative_to(ROOT).as_posix()).splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    return found[-1] if found else None


def test_first_forecasts_are_those_of_their_first_commit() -> None:
    commit = first_commit(FIRST)
    if commit is None:
        pytest.skip("the history of the repository is not here")
    assert json.loads(git("show", f"{commit}:{FIRST.relative_to(ROOT).as_posix()}")) == json.loads(
        FIRST.read_text("utf-8")
    )


def test_they_were_committed_before_the_trainings_were_run() -> None:
    forecast, measured = first_commit(FIRST), first_commit(MEASURED)
    if forecast is None or measured is None:
        pytest.skip("the history of the repository is not here")
    assert forecast != measured
    git("merge-base", "--is-ancestor", forecast, measured)


def test_every_training_has_a_first_forecast_of_the_same_input() -> None:
    rows: list[dict[str, Any]] = json.loads(FIRST.read_text("utf-8"))["forecasts"]
    assert {row["name"]: row["input"] for row in rows} == {case.name: digest(case) for case in CASES}
    assert len(CASES) >= LEAST_RUNS
    assert {case.group for case in CASES} == {GROUP}


def test_first_forecasts_meet_what_is_required() -> None:
    rows = scored(CASES, read_first())
    assert missed(rows) == []
    assert len(list(ranked(rows))) >= 20


def test_every_kind_of_strategy_was_trained_with_a_slow_worker_and_without() -> None:
    kinds = {(case.ask["strategy"]["kind"], "slower" in case.name) for case in CASES}
    asked = ("server", "backup", "async", "softsync", "bounded-staleness")
    assert kinds == {(kind, is_slow) for kind in asked for is_slow in (False, True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_real_log_is_one_of_its_strategy(case: Case) -> None:
    log, strategy, num_workers = logged(case), case.ask["strategy"], case.ask["num_gpus"]
    staleness = log.staleness[log.is_accepted]
    per_update = Counter(row.version_written for row in log.rows() if row.accepted)
    assert (np.diff(log.time_s) >= 0).all()
    assert (np.diff(log.version_written) >= 0).all()
    assert min(staleness) >= 0
    if strategy["kind"] in ("server", "backup"):
        assert set(staleness) == {0}
        assert set(per_update.values()) == {num_workers - strategy.get("backups", 0)}
        assert (not log.is_accepted.all()) == (strategy["kind"] == "backup")
    else:
        assert set(per_update.values()) == {num_workers // strategy.get("n", num_workers)}
        assert max(staleness) >= (1 if strategy.get("bound") != 0 else 0)
    if strategy["kind"] == "bounded-staleness":
        clocks = [0] * num_workers
        for row in log.rows():
            clocks[row.worker] += 1
            assert max(clocks) - min(clocks) <= strategy["bound"] + 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_time_to_the_target_is_that_of_the_curve(case: Case) -> None:
    target = case.ask["learning"]["target"]["loss"]
    curve = case.learned["curve"]
    assert next(point[0] for point in curve if point[2] <= target) == case.figures[TIME_TO_TARGET].median
    made_s = {row.version_written: row.time_s for row in logged(case).rows()}
    assert [point[0] for point in curve[1:]] == [made_s[point[1]] for point in curve[1:]]


def test_the_docs_have_the_table() -> None:
    text, rows = (ROOT / "docs/how-to/run-the-lab.md").read_text("utf-8"), scored(CASES, read_first())
    for row in rows:
        line = f"| {row.place} | {row.name} | {row.real_s:.1f} s | {row.forecast_s:.1f} s | {100 * row.error:+.1f} % |"
        assert line in text
    pairs = list(ranked(rows))
    assert f"{sum(is_right for *_, is_right in pairs)} of {len(pairs)} pairs" in text
    assert f"the median error is {100 * median(abs(row.error) for row in rows):.1f} %" in text


def test_a_pair_in_the_wrong_order_and_large_errors_are_reported() -> None:
    rows = [Scored("here", "a", 10.0, 13.0), Scored("here", "b", 12.0, 10.0), Scored("there", "c", 1.0, 1.0)]
    assert [(one.name, other.name, is_right) for one, other, is_right in ranked(rows)] == [("a", "b", False)]
    assert len(missed(rows)) == 2
    assert "not so: a before b (here)" in table(rows)


def test_first_forecasts_are_not_written_twice() -> None:
    with pytest.raises(InputError, match="written once"):
        main(["forecast"])
