"""What each key does alone: the first scenario with one value of the second at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clustersim.difference import diff
from clustersim.difference.one_by_one import MOST_KEYS
from clustersim.difference.page import diff_html
from clustersim.errors import InputError
from clustersim.results import write_sweep
from tests.difference.pairs import SMALL, compared, only, small

LINK, GPUS = "topology.link=5 Gbit/s", "num_gpus=8"


def test_each_key_alone_is_the_scenario_with_that_key() -> None:
    found = diff(SMALL, b_settings=[LINK, GPUS], one_by_one=True)
    alone = {effect.key: effect.change_s for effect in found.effects}
    before_s = only(small()).iteration_s
    assert alone == pytest.approx(
        {
            "topology.link": only(small(LINK)).iteration_s - before_s,
            "num_gpus": only(small(GPUS)).iteration_s - before_s,
        }
    )
    text = " ".join(found.answer)
    assert "With one key of B at a time, A takes: topology.link " in text
    assert "no single one is known" not in text
    assert "alone" in diff_html(found)


def test_keys_that_do_not_meet_sum_to_the_difference() -> None:
    found = diff(SMALL, b_settings=[LINK, "stragglers=[{kind: constant, factor: 2, of: [1]}]"], one_by_one=True)
    assert sum(effect.change_s or 0 for effect in found.effects) == pytest.approx(found.main.change_s, rel=0.05)
    assert "together they do what these sum to" in found.answer[-1]


def test_a_key_that_only_the_first_has_is_left_out() -> None:
    slow = "stragglers=[{kind: constant, factor: 2, of: [1]}]"
    found = diff(small(slow), small(LINK), one_by_one=True)
    alone = {effect.key: effect.change_s for effect in found.effects}
    assert alone["stragglers"] == pytest.approx(only(small()).iteration_s - only(small(slow)).iteration_s)


@pytest.mark.parametrize(
    ("a", "b", "key"),
    [
        ("strategy.buckets=layer", LINK, "strategy.buckets"),
        (
            "stragglers=[{kind: constant, factor: 2, of: [1]}, {kind: constant, factor: 2, of: [2]}]",
            "stragglers=[{kind: constant, factor: 2, of: [1]}]",
            "stragglers.1",
        ),
    ],
)
def test_a_key_or_element_inside_another_is_left_out(a: str, b: str, key: str) -> None:
    found = diff(small(a), small(b, GPUS), one_by_one=True)
    assert {effect.key: effect.refusal for effect in found.effects}[key] == ""


def test_a_key_that_is_not_valid_alone_is_said() -> None:
    found = diff(SMALL, b_settings=["num_gpus=16", "topology.num_hosts=16"], one_by_one=True)
    refused = {effect.key: effect.refusal for effect in found.effects if effect.change_s is None}
    assert list(refused) == ["num_gpus"]
    assert refused["num_gpus"]
    assert "not valid alone: num_gpus" in found.answer[-1]


def test_a_point_of_an_axis_stays_where_it_is() -> None:
    swept = {**SMALL, "num_gpus": [2, 4]}
    found = diff(swept, b_settings=[LINK, "batch.per_gpu=16"], one_by_one=True, per="iteration")
    assert found.main.runs[0].num_gpus == 4
    alone = {effect.key: effect.change_s for effect in found.effects}
    assert alone["topology.link"] == pytest.approx(only(small(LINK)).iteration_s - only(small()).iteration_s)


def test_one_key_needs_no_more_simulations() -> None:
    assert compared((), (LINK,), one_by_one=True).effects == ()


def test_a_saved_run_of_this_version_is_changed_too(tmp_path: Path) -> None:
    write_sweep(small(), tmp_path / "result.json")
    assert len(diff(tmp_path, small(LINK, GPUS), one_by_one=True).effects) == 2


def test_a_saved_run_of_another_version_is_refused() -> None:
    old = replace(small(), version="0.0.9")
    with pytest.raises(InputError, match=r"A is of clustersim 0.0.9, and keys are changed one by one with this one"):
        diff(old, small(LINK, GPUS), one_by_one=True)


def test_too_many_keys_are_refused() -> None:
    changed = {**SMALL, "stragglers": [{"kind": "constant", "factor": 2, "of": [1]}]}
    other = replace(small(), scenario={**small().scenario, **{f"key{number}": 1 for number in range(MOST_KEYS + 1)}})
    with pytest.raises(InputError, match=f"at most {MOST_KEYS} are changed one by one"):
        diff(changed, other, one_by_one=True)


def test_keys_of_cases_and_sweep_are_changed_one_by_one() -> None:
    """The conditions of `sweep` are not for these: 32 samples on each of 8 GPUs are more than `where` allows."""
    swept = {
        **SMALL,
        "cases": {"few": {"num_gpus": 4}, "many": {"num_gpus": 8}},
        "sweep": {"grid": {"batch.per_gpu": [16, 32]}, "where": "num_gpus * batch.per_gpu <= 128"},
    }
    few, many = ["case=few", "batch.per_gpu=32"], ["case=many", "batch.per_gpu=16"]
    found = diff(swept, a_settings=few, b_settings=many, one_by_one=True, per="iteration")
    before_s = only(small()).iteration_s
    assert {effect.key: effect.change_s for effect in found.effects} == pytest.approx(
        {
            "num_gpus": only(small(GPUS)).iteration_s - before_s,
            "batch.per_gpu": only(small("batch.per_gpu=16")).iteration_s - before_s,
        }
    )
