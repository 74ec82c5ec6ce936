"""Results are cached as long as the model is the same object and the cache is not full."""

from __future__ import annotations

from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.model import load_model
from clustersim.model.casts import Casts


def test_the_oldest_goes_first_and_equal_numbers_of_another_kind_are_others():
    asked: list[object] = []

    @cached_by_identity(2)
    def noted(what: object, *, share: float = 1.0) -> object:
        asked.append(what)
        return what

    for what in (1, 1, True, 1, 2, 1):
        noted(what)
    assert asked == [1, True, 2, 1]
    noted(1, share=0.5)
    assert len(asked) == 5


def test_another_object_with_the_same_layers_is_estimated_for_itself():
    model, gpu = load_model("alexnet"), load_gpu("v100")
    known = estimate_layers(model, gpu, 32, "fp32")
    assert estimate_layers(model, gpu, 32, "fp32") is known
    assert estimate_layers(model, gpu, 33, "fp32") != known
    assert estimate_layers(model, load_gpu("k80"), 32, "fp32") != known
    equal = type(model)(model.name, model.title, model.layers)
    assert estimate_layers(equal, gpu, 32, "fp32") is not known
    assert estimate_layers(equal, gpu, 32, "fp32").layers == known.layers


def test_tuples_are_the_same_where_what_they_hold_is():
    model, gpu = load_model("alexnet"), load_gpu("v100")
    known = [estimate_layers(model, gpu, 32, "fp32", casts=Casts("te-cached", number)) for number in (2, 2, 4)]
    assert known[0] is known[1]
    assert known[0] is not known[2]
