"""The search space has every layout whose degrees make the number of GPUs once."""

from __future__ import annotations

from math import prod

import pytest

from clustersim.model import load_model
from clustersim.planner.space import (
    DOES_NOT_DIVIDE,
    NO_ROUNDS,
    Choice,
    Divisible,
    Space,
    divisors,
)


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


@pytest.mark.parametrize("recompute", ["pointwise", "pointwise+attention"])
def test_what_compilers_compute_again_is_planned_where_it_is_asked_for(recompute: str) -> None:
    families = list(Space({8: [8]}, 8, {"recompute": recompute}).families({}))
    assert {choice.layout.recompute for family in families for choice in family} == {recompute}


def test_what_cannot_be_is_counted_by_its_reason() -> None:
    tally: dict[str, int] = {}
    list(Space({8: [12]}, 8, {}).families(tally))
    assert set(tally) == {DOES_NOT_DIVIDE, NO_ROUNDS}


def test_experts_and_long_sequences_are_divided_where_the_model_has_any() -> None:
    found = every(Space({16: [16]}, 4, {}, Divisible.of(load_model("mixtral-8x7b"))))
    assert {choice.grid.expert for choice in found} == {1, 2, 4, 8}
    assert {choice.grid.context for choice in found} == {1, 2, 4}
    assert all(choice.grid.tensor * choice.grid.context <= 4 for choice in found)
    given = every(Space({16: [16]}, 4, {"context": 16}, Divisible(tokens=16)))
    assert {choice.grid.context for choice in given} == {16}
    assert {choice.layout.context_method for choice in found if choice.grid.context == 2} == {"all-gather", "ring"}
    assert all(prod(choice.grid.sizes) == 16 for choice in found)
    assert len({choice.text() for choice in found}) == len(found)


@pytest.mark.parametrize("model", ["resnet50", "gpt2-medium"])
def test_nothing_but_layers_is_divided_of_short_sequences_and_images(model: str) -> None:
    assert Divisible.of(load_model(model)) == Divisible()


@pytest.mark.parametrize("degree", [2, 4])
def test_replicas_with_experts_shard_too(degree: int) -> None:
    found = every(Space({4: [4]}, 1, {"expert": degree, "pipeline": 1}, Divisible(experts=4)))
    assert {choice.layout.sharding for choice in found} == {None, "zero-1", "zero-2", "zero-3"}


@pytest.mark.parametrize("number", [1, 7, 12, 64, 100])
def test_divisors_are_all_that_divide(number: int) -> None:
    assert divisors(number) == [size for size in range(1, number + 1) if number % size == 0]
