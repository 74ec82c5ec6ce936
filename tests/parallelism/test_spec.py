"""The keys of `parallelism`."""

from __future__ import annotations

import pytest

from clustersim.errors import InputError
from clustersim.parallelism import Parallelism
from clustersim.scenario import load_scenario


def test_no_sharding_is_an_absent_key_or_none() -> None:
    written = Parallelism.model_validate({"sharding": "none"})
    assert written.sharding is None
    assert written == Parallelism.model_validate({"sharding": None}) == Parallelism()
    assert written.is_plain(8)


def test_no_sharding_may_be_swept_with_sharding() -> None:
    points = load_scenario("plan-gpt", ["parallelism.sharding=[none, zero-1]"]).points()
    assert [each.point.parallelism.sharding for each in points] == [None, "zero-1"]
    assert [each.axes["parallelism.sharding"] for each in points] == ["none", "zero-1"]


def test_an_unknown_sharding_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="expected one of 'none', 'zero-1', 'zero-2' or 'zero-3' \\(got 'zero-4'\\)"):
        load_scenario("plan-gpt", ["parallelism.sharding=zero-4"]).points()
