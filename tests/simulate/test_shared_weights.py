"""Weights that two layers share, of which DistributedDataParallel once sent the gradient twice."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.model.shared_weights import shared_weights
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.setup import Setup
from tests.placed import placed

WORDS, FEATURES = 1000, 64
MATRIX = 4.0 * WORDS * FEATURES
STAR = {"kind": "star", "num_hosts": 2, "gpu": "v100", "link": "1 GB/s", "hop": "1 us"}
RING = {"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"}


def asked(model: str = f"gpt-2x{FEATURES}x4-seq32-vocab{WORDS}", **changes: Any) -> dict[str, Any]:
    given = {"model": model, "num_gpus": 2, "batch": {"per_gpu": 4}, "topology": STAR, "transport": "nccl"}
    return placed({**given, "strategy": RING, **changes})


def buckets(shared: str) -> list[tuple[str, float, float]]:
    setup = Setup(load_scenario(asked(strategy={**RING, "shared_weights": shared})).points()[0].point)
    plan = setup.first_plan
    return [(each.name, each.num_bytes, each.ready_s / plan.backward_s) for each in plan.buckets]


def test_the_last_layers_bucket_has_the_gradient_of_the_words_too_and_the_others_wait_for_it():
    once, twice = buckets("once"), buckets("twice")
    assert twice[0][:2] == ("head", MATRIX)
    assert [each[:2] for each in twice[1:]] == [each[:2] for each in once]
    assert [ready for _, _, ready in twice] == pytest.approx([1.0] * len(twice))
    assert once[0][2] < 0.5


def test_where_each_tensor_travels_by_itself_it_is_still_the_last_layers_that_has_the_words():
    by_tensor = {**RING, "buckets": "tensor"}
    once, twice = (
        Setup(load_scenario(asked(strategy={**by_tensor, "shared_weights": shared})).points()[0].point).first_plan
        for shared in ("once", "twice")
    )
    assert (twice.buckets[0].name, twice.buckets[0].num_bytes) == ("head", MATRIX)
    assert [(each.name, each.num_bytes) for each in twice.buckets[1:]] == [
        (each.name, each.num_bytes) for each in once.buckets
    ]
    assert [each.ready_s / twice.backward_s for each in twice.buckets] == pytest.approx([1.0] * len(twice.buckets))


def test_what_two_layers_share_is_found_by_its_size():
    layers = Setup(load_scenario(asked()).points()[0].point).model.layers
    names = {layers[index].name: (layers[owner].name, size) for index, (owner, size) in shared_weights(layers).items()}
    assert names == {"head": ("embedding", WORDS * FEATURES)}


def test_nothing_hides_behind_backward_where_it_travels_twice():
    after = {**RING, "overlap": False}
    once, twice, waited = (
        clustersim.simulate(asked(strategy=each)).breakdown_s
        for each in (RING, {**RING, "shared_weights": "twice"}, after)
    )
    matrix_s = MATRIX / 1e9
    assert twice["communication_exposed"] > waited["communication_exposed"] + 0.8 * matrix_s
    assert waited["communication_exposed"] > once["communication_exposed"]


def test_a_warning_says_that_a_model_shares_no_weights():
    scenario = load_scenario(asked("resnet50", strategy={**RING, "shared_weights": "twice"}))
    found = forecast(scenario.points()[0].point).warnings
    assert "software.shared_weights changes nothing: no two layers of the model share weights" in found


def test_a_layout_refuses_them():
    with pytest.raises(InputError, match="shared weights sent twice are simulated only if each GPU has the whole"):
        load_scenario(asked(strategy={**RING, "shared_weights": "twice"}, parallelism={"tensor": 2}))
