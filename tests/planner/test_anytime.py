"""A search ends on time, is never worse than its rule of thumb, and says how much better a layout could be."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.planner import plan, search
from clustersim.planner.rule_of_thumb import rules_of_thumb
from clustersim.planner.search import Deadline, TimeIsUp
from clustersim.planner.space import ALSO, Choice, Space
from tests.planner.test_plan import NARROW, SCENARIO

FREE = {**SCENARIO, "num_gpus": 8, "batch": {"global": 32}}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each simulated layout take 0.2 s at least."""
    real = search._simulate

    def slower(*args: Any) -> Any:
        time.sleep(0.2)
        return real(*args)

    monkeypatch.setattr(search, "_simulate", slower)


def test_a_search_without_time_has_its_rule_of_thumb_and_says_so() -> None:
    found = plan(FREE, [8], workers=1, time_limit_s=1e-3)
    assert (found.ended, found.stopped) == ("time", False)
    assert [entry.choice for entry in found.best] == [found.rule_of_thumb and found.rule_of_thumb.choice]
    assert found.gap is None  # the bounds are not known
    assert found.num_simulated + sum(found.discarded.values()) == found.num_layouts
    assert found.discarded["it was not simulated before the search was stopped"] > 100


def test_a_search_ends_on_time_and_what_is_left_is_better_by_the_gap_at_most(slow: None) -> None:
    begin_s = time.monotonic()
    found = plan(FREE, [8], workers=1, time_limit_s=4.0)
    assert time.monotonic() - begin_s < 8.0
    assert found.ended == "time"
    assert found.num_simulated + sum(found.discarded.values()) == found.num_layouts
    if found.gap is not None:
        best = plan(FREE, [8], top=1, workers=1).best[0]
        assert best.samples_per_s <= found.best[0].samples_per_s * (1 + found.gap) * (1 + 1e-9)


def test_a_simulation_that_takes_too_long_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of layouts that shard, none can be simulated; all others can, also after those."""
    real = search._simulate

    def endless(point: Any, ranked: Any) -> Any:
        end_s = time.monotonic() + 60
        while ranked.choice.layout.sharding and time.monotonic() < end_s:
            time.sleep(0.01)
        return real(point, ranked)

    monkeypatch.setattr(search, "_simulate", endless)
    begin_s = time.monotonic()
    found = plan(FREE, [8], workers=1, time_limit_s=6.0)
    assert time.monotonic() - begin_s < 20.0
    assert (found.ended, found.stopped) == ("time", False)
    assert found.num_simulated + sum(found.discarded.values()) == found.num_layouts
    assert not any(entry.choice.layout.sharding for entry in found.simulated)
    assert found.rule_of_thumb is not None
    assert found.best[0].samples_per_s >= found.rule_of_thumb.samples_per_s


def test_what_took_too_long_is_simulated_at_the_end_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of one layout changes only the order."""
    real, asked = search._simulate_one, list[float | None]()

    def impatient(task: Any) -> Any:
        if task.ranked.choice.grid.pipeline > 1:
            return real(task)
        asked.append(task.most_s)
        return None if task.most_s is not None else real(task)

    monkeypatch.setattr(search, "_simulate_one", impatient)
    found = plan(NARROW, [4], top=3, workers=1, time_limit_s=1e5)
    monkeypatch.undo()
    usual = plan(NARROW, [4], top=3, workers=1)
    assert found.ended == "done"
    assert [entry.choice for entry in found.best] == [entry.choice for entry in usual.best]
    assert asked[0] == 2e4  # of the rule of thumb
    assert asked.count(None) >= asked.count(2e4)


def test_a_search_that_is_done_has_no_gap_and_all_its_layouts() -> None:
    found = plan(NARROW, [4], top=3, workers=1)
    assert (found.ended, found.gap) == ("done", 0.0)
    assert found.best == found.simulated[:3]
    rows = found.to_dict()["simulated"]
    assert [row["samples_per_s"] for row in rows] == [entry.samples_per_s for entry in found.simulated]
    assert set(rows[0]) >= {"layout", "memory_bytes", "dollars_per_sample"}


def test_a_search_that_ran_out_of_time_goes_on_from_its_file(slow: None, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    plan(NARROW, [4], top=3, workers=1, time_limit_s=1.0, resume=path)
    again = plan(NARROW, [4], top=3, workers=1, resume=path)
    assert again.to_dict() == plan(NARROW, [4], top=3, workers=1).to_dict()


@pytest.mark.parametrize("objective", ["samples_per_s", "cost"])
def test_the_best_is_never_worse_than_the_rule_of_thumb(objective: str) -> None:
    found = plan(FREE, [4, 8], workers=1, objective=objective)
    rule = found.rule_of_thumb
    assert rule is not None
    assert rule.choice in [entry.choice for entry in found.simulated]
    if objective == "samples_per_s":
        assert found.best[0].samples_per_s >= rule.samples_per_s
    else:
        assert (found.best[0].dollars_per_sample or 0) <= (rule.dollars_per_sample or 0)
    assert "Narayanan" in found.to_dict()["rule_of_thumb"]["rule"]


def rule_for(most_bytes: float) -> Choice:
    """Return the layout of the rule if a GPU needs a unit of memory for a model over tensor x pipeline GPUs."""

    def fits(choice: Choice) -> bool:
        kept = {"none": 1.0, "selective": 0.5, "full": 0.1}[choice.layout.recompute] * choice.micro_batch
        return (16 + kept) / (choice.grid.tensor * choice.grid.pipeline) <= most_bytes

    families = Space({16: [64]}, 4, {}).families({})
    (found,) = rules_of_thumb(families, lambda family: next(filter(fits, family), None))
    return found


def test_the_rule_splits_layers_in_a_host_first_then_uses_stages_and_only_as_far_as_needed() -> None:
    grids = [rule_for(most).grid for most in (100, 10, 5, 2.5)]
    assert [(grid.tensor, grid.pipeline, grid.data) for grid in grids] == [(1, 1, 16), (2, 1, 8), (4, 1, 4), (4, 2, 2)]
    assert rule_for(100).micro_batch == 4
    assert rule_for(17).micro_batch == 1  # smaller micro-batches before recomputation
    assert {rule_for(most).layout.recompute for most in (100, 17)} == {"none"}
    assert rule_for(16.5).layout.recompute == "selective"


def test_without_a_layout_that_fits_there_is_no_rule() -> None:
    assert rules_of_thumb(Space({4: [8]}, 4, {}).families({}), lambda family: None) == []


def test_a_deadline_counts_from_its_clock() -> None:
    now_s = [0.0]
    deadline = Deadline(10.0, lambda: now_s[0])
    deadline.check()
    now_s[0] = 10.0
    with pytest.raises(TimeIsUp):
        deadline.check()
    assert Deadline().left_s() == float("inf")


def test_a_time_limit_is_above_zero() -> None:
    with pytest.raises(InputError, match="time_limit_s"):
        plan(NARROW, [4], time_limit_s=0)


def test_everything_can_be_compared_on_request() -> None:
    """DualPipe has the same work in each stage as 1F1B, and other layouts than those compared by default."""
    fixed = {"tensor": 1, "sharding": None, "micro_batches": 8}
    usual = plan({**FREE, "parallelism": fixed}, [8], top=5, workers=1)
    found = plan({**FREE, "parallelism": fixed}, [8], top=5, workers=1, also=["all"])
    assert found.num_layouts > usual.num_layouts
    assert found.best[0].samples_per_s >= usual.best[0].samples_per_s
    assert all(entry.least_s <= entry.iteration_s * (1 + 1e-9) for entry in found.simulated)
    assert ALSO == ("sharding_over", "offload", "recompute", "dualpipe", "expert_exchange")


@pytest.mark.parametrize("schedule", ["dualpipe", "dualpipe-v"])
def test_dualpipe_is_planned_where_it_is_given(schedule: str) -> None:
    found = plan(
        {**FREE, "parallelism": {"tensor": 1, "schedule": schedule, "pipeline": 2, "micro_batches": 4}},
        [8],
        top=2,
        workers=1,
    )
    assert {entry.choice.layout.schedule for entry in found.best} == {schedule}
    assert all(0 < entry.least_s <= entry.iteration_s * (1 + 1e-9) for entry in found.best)
