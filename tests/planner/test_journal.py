"""An interrupted search continues from its simulated layouts."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clustersim.cli import app
from clustersim.errors import InputError
from clustersim.planner import plan, search
from tests.planner.test_plan import NARROW, SCENARIO


class Forecasts:
    """Counts simulations, and interrupts the search before one of them."""

    def __init__(self, stop_at: int | None = None):
        self.num, self.stop_at, self.real = 0, stop_at, search.forecast

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.num == self.stop_at:
            raise KeyboardInterrupt
        self.num += 1
        return self.real(*args, **options)


def planned(
    monkeypatch: pytest.MonkeyPatch, path: Path | None, stop_at: int | None = None
) -> tuple[dict[str, Any], int]:
    counted = Forecasts(stop_at)
    with monkeypatch.context() as patch:
        patch.setattr(search, "forecast", counted)
        return plan(NARROW, [2], workers=1, resume=path).to_dict(), counted.num


def test_what_is_in_the_file_is_not_simulated_again_and_the_plan_is_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "journal.jsonl"
    without, num = planned(monkeypatch, None)
    assert planned(monkeypatch, path) == (without, num)
    assert planned(monkeypatch, path) == (without, 0)
    assert len(path.read_text().splitlines()) == 1 + num


def test_a_search_that_was_stopped_goes_on_from_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    without, num = planned(monkeypatch, None)
    stop_at = num - 1
    with contextlib.suppress(KeyboardInterrupt):  # an unfinished round is not in the plan, but in the journal
        assert planned(monkeypatch, path, stop_at)[0]["stopped"]
    assert len(path.read_text().splitlines()) == 1 + stop_at
    assert planned(monkeypatch, path) == (without, num - stop_at)


def test_a_line_that_was_cut_off_is_simulated_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    without, num = planned(monkeypatch, path)
    path.write_text(path.read_text()[:-20])
    assert planned(monkeypatch, path) == (without, 1)
    assert planned(monkeypatch, path) == (without, 0)
    assert len(path.read_text().splitlines()) == 2 + num


def test_what_could_not_be_simulated_is_kept_too(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    plan(NARROW, [2], workers=1, resume=path)
    head, *lines = path.read_text().splitlines()
    failed = [json.dumps({"choice": json.loads(line)["choice"], "failed": "no way"}) for line in lines]
    path.write_text("\n".join([head, *failed]) + "\n")
    found = plan(NARROW, [2], workers=1, resume=path)
    assert 0 < found.discarded["could not be simulated: no way"] <= len(lines)


@pytest.mark.parametrize("changes", [{"precision": "amp-fp16"}, {"transport": "ideal"}, {"model": "alexnet"}])
def test_the_journal_of_another_request_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    plan(NARROW, [2], workers=1, resume=path)
    before = path.read_text()
    changed = {**NARROW, **changes}
    with pytest.raises(InputError, match="is of another scenario, other sheets or another version"):
        plan(changed, [2], workers=1, resume=path)
    assert path.read_text() == before


def test_a_file_that_is_no_journal_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a journal\n")
    with pytest.raises(InputError, match="name another file"):
        plan(SCENARIO, [2], workers=1, resume=path)
    assert path.read_text() == "not a journal\n"
    with pytest.raises(InputError, match="cannot be written"):
        plan(NARROW, [2], workers=1, resume=tmp_path / "nowhere" / "journal.jsonl")


def test_the_command_keeps_what_it_simulates(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    fixed = "parallelism={tensor: 1, pipeline: 1, sharding: zero-1, micro_batches: 2}"
    arguments = ["plan", "plan-gpt", "--gpus", "4", "--set", fixed, "--json", "-q", "--resume", str(path)]
    first, second = (CliRunner().invoke(app, arguments) for _ in range(2))
    assert first.exit_code == second.exit_code == 0, first.output
    assert first.stdout == second.stdout
    assert len(path.read_text().splitlines()) > 1


@pytest.mark.parametrize(
    "line",
    [
        '{"choice": ["a"]}',
        '{"choice": "[2, 32, {}, []]"}',
        '{"choice": "x", "iteration_s": -1, "samples_per_s": 2, "breakdown_s": {}}',
        '{"choice": "x", "iteration_s": NaN, "samples_per_s": 2, "breakdown_s": {}}',
        '{"choice": "x", "iteration_s": 1, "samples_per_s": 2, "breakdown_s": {"compute": 1}}',
        '{"choice": "x", "iteration_s": true, "samples_per_s": 2, "breakdown_s": {}}',
    ],
)
def test_a_line_that_no_search_wrote_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    path = tmp_path / "journal.jsonl"
    planned(monkeypatch, path)
    path.write_text(f"{path.read_text()}{line}\n")
    last = len(path.read_text().splitlines())
    with pytest.raises(InputError, match=f"journal.jsonl:{last}: this line is not the result of a layout") as caught:
        planned(monkeypatch, path)
    assert caught.value.mistakes[0].line == last


def test_a_truncated_line_is_simulated_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    _, num = planned(monkeypatch, path)
    text = path.read_text()
    path.write_text(text[: text.rindex("{") - 30] + "\n" + "[" * 5000 + "\n")
    assert planned(monkeypatch, path)[1] == 1 < num
