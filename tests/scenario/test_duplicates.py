"""A mistake of several sweep points is reported once, with the points that have it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clustersim.errors import Mistake
from clustersim.scenario import at_points
from clustersim.scenario.duplicates import merge_duplicates

Mistakes = Callable[..., list[Mistake]]

STAGES = "parallelism: {pipeline: 4, micro_batches: 3}"


def test_a_mistake_with_other_numbers_at_other_points_is_reported_once(mistakes: Mistakes) -> None:
    (mistake,) = mistakes(f"{STAGES}\nbatch: {{global: [256, 128, 64]}}")
    assert mistake.message.startswith("a batch of 256 does not divide over 1 replica of the model with 3 micro-batches")
    assert mistake.message.endswith("(at batch.global 256; likewise at batch.global 128 and 64)")
    assert (mistake.key, mistake.line) == ("parallelism.micro_batches", 7)


def test_a_mistake_of_some_points_names_them(mistakes: Mistakes) -> None:
    (mistake,) = mistakes(f"{STAGES}\nbatch: {{global: [192, 128]}}\ntransport: [nccl, mpi]")
    assert mistake.message.endswith(" (at batch.global 128)")


def test_a_mistake_of_all_points_names_no_points(mistakes: Mistakes) -> None:
    (mistake,) = mistakes("num_gpus: 9\ntransport: [nccl, mpi]")
    assert mistake.message == "the cluster 'star' has 8 GPUs (got 9)"


def test_a_mistake_at_a_value_of_a_list_names_no_points(mistakes: Mistakes) -> None:
    first, second = mistakes("num_gpus: [2, 9, 10]\ntransport: [nccl, mpi]")
    assert [first.message, second.message] == [f"the cluster 'star' has 8 GPUs (got {num})" for num in (9, 10)]
    assert (first.column, second.column) == (15, 18)


def test_a_mistake_in_an_override_list_names_its_values(mistakes: Mistakes) -> None:
    (mistake,) = mistakes("", ("num_gpus=[2, 9, 10]",))
    assert mistake.message.endswith("(got 9) (at num_gpus 9; likewise at num_gpus 10)")


def test_two_mistakes_at_one_place_stay_two() -> None:
    found = [({"n": num}, [Mistake(f"{num} GB are too many", "n"), Mistake(f"{num} is odd", "n")]) for num in (1, 3)]
    assert [each.message for each in merge_duplicates(found)] == [
        "1 GB are too many (at n 1; likewise at n 3)",
        "1 is odd (at n 1; likewise at n 3)",
    ]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([0], "n 1 with k ring"),
        ([0, 3], "n 1 with k ring; n 2 with k tree"),
        ([0, 1, 3, 4], "n 1 with k ring; n 1 with k tree; n 2 with k tree; 1 more points"),
        ([2, 3], "n 2"),
        ([0, 1, 2, 3, 4, 5], ""),
    ],
)
def test_points_are_named_by_the_settings_that_others_do_not_have(numbers: list[int], said: str) -> None:
    every = [{"n": num, "k": kind} for num in (1, 2, 4) for kind in ("ring", "tree")]
    assert at_points(numbers, every) == said


def test_remedies_may_differ_and_the_first_is_reported() -> None:
    def of(remedy: str) -> Mistake:
        return Mistake(f"one v100 holds 17.2 GB, and this needs 75 GB{remedy}; a plan goes further", "batch.per_gpu")

    remedies = ("", "; it fits with parallelism {micro_batches: 2}, which takes 15 GB")
    (mistake,) = merge_duplicates([({"num_gpus": 1 + number}, [of(each)]) for number, each in enumerate(remedies)])
    assert mistake.message == f"{of('').message} (at num_gpus 1; likewise at num_gpus 2)"


def test_a_sum_may_have_more_terms_at_another_point() -> None:
    def of(more: str) -> Mistake:
        return Mistake(f"this needs 75 GB: weights 1 GB + weight copies 500 MB{more}; use less", "batch.per_gpu")

    found = [({"num_gpus": 1 + number}, [of(each)]) for number, each in enumerate(("", " + buckets 1.5 GB"))]
    (mistake,) = merge_duplicates(found)
    assert mistake.message == f"{of('').message} (at num_gpus 1; likewise at num_gpus 2)"
