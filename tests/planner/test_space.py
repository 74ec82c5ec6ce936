"""Every layout whose degrees make the number of GPUs is gone through once."""

from __future__ import annotations

from math import prod

import pytest

from clustersim.planner.space import DOES_NOT_DIVIDE, NO_ROUNDS, Choice, Space, divisors


def every(space: Space) -> list[Choice]:
    return [choice for family in space.families({}) for choice in family]


def test_degrees_make_the_number_of_gpus_and_nothing_comes_twice() -> None:
    found = every(Space({16: [64]}, 8, {}))
    assert all(prod(choice.grid.sizes) == 16 for choice in found)
    assert all(choice.micro_batch * choice.layout.micro_batches * choice.grid.data == 64 for choice in found)
    assert len({choice.text() for choice in found}) == len(found) > 1000


def test_layers_are_split_over_the_gpus_of_a_host_at_most_unless_the_degree_is_given() -> None:
    assert max(choice.grid.tensor for choice in every(Space({16: [16]}, 4, {}))) == 4
    assert {choice.grid.tensor for choice in every(Space({16: [16]}, 4, {"tensor": 8}))} == {8}


def test_what_is_fixed_stays_as_it_is() -> None:
    fixed = {"pipeline": 4, "schedule": "gpipe", "micro_batches": 8, "sharding": None, "recompute": "full"}
    found = every(Space({16: [64]}, 8, fixed))
    assert found
    assert all(getattr(choice.layout, key) == value for choice in found for key, value in fixed.items())


def test_a_family_differs_in_what_is_recomputed_alone_and_the_least_comes_first() -> None:
    for family in Space({8: [8]}, 8, {}).families({}):
        assert [choice.layout.recompute for choice in family] == ["none", "selective", "full"]
        assert len({choice.layout.model_copy(update={"recompute": "none"}).model_dump_json() for choice in family}) == 1


def test_what_cannot_be_is_counted_by_its_reason() -> None:
    tally: dict[str, int] = {}
    list(Space({8: [12]}, 8, {}).families(tally))
    assert set(tally) == {DOES_NOT_DIVIDE, NO_ROUNDS}


@pytest.mark.parametrize("number", [1, 7, 12, 64, 100])
def test_divisors_are_all_that_divide(number: int) -> None:
    assert divisors(number) == [size for size in range(1, number + 1) if number % size == 0]
