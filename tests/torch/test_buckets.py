"""Our bucket rule against the assigner that DistributedDataParallel itself calls."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.program import PYTORCH_CAPS, assign_buckets

pytestmark = pytest.mark.torch

FLOAT = 4


def torch_buckets(num_elements: list[int], caps: list[int]) -> list[list[int]]:
    """Return what torch does with fp32 gradients that become ready in this order."""
    import torch
    import torch.distributed as dist

    tensors = [torch.empty(size, device="meta") for size in num_elements]
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, caps, [False] * len(tensors))
    return [list(bucket) for bucket in buckets]


def ours(num_elements: list[int], caps: list[int]) -> list[list[int]]:
    return assign_buckets([float(size * FLOAT) for size in num_elements], caps)


def test_default_caps_are_those_of_torch() -> None:
    import torch.distributed as dist

    assert PYTORCH_CAPS == (dist._DEFAULT_FIRST_BUCKET_BYTES, 25 * 1024**2)


@settings(max_examples=200, deadline=None)
@given(
    num_elements=st.lists(st.integers(1, 5_000_000), min_size=1, max_size=40),
    caps=st.lists(st.integers(1, 30 * 1024**2), min_size=1, max_size=3),
)
def test_any_gradients_fall_into_the_same_buckets(num_elements: list[int], caps: list[int]) -> None:
    assert ours(num_elements, caps) == torch_buckets(num_elements, caps)


@pytest.mark.parametrize("excess", [-1, 0, 1])
def test_a_bucket_closes_exactly_at_its_cap(excess: int) -> None:
    cap = 1024**2
    num_elements = [cap // FLOAT // 2, cap // FLOAT // 2 + excess, 7, 7]
    assert ours(num_elements, [cap]) == torch_buckets(num_elements, [cap])


def test_real_networks_fall_into_the_same_buckets() -> None:
    from clustersim.model.catalogue import load_model

    for name in ("alexnet", "googlenet"):
        layers = load_model(name).layers
        num_elements = [layer.num_parameters for layer in reversed(layers) if layer.num_parameters]
        caps = [int(cap) for cap in PYTORCH_CAPS]
        assert ours(num_elements, caps) == torch_buckets(num_elements, caps)
