"""A saved run that was changed is refused or drawn: never another error, within the budgets of `check_mutations`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.reading.typed import wrong_types
from clustersim.report import write_report
from clustersim.results import read_sweep, write_sweep
from tests.mutations import check_mutations

SCENARIO: dict[str, Any] = {
    "model": "nin",
    "num_gpus": [2, 4],
    "batch": {"per_gpu": 8},
    "topology": {"kind": "star", "num_hosts": 4, "link": "10 Gbit/s", "host": {"gpu": "k80"}},
    "software": "plain",
    "num_iterations": 3,
}
_COUNT = 500 if os.environ.get("CLUSTERSIM_FUZZ") else 100


def saved(path: Path, **changes: Any) -> bytes:
    write_sweep(clustersim.sweep({**SCENARIO, **changes}), path)
    return path.read_bytes()


@pytest.mark.parametrize(
    "strategy",
    [{"kind": "all-reduce"}, {"kind": "softsync", "n": 2, "servers": {"on": "own-hosts"}}],
    ids=["all-reduce", "softsync"],
)
def test_a_changed_run_is_refused_or_drawn(strategy: Mapping[str, Any], tmp_path: Path) -> None:
    document = saved(tmp_path / "result.json", strategy=strategy, num_gpus=2)

    def draw(path: Path) -> None:
        write_report(read_sweep(path), tmp_path / "report.html")

    was_read, refused = check_mutations(draw, document, tmp_path / "result.json", count=_COUNT, seed=7)
    assert was_read > 0
    assert refused > 20


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"num_gpus": 2, "batch', '"num_gpus": "2", "batch', "runs.0.num_gpus is '2', not a whole number"),
        ('"num_gpus": 2, "batch', '"num_gpus": 0, "batch', "runs.0.num_gpus is 0, not above 0"),
        ('"speedup": ', '"speedup": true, "x": ', "unexpected keyword"),
        ('"provenance": {', '"provenance": {"a": "b", ', "runs.0.provenance.a is 'b', not a number"),
        ('"mean": 0.0', '"mean": NaN', "not finite"),
    ],
)
def test_what_no_simulation_wrote_is_named(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    head, runs, rest = saved(path).decode().partition('"runs"')
    assert old in rest
    path.write_text(head + runs + rest.replace(old, new, 1))
    with pytest.raises(InputError, match=r"result\.json") as caught:
        read_sweep(path)
    assert says in str(caught.value)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text('{"schema":' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(InputError, match="nested too deeply"):
        read_sweep(path)


def test_types_are_checked_down_to_every_number() -> None:
    assert not list(wrong_types({"a": [1, 2.0]}, Mapping[str, tuple[float, ...]]))
    assert list(wrong_types({"a": [1, True]}, Mapping[str, tuple[float, ...]], "x")) == ["x.a.1 is True, not a number"]
    assert list(wrong_types([1], tuple[int, int], "x")) == ["x is a list of 1, not of 2"]
    assert list(wrong_types("a", float | None, "x")) == ["x is 'a', not a number or nothing"]
