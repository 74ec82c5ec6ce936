"""Buckets and plans: every gradient travels once, in the order in which it becomes ready."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.program import HOROVOD_BUFFER, PYTORCH_CAPS, assign_buckets, bucket_caps, plan_iteration

sizes = st.lists(st.sampled_from([0.0, 1e3, 5e5, 2e6, 3e7]), max_size=30)
rules = st.sampled_from(["pytorch", "megatron", "horovod", "layer", "tensor", "whole", "4 MiB"])


def test_pytorchs_example_of_three_layers():
    """torch 2.13 rebuilds fc 512 -> 4096 -> 4096 -> 1000 into these buckets."""
    ready = [4.0 * n for n in (1000, 4096 * 1000, 4096, 4096 * 4096, 4096, 512 * 4096)]
    held = [sum(ready[i] for i in bucket) for bucket in assign_buckets(ready, PYTORCH_CAPS)]
    assert held == [16_388_000, 67_125_248, 8_404_992]


@given(sizes, rules)
def test_every_gradient_travels_once_and_in_order(num_bytes, rule):
    buckets = assign_buckets(num_bytes, bucket_caps(rule))
    assert [member for bucket in buckets for member in bucket] == [i for i, size in enumerate(num_bytes) if size]


@given(sizes)
def test_a_bucket_reaches_its_cap_only_with_its_last_gradient(num_bytes):
    for bucket in assign_buckets(num_bytes, (4e6,)):
        assert sum(num_bytes[member] for member in bucket[:-1]) < 4e6


@given(sizes)
def test_horovods_buffer_holds_what_fits_and_closes_before_what_does_not(num_bytes):
    buckets = assign_buckets(num_bytes, HOROVOD_BUFFER)
    held = [[num_bytes[member] for member in bucket] for bucket in buckets]
    assert all(sum(sizes) <= 64 * 1024**2 or len(sizes) == 1 for sizes in held)
    assert all(sum(one) + other[0] > 64 * 1024**2 for one, other in pairwise(held))


def test_the_last_layers_of_vgg16_each_travel_alone_with_horovod():
    """fc8 would fit into a buffer, and fc7 with its weights of 64 MiB fills one; a bucket of that size has both."""
    ready = [4.0 * n for n in (4097 * 1000, 4097 * 4096, 25089 * 4096, 4609 * 512, 4609 * 512)]
    assert assign_buckets(ready, bucket_caps("horovod")) == [[0], [1], [2], [3, 4]]
    assert assign_buckets(ready, bucket_caps("64 MiB")) == [[0, 1], [2], [3, 4]]


def test_an_unknown_rule_is_refused():
    for rule in ("pytroch", 12):
        with pytest.raises(InputError, match=f"layer, tensor, whole or a size, such as '4 MiB' \\(got '{rule}'"):
            bucket_caps(rule)


def test_megatrons_buckets_hold_40_million_parameters_or_a_million_for_each_copy():
    """megatron/core/distributed/distributed_data_parallel.py of Megatron-LM, commit 00119989."""
    assert bucket_caps("megatron", 4.0, 8) == bucket_caps("megatron", 4.0, 40) == (160e6,)
    assert bucket_caps("megatron", 2.0, 512) == (1024e6,)


def test_sharded_state_uses_megatrons_buckets_unless_a_rule_is_given():
    assert bucket_caps("auto", 4.0, 8, is_shared_out=True) == bucket_caps("megatron", 4.0, 8)
    assert bucket_caps("auto", 4.0, 8) == PYTORCH_CAPS
    for rule in ("pytorch", "layer", "whole", "4 MiB"):
        assert bucket_caps(rule, 4.0, 8, is_shared_out=True) == bucket_caps(rule)


@given(sizes, rules, st.booleans())
def test_a_plan_keeps_all_bytes_and_seconds(num_bytes, rule, overlap):
    layers = len(num_bytes)
    names = [f"layer{i}" for i in range(layers)]
    plan = plan_iteration(names, [1.0] * layers, [2.0] * layers, num_bytes, 0.5, bucket_caps(rule), overlap)
    assert sum(bucket.num_bytes for bucket in plan.buckets) == pytest.approx(sum(num_bytes))
    assert plan.compute_s == pytest.approx(3.0 * layers + 0.5)
    ready = [bucket.ready_s for bucket in plan.buckets]
    assert ready == sorted(ready)
    if not overlap:
        assert all(time == plan.backward_s for time in ready)
