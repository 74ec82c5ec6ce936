"""The shipped register: first forecasts are those of their first commit, and figures came in a later one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clustersim.results.checked import shipped_forecasts
from clustersim.validation import own_cases, shipped_cases
from clustersim.validation.register import load_entries, score_register, shipped_entries
from clustersim.validation.register.entry import register_folder
from clustersim.validation.score import summarise

ROOT = register_folder().parent.parent
ENTRIES = sorted(shipped_entries())
KEPT = ("name", "source", "date", "version", "commit", "package_sha256", "files", "forecasts")


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


def is_before(one: str, other: str) -> bool:
    """Return whether a commit is another one's ancestor and not the same."""
    done = subprocess.run(["git", "merge-base", "--is-ancestor", one, other], cwd=ROOT, check=False)
    return one != other and done.returncode == 0


def test_the_rule_stands_before_the_entries() -> None:
    text = (register_folder() / "README.md").read_text(encoding="utf-8")
    assert "## Which sources are entered" in text
    rule = first_commit(register_folder() / "README.md")
    for name in ENTRIES:
        added = first_commit(shipped_entries()[name] / "forecast.json")
        assert rule is None or added is None or is_before(rule, added), name


def test_entries_and_cases_have_different_names() -> None:
    assert not set(ENTRIES) & {*shipped_cases(), *own_cases()}


def test_every_entry_can_be_read() -> None:
    assert [entry.name for entry in load_entries(ENTRIES)] == ENTRIES if ENTRIES else load_entries() == ()


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_states_its_source_and_what_was_unknown(name: str) -> None:
    text = (shipped_entries()[name] / "source.md").read_text(encoding="utf-8")
    assert "\nSource: " in text
    assert "\nPublished: 20" in text
    assert "nknown" in text
    assert "ssumed" in text


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_was_forecast_by_code_that_was_committed(name: str) -> None:
    (entry,) = load_entries([name])
    assert entry.first.code.commit
    assert entry.first.code.is_modified is False


@pytest.mark.parametrize("name", ENTRIES)
def test_first_forecasts_are_those_of_their_first_commit(name: str) -> None:
    path = shipped_entries()[name] / "forecast.json"
    commit = first_commit(path)
    if commit is None:
        pytest.skip("no history here")
    first: dict[str, Any] = json.loads(git("show", f"{commit}:{path.relative_to(ROOT).as_posix()}"))
    present = json.loads(path.read_text(encoding="utf-8"))
    assert {key: present[key] for key in KEPT} == {key: first[key] for key in KEPT}
    assert present["migrations"][: len(first["migrations"])] == first["migrations"]


@pytest.mark.parametrize("name", ENTRIES)
def test_figures_came_in_a_later_commit(name: str) -> None:
    folder = shipped_entries()[name]
    forecast, figures = first_commit(folder / "forecast.json"), first_commit(folder / "measured.csv")
    if forecast is None or figures is None:
        pytest.skip("no figures, or no history here")
    assert is_before(forecast, figures)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_description_is_only_added_to_after_the_forecast(name: str) -> None:
    folder = shipped_entries()[name]
    commit = first_commit(folder / "forecast.json")
    if commit is None:
        pytest.skip("no history here")
    path = folder / "source.md"
    before = git("show", f"{commit}:{path.relative_to(ROOT).as_posix()}")
    assert path.read_text(encoding="utf-8").startswith(before)


def test_the_readme_leads_with_the_first_forecasts() -> None:
    scored = score_register(replay=False)
    first = scored.summary()
    assert first.median_abs_error is not None
    assert first.p90_abs_error is not None
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    median, p90 = (f"{100 * error:.0f} %" for error in (first.median_abs_error, first.p90_abs_error))
    said = f"the median error is {median}, and nine in ten are within {p90}"
    assert said in readme
    assert f"({first.num_points} figures of {len(scored.errors_by_source())} sources" in readme
    assert readme.index(said) < readme.index("Known during development")


def test_the_readme_has_the_errors_of_the_register_with_one_run_as_an_anchor() -> None:
    by_source: dict[str, list[float]] = {}
    for each in shipped_forecasts().of_anchored(True):
        if each.case in ENTRIES:
            by_source.setdefault(each.source, []).extend(1.0 / ratio - 1.0 for ratio in each.ratios)
    found = summarise(list(by_source.values()))
    assert found.median_abs_error is not None
    assert found.p90_abs_error is not None
    median, p90 = (f"{100 * error:.0f} %" for error in (found.median_abs_error, found.p90_abs_error))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"the median error is {median}, and nine in ten are within {p90}** for the other {found.num_points} figures"
        in readme
    )
