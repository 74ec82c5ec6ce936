"""Degrees that do not fit num_gpus are reported with the nearest that do, at the one to change."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.parallelism.nearest import nearest_degrees
from clustersim.parallelism.spec import Parallelism


@pytest.mark.parametrize(
    ("num_gpus", "keys", "key", "words"),
    [
        (8, {"pipeline": 4, "tensor": 5}, "tensor", "does not divide 8 GPUs; the nearest that does is tensor: 2"),
        (8, {"pipeline": 2, "context": 3}, "context", "the nearest that does is context: 2"),
        (1, {"tensor": 4}, "tensor", "tensor 4 does not divide 1 GPU; the nearest that does is tensor: 1"),
        (8, {"context": 3}, "context", "context 3 does not divide 8 GPUs; the nearest that does is context: 2"),
        (8, {"pipeline": 5, "tensor": 3}, "pipeline", "the nearest that does is pipeline: 4, tensor: 2"),
        (8, {"data": 4, "tensor": 4, "pipeline": 1}, "data", "is 16 and not 8; the product must be num_gpus"),
        (8, {"data": 3}, "data", "3 replicas of the model do not match 8 GPUs; the nearest that does is data: 8"),
        (8, {"data": 2}, "data", "or give each replica 4 GPUs, such as tensor: 4 or pipeline: 4"),
        (8, {"kind": "one-weird-trick", "data": 2}, "data", "the nearest that does is data: 8, as without this key"),
        (8, {"kind": "paths", "data": 3}, "data", "3 replicas of the model do not match 8 GPUs; .* is data: 2"),
        (8, {"kind": "local-fields", "data": 3}, "data", "the nearest that does is data: 2"),
    ],
)
def test_the_error_is_at_the_degree_to_change_with_the_nearest_that_works(
    num_gpus: int, keys: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        Parallelism(**keys).grid(num_gpus)
    assert caught.value.mistakes[0].key == key


@given(
    num_gpus=st.integers(1, 200),
    sizes=st.dictionaries(st.sampled_from(["data", "pipeline", "tensor", "context"]), st.integers(1, 40), min_size=1),
    exact=st.booleans(),
)
def test_the_nearest_degrees_fit_the_gpus_and_correct_ones_are_unchanged(
    num_gpus: int, sizes: dict[str, int], exact: bool
) -> None:
    near = nearest_degrees(sizes, num_gpus, exact)
    product = prod(near.values())
    assert product == num_gpus if exact else num_gpus % product == 0
    asked = prod(sizes.values())
    if asked == num_gpus or (not exact and num_gpus % asked == 0):
        assert near == sizes


@pytest.mark.parametrize("tiles", [[12], [2, 2, 3]])
def test_tiles_are_rows_and_columns(tiles: list[int]) -> None:
    with pytest.raises(ValueError, match=r"rows and columns are two numbers, as in tiles: \[3, 4\] \(got \["):
        Parallelism(kind="local-fields", tiles=tiles)
