"""`software.update_issue`: a process that waits for sums of gradients issues the update then, for all its GPUs."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.setup import Setup
from tests.placed import placed

OPERATORS, EACH_S = 2000, 20e-6


def scenario(issue: dict[str, Any] | None, num_gpus: int = 8, **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": "bert-base",
            "num_gpus": num_gpus,
            "batch": {"per_gpu": 8},
            "topology": {
                "kind": "star",
                "num_hosts": 2,
                "host": {"template": "dgx-1", "gpu": "v100"},
                "link": "10 GB/s",
            },
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False},
            "optimizer": {"kind": "adam", "issue": issue},
            "compute": {"variability": 0},
            "num_iterations": 2,
        }
        | other
    )


def issue(process: str, operators: int = OPERATORS) -> dict[str, Any]:
    return {"operators": operators, "each": "20 us", "process": process}


@pytest.mark.parametrize(
    ("process", "num_gpus", "served"), [("gpu", 8, 1), ("host", 2, 2), ("host", 8, 8), ("host", 12, 8)]
)
@pytest.mark.parametrize("exact", [False, True])
def test_an_update_takes_as_long_as_its_operators(process: str, num_gpus: int, served: int, exact: bool) -> None:
    """GPUs of the process, on the fullest host, x operators x seconds of each, in place of the GPU's own time."""
    plain, issued = (clustersim.simulate(scenario(each, num_gpus), exact=exact) for each in (None, issue(process)))
    own_s = Setup(load_scenario(scenario(None)).points()[0].point).reference.optimizer_s
    assert own_s < OPERATORS * EACH_S
    assert issued.iteration_s - plain.iteration_s == pytest.approx(served * OPERATORS * EACH_S - own_s, rel=1e-9)
    assert issued.breakdown_s["communication_exposed"] == pytest.approx(plain.breakdown_s["communication_exposed"])


@pytest.mark.parametrize(("num_gpus", "operators"), [(1, OPERATORS), (8, 1)])
def test_what_is_in_the_queue_in_time_costs_nothing(num_gpus: int, operators: int) -> None:
    plain, issued = (clustersim.simulate(scenario(each, num_gpus)) for each in (None, issue("host", operators)))
    assert issued.iteration_s == plain.iteration_s


def test_a_rate_of_one_gpu_has_no_wait_in_it() -> None:
    rate = {"single_gpu": {"samples_per_s": 100, "batch": 8, "source": "a test"}, "variability": 0}
    assert clustersim.simulate(scenario(issue("host"), 1, compute=rate)).iteration_s == pytest.approx(0.08)


def test_a_warning_says_that_one_gpu_waits_for_nothing() -> None:
    found = [forecast(load_scenario(scenario(issue("host"), n)).points()[0].point).warnings for n in (1, 2)]
    assert [any("software.update_issue changes nothing" in line for line in each) for each in found] == [True, False]


@pytest.mark.parametrize(
    "other",
    [
        {"strategy": {"kind": "server", "servers": {"num": 1, "on": "host-memory"}}},
        {"parallelism": {"sharding": "zero-1"}},
        {"parallelism": {"micro_batches": 2}},
    ],
)
def test_it_goes_with_plain_all_reduces_alone(other: dict[str, Any]) -> None:
    with pytest.raises(InputError) as raised:
        load_scenario(scenario(issue("gpu"), **other))
    mistake = next(each for each in raised.value.mistakes if each.key == "software.update_issue")
    assert mistake.allowed == "with strategy all-reduce, and a whole model on each GPU"


def test_what_is_skipped_is_not_issued() -> None:
    both = {"kind": "adam", "issue": issue("gpu"), "skipped": True}
    with pytest.raises(InputError, match="a skipped update is not issued") as raised:
        load_scenario(scenario(None, optimizer=both, precision="amp-fp16"))
    (mistake,) = raised.value.mistakes
    assert (mistake.key, mistake.got, mistake.allowed) == ("software.update_issue", "given", "without skipped")
