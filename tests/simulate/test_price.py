"""Price and energy of an iteration: those of its GPUs for its duration."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.hardware import load_gpu
from clustersim.results import Run

SCENARIO: dict[str, Any] = {
    "model": "alexnet",
    "num_gpus": 4,
    "batch": {"per_gpu": 32},
    "topology": {"kind": "star", "num_hosts": 4, "gpu": "v100", "link": "10 Gbit/s"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 2,
}


def test_an_iteration_costs_its_gpus_for_as_long_as_it_lasts() -> None:
    run, gpu = clustersim.simulate(SCENARIO), load_gpu("v100")
    assert run.iteration_dollars == pytest.approx(4 * gpu.dollars_per_hour * run.iteration_s / 3600)
    assert run.iteration_joules == pytest.approx(4 * gpu.power_w * run.iteration_s)
    again = Run.from_dict(run.to_dict(detail=False))
    assert (again.iteration_dollars, again.iteration_joules) == (run.iteration_dollars, run.iteration_joules)


def test_where_a_sheet_has_no_price_there_is_no_cost() -> None:
    run = clustersim.simulate({**SCENARIO, "topology": {**SCENARIO["topology"], "gpu": "p100"}})
    assert load_gpu("p100").dollars_per_hour is None
    assert run.iteration_dollars is None


def test_gpus_of_several_kinds_cost_what_each_does() -> None:
    hosts = [{"count": 2, "host": {"gpu": "v100"}}, {"count": 2, "host": {"gpu": "a100-40gb"}}]
    topology = {"kind": "star", "hosts": hosts, "link": "10 Gbit/s"}
    run = clustersim.simulate({**SCENARIO, "topology": topology})
    powers = [load_gpu(kind).power_w for kind in ("v100", "a100-40gb")]
    assert run.iteration_joules == pytest.approx(2 * sum(powers) * run.iteration_s)
