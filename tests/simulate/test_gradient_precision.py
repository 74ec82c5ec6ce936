"""Gradients in 16 bits are half as many bytes where they are exchanged and where they are kept."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.planner.layout_costs import LayoutCosts
from clustersim.planner.peak_memory import PeakMemory
from clustersim.planner.space import Choice
from clustersim.scenario import load_scenario
from clustersim.scenario.memory import gpu_memory
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup


def scenario(layout: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {
        "model": "gpt-4x512x8-seq256",
        "num_gpus": 4,
        "batch": {"global": 16},
        "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "a100"}, "link": "10 GB/s", "hop": "1 us"},
        "software": "plain",
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "precision": "amp-bf16",
        "parallelism": layout,
        "num_iterations": 2,
        **other,
    }


def setup_of(layout: dict[str, Any], **other: Any) -> Setup:
    return Setup(load_scenario(scenario(layout, **other)).points()[0].point)


def sent_bytes(layout: dict[str, Any], **other: Any) -> float:
    run = clustersim.simulate(scenario(layout, **other))
    return sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2


@pytest.mark.parametrize(("layout", "gathers"), [({}, 0), ({"sharding": "zero-1"}, 1), ({"sharding": "zero-3"}, 2)])
def test_half_of_what_is_added_up_is_sent_and_as_many_weights(layout: dict[str, Any], gathers: int) -> None:
    """Of P parameters on n copies: 4 or 2 bytes of each added up, and 2 of each gathered, (n - 1) / n P a time."""
    parameters = setup_of({}).model.num_parameters
    adds = 1 if layout else 2  # an all-reduce is a reduce-scatter and as much again
    for precision, size in (("fp32", 4), ("bf16", 2)):
        each = 3 / 4 * parameters * (adds * size + gathers * 2)
        assert sent_bytes(layout, gradient_precision=precision) == pytest.approx(4 * each, rel=1e-9)


@pytest.mark.parametrize("layout", [{}, {"sharding": "zero-1"}, {"tensor": 2}])
def test_half_of_them_is_kept(layout: dict[str, Any]) -> None:
    def kept(precision: str) -> float:
        setup = setup_of(layout, gradient_precision=precision)
        memory = setup.laid_out.fullest if layout else gpu_memory(setup.point, setup.model)
        return memory["gradients"]

    assert kept("fp16") == pytest.approx(kept("fp32") / 2, rel=1e-9)


def test_a_plan_counts_them_so() -> None:
    point = load_scenario(scenario({"sharding": "zero-1"}, gradient_precision="bf16")).points()[0].point
    held = PeakMemory(LayoutCosts(point, Workloads())).peak_bytes(Choice(4, 16, point.parallelism))
    assert held == pytest.approx(sum(Setup(point).laid_out.fullest.values()), rel=1e-9)


def test_nothing_given_is_what_the_precision_has() -> None:
    assert setup_of({}).point.gradient_bytes == 4
    assert (
        setup_of(
            {}, precision="fp16", topology={**scenario({})["topology"], "host": {"gpu": "v100"}}
        ).point.gradient_bytes
        == 2
    )


def test_weights_in_32_bits_have_no_gradients_in_16() -> None:
    with pytest.raises(InputError, match="write compression: fp16 to send them in 16 bits") as error:
        load_scenario(scenario({}, precision="tf32", gradient_precision="bf16")).points()
    assert error.value.mistakes[0].key == "gradient_precision"
